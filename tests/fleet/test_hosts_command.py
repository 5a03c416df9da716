"""``hosts`` and ``--on`` as people type them, with hosts of a real sshd."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import command, json_schemas
from tests.fleet.sshd import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ROOT: Final = Path(__file__).resolve().parents[2]
_MANIFEST: Final = """\
project: web
resources:
  File[/hosts/${host.address}/made]: {content: "${host.name}"}
"""


class Desk:
    """A directory with an inventory, and the command in it."""

    def __init__(self, home: Path, server: Server, shared: Path) -> None:
        """Write an inventory of four hosts; the data that is sent to hosts is kept in ``shared``."""
        self.home = home
        self.server = server
        self.inventory = {
            "defaults": {"port": server.port, "user": "root", "identity": str(server.identity)},
            "hosts": {
                "web1": {"address": "127.6.0.1", "groups": ["web"]},
                "web2": {"address": "127.6.0.2", "groups": ["web"]},
                "db1": {"address": "127.6.0.3", "user": "deploy", "become": "sudo"},
                "gone": {"address": "127.6.0.4", "port": 1, "via": None},
            },
        }
        self.write()
        (home / "site.yaml").write_text(_MANIFEST)
        self.environment = command.environment_of(home, RESOURCE_API_FLEET=str(shared))

    def write(self, **host: Mapping[str, object]) -> None:
        """Write the inventory, with more settings of some hosts."""
        for name, settings in host.items():
            self.inventory["hosts"].setdefault(name, {}).update(settings)
        (self.home / "hosts.yaml").write_text(json.dumps(self.inventory))

    def run(self, *arguments: str, answer: str | None = None) -> tuple[int, str, str]:
        """Run the command and return its exit code, stdout and stderr; ``answer`` is typed on a terminal."""
        options = {"cwd": self.home, "env": self.environment, "text": True, "timeout": 50}
        if answer is None:
            process = command.run(arguments, **options)
            json_schemas.check(arguments, process.stdout, process.returncode)
            return process.returncode, process.stdout, process.stderr
        ours, theirs = pty.openpty()
        try:
            os.write(ours, answer.encode() + b"\n")
            process = command.run(arguments, stdin=theirs, **options)
        finally:
            os.close(ours)
            os.close(theirs)
        return process.returncode, process.stdout, process.stderr

    @property
    def known_hosts(self) -> str:
        """What is recorded."""
        return (self.home / ".ssh" / "known_hosts").read_text(encoding="ascii")


@pytest.fixture
def desk(home: Path, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk that knows no host."""
    (home / ".ssh" / "known_hosts").unlink()
    return Desk(home, server, tmp_path_factory.getbasetemp() / "fleet")


def _fingerprint(server: Server) -> str:
    process = subprocess.run(["ssh-keygen", "-lf", str(server.keys / "host.pub")], check=True, capture_output=True)
    return process.stdout.split()[1].decode()


def test_hosts_are_listed_with_the_way_to_them(desk: Desk) -> None:
    """All of the inventory, or those that are selected; in columns, without those that say nothing, and as JSON."""
    desk.write(db1={"via": "gate", "transport": "ssh"}, v6={"address": "fe80::1", "user": None, "port": 2200})
    code, out, _ = desk.run("hosts", "list", "web,db1,v6")
    port = desk.server.port
    wide = len(f"deploy@127.6.0.3:{port}")
    assert code == 0
    assert out.splitlines() == [
        f"host  {'address':{wide}}  groups  become  via   transport",
        f"web1  {f'root@127.6.0.1:{port}':{wide}}  web",
        f"web2  {f'root@127.6.0.2:{port}':{wide}}  web",
        f"db1   {f'deploy@127.6.0.3:{port}':{wide}}          sudo    gate  ssh",
        "v6    root@[fe80::1]:2200",
    ]
    long = f"a{'b' * 60}.example.org"
    assert desk.run("hosts", "list", long)[1] == f"host{' ' * (len(long) - 4)}  address\n{long}  root@{long}:{port}\n"
    _, out, _ = desk.run("hosts", "list", "--json")
    assert [document["name"] for document in json.loads(out)] == ["web1", "web2", "db1", "gone", "v6"]


def test_a_list_refuses_what_on_refuses(desk: Desk) -> None:
    """``hosts list`` shows what ``--on`` would select: a mistyped exclusion is an error, such a group a warning."""
    code, out, error = desk.run("hosts", "list", "web,!wbe1")
    assert (code, out) == (64, "")
    assert error == "Error: 'wbe1' after ! is neither in an inventory nor selected; did you mean 'web1'?\n"
    code, out, error = desk.run("hosts", "list", "web1,web&wep")
    assert (code, "\nweb1 " in out) == (0, True)
    assert error == "Warning: 'wep' after & is neither in an inventory nor selected; did you mean 'web'?\n"


def test_where_a_password_is_is_listed_as_an_inventory_has_it(desk: Desk) -> None:
    """In one form: a path from here on, and the words of a program; with the name of the host."""
    (desk.home / "site").mkdir()
    sources = [{"file": "of/${host.name}"}, {"command": "pass 'web 2'"}, {"command": ["pass", "${host.name} x"]}]
    hosts = {f"h{number}": {"become_password": source} for number, source in enumerate(sources)}
    (desk.home / "site" / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    code, out, _ = desk.run("hosts", "list", "--json", "--hosts", "site/hosts.yaml")
    listed = [{"file": "site/of/h0"}, {"command": "pass 'web 2'"}, {"command": "pass 'h2 x'"}]
    assert (code, [document["become_password"] for document in json.loads(out)]) == (0, listed)


def test_without_an_inventory_hosts_are_named(desk: Desk) -> None:
    """The message says how; a wrong selection is an error of usage too."""
    (desk.home / "hosts.yaml").unlink()
    code, _, err = desk.run("hosts", "list")
    assert (code, err) == (64, "Error: there is no hosts.yaml here; name an inventory with --hosts, or name hosts\n")
    code, _, err = desk.run("hosts", "list", "web[2:1]")
    assert code == 64
    assert "--on" not in err


def test_a_key_is_recorded_after_a_question(desk: Desk) -> None:
    """Each key is shown; yes records those that were not known, at the end of the file."""
    (desk.home / ".ssh" / "known_hosts").write_text("other ssh-ed25519 AAAA")
    key = _fingerprint(desk.server)
    code, out, err = desk.run("hosts", "trust", "web", answer="yes")
    output = [f"web{n}: 127.6.0.{n}:{desk.server.port} ssh-ed25519 {key}" for n in (1, 2)]
    assert (code, out.splitlines()) == (0, [*output, "Recorded 2 keys."])
    assert err == "Trust these 2 keys? Only 'yes' is accepted [no]: "
    assert desk.known_hosts == "other ssh-ed25519 AAAA\n" + "".join(
        f"[127.6.0.{n}]:{desk.server.port} {desk.server.host_key}\n" for n in (1, 2)
    )
    code, out, err = desk.run("hosts", "trust", "web1", answer="no")
    assert (code, out, err) == (0, f"{output[0]} (known)\n", "")


def test_a_key_that_is_not_trusted_is_not_recorded(desk: Desk) -> None:
    """Every other answer is no; the exit code says that a host is not known."""
    code, _, _ = desk.run("hosts", "trust", "web1", answer="y")
    assert code == 1
    assert not (desk.home / ".ssh" / "known_hosts").exists()


def test_scripts_say_which_key_is_right(desk: Desk) -> None:
    """A host with another key is refused, one that is not reached is named, and the others are recorded."""
    key = _fingerprint(desk.server)
    code, out, _ = desk.run("hosts", "trust", "web1", "gone", "--yes", "--fingerprint", key, "--json")
    entries = {document["host"]: document for document in json.loads(out)}
    assert code == 1
    assert (entries["web1"]["status"], entries["web1"]["fingerprint"]) == ("recorded", key)
    assert (entries["gone"]["status"], entries["gone"]["error"]) == ("unreachable", "connection refused (127.6.0.4:1)")
    code, out, _ = desk.run("hosts", "trust", "web2", "--yes", "--fingerprint", "SHA256:x")
    assert (code, out) == (1, f"web2: not trusted: its key {key} is not among the given fingerprints\n")
    assert desk.known_hosts.count("\n") == 1


def test_a_key_that_has_changed_is_never_trusted(desk: Desk) -> None:
    """The message says how the known one is removed, which is up to a person."""
    stranger = (desk.server.keys / "stranger.pub").read_text(encoding="ascii")
    (desk.home / ".ssh" / "known_hosts").write_text(f"[127.6.0.1]:{desk.server.port} {stranger}")
    key = _fingerprint(desk.server)
    code, out, _ = desk.run("hosts", "trust", "web1", "--yes", "--fingerprint", key)
    assert code == 1
    assert f"its key {key} is not the known one; if that is right, remove the known one: ssh-keygen -R" in out


@pytest.mark.parametrize("pattern", ["[127.6.0.1]:{port}", "127.6.0.1"])
def test_a_key_that_is_revoked_is_never_trusted(desk: Desk, pattern: str) -> None:
    """Neither is it recorded, nor does a run advise to."""
    line = f"@revoked {pattern.format(port=desk.server.port)} {desk.server.host_key}\n"
    (desk.home / ".ssh" / "known_hosts").write_text(line)
    key = _fingerprint(desk.server)
    code, out, _ = desk.run("hosts", "trust", "web1", "--yes", "--fingerprint", key)
    assert (code, desk.known_hosts) == (1, line)
    assert out == f"web1: not trusted: its key {key} is revoked: a line @revoked in a file of known hosts has it\n"
    result = desk.run("plan", "site.yaml", "--on", "web1")
    assert "web1:\n  Error: unreachable: its host key is refused: host key is revoked" in result[1]


def test_no_key_is_asked_about_that_is_not_shown(desk: Desk) -> None:
    """With ``--json`` the keys are part of the document at the end, so scripts name the right one."""
    code, _, err = desk.run("hosts", "trust", "web1", "--json", answer="yes")
    assert (code, "trust needs --yes and --fingerprint with --json" in err) == (64, True)
    assert not (desk.home / ".ssh" / "known_hosts").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--yes",), "--yes needs --fingerprint: a key that nobody has compared proves nothing"),
        ((), "trust needs --yes and --fingerprint when standard input is no terminal"),
    ],
)
def test_trust_needs_somebody_who_compares(desk: Desk, arguments: tuple[str, ...], message: str) -> None:
    """Without a terminal nobody could answer."""
    assert desk.run("hosts", "trust", "web1", *arguments)[::2] == (64, f"Error: {message}\n")


def test_a_file_of_known_hosts_that_cannot_be_written_is_named(desk: Desk) -> None:
    """The message has the path and the reason of the system."""
    (desk.home / ".ssh").rmdir()
    (desk.home / ".ssh").write_text("a file")
    code, _, err = desk.run("hosts", "trust", "web1", "--yes", "--fingerprint", _fingerprint(desk.server))
    assert (code, err) == (1, f"Error: {desk.home}/.ssh/known_hosts: cannot be written: Not a directory\n")


def test_a_manifest_is_applied_to_hosts(desk: Desk) -> None:
    """Hosts that are trusted converge; the one that cannot be reached is named, and is the reason of the exit code."""
    desk.server.known_hosts(desk.home / ".ssh" / "known_hosts")
    (desk.home / "password").write_text(f"{PASSWORD}\n")
    desk.write(db1={"become_password": {"file": "password"}})
    environment = ("--state", "memory:")
    code, out, err = desk.run("apply", "site.yaml", "--on", "web,db1,gone", *environment)
    assert code == 1, err
    assert "gone:\n  Error: unreachable: connection refused (" in out
    assert "3 changed" in out
    assert [desk.server.path(f"/hosts/127.6.0.{n}/made").read_text() for n in (1, 2, 3)] == ["web1", "web2", "db1"]
    code, out, err = desk.run("apply", "site.yaml", "--on", "web,db1", *environment)
    assert (code, "3 unchanged" in out) == (0, True), err


def test_a_password_is_named_and_never_written(desk: Desk) -> None:
    """One that stands in the inventory is an error with its line; a program that prints none says why."""
    desk.write(db1={"become_password": PASSWORD})
    code, _, err = desk.run("hosts", "list")
    assert code == 65
    assert "become_password must be {file: PATH} or {command: PROGRAM}: a password does not belong here" in err
    assert PASSWORD not in err
    desk.server.known_hosts(desk.home / ".ssh" / "known_hosts")
    desk.write(db1={"become_password": {"file": "nowhere"}})
    code, out, err = desk.run("apply", "site.yaml", "--on", "db1", "--state", "memory:")
    assert code == 1
    assert "become_password: nowhere: No such file or directory" in out + err


def test_descriptors_bound_the_hosts_side_by_side(desk: Desk) -> None:
    """Fewer connections than were wanted are a warning, and every host is still served."""
    desk.write(**{f"far{number}": {"address": "127.6.1.1", "port": 1} for number in range(4)})
    words = ("-m", "resource_api", "apply", "site.yaml", "--on", "far[0:3]")
    limited = ["prlimit", "--nofile=70:70", sys.executable, *words]
    process = subprocess.run(limited, cwd=desk.home, env=desk.environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "Warning: only 3 hosts side by side: this process may not open more files; see ulimit -n" in process.stderr
    assert "4 unreachable" in process.stdout


def test_without_the_library_it_is_said_how_to_install_it(desk: Desk) -> None:
    """Nothing but the extra is missing; hosts that the program ``ssh`` reaches do not need it."""
    (desk.home / "without").mkdir()
    (desk.home / "without" / "sitecustomize.py").write_text("import sys\nsys.modules['asyncssh'] = None\n")
    desk.environment["PYTHONPATH"] = f"{desk.home}/without:{ROOT}"
    for arguments, otherwise in (
        (("apply", "site.yaml", "--on", "web1"), "in the inventory transport: ssh"),
        (("hosts", "trust", "web1", "--yes", "--fingerprint", "x"), "visit each host with ssh once"),
    ):
        code, _, err = desk.run(*arguments)
        text = "hosts are reached with the library asyncssh: pip install 'resource-api[ssh]'; or without it: "
        assert (code, err) == (1, f"Error: {text}{otherwise}\n")
    desk.server.known_hosts(desk.home / ".ssh" / "known_hosts")
    desk.write(web1={"transport": "ssh"})
    code, out, err = desk.run("apply", "site.yaml", "--on", "web1", "--state", "memory:")
    assert (code, err) == (0, "")
    assert "0 failed, 0 unreachable" in out
    (desk.home / "hosts.yaml").write_text("hosts: {}\n")
    assert desk.run("hosts", "list") == (64, "", "Error: no host is left\n")
