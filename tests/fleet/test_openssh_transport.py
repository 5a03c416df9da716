"""Hosts that the program ``ssh`` reaches, by a real sshd: what is refused, how it is told, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.fleet import openssh_transport, transport
from resource_api.fleet.connections import Host, jump_chain
from resource_api.fleet.inventory import build
from resource_api.fleet.openssh_transport import OpensshTransport
from resource_api.fleet.ssh_connections import SshConnections
from resource_api.fleet.transport import HostUnreachable
from resource_api.manifest.read import READERS
from resource_api.model.values.errors import CommandError
from tests.fleet.carrier_compliance import trial
from tests.fleet.kills import Controller
from tests.fleet.test_asyncssh_transport import agent as agent  # noqa: PLC0414 - a fixture
from tests.fleet.test_asyncssh_transport import connect, resetting
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process


def _said(home: Path, host: Host, **environment: str) -> str:
    """Return what a command says of the connection: the user there and the address that was reached."""

    async def ask() -> str:
        program = OpensshTransport({"HOME": str(home), **environment})
        try:
            async with await program.start(host, "echo $USER ${SSH_CONNECTION% *} $(env | wc -l)") as process:
                user, *_, address, _ = (await process.read()).decode().split()
                assert await process.read() == b""
                assert await process.read_error() == b""
                assert await process.exit_code() == 0
            return f"{user}@{address}"
        finally:
            await program.close()

    return asyncio.run(ask())


def _host(server: Server, address: str, **fields: Any) -> Host:
    arguments = {"port": server.port, "user": "deploy", "identity": str(server.identity), "transport": "ssh", **fields}
    return Host("web1", address, **arguments)


def _configure(home: Path, text: str) -> None:
    (home / ".ssh" / "config").write_text(text, encoding="ascii")


@pytest.mark.parametrize(
    "line", ["", "UserKnownHostsFile none", "StrictHostKeyChecking no", "NoHostAuthenticationForLocalhost yes"]
)
def test_an_unknown_host_key_is_refused_whatever_the_configuration_says(line: str, home: Path, server: Server) -> None:
    """The message has the command with which a person trusts it, and the file of known hosts stays as it is."""
    (home / ".ssh" / "known_hosts").write_text("", encoding="ascii")
    _configure(home, f"{line}\n")
    with pytest.raises(
        HostUnreachable,
        match=r"its host key is refused: (No \S+ host key is known .* hosts trust web1|Host .* failed\.)$",
    ):
        _said(home, _host(server, "127.9.0.1"))
    assert (home / ".ssh" / "known_hosts").read_text() == ""


def test_a_host_key_that_has_changed_is_refused(home: Path, server: Server) -> None:
    """It is named as ssh-keygen removes it; nothing is said of trusting it."""
    key = (server.keys / "stranger.pub").read_text(encoding="ascii")
    (home / ".ssh" / "known_hosts").write_text(f"[127.*]:{server.port} {key}", encoding="ascii")
    advice = rf"; if that is right, remove the known one: ssh-keygen -R '\[127\.9\.0\.2\]:{server.port}'$"
    with pytest.raises(HostUnreachable, match=rf"its host key is refused: Host key for .* has changed and .*{advice}"):
        _said(home, _host(server, "127.9.0.2"))


def test_a_wrong_key_is_told_in_the_words_of_ssh(home: Path, server: Server) -> None:
    """A key that has a passphrase is no other case: nobody is asked for one."""
    with pytest.raises(HostUnreachable, match=r"deploy@127.9.0.3: Permission denied"):
        _said(home, _host(server, "127.9.0.3", identity=str(server.keys / "stranger")))
    with pytest.raises(HostUnreachable, match="/nowhere: no such key, or it cannot be read"):
        _said(home, _host(server, "127.9.0.3", identity="/nowhere"))


def test_the_configuration_of_ssh_is_honoured(home: Path, server: Server) -> None:
    """Name, port, user, key and jump host come from it where the inventory gives none; ``none`` is no jump host."""
    common = f"Port {server.port}\nIdentityFile {server.identity}\n"
    gate = f"Host gate\nHostname 127.9.0.5\nUser guest\n{common}"
    _configure(home, f"Host web1\nHostname 127.9.0.4\nUser ops\nProxyJump gate\nRequestTTY force\n{common}{gate}")
    assert _said(home, Host("web1")) == "ops@127.9.0.4"
    (home / ".ssh" / "known_hosts").write_text(f"[127.9.0.4]:{server.port} {server.host_key}\n", encoding="ascii")
    assert _said(home, Host("web1", user="deploy", via="none")) == "deploy@127.9.0.4"
    with pytest.raises(HostUnreachable, match=r"No \S+ host key is known for \[127.9.0.5\]"):
        _said(home, Host("web1"))


def test_the_key_of_an_agent_is_used(home: Path, server: Server, agent: str) -> None:
    """A key that only the agent has opens a host."""
    host = _host(server, "127.9.0.6", identity=None)
    assert _said(home, host, SSH_AUTH_SOCK=agent) == "deploy@127.9.0.6"
    with pytest.raises(HostUnreachable, match="Permission denied"):
        _said(home, host)


def test_a_jump_host_leads_to_a_host_and_is_checked_as_it_is(home: Path, server: Server) -> None:
    """Its key must be known, also where the configuration says otherwise, and it takes the key of the host."""
    host = _host(server, "127.9.0.7", via=f"guest@127.9.0.8:{server.port}")
    assert _said(home, host) == "deploy@127.9.0.7"
    (home / ".ssh" / "known_hosts").write_text(f"[127.9.0.7]:{server.port} {server.host_key}\n", encoding="ascii")
    _configure(home, "StrictHostKeyChecking no\n")
    with pytest.raises(HostUnreachable, match=r"No \S+ host key is known for \[127.9.0.8\]\S+ and .* checking\.$"):
        _said(home, host)


@pytest.mark.parametrize("transport", ["asyncssh", "ssh"])
def test_a_jump_host_may_be_a_name_of_the_inventory(home: Path, server: Server, transport: str) -> None:
    """Its address, port, user, key and own jump host are those of the inventory; a host is never behind itself."""
    text = f"""\
defaults: {{via: gate, port: {server.port}, user: deploy, transport: {transport}, identity: "{server.keys}/stranger"}}
hosts:
  gate: {{address: 127.9.1.1, user: ops, via: outer, identity: "{server.identity}"}}
  outer: {{address: 127.9.1.2, user: guest, via: none, identity: "{server.identity}"}}
  web1: {{address: 127.9.1.3, identity: "{server.identity}"}}
"""
    inventory = build(READERS[".yaml"](text.encode(), "hosts.yaml"))
    before = [_accepted(server, user) for user in ("ops", "guest")]
    run = _said if transport == "ssh" else lambda home, host: connect(home, host)[0]
    assert run(home, inventory.host("web1")) == "deploy@127.9.1.3"
    assert [_accepted(server, user) for user in ("ops", "guest")] == [number + 1 for number in before]
    assert run(home, inventory.host("outer")) == "guest@127.9.1.2"
    own = build(READERS[".yaml"](b"defaults: {via: gate}\nhosts: {gate: {}, web1: {}}\n", "hosts.yaml"))
    chains = [[hop.name for hop in jump_chain(own.host(name))] for name in ("gate", "web1")]
    assert chains == [[], ["gate"]]


def _accepted(server: Server, user: str) -> int:
    return server.log.read_text(encoding="utf-8").count(f"Accepted publickey for {user} ")


def test_a_jump_host_that_cannot_be_reached_is_named(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is that about the jump host, not that of the connection which it has not made."""
    monkeypatch.setattr(transport, "_WAIT", 0.01)
    with pytest.raises(HostUnreachable, match=r"connect to host 127.9.0.9 port 1: Connection refused"):
        _said(home, _host(server, "127.9.0.10", via="guest@127.9.0.9:1"))


def test_a_host_that_refuses_is_tried_three_times(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is one more connection."""
    monkeypatch.setattr(transport, "_WAIT", 0.01)
    with resetting(after=0) as (port, attempts):
        with pytest.raises(HostUnreachable, match=r"Connection (reset|closed) "):
            _said(home, _host(server, "127.0.0.1", port=port))
        assert len(attempts) == transport.ATTEMPTS


def test_a_silent_host_costs_its_timeout(home: Path, server: Server) -> None:
    """One that accepts and says nothing is given up after the seconds that it was given."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = _host(server, "127.0.0.1", port=silent.getsockname()[1], connect_timeout=0.3)
        with pytest.raises(HostUnreachable, match=r"no answer within 0.3 s \(127.0.0.1:"):
            _said(home, host)


@pytest.mark.parametrize("fields", [{"user": "$(id)"}, {"via": "a,-oProxyCommand=id"}, {"via": "a;id"}])
def test_what_a_shell_would_take_apart_is_refused(fields: dict[str, str], home: Path, server: Server) -> None:
    """The way through a jump host is run by a shell."""
    with pytest.raises(HostUnreachable, match="has characters that the program ssh does not take"):
        _said(home, _host(server, "127.9.0.11", **fields))


def test_a_missing_program_is_one_sentence(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what needs the program."""

    def missing(name: str) -> str:
        raise CommandError(f"command '{name}' not found in /usr/bin", (name,))

    monkeypatch.setattr(openssh_transport, "locate", missing)
    with pytest.raises(
        HostUnreachable, match=r"^transport: ssh needs the program ssh of OpenSSH here: command 'ssh' not f"
    ):
        _said(home, _host(server, "127.9.0.12"))


def test_nothing_is_left_of_a_connection(
    server: Server, home: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither an abandoned host nor closed connections nor a killed process leaves a process of ``ssh``, or a file."""
    (tmp_path / "trial").mkdir()
    prepared = trial(tmp_path / "trial", tmp_path_factory.getbasetemp().parent / "payload")
    host = _host(server, "127.9.0.13", user="root", via=f"root@127.9.0.14:{server.port}")
    job = prepared.job({"a": {"wait": "/nonexistent"}})

    def begun() -> SshConnections:
        connections = SshConnections(prepared.payloads, environment={"HOME": str(home)}, transports=["ssh"])
        connections.start(host, job)
        while (event := connections.next_event(50)) is not None and event.document["type"] != "step_start":
            assert event.document["type"] != "end", event
        return connections

    def end_there() -> None:
        for pid in server.processes(host.address):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not server.processes(host.address))

    with closing(begun()) as connections:
        ours = _processes(host.address)
        assert len(ours) == 2
        assert all(os.getsid(pid) != os.getsid(0) for pid in ours)
        connections.abandon(host.name)
        event = connections.next_event(50)
        assert event is not None
        assert (event.document["type"], event.document["status"]) == ("end", "lost")
        wait_until(lambda: not _processes(host.address))
    end_there()
    began = time.monotonic()
    begun().close()
    assert time.monotonic() - began < 50
    wait_until(lambda: not _processes(host.address))  # the ssh of a jump host is killed, and waited for by nobody
    end_there()
    controller = Controller(lambda: str(begun().next_event(50)))
    wait_until(lambda: _processes(host.address) and server.processes(host.address))
    assert controller.kill()
    controller.end()
    wait_until(lambda: not _processes(host.address))
    end_there()


def _processes(address: str) -> list[int]:
    """Return the processes of ``ssh`` that lead to an address."""
    entries = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"ssh") and any(address.encode() in word for word in words):
                entries.append(int(process.name))
    return entries
