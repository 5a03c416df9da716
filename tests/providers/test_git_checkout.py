"""Checkouts of real repositories: from files, from git's daemon, and over HTTP with a password."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import ManifestError, Runtime
from resource_api.plugins.registry import Registry
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.http_server import serving
from tests.namespaces import bind, private_mounts
from tests.providers.applied import REGISTRY, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run git as another user")
IDENTITY: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{name}": "ra-test" for who in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")},
    "PATH": os.environ["PATH"],
}


def git(directory: Path, *arguments: str) -> str:
    """Run git as an administrator would; return its output."""
    argv = ["git", "-c", "protocol.file.allow=always", "-C", directory, *arguments]
    process = subprocess.run(argv, env=IDENTITY, check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def commit(work: Path, **files: str) -> str:
    """Commit files; return the commit."""
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "change")
    return git(work, "rev-parse", "HEAD")


def repository(directory: Path) -> Path:
    """Make a repository with two commits: the first is the tag v1, the second the branches main and other."""
    directory.mkdir()
    git(directory, "init", "-q", "-b", "main")
    commit(directory, name="one\n", same="same\n")
    git(directory, "tag", "-a", "-m", "first", "v1")
    commit(directory, name="two\n")
    git(directory, "branch", "other")
    return directory


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that no test changes."""
    return repository(tmp_path_factory.mktemp("published") / "app")


@pytest.fixture
def source(tmp_path: Path, published: Path) -> Path:
    """Return a repository of the test."""
    return Path(shutil.copytree(published, tmp_path / "source"))


class Guarded(SimpleHTTPRequestHandler):
    """Files for who has the password; git asks again with it after the first refusal."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] == "Basic " + base64.b64encode(b"deploy:sesame-street").decode():
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="ra-test"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def url(published: Path) -> Iterator[str]:
    """Yield the URL of the published repository, which only the password opens."""
    git(published, "update-server-info")
    with serving(partial(Guarded, directory=str(published / ".git"))) as base:
        yield base


class TestGitCheckout(WholeFiles, ProviderCompliance):
    """A tag from a file, and then a branch over HTTP with a password."""

    type_name = "git_checkout"

    @pytest.fixture
    def present(self, tmp_path: Path, published: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "source": str(published), "revision": "v1"}

    @pytest.fixture
    def updated(self, present: Resource, url: str) -> Resource:
        access = {"username": "deploy", "password": "sesame-street"}
        return {**present, "source": url, "revision": "main", **access}

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user is read."""
        return "git reads what is in a directory as its owner: test_nothing_of_another_user_runs_as_root"


def test_a_directory_that_becomes_a_link_takes_no_file_behind_it(tmp_path: Path, source: Path) -> None:
    """The files of the former directory are removed; those to which the link leads are others."""
    app, outside = tmp_path / "app", tmp_path / "outside"
    outside.mkdir()
    (outside / "one").write_text("theirs")
    (source / "conf").mkdir()
    commit(source, **{"conf/one": "ours\n"})
    declared = {f"Git_checkout[{app}]": {"source": str(source), "revision": "main"}}
    assert run(declared)[0].exit_code == 0
    shutil.rmtree(source / "conf")
    (source / "conf").symlink_to(outside)
    commit(source)
    assert run(declared)[0].exit_code == 0
    assert ((app / "conf").is_symlink(), (outside / "one").read_text()) == (True, "theirs")


def test_a_branch_is_followed(tmp_path: Path, source: Path) -> None:
    """With its changes, as a local branch; a run without news changes nothing."""
    app = tmp_path / "app"
    declared = {f"Git_checkout[{app}]": {"source": str(source), "revision": "main"}}
    assert run(declared)[0].summary.created == 1
    newest = commit(source, name="three\n", more="more\n")
    step = Runtime(REGISTRY).plan({"resources": declared}).steps[0]
    assert step.decision.differences[0].message.endswith(f"to main ({newest[:12]})")
    assert run(declared)[0].summary.updated == 1
    assert (app / "name").read_text() == "three\n"
    assert git(app, "rev-parse", "HEAD", "--abbrev-ref", "HEAD", "@{upstream}").split() == [
        newest,
        "main",
        "origin/main",
    ]
    assert run(declared)[0].summary.unchanged == 1


def test_without_a_revision_the_default_branch_is_checked_out_once(tmp_path: Path, source: Path) -> None:
    """What comes later is not followed."""
    declared = {f"Git_checkout[{tmp_path}/app]": {"source": str(source), "depth": 1}}
    run(declared)
    assert git(tmp_path / "app", "rev-list", "--count", "HEAD") == "1"
    commit(source, name="three\n")
    assert run(declared)[0].summary.unchanged == 1


def test_a_history_can_be_cut(tmp_path: Path, source: Path) -> None:
    """Also of a branch that moves on, and of a single commit."""
    first, newest = git(source, "rev-parse", "v1^{}"), commit(source, name="three\n")
    declared = {"source": f"file://{source}", "revision": "main", "depth": 1}
    for revision, head in (("main", newest), ("v1", first), (newest, newest)):
        report, _ = run({f"Git_checkout[{tmp_path}/app]": {**declared, "revision": revision}})
        assert reason(report) == ""
        assert git(tmp_path / "app", "rev-list", "HEAD") == head


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_checkout_with_a_mount_inside_stays_where_it_is(tmp_path: Path, source: Path) -> None:
    """It is not moved aside first."""
    app = tmp_path / "app"
    run({f"Git_checkout[{app}]": {"source": str(source), "revision": "main"}})
    (app / "data").mkdir()
    with private_mounts():
        bind(tmp_path, str(app / "data"))
        error = reason(run({f"Git_checkout[{app}]": {"ensure": "absent", "force": True}})[0])
        assert error == f"'{app}/data' is a mount point, so it cannot be removed before it is unmounted"
        assert (app / "name").exists()


def test_local_work_is_not_lost(tmp_path: Path, source: Path) -> None:
    """Changed files and own commits fail the update and the deletion, until they are forced; untracked files stay."""
    app = tmp_path / "app"
    reference, declared = f"Git_checkout[{app}]", {"source": str(source), "revision": "v1"}
    run({reference: {**declared, "revision": "main"}})
    (app / "mine").write_text("mine")
    (app / "same").write_text("changed")
    for expected in (declared, {"ensure": "absent"}):
        assert "has local changes, which are lost with force: same" in warned({reference: expected})[0]
        assert "has local changes, which are lost with force: same" in reason(run({reference: expected})[0])
    git(app, "commit", "-q", "-a", "-m", "mine")
    assert (
        reason(run({reference: declared})[0]) == "has a commit that the source does not have, which is lost with force"
    )
    assert run({reference: {**declared, "force": True}})[0].summary.updated == 1
    assert [(app / name).read_text() for name in ("name", "same", "mine")] == ["one\n", "same\n", "mine"]
    assert "which are lost with force: mine" in reason(run({reference: {"ensure": "absent"}})[0])
    assert run({reference: {"ensure": "absent", "force": True}})[0].summary.deleted == 1
    assert not app.exists()


def test_an_untracked_file_in_the_way_stays(tmp_path: Path, source: Path) -> None:
    """The update fails before it changes a file."""
    app, declared = tmp_path / "app", {"source": str(source), "revision": "main"}
    run({f"Git_checkout[{app}]": declared})
    commit(source, mine="theirs")
    (app / "mine").write_text("mine")
    assert "mine" in reason(run({f"Git_checkout[{app}]": declared})[0])
    assert (app / "mine").read_text() == "mine"
    (app / "mine").unlink()
    assert run({f"Git_checkout[{app}]": declared})[0].summary.updated == 1


def test_an_interrupted_update_is_completed(tmp_path: Path, source: Path) -> None:
    """Half of the files are written, and git's lock is left; other locks are git's."""
    app, declared = tmp_path / "app", {"source": str(source), "revision": "main"}
    run({f"Git_checkout[{app}]": declared})
    for name in ("resource-api.working", "resource-api.checking-out", "index.lock"):
        (app / ".git" / name).touch()
    os.utime(app / ".git" / "resource-api.working", (0, 0))
    (app / "name").write_text("ha")
    assert run({f"Git_checkout[{app}]": declared})[0].summary.updated == 1
    assert (app / "name").read_text() == "two\n"
    assert git(app, "status", "--porcelain") == ""
    (app / ".git" / "index.lock").touch()
    assert "index.lock': File exists" in reason(run({f"Git_checkout[{app}]": {**declared, "revision": "v1"}})[0])


def test_forced_files_are_restored(tmp_path: Path, source: Path) -> None:
    """Without ``force`` they are the user's."""
    app, declared = tmp_path / "app", {"source": str(source), "revision": "main"}
    run({f"Git_checkout[{app}]": declared})
    (app / "name").unlink()
    assert run({f"Git_checkout[{app}]": declared})[0].summary.unchanged == 1
    report, lines = run({f"Git_checkout[{app}]": {**declared, "force": True}})
    assert report.summary.updated == 1
    assert any("not as in the commit: name" in line for line in lines), lines
    assert (app / "name").read_text() == "two\n"


@root_only
def test_nothing_of_another_user_runs_as_root(tmp_path: Path, source: Path) -> None:
    """A filter of a checkout runs as its owner, when it is read, updated and removed; a hook does not at all."""
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    subprocess.run(["chown", "-R", "nobody:", source], check=True)
    home = directory_of_nobody(tmp_path)
    app, file = home / "app", home / "seen"
    declared = {"source": str(source), "user": "nobody", "revision": "v1"}
    report, _ = run({f"Git_checkout[{app}]": declared})
    assert reason(report) == ""
    assert {path.owner() for path in (app, *app.rglob("*"))} == {"nobody"}
    script = app / ".git" / "spy"
    script.write_text(f"#!/bin/sh\nid -un >> {file}\n")
    script.chmod(0o755)
    (app / ".git" / "hooks").mkdir()
    hook = app / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\necho hook >> {file}\n")
    hook.chmod(0o755)
    (app / ".git" / "info").mkdir(exist_ok=True)
    (app / ".git" / "info" / "attributes").write_text("* filter=spy\n")
    subprocess.run(["chown", "-R", "-h", "nobody:", app / ".git"], check=True)
    with (app / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {hook}\n\tsshCommand = {hook}\n")
        config.write(f'[filter "spy"]\n\tsmudge = {script}; cat\n')
    assert run({f"Git_checkout[{app}]": {**declared, "revision": "main"}})[0].summary.updated == 1
    assert set(file.read_text().split()) == {"nobody"}


@root_only
def test_a_checkout_of_root_that_others_can_write_to_is_refused(tmp_path: Path, source: Path) -> None:
    """Others could have changed its settings, or put another directory in its place."""
    home = directory_of_nobody(tmp_path)
    declared = {"source": str(source)}
    assert "others could have changed" in reason(run({f"Git_checkout[{home}/app]": declared})[0])
    assert run({f"Git_checkout[{tmp_path}/app]": declared})[0].exit_code == 0
    (tmp_path / "app" / ".git").chmod(0o777)
    assert "others could have changed" in reason(run({f"Git_checkout[{tmp_path}/app]": declared})[0])


@root_only
@pytest.mark.parametrize("location", [".", ".git", ".git/config", "sub part", "sub part/.git", "inner", ".git/modules"])
def test_what_git_executes_is_ours_or_trusted(tmp_path: Path, source: Path, location: str) -> None:
    """Whatever a team can write to: the refusal says whose it is and both ways out, and neither executes a hook."""
    path = tmp_path / "seen"
    (source / "inner").mkdir()
    repository(tmp_path / "part")
    with served_by_git(tmp_path) as url:
        git(source, "submodule", "-q", "add", f"{url}/part", "sub part")
        commit(source, **{"inner/file": "text"})
        app = tmp_path / "app"
        declared = {f"Git_checkout[{app}]": {"source": f"{url}/source", "revision": "main"}}
        assert reason(run(declared)[0]) == ""
        spy = tmp_path / "spy"
        spy.write_text(f"#!/bin/sh\nid -un >> {path}\n")
        spy.chmod(0o755)
        git(app / "sub part", "config", "core.fsmonitor", str(spy))
        git(app, "config", "core.fsmonitor", str(spy))
        mode = 0o2775 if (app / location).is_dir() else 0o664
        (app / location).chmod(mode)
        shutil.chown(app / location, group="games")
        error = reason(run(declared)[0])
        assert f"'{app / location}' belongs to root and has mode {mode:04o}" in error
        assert "declare the 'user' as whom it runs; or" in error
        assert "--trust-path DIR" in error
        trusting = Runtime(Registry.from_path(trust=[str(app)]), log=Log("off"))
        assert trusting.apply({"project": "p", "resources": declared}).summary.unchanged == 1
        if location != ".":
            shutil.chown(app / location, "games")  # git itself refuses what belongs to others
        assert trusting.apply({"project": "p", "resources": declared}).exit_code == 0
    assert not path.exists()


@root_only
@pytest.mark.parametrize(
    ("settings", "file"),
    [
        ("[include]\n\tpath = {home}/more\n", "more"),
        ("[Include]\n\tPath = ../../{home.name}/more\n", "more"),
        ('[includeIf "onbranch:other"]\n\tpath = {home}/more\n', "more"),
        ("[include]\n\tpath = {ours}\n", "more"),
        ("[include]\n\tpath = {home}/later\n", ""),
    ],
    ids=["absolute", "relative", "condition", "nested", "missing"],
)
def test_included_settings_of_others_are_refused(tmp_path: Path, source: Path, settings: str, file: str) -> None:
    """They name programs as the settings of the checkout do, and it is read as root; ours may be included."""
    home, app, ours = directory_of_nobody(tmp_path), tmp_path / "app", tmp_path / "ours"
    declared = {f"Git_checkout[{app}]": {"source": str(source), "revision": "main"}}
    assert reason(run(declared)[0]) == ""
    (home / "more").write_text("[user]\n\tname = nobody\n")
    ours.write_text(f"[include]\n\tpath = {home}/more\n")
    with (app / ".git" / "config").open("a") as config:
        config.write(settings.format(home=home, ours=ours))
    error = reason(run(declared)[0])
    assert "others could have changed" in error
    assert f"'{home}' belongs to nobody" in error
    assert file in error
    home.chmod(0o755)
    for path in (home, home / "more"):
        shutil.chown(path, "root", "root")
    assert run(declared)[0].summary.unchanged == 1


@root_only
def test_files_that_git_does_not_know_may_be_of_others(tmp_path: Path, source: Path) -> None:
    """As uploads, which an application writes beneath its checkout."""
    app = tmp_path / "app"
    declared = {f"Git_checkout[{app}]": {"source": str(source), "revision": "main"}}
    assert reason(run(declared)[0]) == ""
    directory_of_nobody(app)
    assert run(declared)[0].summary.unchanged == 1


def test_a_password_is_stored_nowhere(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the pipe that it goes through; a wrong one is refused."""
    created: list[str] = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(
        tempfile, "mkdtemp", lambda *args, **options: created.append(make(*args, **options)) or created[-1]
    )
    declared = {"source": url, "revision": "v1", "username": "deploy", "password": "sesame-street"}
    assert reason(run({f"Git_checkout[{tmp_path}/app]": declared})[0]) == ""
    assert "sesame" not in (tmp_path / "app" / ".git" / "config").read_text()
    report, _ = run({f"Git_checkout[{tmp_path}/b]": {**declared, "password": "wrong-one"}})
    assert "Authentication failed" in reason(report)
    assert created
    assert not any(map(os.path.exists, created))


@contextmanager
def served_by_git(directory: Path) -> Iterator[str]:
    """Serve the repositories of a directory by git's daemon; yield their URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--export-all", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", f"--base-path={directory}"]
    daemon = subprocess.Popen(["git", "daemon", *options], stderr=subprocess.DEVNULL)
    try:
        while True:
            assert daemon.poll() is None
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
        yield f"git://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait()


def test_submodules_are_checked_out(tmp_path: Path, source: Path) -> None:
    """As the revision wants them; a missing one is added in the next run."""
    repository(tmp_path / "part")
    with served_by_git(tmp_path) as url:
        git(source, "submodule", "-q", "add", f"{url}/part", "sub part")
        commit(source)
        app, declared = tmp_path / "app", {"source": f"{url}/source", "revision": "main"}
        assert run({f"Git_checkout[{app}]": {**declared, "submodules": False}})[0].exit_code == 0
        assert not (app / "sub part" / "name").exists()
        report, lines = run({f"Git_checkout[{app}]": declared})
        assert report.summary.updated == 1
        assert any("not as in the commit: sub part" in line for line in lines), lines
        assert (app / "sub part" / "name").read_text() == "two\n"
        git(source / "sub part", "checkout", "-q", "v1")
        commit(source)
        assert run({f"Git_checkout[{app}]": declared})[0].summary.updated == 1
        assert (app / "sub part" / "name").read_text() == "one\n"
        assert run({f"Git_checkout[{app}]": declared})[0].summary.unchanged == 1


def test_a_user_in_a_url_is_decoded(tmp_path: Path, url: str) -> None:
    """As git does it where it asks for a password itself."""
    declared = {"source": url.replace("://", "://dep%6Coy@"), "password": "sesame-street"}
    assert run({f"Git_checkout[{tmp_path}/app]": declared})[0].summary.created == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": "ext::sh -c id"}, "source must be a URL"),
        ({"source": "-u/x"}, "source must be a URL"),
        ({"source": "https://me:secret@example.org/x"}, "a password in a URL can be seen by others"),
        ({"source": "git@example.org:x", "password": "abcd"}, "ssh has 'identity'"),
        ({"source": "https://[x/y", "username": "a\npassword=b", "password": "abcd"}, "the username is not one line"),
        ({"source": "/x", "user": "65534"}, "user must be a name"),
        ({"source": "/x", "revision": "--upload-pack=id"}, "revision must be"),
        ({"source": "/x", "revision": "a..b"}, "revision must be"),
    ],
)
def test_dangerous_values_are_refused(wrong: dict[str, Any], message: str) -> None:
    """Before git sees them."""
    with pytest.raises(ManifestError, match=message):
        Runtime(REGISTRY).validate({"resources": {"Git_checkout[/srv/ra-test]": wrong}})


def test_a_source_that_is_a_secret_is_refused() -> None:
    """It would be an argument of git, which other users can see."""
    inputs = {"url": {"default": "https://example.org/x?token=abcdefgh", "sensitive": True}}
    resources = {"Git_checkout[/srv/ra-test]": {"source": "${inputs.url}"}}
    with pytest.raises(ManifestError, match="'source' is a secret, which other users could see; declare 'password'"):
        Runtime(REGISTRY).validate({"inputs": inputs, "resources": resources})


def test_what_cannot_be_had_is_said(tmp_path: Path, source: Path) -> None:
    """A revision that the source does not have, a source that is none, a directory with something else."""
    at = f"Git_checkout[{tmp_path}/app]"
    report, _ = run({at: {"source": str(source), "revision": "no"}})
    assert reason(report) == f"{source} has no branch and no tag 'no'; a commit has all its digits"
    assert "does not appear to be a git repository" in reason(run({at: {"source": str(tmp_path)}})[0])
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "x").touch()
    report, _ = run({at: {"source": str(source)}})
    assert "is a directory with other files, and not a checkout" in reason(report)
