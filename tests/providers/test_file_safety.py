"""Files cannot be used by other users to gain access, even if they can write to the same directories."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Change, Context
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from tests import bundled

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parent.parent.parent
NOBODY: Final = 65534
TYPE = Registry.from_path().type("file")
file = bundled.execute("providers", "file")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

READER: Final = """
import os, sys
from resource_api.plugins.registry import Registry
from resource_api.provider.context import Context, RunContext
from resource_api.system.log import Log
from tests import bundled
registry = Registry.from_path()
provider, context = registry.provider("file")(), Context(registry.type("file"), RunContext(Log("off")), reading=True)
list(provider.get(context, [sys.argv[1]]))
try: os.stat("/begin")
except OSError: pass
rows = list(provider.get(context, sys.argv[1:]))
try: os.stat("/end")
except OSError: pass
assert len(rows) == len(sys.argv) - 1
"""


def read(path: Path | str) -> Any:
    """Return the row of a path, the reason why it cannot be read, or None."""
    context = Context(TYPE, RunContext(Log("off")), reading=True)
    rows = list(file.Provider().get(context, [str(path)]))
    return rows[0] if rows else next((outcome.reason for outcome in context.outcomes.values()), None)


def change(path: Path | str, is_: Any, **should: Any) -> str:
    """Call ``set`` for one path; return the reason of a failure."""
    context = Context(TYPE, RunContext(Log("off")), subjects={str(path): Subject(str(path))})
    file.Provider().set(context, {str(path): Change(is_, {"path": str(path), "force": False, **should})})
    return next((outcome.reason for outcome in context.outcomes.values()), "")


def as_nobody(function: Callable[[], Any]) -> Any:
    """Call a function in a child process as the user nobody, and return its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(writing, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return json.loads(answer)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return a directory of nobody."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(stat.S_IMODE(parent.stat().st_mode) | 0o011)
    path = tmp_path / "theirs"
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)
    return path


def test_an_unchanged_file_costs_four_reading_system_calls(tmp_path: Path) -> None:
    """They are stat, open, read and close; all other calls are made once for all files."""
    paths = [tmp_path / f"f{number}" for number in range(200)]
    for path in paths:
        path.write_text("x" * 100)
    log = tmp_path / "strace.log"
    subprocess.run(
        ["strace", "-f", "-o", str(log), sys.executable, "-c", READER, *map(str, paths)],
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
        check=True,
    )
    lines = [line.split(maxsplit=1)[1] for line in log.read_text(encoding="utf-8").splitlines()]
    begin, end = (next(n for n, line in enumerate(lines) if f'"/{mark}"' in line) for mark in ("begin", "end"))
    calls = [line for line in lines[begin + 1 : end] if not line.startswith(("brk", "mmap", "munmap", "mremap"))]
    assert len(calls) <= 4 * len(paths) + 40
    assert not [line for line in calls if "O_WRONLY" in line or "O_RDWR" in line or "O_CREAT" in line]
    assert {line.partition("(")[0] for line in calls[200:600]} == {"newfstatat", "openat", "read", "close"}


@pytest.mark.parametrize("path", ["/", "/etc", "/home", "/usr/lib", "/var/log"])
def test_removing_a_system_directory_is_refused_in_the_manifest(path: str) -> None:
    """``force`` does not change that."""
    problems = file.Provider().validate(None, {"path": path, "ensure": "absent", "force": True})
    assert [problem.message for problem in problems] == ["a system directory is never removed"]
    assert file.Provider().validate(None, {"path": path, "ensure": "directory"}) == []


@root_only
def test_a_system_directory_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """The test runs in a mount namespace with another ``/srv``."""
    program = (
        "import subprocess, sys\nfrom tests.providers import test_file_safety as t\n"
        "subprocess.run(['mount', '-t', 'tmpfs', 'none', '/srv'], check=True)\nopen('/srv/f', 'w').close()\n"
        "why = t.change('/srv', {'ensure': 'directory'}, ensure='file', content='x', force=True)\n"
        "assert 'never removed' in why, why\nassert t.os.path.exists('/srv/f')"
    )
    subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        check=True,
    )


@root_only
def test_a_link_of_other_users_is_not_followed(tmp_path: Path, theirs: Path) -> None:
    """Reading below it fails with the reason, and so does creating or removing a file there."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/shadow").write_text("secret")
    (theirs / "d").symlink_to(tmp_path / "ours")
    path = theirs / "d/shadow"
    assert "symbolic link on the path" in read(path)
    for should in ({"ensure": "file", "content": "x"}, {"ensure": "directory"}, {"ensure": "link", "target": "x"}):
        assert "symbolic link on the path" in change(path, None, **should)
    assert "symbolic link on the path" in change(path, {"ensure": "file"}, ensure="absent")
    assert (tmp_path / "ours/shadow").read_text(encoding="utf-8") == "secret"


@root_only
def test_a_source_behind_a_link_of_other_users_is_not_copied(tmp_path: Path, theirs: Path) -> None:
    """A user who can create a link cannot have a secret copied to a readable file."""
    (tmp_path / "secret").write_text("secret")
    (theirs / "source").symlink_to(tmp_path / "secret")
    assert "symbolic link" in change(tmp_path / "f", None, ensure="file", source=str(theirs / "source"))
    assert not (tmp_path / "f").exists()


@root_only
def test_permissions_of_a_hard_link_of_other_users_stay(tmp_path: Path, theirs: Path) -> None:
    """In a directory that others can write to, the name may belong to another user's file."""
    shadow = tmp_path / "shadow"
    shadow.write_text("secret")
    shadow.chmod(0o600)
    (theirs / "f").hardlink_to(shadow)
    reason = change(theirs / "f", read(theirs / "f"), ensure="file", owner="nobody", mode="0666")
    assert "hard links" in reason
    assert stat.S_IMODE(shadow.stat().st_mode) == 0o600
    assert shadow.stat().st_uid == 0
    assert change(theirs / "f", read(theirs / "f"), ensure="file", content="x", owner="nobody") == ""
    assert shadow.read_text(encoding="utf-8") == "secret"


@root_only
def test_an_unreadable_file_fails_alone_and_is_not_absent(theirs: Path) -> None:
    """The reason is a missing permission on the file or its directory."""
    (theirs / "closed").write_text("x")
    (theirs / "closed").chmod(0o600)
    (theirs / "room").mkdir(mode=0o700)
    assert as_nobody(lambda: read(theirs / "closed")) == "permission denied"
    assert as_nobody(lambda: read(theirs / "room/f")) == "permission denied"


@root_only
def test_a_user_without_root_manages_own_files(theirs: Path) -> None:
    """Changing the owner is refused, and leaves the old file and nothing beside it."""
    path = theirs / "f"
    should = {"ensure": "file", "mode": "0600"}
    assert as_nobody(lambda: change(path, None, content="old", **should)) == ""
    reason = as_nobody(lambda: change(path, {"ensure": "file"}, content="new", owner="root", **should))
    assert reason == "operation not permitted"
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in theirs.iterdir()] == ["f"]
    assert as_nobody(lambda: change(path, read(path), ensure="absent")) == ""
    assert list(theirs.iterdir()) == []


def test_an_immutable_file_fails_alone(tmp_path: Path) -> None:
    """An error of the final rename is reported for that file only."""
    names = [str(tmp_path / name) for name in "abc"]
    (tmp_path / "b").write_text("old")
    immutable = subprocess.run(["chattr", "+i", names[1]], capture_output=True, check=False).returncode == 0
    if not immutable:
        (tmp_path / "b").unlink()
        (tmp_path / "b").mkdir()
    try:
        context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name) for name in names})
        should = {"ensure": "file", "content": "new", "force": False}
        file.Provider().set(context, {name: Change(None, {"path": name, **should}) for name in names})
        failed = {name: outcome.reason for name, outcome in context.outcomes.items()}
        assert list(failed) == [names[1]]
        assert failed[names[1]]
        assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}
    finally:
        if immutable:
            subprocess.run(["chattr", "-i", names[1]], check=True)


@root_only
def test_a_file_that_another_user_holds_open_is_not_taken_over(theirs: Path) -> None:
    """With its content declared it is written anew, also where the content is right: nobody could still write it."""
    path = theirs / "script"
    path.write_text("right")
    os.chown(path, NOBODY, NOBODY)
    with path.open("a", encoding="utf-8") as held:
        assert change(path, read(path), ensure="file", content="right", owner="root", mode="0755") == ""
        held.write("; evil")
    assert path.read_text() == "right"
    assert path.stat().st_uid == 0
    assert change(path, read(path), ensure="file", content="right", owner="root", mode="0700") == ""
    before = path.stat().st_ino
    os.chown(path, NOBODY, NOBODY)
    assert change(path, read(path), ensure="file", owner="root") == ""
    assert (path.stat().st_ino, path.read_text()) == (before, "right")


@root_only
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_was_swapped_since_it_was_read_gets_no_new_owner(theirs: Path, kind: str) -> None:
    """A neighbour who moves something of root to a name of his own after it was read does not get it."""
    mine, secret = theirs / "mine", theirs / "secret"
    for path in (mine, secret):
        path.mkdir(mode=0o700) if kind == "directory" else path.touch(0o600)
    os.chown(mine, NOBODY, NOBODY)
    text = read(mine)
    mine.rename(theirs / "away")
    secret.rename(mine)
    assert "replaced meanwhile" in change(mine, text, ensure=kind, owner="nobody", mode="0750")
    assert (mine.stat().st_uid, stat.S_IMODE(mine.stat().st_mode)) == (0, 0o700 if kind == "directory" else 0o600)


def status(path: Path) -> tuple[int, ...]:
    """Return the status of a file, but for when it was read."""
    file_status = path.stat()
    return (*file_status[: stat.ST_ATIME], file_status.st_mtime_ns, file_status.st_ctime_ns)


@root_only
@pytest.mark.parametrize("options", [{"owner": "nobody"}, {"group": "nogroup"}, {"mode": "0644"}])
def test_a_file_of_root_in_a_directory_of_others_is_not_given_to_them(theirs: Path, options: dict[str, str]) -> None:
    """They may have moved any file of root there; with its content declared, a new file takes its place."""
    path = theirs / "managed"
    path.write_text("secret")
    path.chmod(0o600)
    before = status(path)
    assert "may have moved another file here" in change(path, read(path), ensure="file", **options)
    assert status(path) == before
    assert change(path, read(path), ensure="file", mode="0400") == ""
    path.chmod(0o600)
    with path.open(encoding="utf-8") as held:
        assert change(path, read(path), ensure="file", content="secret", **options) == ""
        assert (os.fstat(held.fileno()).st_uid, stat.S_IMODE(os.fstat(held.fileno()).st_mode)) == (0, 0o600)
    assert path.stat().st_ino != before[stat.ST_INO]


@root_only
def test_content_of_another_user_is_not_executed_as_root(theirs: Path) -> None:
    """A file that is taken over gets a set-id bit only with its content declared."""
    path = theirs / "tool"
    path.write_text("theirs")
    os.chown(path, NOBODY, NOBODY)
    arguments = {"ensure": "file", "owner": "root", "mode": "4755"}
    assert "may have moved another file here" in change(path, read(path), **arguments)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (NOBODY, 0o644)
    assert change(path, read(path), content="ours", **arguments) == ""
    assert (path.read_text(), path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == ("ours", 0, 0o4755)


@root_only
def test_new_directories_below_a_directory_of_others_get_their_owner(theirs: Path) -> None:
    """Nobody can have moved there what did not exist."""
    for path in (theirs / "logs", theirs / "logs" / "old"):
        assert change(path, read(path), ensure="directory", owner="nobody") == ""
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (NOBODY, 0o755)


@root_only
def test_a_file_below_a_directory_that_others_can_rename_is_not_given_to_them(theirs: Path) -> None:
    """A whole directory of root can be moved to the name of another one; in a sticky directory it cannot."""
    inner = theirs / "inner"
    inner.mkdir()
    (inner / "f").write_text("secret")
    (inner / "f").chmod(0o600)
    refused = change(inner / "f", read(inner / "f"), ensure="file", owner="nobody")
    assert "may have moved another file here" in refused
    refused = change(inner, read(inner), ensure="directory", owner="nobody")
    assert "may have moved another directory here" in refused
    assert "remove it (a new directory gets them)" in refused
    assert (inner.stat().st_uid, (inner / "f").stat().st_uid) == (0, 0)
    os.chown(theirs, 0, 0)
    theirs.chmod(0o1777)
    assert change(inner / "f", read(inner / "f"), ensure="file", owner="nobody") == ""


@root_only
@pytest.mark.parametrize("writable", [0o620, 0o602])
def test_a_file_that_others_could_write_is_replaced_when_its_rights_change(tmp_path: Path, writable: int) -> None:
    """Who has opened it before could still write; with its content declared, no open descriptor leads to it."""
    path = tmp_path / "f"
    path.write_text("right")
    path.chmod(writable)
    with path.open("a", encoding="utf-8") as held:
        assert change(path, read(path), ensure="file", content="right", mode="0600") == ""
        held.write("; evil")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("right", 0o600)
