"""Keys created for the tests and trusted by the real apt, in a mount namespace that protects the machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Context, ManifestError, Registry, Runtime
from resource_api.provider.context import RunContext
from resource_api.system.log import ForwardedLog, Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.http_server import serving
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport

TYPE = Registry.from_path().type("apt_key")
apt_key = bundled.execute("providers", "apt_key")

STAGE: Final = Path("/srv")  # as in the fixture private_apt
TRUSTED: Final = Path("/etc/apt/trusted.gpg.d")

pytestmark = pytest.mark.usefixtures("private_apt")


def run(*argv: str | Path, data: bytes | None = None) -> bytes:
    """Run a program that must succeed and return its output."""
    return subprocess.run(argv, check=True, capture_output=True, input=data).stdout


class Keys:
    """A private keyring with temporary keys: one without expiry, one with, one of another owner."""

    def __init__(self, home: str) -> None:
        """Create the keys in the directory ``home``."""
        self.home = home
        for user, expires in (("good", "never"), ("brief", "2040-01-01"), ("other", "never")):
            self.gpg("--passphrase", "", "--quick-gen-key", f"ra-test-{user}", "ed25519", "sign", expires)
        listing = self.gpg("--with-colons", "--list-keys").decode()
        self.good, self.brief, self.other = re.findall(r"^fpr:+([0-9A-F]{40}):", listing, re.MULTILINE)

    def gpg(self, *arguments: str, data: bytes | None = None) -> bytes:
        """Run gpg with this keyring."""
        return run("gpg", "--homedir", self.home, "--batch", "--quiet", "--yes", *arguments, data=data)

    def export(self, *fingerprints: str, armor: bool = True) -> bytes:
        """Return public keys, as text or binary."""
        return self.gpg(*(["--armor"] if armor else []), "--export", *fingerprints)


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    """Create the keys once."""
    with TemporaryDirectory(prefix="ra-test-") as home:
        try:
            yield Keys(home)
        finally:
            run("gpgconf", "--homedir", home, "--kill", "all")


@contextmanager
def served(*, status: int = 200, body: bytes = b"", location: str = "") -> Iterator[str]:
    """Serve one response on the loopback interface and return its URL."""

    class Handler(BaseHTTPRequestHandler):
        """Sends the same response to every request."""

        def do_GET(self) -> None:
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with serving(Handler) as base:
        yield f"{base}/key.asc"


def apply(name: str, **attributes: Any) -> RunReport:
    """Apply a manifest of one key."""
    manifest = {"resources": {f"Apt_key[{name}]": attributes}}
    return Runtime(Registry.from_path(), log=Log("off")).apply(manifest)


def converge(name: str, **attributes: Any) -> None:
    """Apply a change that must succeed, and check that a second run changes nothing."""
    report = apply(name, **attributes)
    assert report.exit_code == 0, report.steps
    assert report.summary.unchanged == 0
    assert apply(name, **attributes).summary.unchanged == 1


def error(report: RunReport) -> str:
    """Return the error of the only resource."""
    assert report.exit_code == 1
    return str(report.steps[0].error)


def shown(data: bytes) -> list[str]:
    """Return the fingerprints in exported keys, as gpg reads them."""
    with TemporaryDirectory() as home:
        listing = run("gpg", "--homedir", home, "--with-colons", "--show-keys", data=data).decode()
    return re.findall(r"^fpr:+([0-9A-F]{40}):", listing, re.MULTILINE)


def trusted() -> dict[str, bytes]:
    """Return every file whose keys apt trusts, by name."""
    return {path.name: path.read_bytes() for path in sorted(TRUSTED.iterdir())}


def test_apt_trusts_the_key_while_it_is_present(keys: Keys) -> None:
    """A repository signed with the key is refused before, accepted with it, and refused after."""
    repository = STAGE / "ra-test-repository"
    repository.mkdir()
    (repository / "Packages").touch()
    release = f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {hashlib.sha256().hexdigest()} 0 Packages\n"
    (repository / "InRelease").write_bytes(keys.gpg("-u", keys.good, "--clearsign", data=release.encode()))
    Path("/etc/apt/sources.list").write_text(f"deb file:{repository} ./\n")

    def update() -> int:
        shutil.rmtree("/var/lib/apt/lists", ignore_errors=True)
        return subprocess.run(["apt-get", "update"], check=False, capture_output=True).returncode

    refused = update()
    converge(keys.good, content=keys.export(keys.good).decode())
    accepted = update()
    converge(keys.good, ensure="absent")
    assert (refused, accepted, update()) == (100, 0, 100)


def test_a_key_is_a_file_that_everybody_can_read(keys: Keys) -> None:
    """Apt reads it as a user of its own; every form of the ID identifies the same key."""
    for name in (f"0x{keys.good.lower()}", keys.good[-16:], keys.good[-8:].lower()):
        converge(name, content=keys.export(keys.good).decode())
        path = TRUSTED / f"{keys.good}.asc"
        assert (list(trusted()), path.stat().st_mode & 0o7777, path.stat().st_uid) == ([path.name], 0o644, 0)
        assert path.read_bytes().startswith(b"-----BEGIN PGP PUBLIC KEY BLOCK-----")
        assert shown(path.read_bytes()) == [keys.good]
        converge(name, ensure="absent")
        assert trusted() == {}


@pytest.mark.parametrize("armor", [True, False])
@pytest.mark.parametrize("scheme", ["", "file://", "http"])
def test_a_key_comes_from_a_path_or_url(keys: Keys, scheme: str, armor: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Text and binary sources work; of several keys only the identified one becomes trusted."""
    bundle = keys.export(armor=armor)
    assert len(shown(bundle)) == 3
    path = STAGE / "ra-test key.asc"
    path.write_bytes(bundle)
    with served(body=bundle) as url:
        converge(keys.good, source={"": str(path), "file://": "file:///srv/ra-test%20key.asc", "http": url}[scheme])
    assert [shown(data) for data in trusted().values()] == [[keys.good]]


@pytest.mark.parametrize("alone", [True, False])
def test_the_plan_says_that_a_keyring_is_a_mount_point(keys: Keys, alone: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A keyring with other keys is overwritten; one with this key alone cannot be removed."""
    path = TRUSTED / "mounted.asc"
    path.touch()
    outside = STAGE / "outside"
    outside.write_bytes(keys.export(keys.good) if alone else keys.export())
    subprocess.run(["mount", "--bind", outside, path], check=True)
    try:
        message = warned({f"Apt_key[{keys.good}]": {"ensure": "absent"}})
        report = apply(keys.good, ensure="absent")
    finally:
        subprocess.run(["umount", path], check=True)
        path.unlink()
    if alone:
        assert message == [f"'{path}' is a mount point, so it cannot be removed before it is unmounted"]
        assert "it is a mount point" in error(report)
    else:
        assert message == [f"'{path}' is a mount point, so it is overwritten where it is, which is not atomic"]
        assert keys.good not in shown(outside.read_bytes())


def test_another_key_is_not_trusted(keys: Keys) -> None:
    """A source without the identified key is an error, and nothing is written."""
    with served(body=keys.export(keys.other)) as url:
        message = error(apply(keys.good, source=url))
    assert "the source does not contain the key" in message
    assert keys.other in message
    assert trusted() == {}


def test_a_source_without_a_key_is_not_trusted(keys: Keys) -> None:
    """Servers may send nothing, a page, half a key, a secret key, an endless response, or a redirection."""
    secret = keys.gpg("--armor", "--pinentry-mode", "loopback", "--passphrase", "", "--export-secret-keys", keys.good)
    half = keys.export(keys.good, armor=False)[:60]
    for body in (b"", b"<html>\n" * 100, b"\0" * 100, half, secret, keys.export(keys.good) + b"x" * 17_000_000):
        with served(body=body) as url:
            error(apply(keys.good, source=url))
    with served(status=404) as url:
        assert "404" in error(apply(keys.good, source=url))
    Path("/srv/ra-test.asc").write_bytes(keys.export(keys.good))
    with served(status=302, location="file:///srv/ra-test.asc") as url:
        assert "cannot be fetched" in error(apply(keys.good, source=url))
    assert "cannot be fetched" in error(apply(keys.good, source=url))
    assert trusted() == {}


def test_a_source_that_is_no_file_fails(keys: Keys) -> None:
    """Nothing blocks, and nothing endless is read."""
    os.mkfifo("/srv/ra-test-fifo")
    for source in ("/srv/ra-test-fifo", "/dev/zero", "/srv", "/srv/ra-test-missing"):
        assert source in error(apply(keys.good, source=source))
    assert "needs 'source' or 'content'" in error(apply(keys.good))
    assert trusted() == {}


def test_source_and_content_exclude_each_other(keys: Keys) -> None:
    """It would be unclear which one counts."""
    with pytest.raises(ManifestError, match="either 'source' or 'content'"):
        apply(keys.good, source="/srv/key.asc", content="key")


@pytest.mark.parametrize("name", ["bundle.asc", "bundle.gpg", "../trusted.gpg"])
def test_deleting_a_key_keeps_the_other_keys(keys: Keys, name: str) -> None:
    """The key is removed from every file, also from those of packages; a file without other keys is removed."""
    (TRUSTED / name).write_bytes(keys.export(armor=name.endswith(".asc")))
    (TRUSTED / "alone.asc").write_bytes(keys.export(keys.good))
    (TRUSTED / "other.asc").write_bytes(keys.export(keys.other))
    untouched = (TRUSTED / "other.asc").stat()
    converge(keys.good, ensure="absent")
    assert sorted(shown((TRUSTED / name).read_bytes())) == sorted([keys.brief, keys.other])
    assert (TRUSTED / name).read_bytes().startswith(b"-----BEGIN") == name.endswith(".asc")
    assert not (TRUSTED / "alone.asc").exists()
    status = (TRUSTED / "other.asc").stat()
    assert (*status[:7], status.st_mtime_ns) == (*untouched[:7], untouched.st_mtime_ns)


def test_a_link_to_a_keyring_is_removed_and_the_keyring_stays(keys: Keys) -> None:
    """Keys of other repositories are not changed through a link."""
    keyring = STAGE / "ra-test-keyring.gpg"
    for content in (keys.export(keys.good, armor=False), keys.export(armor=False)):
        keyring.write_bytes(content)
        (TRUSTED / "link.gpg").unlink(missing_ok=True)
        (TRUSTED / "link.gpg").symlink_to(keyring)
        converge(keys.good, ensure="absent")
        assert keyring.read_bytes() == content


def test_a_listing_agrees_with_gpg(keys: Keys) -> None:
    """Each key appears once, by its fingerprint; files that apt ignores do not count."""
    (TRUSTED / "first.asc").write_bytes(keys.export(keys.good))
    (TRUSTED / "again.gpg").write_bytes(keys.export(keys.good, keys.brief, armor=False))
    (TRUSTED / "junk.asc").write_bytes(b"junk")
    (TRUSTED / "empty.gpg").touch()
    for passed_over in (".hidden.asc", "key.txt", "key.asc~", "a b.asc"):
        (TRUSTED / passed_over).write_bytes(keys.export(keys.other))
    rows = Runtime(Registry.from_path(), log=Log("off")).resources("apt_key")
    assert {row["id"]: row.get("expires", "never") for row in rows} == {keys.good: "never", keys.brief: "2040-01-01"}
    assert all(row["id"] == row["fingerprint"] and re.fullmatch(r"\d{4}-\d\d-\d\d", row["created"]) for row in rows)


#: Begins as a key of 269 bytes.
BROKEN: Final = b"\x99\x01\x0d\x04broken"


@pytest.mark.parametrize(
    ("name", "content"),
    [("junk.asc", b"junk"), ("cut.asc", None), ("empty.gpg", b""), ("noise.gpg", b"\x00" * 9), ("b.gpg", BROKEN)],
)
def test_what_is_no_key_is_a_warning_with_its_file(keys: Keys, name: str, content: bytes | None) -> None:
    """In no words of gpg, once for a run; the keys of other files are listed."""
    (TRUSTED / "good.asc").write_bytes(keys.export(keys.good))
    (TRUSTED / name).write_bytes(keys.export(keys.other)[:300] if content is None else content)
    lines: list[str] = []
    log = ForwardedLog("warning", lambda event: lines.append(f"{event.level}: {event.text}"))
    rows = Runtime(Registry.from_path(), log=log).resources("apt_key")
    assert [row["id"] for row in rows] == [keys.good]
    message = [f"warning: {TRUSTED / name}: contains what is no OpenPGP key, which apt ignores at best"]
    assert lines == message
    lines.clear()
    if content == BROKEN:
        return
    manifest = {"resources": {f"Apt_key[{keys.brief}]": {"content": keys.export(keys.brief).decode()}}}
    assert Runtime(Registry.from_path(), log=log).apply(manifest).summary.created == 1
    assert lines == message


def test_a_key_that_apt_would_not_find_is_refused_with_the_file_that_hides_it(keys: Keys) -> None:
    """All keyrings are read one after another, as if they were one."""
    (TRUSTED / "0.gpg").write_bytes(BROKEN)
    content = keys.export(keys.good).decode()
    path = TRUSTED / f"{keys.good}.asc"
    message = f"{path}: apt does not find the key {keys.good} of it (together with {TRUSTED}/0.gpg)"
    assert warned({f"Apt_key[{keys.good}]": {"content": content}}) == [message]
    assert error(apply(keys.good, content=content)) == message
    assert not path.exists()


def test_nothing_trusted_is_an_empty_listing() -> None:
    """A machine without key files has no key, which is no error."""
    TRUSTED.rmdir()
    assert Runtime(Registry.from_path(), log=Log("off")).resources("apt_key") == []


def test_an_ambiguous_id_is_an_error(keys: Keys) -> None:
    """None of the matching keys is chosen."""
    (TRUSTED / "bundle.asc").write_bytes(keys.export())
    context = Context(TYPE, RunContext(Log("off")), reading=True)
    provider = apt_key.Provider()
    with context.activate(provider):
        provider.get(context, ["", keys.good])
    assert {name: outcome.status for name, outcome in context.outcomes.items()} == {"": "failed"}


@pytest.mark.parametrize(
    "name", ["", "F1D2D2F", "0x", "-F1D2D2F9", "F1D2D2F9 ", "F1D2D2F9\n", "../F1D2D2F9", "G" * 8, "A" * 41]
)
def test_a_hostile_id_is_refused(name: str) -> None:
    """An ID consists of hexadecimal digits only."""
    assert not TYPE.accepts["id"](name)


@pytest.mark.parametrize(
    "source", ["key.asc", "-o/etc/passwd", "ftp://h/k", "file://h/k", "data:,k", "jar:file:///k", "/a\nb", ""]
)
def test_a_hostile_source_is_refused(source: str) -> None:
    """A source is a full path or a URL of three schemes."""
    assert not TYPE.accepts["source"](source)


def test_canonical_values_stay_as_they_are(keys: Keys) -> None:
    """Canonicalizing twice equals canonicalizing once, for any missing attributes."""
    provider, context = apt_key.Provider(), Context(TYPE, RunContext(Log("off")), reading=True)
    for resource in ({}, {"id": "0xabcdef01"}, {"id": "0Xabcdef01"}, {"id": keys.good}):
        once = provider.canonicalize(context, [dict(resource)])
        assert provider.canonicalize(context, [dict(once[0])]) == once
    assert provider.canonicalize(context, [{"id": "0xabcdef01"}]) == [{"id": "ABCDEF01"}]


class TestAptKey(ProviderCompliance):
    """A key from a text."""

    type_name = "apt_key"

    @pytest.fixture
    def present(self, keys: Keys) -> Resource:
        return {"id": f"0x{keys.good.lower()}", "content": keys.export(keys.good).decode()}

    @pytest.fixture
    def others(self, keys: Keys) -> list[Resource]:
        return [{"id": key, "content": keys.export(key).decode()} for key in (keys.brief, keys.other)]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return trusted

    @pytest.fixture
    def neighbours(self, keys: Keys, tmp_path: Path) -> list[Neighbour]:
        """Return a source of another user; the directories of apt belong to root."""
        directory = directory_of_nobody(tmp_path)
        path = str(directory / "key.asc")
        return [Neighbour(path, keys.export(keys.other), "nobody", [{"id": keys.other, "source": path}])]
