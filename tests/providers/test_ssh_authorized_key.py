"""Keys of real users created for the tests, whose files ssh-keygen reads."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import UNKNOWN, Change, Context, ManifestError, ResourceError, Runtime
from resource_api.files import Lines
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.providers.applied import converge, reason, run, run_manifest, warned
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api import Resource

TYPE = Registry.from_path().type("ssh_authorized_key")
ssh = bundled.execute("providers", "ssh_authorized_key")
TARGET = "~/.ssh/authorized_keys"
ALICE, BOB = "ra-test-alice", "ra-test-bob"
NAME = "ra-test key of alice"
RSA = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ" + "C" * 128
ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43


@contextmanager
def user(name: str) -> Iterator[Path]:
    """Create a user with a home, and remove both after the test."""
    subprocess.run(["useradd", "--create-home", "--home-dir", f"/home/{name}", name], check=True)
    try:
        yield Path(pwd.getpwnam(name).pw_dir)
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)
        shutil.rmtree(f"/home/{name}")


@pytest.fixture(scope="module")
def homes(private_etc: None) -> Iterator[dict[str, Path]]:  # noqa: ARG001 - where the users are made
    """Return two users and their homes."""
    with user("ra-test-alice") as alice, user("ra-test-bob") as bob:
        yield {"ra-test-alice": alice, "ra-test-bob": bob}


@pytest.fixture
def file(homes: dict[str, Path]) -> Iterator[Path]:
    """Return the path of the keys of ra-test-alice, who has none yet."""
    yield homes["ra-test-alice"] / ".ssh" / "authorized_keys"
    for home in homes.values():
        directory = home / ".ssh"
        if directory.is_symlink():
            directory.unlink()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return new keys by their types."""
    directory, entries = tmp_path_factory.mktemp("keys"), {}
    for kind in ("rsa", "ed25519", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(directory / kind)], check=True)
        name, key, _ = (directory / f"{kind}.pub").read_text().split(" ")
        entries[name] = key
    return entries


def read(*names: str, target: str = TARGET, user: str = ALICE) -> dict[str, Any]:
    """Return the keys of a user, or of all users, by comment, or the reason of a failure."""
    context = Context(TYPE, RunContext(Log("off")), reading=True)
    expected = [(name, target, user, kind) for name in names for kind in ("ssh-rsa", "ssh-ed25519")]
    rows = ssh.Provider().get(context, expected or None)
    entries = {row["name"]: row for row in rows}
    return entries | {name[0]: outcome.reason for name, outcome in context.outcomes.items()}


def write(*expected: Mapping[str, Any], target: str = TARGET) -> None:
    """Apply changes to keys of one user and check that the result is as declared."""
    user = expected[0].get("user", ALICE)
    is_, provider = read(*(should["name"] for should in expected), target=target, user=user), ssh.Provider()
    resources = [{"ensure": "present", "target": target, "user": user, "type": "any", **should} for should in expected]
    names = {TYPE.name_of(should): should for should in provider.canonicalize(None, resources)}
    for should in names.values():
        assert all(TYPE.accepts[key](value) for key, value in should.items())
        assert provider.validate(None, should) == []
    context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name[0]) for name in names})
    with context.activate(provider):
        provider.set(context, {name: Change(is_.get(name[0]), should) for name, should in names.items()})
    after = read(*(name[0] for name in names), target=target, user=user)
    for name, should in names.items():
        row = after.get(name[0], {**should, "ensure": "absent"})
        assert {key: row[key] for key in should} == should


def apply(**resources: Mapping[str, Any]) -> dict[str, Any]:
    """Apply keys by title through the runtime and return the steps by title."""
    names = {f"Ssh_authorized_key[{title}]": {"name": NAME, **key} for title, key in resources.items()}
    report = Runtime(Registry.from_path(), log=Log("off")).apply({"project": "ra-test", "resources": names})
    return {step.reference.removeprefix("Ssh_authorized_key[").removesuffix("]"): step for step in report.steps}


def test_a_first_key_creates_a_private_directory_and_file(file: Path, public: dict[str, str]) -> None:
    """Sshd refuses them if other users can write there; ssh-keygen reads the result."""
    rows = [
        {
            "name": f"{NAME} {kind}",
            "user": "ra-test-alice",
            "type": kind,
            "key": key,
            "options": ['command="a,\\"b\\""'],
        }
        for kind, key in public.items()
    ]
    write(*rows)
    owner = pwd.getpwnam("ra-test-alice")
    for path, mode in ((file.parent, 0o40700), (file, 0o100600)):
        status = path.stat()
        assert (status.st_mode, status.st_uid, status.st_gid) == (mode, owner.pw_uid, owner.pw_gid)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", str(file)], check=True, capture_output=True, text=True).stdout
    assert [f" {NAME} {kind} (" in line for kind, line in zip(public, listed.splitlines(), strict=True)] == [True] * 3


def test_a_key_is_created_changed_and_deleted_without_a_trace(file: Path) -> None:
    """All other lines keep their bytes, the file its mode."""
    people = f'# caf\xe9\n\n ssh-rsa   {RSA}\tdup\nssh-rsa {RSA} dup\nno-pty ssh-rsa {RSA}\nbroken "'.encode("latin-1")
    file.parent.mkdir()
    file.write_bytes(people)
    file.chmod(0o640)
    key = {"name": NAME, "user": "ra-test-alice", "type": "rsa", "key": RSA}
    write(key)
    assert file.read_bytes() == people + f"\nssh-rsa {RSA} {NAME}".encode()
    text = f"{RSA[:-1]}D"
    write({"name": NAME, "type": "rsa", "key": text, "options": ["no-pty", 'from="10.0.0.0/8,::1"']})
    assert file.read_bytes() == people + f'\nno-pty,from="10.0.0.0/8,::1" ssh-rsa {text} {NAME}'.encode()
    write({"name": NAME, "type": "rsa", "options": []}, {"name": "dup", "type": "rsa", "options": ["restrict"]})
    assert file.read_bytes().count(b"restrict ssh-rsa") == 2
    write({"name": NAME, "ensure": "absent"}, {"name": "dup", "type": "rsa", "options": []})
    write({"name": "dup", "ensure": "absent"})
    assert file.read_bytes() == people.replace(b" ssh-rsa   " + RSA.encode() + b"\tdup\n", b"").replace(
        b"\nssh-rsa " + RSA.encode() + b" dup", b""
    )
    assert file.stat().st_mode & 0o777 == 0o640


def hostile_lines() -> bytes:
    """Return what bob writes to be able to do more as somebody else, or to keep a key from being revoked."""
    return (f'command="/tmp/evil.sh" ssh-ed25519 {ED25519} {NAME}\n' * 2 + f"ssh-rsa {RSA} {NAME}\n").encode()


@pytest.fixture
def neighbour(homes: dict[str, Path], file: Path) -> Path:  # noqa: ARG001 - its clean-up removes this file too
    """Return the file of bob, who has the key of alice with options of his own."""
    path = homes[BOB] / ".ssh" / "authorized_keys"
    path.parent.mkdir()
    path.write_bytes(hostile_lines())
    for item in (path.parent, path):
        shutil.chown(item, BOB, BOB)
    return path


@pytest.mark.usefixtures("neighbour")
def test_nothing_of_another_users_file_is_carried_over(file: Path) -> None:
    """A key of alice has the options that are declared, whatever bob has written with its comment."""
    assert apply(key={"user": ALICE, "type": "ed25519", "key": ED25519})["key"].status == "success"
    assert file.read_text() == f"ssh-ed25519 {ED25519} {NAME}\n"


def test_another_users_line_blocks_neither_a_change_nor_a_revocation(file: Path, neighbour: Path) -> None:
    """Both have lines of that comment; bob's stay as they are."""
    before = neighbour.read_bytes()
    write({"name": NAME, "user": ALICE, "type": "ed25519", "key": ED25519.replace("A" * 43, "B" * 43)})
    assert apply(key={"user": ALICE, "type": "ed25519", "key": ED25519})["key"].status == "success"
    assert file.read_text() == f"ssh-ed25519 {ED25519} {NAME}\n"
    assert apply(key={"user": ALICE, "ensure": "absent"})["key"].status == "success"
    assert (file.read_bytes(), neighbour.read_bytes()) == (b"", before)


def test_the_same_comment_of_two_users_is_two_keys(file: Path, homes: dict[str, Path]) -> None:
    """Each is declared and revoked by itself."""
    key = {"type": "rsa", "key": RSA}
    apply(alice={**key, "user": ALICE}, bob={**key, "user": BOB, "options": ["no-pty"]})
    apply(alice={"user": ALICE, "ensure": "absent"})
    assert file.read_bytes() == b""
    assert (homes[BOB] / ".ssh" / "authorized_keys").read_text() == f"no-pty ssh-rsa {RSA} {NAME}\n"


def test_two_keys_of_one_comment_and_type_in_a_file_are_an_error_with_the_user(
    file: Path, homes: dict[str, Path]
) -> None:
    """Other keys, and keys of others, are not affected."""
    write({"name": NAME, "user": ALICE, "type": "rsa", "key": RSA})
    file.write_bytes(file.read_bytes() + f"ssh-rsa {RSA[:-1]}D {NAME}\nssh-rsa {RSA} ra-test other\n".encode())
    assert f"several keys of '{ALICE}'" in read(NAME)[NAME]
    assert read("ra-test other")["ra-test other"]["user"] == ALICE
    assert NAME not in read()
    assert homes[BOB].exists()
    assert read(NAME, user=BOB) == {}


OBSTACLES = ["link", "directory link", "directory", "fifo", "oversized", "io error"]


def obstruct(file: Path, obstacle: str, tmp_path: Path) -> None:
    """Put something that cannot be read in place of a file of keys."""
    file.unlink()
    if obstacle == "link":
        file.symlink_to(tmp_path / "keys")
    elif obstacle == "directory link":
        shutil.rmtree(file.parent)
        file.parent.symlink_to(tmp_path)
    elif obstacle == "directory":
        file.mkdir()
    elif obstacle == "fifo":
        os.mkfifo(file)
    elif obstacle == "oversized":
        file.write_bytes(b"")
        os.truncate(file, 17 << 20)
    else:
        # Reading this file of the process's memory fails with EIO.
        file.write_bytes(b"")
        subprocess.run(["mount", "--bind", "/proc/self/mem", file], check=True)


@pytest.mark.usefixtures("homes")
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_file_that_cannot_be_read_is_a_failure_and_never_absence(file: Path, tmp_path: Path, obstacle: str) -> None:
    """A key that is declared absent has not gone, in apply and plan alike; the keys of others are done."""
    write({"name": NAME, "user": ALICE, "type": "rsa", "key": RSA})
    obstruct(file, obstacle, tmp_path)
    try:
        steps = apply(a={"user": ALICE, "ensure": "absent"}, b={"user": BOB, "type": "rsa", "key": RSA})
        assert {title: step.status for title, step in steps.items()} == {"a": "failed", "b": "success"}
        assert f"the keys of '{ALICE}' cannot be read" in steps["a"].error
        assert apply(a={"user": ALICE, "type": "rsa", "key": RSA})["a"].status == "failed"
        assert BOB in {row["user"] for row in read().values()}
    finally:
        if obstacle == "io error":
            subprocess.run(["umount", file], check=True)


def test_a_file_that_the_caller_may_not_read_is_a_failure(file: Path) -> None:
    """It is no absence for a caller that is not root."""
    write({"name": NAME, "user": ALICE, "type": "rsa", "key": RSA})
    os.seteuid(pwd.getpwnam(BOB).pw_uid)
    try:
        text = read(NAME, "ra-test other")
    finally:
        os.seteuid(0)
    assert all("permission denied" in text[name] for name in (NAME, "ra-test other"))
    assert file.exists()


def test_a_file_that_cannot_be_written_is_a_failure(file: Path) -> None:
    """On a file system that is read-only, a key that is declared absent fails."""
    write({"name": NAME, "user": ALICE, "type": "rsa", "key": RSA})
    subprocess.run(["mount", "--bind", file.parent, file.parent], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", file.parent], check=True)
        step = apply(a={"user": ALICE, "ensure": "absent"})["a"]
    finally:
        subprocess.run(["umount", file.parent], check=True)
    assert step.status == "failed"
    assert "read-only file system" in step.error.lower()


@pytest.mark.parametrize(
    "line", [f'a="\x01" ssh-rsa {RSA} {NAME}', f"ssh-rsa {RSA}= {NAME}", f"x-rsa AAAABXgtcnNhAAAA {NAME}"]
)
def test_a_key_that_the_type_cannot_describe_exists(file: Path, line: str) -> None:
    """It is revoked like any other."""
    file.parent.mkdir()
    file.write_text(f"{line}\n")
    assert apply(a={"user": ALICE, "ensure": "absent"})["a"].action == "delete"
    assert file.read_bytes() == b""


def test_an_option_may_be_secret(file: Path, public: dict[str, str]) -> None:
    """Such as a variable; it is written, compared and not shown."""
    declared = {"user": ALICE, "type": "ed25519", "key": public["ssh-ed25519"]}
    resources = {"Ssh_authorized_key[ra-test]": {**declared, "options": ["No-PTY", 'environment="X=${inputs.s}"']}}
    for secret in ("secret-one", "secret-two"):
        manifest = {"inputs": {"s": {"type": "Sensitive[String]", "default": secret}}, "resources": resources}
        report, lines = run_manifest(manifest)
        assert (reason(report), [line for line in lines if secret in line]) == ("", [])
        assert f'no-pty,environment="X={secret}" ssh-ed25519' in file.read_text()
        assert run_manifest(manifest)[0].summary.unchanged == 1


def test_a_key_without_a_user_is_refused() -> None:
    """Whose key it is belongs to what identifies it, also where it is declared absent."""
    with pytest.raises(ManifestError, match="the namevar 'user' is missing"):
        apply(a={"ensure": "absent"})


@pytest.mark.parametrize("which", ["file", "directory"])
def test_no_link_of_a_user_is_followed(file: Path, tmp_path: Path, which: str) -> None:
    """A link in place of the file or the directory gives no access to files of other users."""
    victim = tmp_path / "authorized_keys"
    victim.write_text(f"ssh-rsa {RSA} {NAME}\n")
    before = victim.stat()
    if which == "file":
        file.parent.mkdir()
        shutil.chown(file.parent, "ra-test-alice")
        file.symlink_to(victim)
    else:
        file.parent.symlink_to(tmp_path)
    assert "symbolic link" in read(NAME)[NAME]
    with pytest.raises(ResourceError, match="symbolic link"):
        write({"name": "ra-test new", "user": "ra-test-alice", "type": "rsa", "key": RSA})
    after = victim.stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_uid) == (after.st_ino, after.st_mtime_ns, after.st_uid)


def test_a_pipe_in_place_of_the_file_does_not_block(file: Path) -> None:
    """Its keys fail, and it is not written to."""
    file.parent.mkdir()
    subprocess.run(["mkfifo", str(file)], check=True)
    assert "not a regular file" in read(NAME)[NAME]
    with pytest.raises(ResourceError, match="not a regular file"):
        write({"name": NAME, "user": "ra-test-alice", "type": "rsa", "key": RSA})


@pytest.mark.usefixtures("file")
def test_the_user_of_a_target_is_its_name_or_owner(tmp_path: Path) -> None:
    """A target follows sshd's AuthorizedKeysFile, or is one file with an owner."""
    key = {"name": NAME, "user": "ra-test-alice", "type": "rsa", "key": RSA}
    write(key, target=f"{tmp_path}/%u.keys")
    assert (tmp_path / "ra-test-alice.keys").owner() == "ra-test-alice"
    write(key, target=f"{tmp_path}/shared")
    assert (tmp_path / "shared").owner() == "ra-test-alice"
    with pytest.raises(ResourceError, match="belongs to 'ra-test-alice', not to 'ra-test-bob'"):
        write({**key, "name": "ra-test other", "user": "ra-test-bob"}, target=f"{tmp_path}/shared")


@pytest.mark.usefixtures("file")
def test_a_second_run_changes_nothing() -> None:
    """What was declared is read back."""
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    manifest = {
        "project": "ra-test",
        "resources": {
            f"Ssh_authorized_key[{NAME}]": {"user": "ra-test-alice", "type": "rsa", "key": RSA, "options": ["no-pty"]},
            f"Ssh_authorized_key[{NAME} 2]": {"user": "ra-test-bob", "type": "ed25519", "key": ED25519},
        },
    }
    assert runtime.apply(manifest).summary.created == 2
    assert {step.action for step in runtime.plan(manifest).steps} == {"same"}


def test_an_unknown_user_fails() -> None:
    """Nothing is written."""
    with pytest.raises(ResourceError, match="there is no user 'ra-test-nobody'"):
        write({"name": NAME, "user": "ra-test-nobody", "type": "rsa", "key": RSA})


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f"ssh-rsa {RSA} c", []),
        (f"  no-pty,cert-authority ssh-rsa\t{RSA}   c ", ["no-pty", "cert-authority"]),
        (f'from="a,b c",no-pty ssh-rsa {RSA} c', ['from="a,b c"', "no-pty"]),
        (f'command="echo \\"x, y\\" ssh-rsa" ssh-rsa {RSA} c', ['command="echo \\"x, y\\" ssh-rsa"']),
        (f'command="a\\\\b" ssh-rsa {RSA} c', ['command="a\\\\b"']),
    ],
)
def test_options_are_read_as_sshd_reads_them(line: str, options: list[str]) -> None:
    """Commas, blanks, quotes and key types within quotes do not separate."""
    assert ssh.parse_line(line) == {"name": "c", "type": "ssh-rsa", "key": RSA, "options": options}


@pytest.mark.parametrize(
    "line",
    ["", "# x", f"#ssh-rsa {RSA} c", f"ssh-rsa {RSA}", f"ssh-rsa {ED25519} c", f'command="a ssh-rsa {RSA} c', "a b c"],
)
def test_other_lines_are_not_keys(line: str) -> None:
    """Comments, keys without a comment, and lines that sshd ignores are not listed."""
    assert ssh.parse_line(line) is None


def test_the_file_and_its_directory_come_first() -> None:
    """It holds for homes in their usual place; an unknown user requires nothing."""
    files = TYPE.automatic["require"]["file"]
    assert files({"user": "root", "target": TARGET}) == ["/root/.ssh", "/root/.ssh/authorized_keys"]
    assert files({"user": "bob", "target": "/etc/keys/%u"}) == ["/etc/keys", "/etc/keys/bob"]
    assert files({"user": UNKNOWN, "target": TARGET}) == []


@pytest.mark.parametrize(
    "line", ['"' * 50_000, 'a"' * 25_000, "a " * 25_000, '\\"' * 25_000, " " * 50_000 + "x", "a," * 25_000]
)
def test_a_hostile_line_is_parsed_quickly(line: str) -> None:
    """Users write their files themselves, and root reads them."""
    began = monotonic()
    for text in (line, f"{line} {line}", f"{line} ssh-rsa {RSA} x"):
        ssh.parse_line(text)
    assert monotonic() - began < 1


@pytest.mark.parametrize("key", [ED25519, RSA[:12], "AAAA"])
def test_a_key_that_is_not_of_its_type_is_refused(key: str) -> None:
    """A truncated key would lock a user out."""
    (problem,) = ssh.Provider().validate(None, {"type": "ssh-rsa", "key": key})
    assert problem.attribute == "key"


@pytest.mark.parametrize("value", ["a\nssh-rsa x evil", "a\n", "\x00", "a\x1b[2J", "", " ", "\ta", "a\r"])
def test_no_value_can_contain_a_line_break(value: str) -> None:
    """The data types refuse line breaks and control characters."""
    for attribute in ("name", "user", "type", "key", "target"):
        assert not TYPE.accepts[attribute](value)
    for option in (value, f'command="{value}\n"', f'command="a"{value}b', 'command="a\\"', 'a="b",c', "a b", "a="):
        assert not TYPE.accepts["options"]([option])


VALUE = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='"\\')).map(
    'environment="{}"'.format
)
OPTIONS = st.lists(st.one_of(VALUE, st.sampled_from(["no-pty", 'command="\\"a\\" \\b, c"', 'from=""'])))
COMMENT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda text: text == text.strip(" ")
)
LINE = st.sampled_from(
    [b"# x", b"", b"\r", b"\xff", f"ssh-rsa {RSA} x".encode(), f"a ssh-rsa  {RSA} \xff\r".encode("latin-1")]
)
FILES = st.one_of(st.binary(), st.lists(LINE).map(b"\n".join), st.lists(LINE).map(b"\r\n".join))


@given(FILES, COMMENT, OPTIONS, st.sampled_from([("ssh-rsa", RSA), ("ssh-ed25519", ED25519)]))
def test_an_added_key_is_read_back_and_removed_without_a_trace(
    content: bytes, comment: str, options: list[str], key: tuple[str, str]
) -> None:
    """It holds for any file, and a second edit changes nothing."""
    should = {"name": f"{comment} ra-test", "type": key[0], "key": key[1], "options": options}
    assert all(TYPE.accepts[attribute](value) for attribute, value in should.items())
    file = Lines(content)
    key_name = (should["name"], should["type"])
    ssh.edit(file, {key_name: should})
    added = file.content
    assert [result for line in file if (result := ssh.parse_line(line)) and result["name"] == should["name"]] == [
        should
    ]
    ssh.edit(file, {key_name: should})
    assert file.content == added
    ssh.edit(file, {key_name: None})
    assert file.content == content


def test_two_keys_of_one_person_have_one_comment(tmp_path: Path, public: dict[str, str]) -> None:
    """Both are declared and read back; each is revoked by itself, or both by their comment."""
    path = {"name": "ann@home", "user": "root", "target": f"{tmp_path}/keys"}
    keys = {f"Ssh_authorized_key[{kind}]": {**path, "type": kind, "key": public[kind]} for kind in public}
    converge(keys)
    assert (tmp_path / "keys").read_text() == "".join(f"{kind} {key} ann@home\n" for kind, key in public.items())
    kind = "ssh-ed25519"
    converge({f"Ssh_authorized_key[{kind}]": {**path, "type": kind, "ensure": "absent"}})
    assert kind not in (tmp_path / "keys").read_text()
    converge({"Ssh_authorized_key[all]": {**path, "ensure": "absent"}})
    assert (tmp_path / "keys").read_bytes() == b""


def test_a_present_key_needs_its_type() -> None:
    """The message names it; a key of another type is no key of this one."""
    with pytest.raises(ManifestError, match="type: is missing"):
        apply(a={"user": ALICE, "key": RSA})


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Callable[[], str]]]:
    """Return a file of keys, a key, and what a login with it answers: a real sshd reads the file."""
    directory = tmp_path_factory.mktemp("sshd")
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    keys = directory / "keys"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = {
        "HostKey": directory / "host",
        "AuthorizedKeysFile": keys,
        "PidFile": "none",
        "ListenAddress": "127.0.0.1",
        "UsePAM": "no",
        "StrictModes": "no",
        "PermitRootLogin": "prohibit-password",
        "PrintMotd": "no",
    }
    Path("/run/sshd").mkdir(exist_ok=True)
    arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", port, *arguments], stderr=-3)

    def answer() -> str:
        command = ["ssh", "-p", port, "-i", directory / "own", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
        command += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        process = subprocess.run(
            [*command, "root@127.0.0.1", "echo free"], capture_output=True, text=True, check=False, timeout=30
        )
        return process.stdout.strip() or process.stderr.strip()

    try:
        yield keys, (directory / "own.pub").read_text().split()[1], answer
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize(
    "earlier", ["{kind} {key} other", "{kind} {key}", 'environment="A=b" {kind} {key} other', "no-pty {kind} {key} x"]
)
def test_a_declared_restriction_holds_whatever_stands_above(
    login: tuple[Path, str, Callable[[], str]], earlier: str
) -> None:
    """The plan names the line that sshd would take, and after apply sshd takes the declared one."""
    file, key, answer = login
    line = earlier.format(kind="ssh-ed25519", key=key)
    file.write_text(f"# all\n{line}\n")
    wait_until(lambda: answer() == "free")
    restricted = {
        "Ssh_authorized_key[ann@home]": {
            "user": "root",
            "target": str(file),
            "type": "ed25519",
            "key": key,
            "options": ['command="echo restricted"', "No-PTY"],
        }
    }
    assert [item for item in warned(restricted) if f"line 2 of {file} has the same key" in item]
    converge(restricted)
    assert answer() == "restricted"
    assert file.read_text().splitlines()[2] == line
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[2], lines[1]]) + "\n")
    report, logged = run(restricted)
    assert report.summary.updated == 1
    assert any(f"line 2 of {file} has the same key" in value for value in logged), logged
    assert answer() == "restricted"


def test_two_declared_keys_that_exclude_each_other_fail(tmp_path: Path) -> None:
    """Only one of two lines with one key counts."""
    path = {"user": "root", "target": f"{tmp_path}/keys", "type": "ed25519", "key": ED25519}
    declared = {
        "Ssh_authorized_key[a]": {**path, "options": ["no-pty"]},
        "Ssh_authorized_key[b]": {**path, "options": ["restrict"]},
    }
    warning = "'a' is declared with the same key and other options, and sshd takes one of them only"
    assert warned(declared) == [warning]
    report, _ = run(declared)
    assert sorted(step.status for step in report.steps) == ["failed", "success"]


def test_a_removed_key_that_another_line_has_is_named(login: tuple[Path, str, Callable[[], str]]) -> None:
    """Sshd goes by keys, not by comments: the login is still allowed, until both lines are gone."""
    file, key, answer = login
    file.write_text(f"ssh-ed25519 {key} ann@home\n# none\ncert-authority ssh-ed25519 {key} ca\n")
    path = {"user": "root", "target": str(file), "type": "ed25519"}
    converge({"Ssh_authorized_key[ann@laptop]": {**path, "key": key}})
    laptop = {"Ssh_authorized_key[ann@laptop]": {**path, "ensure": "absent"}}
    report, logged = run(laptop)
    assert report.summary.deleted == 1
    text = f"line 1 of {file} has the removed key too with the comment 'ann@home', and still allows a login"
    assert [line for line in logged if line.startswith("warning")] == [
        f"warning: Ssh_authorized_key[ann@laptop]: {text}"
    ]
    wait_until(lambda: answer() == "free")
    report, logged = run({"Ssh_authorized_key[ann@home]": {**path, "ensure": "absent"}})
    assert [line for line in logged if line.startswith("warning")] == []
    assert "Permission denied" in answer()


def test_a_certificate_authority_is_no_other_line_of_a_key(tmp_path: Path) -> None:
    """Sshd takes it for certificates alone."""
    file = tmp_path / "keys"
    file.write_text(f"cert-authority ssh-ed25519 {ED25519} ca\n")
    declared = {"user": "root", "target": str(file), "type": "ed25519", "key": ED25519, "options": ["restrict"]}
    assert warned({"Ssh_authorized_key[a]": declared}) == []
    converge({"Ssh_authorized_key[a]": declared})
    assert file.read_text().startswith("cert-authority")


def test_a_file_that_sshd_does_not_read_is_reported_by_the_plan(homes: dict[str, Path], file: Path) -> None:
    """With the files that it reads for the user."""
    declared = {"Ssh_authorized_key[a]": {"user": ALICE, "type": "ssh-ed25519", "key": ED25519}}
    setting = Path("/etc/ssh/sshd_config.d/00-ra-test.conf")
    for directory in (setting.parent, Path("/run/sshd")):
        directory.mkdir(exist_ok=True)
    try:
        setting.write_text("AuthorizedKeysFile /etc/ssh/keys/%u %h/keys\n")
        read = f"/etc/ssh/keys/{ALICE} and {homes[ALICE]}/keys"
        assert warned(declared) == [f"sshd does not read {file}, but {read} (AuthorizedKeysFile)"]
        setting.write_text("AuthorizedKeysFile %h/.ssh/authorized_keys\n")
        assert warned(declared) == []
    finally:
        setting.unlink()


class TestSshAuthorizedKey(ProviderCompliance):
    """A key of a user without keys."""

    type_name = "ssh_authorized_key"

    @pytest.fixture
    def present(self, file: Path) -> Resource:  # noqa: ARG002 - the user of the key, and the clean-up after it
        return {"name": NAME, "user": "ra-test-alice", "type": "ed25519", "key": ED25519, "options": ["no-pty"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "options": []}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [
            {**present, "name": f"{NAME} again", "key": ED25519.replace("A" * 43, "B" * 43)},
            {**present, "name": f"{NAME} of bob", "user": "ra-test-bob", "type": "rsa", "key": RSA},
            {**present, "user": "ra-test-bob"},
        ]

    @pytest.fixture
    def world(self, homes: dict[str, Path]) -> Callable[[], Any]:
        return lambda: [path for home in homes.values() for path in sorted(home.rglob("*"))]

    @pytest.fixture
    def neighbours(self, present: Resource, homes: dict[str, Path]) -> list[Neighbour]:
        """Return the file of a user who has keys with the comments of others."""
        path = homes[BOB] / ".ssh" / "authorized_keys"
        path.parent.mkdir()
        shutil.chown(path.parent, BOB, BOB)
        mine = {**present, "user": BOB}
        return [Neighbour(str(path), hostile_lines(), BOB, [mine, {**mine, "ensure": "absent"}])]
