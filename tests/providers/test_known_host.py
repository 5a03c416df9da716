"""Keys of hosts that ssh-keygen finds, in private files and in the homes of users made for the tests."""

from __future__ import annotations

import pwd
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError, Registry, Runtime
from resource_api.files import Lines
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport

TYPE = Registry.from_path().type("known_host")
known_host = bundled.execute("providers", "known_host")
RSA: Final = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ" + "C" * 128
ED25519: Final = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
OTHER: Final = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "B" * 43
HASH: Final = known_host.hashed("hidden.example", b"x" * 20)
PEOPLE: Final = f"""# caf\u00e9
Web.example,192.0.2.1  ssh-ed25519\t{ED25519} mine
web.example ssh-rsa {RSA}
{HASH} ssh-ed25519 {ED25519}
@revoked web.example ssh-ed25519 {OTHER}
nonsense
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with comments, odd blanks, a hash and a revoked key."""
    path = tmp_path / "ra-test"
    path.write_text(PEOPLE)
    return path


def apply(title: str, **attributes: Any) -> RunReport:
    """Apply a manifest of one key."""
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": {f"Known_host[{title}]": attributes}})


def converge(title: str, **attributes: Any) -> None:
    """Apply a change that must succeed, and check that a second run changes nothing."""
    assert [apply(title, **attributes).summary.unchanged for _ in range(2)] == [0, 1]


def found(file: Path, name: str) -> list[str]:
    """Return the types of the keys that ssh-keygen finds for a name."""
    output = subprocess.run(["ssh-keygen", "-F", name, "-f", file], check=False, capture_output=True, text=True).stdout
    return [line.split()[-2] for line in output.splitlines() if line[0] != "#"]


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("name", ["new.example", "[new.example]:2222", "2001:db8::1"])
def test_ssh_finds_the_key_while_it_is_present(file: Path, name: str, *, hashed: bool) -> None:
    """By its name, hidden or not, with a port, and by an alias."""
    converge(f"{name}@ed25519 {file}", key=ED25519, hashed=hashed)
    assert (found(file, name), name in file.read_text()) == (["ssh-ed25519"], not hashed)
    converge(f"{name}@ed25519 {file}", key=ED25519, host_aliases=["Alias.example"], hashed=False)
    assert (found(file, name), found(file, "alias.example")) == (["ssh-ed25519"], ["ssh-ed25519"])
    converge(f"{name}@ed25519 {file}", ensure="absent")
    assert file.read_text() == PEOPLE


SPELLINGS: Final = [
    ("[new.example]:22", "new.example"),
    ("[::1]:22", "::1"),
    ("0:0::0001", "::1"),
    ("[2001:DB8:0:0::1]:2222", "[2001:db8::1]:2222"),
    ("::FFFF:A00:9", "::ffff:10.0.0.9"),
    ("FE80:0::1%lo", "fe80::1%lo"),
]


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_a_name_is_written_as_ssh_looks_for_it(file: Path, spelling: str, name: str) -> None:
    """Under any spelling; a line that ssh would not find is rewritten, and its listing leaves it out."""
    converge(f"{spelling}@ed25519 {file}", key=ED25519, host_aliases=[spelling, "b.example"])
    assert f"\n{name},{name},b.example ssh-ed25519 {ED25519}\n" in file.read_text()
    assert apply(f"{name}@ed25519 {file}", key=ED25519).summary.unchanged == 1
    file.write_text(f"{spelling},web.example ssh-ed25519 {ED25519} mine\n")
    converge(f"{name}@ed25519 {file}", key=ED25519)
    assert file.read_text() == f"{name},web.example ssh-ed25519 {ED25519} mine\n"
    file.write_text(f"web.example,{spelling} ssh-ed25519 {ED25519}\n")
    assert apply(f"web.example@ed25519 {file}", key=ED25519).summary.unchanged == 1
    converge(f"web.example@ed25519 {file}", key=ED25519, host_aliases=[spelling])
    assert file.read_text() == f"web.example,{name} ssh-ed25519 {ED25519}\n"
    assert found(file, name) == ["ssh-ed25519"]
    file.write_text(f"{spelling},{name} ssh-ed25519 {ED25519}\n")
    converge(f"{name}@ed25519 {file}", key=ED25519)
    assert file.read_text() == f"{name},{name} ssh-ed25519 {ED25519}\n"


def test_a_line_that_ssh_does_not_find_neither_counts_nor_stays(file: Path) -> None:
    """Beside one that it finds; an absent key leaves none of them."""
    file.write_text(f"::1 ssh-ed25519 {ED25519}\n0:0::1 ssh-ed25519 {OTHER}\n")
    assert apply(f"::1@ed25519 {file}", key=ED25519).summary.unchanged == 1
    converge(f"::1@ed25519 {file}", ensure="absent")
    assert file.read_text() == ""


def listens(port: int) -> bool:
    """Return whether a server listens at a port of ``::1``."""
    with socket.socket(socket.AF_INET6) as connection:
        return connection.connect_ex(("::1", port)) == 0


def test_ssh_finds_a_key_by_each_spelling_of_an_address(tmp_path: Path) -> None:
    """It asks for the canonical one, whatever a user types; no other line would be found."""
    key, declared = tmp_path / "key", tmp_path / "known"
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
        port = free.getsockname()[1]
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kind, public, *_ = Path(f"{key}.pub").read_text().split()
    Path("/run/sshd").mkdir(exist_ok=True)
    server = ["/usr/sbin/sshd", "-D", "-f", "/dev/null", "-h", key, "-p", str(port), "-o", "ListenAddress=::1"]
    options = ("StrictHostKeyChecking=yes", f"UserKnownHostsFile={declared}", "GlobalKnownHostsFile=/dev/null")
    words = [word for option in ("BatchMode=yes", *options) for word in ("-o", option)]
    declared.write_text(f"[0:0::1]:{port} {kind} {public}\n")

    def answers() -> list[bool]:
        requested = [["ssh", *words, "-p", str(port), address, "true"] for address in ("::1", "0:0::0001")]
        stderrs = [subprocess.run(item, check=False, capture_output=True, text=True).stderr for item in requested]
        return ["Permission denied" in value for value in stderrs]

    with subprocess.Popen([*server, "-o", "PidFile=none"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: listens(port))
            assert answers() == [False, False]
            converge(f"[::0:1]:{port}@{kind} {declared}", key=public)
            assert answers() == [True, True]
        finally:
            process.terminate()


def test_only_the_line_of_the_key_changes(file: Path) -> None:
    """Its comment stays; keys of other types, revoked ones and hashes are other keys."""
    converge(f"web.example@ssh-ed25519 {file}", key=OTHER)
    line = f"Web.example,192.0.2.1  ssh-ed25519\t{ED25519} mine"
    assert file.read_text() == PEOPLE.replace(line, f"web.example,192.0.2.1 ssh-ed25519 {OTHER} mine")
    converge(f"hidden.example@ssh-ed25519 {file}", key=OTHER)
    assert f"{HASH} ssh-ed25519 {OTHER}\n" in file.read_text()
    converge(f"hidden.example@ssh-ed25519 {file}", key=OTHER, hashed=False)
    assert f"\nhidden.example ssh-ed25519 {OTHER}\n" in file.read_text()


def test_a_host_with_two_keys_fails(file: Path) -> None:
    """Both would be trusted; one of them may be of somebody else."""
    file.write_text(f"{PEOPLE}hidden.example ssh-ed25519 {OTHER}\n")
    for ensure in ("present", "absent"):
        report = apply(f"hidden.example@ssh-ed25519 {file}", key=ED25519, ensure=ensure)
        assert "several keys" in str(report.steps[0].error)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a b"},
        {"name": "a,b"},
        {"name": "|1|x"},
        {"name": "#a"},
        {"name": "a\nb"},
        {"key": RSA},
        {"key": "AAAA evil"},
        {"host_aliases": ["a,*"]},
        {"hashed": True, "host_aliases": ["b"]},
        {"hashed": True, "name": "*.example"},
        {"target": "known_hosts"},
        {"target": "~/.ssh/known_hosts"},
    ],
)
def test_a_key_that_would_be_another_is_refused(wrong: dict[str, Any]) -> None:
    """No value may add names, keys or lines."""
    with pytest.raises(ManifestError):
        apply("x", **{"name": "a", "type": "ed25519", "key": ED25519, "target": "/srv/ra-test", **wrong})


NAME = st.from_regex(r"[a-z0-9][a-z0-9.:\[\]-]{0,9}", fullmatch=True)


@given(st.binary(), NAME, st.booleans())
def test_an_added_key_is_read_back_and_removed_without_a_trace(content: bytes, name: str, hidden: bool) -> None:  # noqa: FBT001 - generated
    """It holds for any file, and a second edit changes nothing."""
    key, lines = (name, "ssh-rsa", "none"), Lines(content)
    should = {"name": name, "type": "ssh-rsa", "key": RSA, "hashed": hidden}
    known_host.edit(lines, {key: should})
    added = lines.content
    known_host.edit(lines, {key: should})
    assert (lines.content, len(known_host._numbers(lines, {key})[key])) == (added, 1)
    known_host.edit(lines, {key: None})
    assert lines.content == content


class TestKnownHost(ProviderCompliance):
    """A key of the file of a user, and some of the machine."""

    type_name = "known_host"

    @pytest.fixture
    def home(self, private_etc: None) -> Iterator[Path]:  # noqa: ARG002 - where the user is made
        """Return the home of a user without known hosts."""
        subprocess.run(["useradd", "--create-home", "ra-test-alice"], check=True)
        yield Path(pwd.getpwnam("ra-test-alice").pw_dir)
        subprocess.run(["userdel", "--remove", "ra-test-alice"], check=True, capture_output=True)

    @pytest.fixture
    def present(self, home: Path) -> Resource:  # noqa: ARG002 - the user
        target = "~ra-test-alice/.ssh/known_hosts"
        return {"name": "Ra-Test.example", "type": "ed25519", "target": target, "key": ED25519, "hashed": True}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "key": OTHER, "hashed": False, "host_aliases": ["B.example", "*.example", "b.example"]}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        machine = {"name": "ra-test", "type": "rsa", "target": "/etc/ssh/ssh_known_hosts", "key": RSA}
        return [{**present, "type": "rsa", "key": RSA}, machine, {**machine, "marker": "revoked"}]

    @pytest.fixture
    def world(self, home: Path) -> Callable[[], Any]:
        return lambda: [(path, path.stat().st_mtime_ns) for path in sorted(home.rglob("*"))]

    @pytest.fixture
    def neighbours(self, home: Path) -> Iterator[list[Neighbour]]:  # noqa: ARG002 - the private accounts
        """Yield the file of a user who knows other keys of the same hosts."""
        subprocess.run(["useradd", "--create-home", "ra-test-bob"], check=True)
        directory = Path(pwd.getpwnam("ra-test-bob").pw_dir, ".ssh")
        directory.mkdir(mode=0o700)
        subprocess.run(["chown", "ra-test-bob:", directory], check=True)
        content = f"ra-test,*,ra-test.example ssh-rsa {RSA} x\n\n@revoked * ssh-ed25519 {ED25519}\n"
        target = "~ra-test-bob/.ssh/known_hosts"
        mine = {"name": "ra-test", "type": "rsa", "target": target, "key": RSA}
        absent = {**mine, "ensure": "absent"}
        yield [Neighbour(str(directory / "known_hosts"), content.encode(), "ra-test-bob", [mine, absent])]
        subprocess.run(["userdel", "--remove", "ra-test-bob"], check=True, capture_output=True)
