"""Connections by SSH, to a real sshd: which keys are taken, which hosts are refused, and what is said about it."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from resource_api.fleet import transport
from resource_api.fleet.asyncssh_transport import AsyncsshTransport, Endpoint, HostKey, record_host_keys
from resource_api.fleet.connections import Host
from resource_api.fleet.transport import HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process


def connect(home: Path, *hosts: Host) -> list[str]:
    """Return for each host the user there and the address that was reached."""

    async def ask(connections: AsyncsshTransport, host: Host) -> str:
        connection = await connections.connect(host)
        result = await connection.run("echo $USER ${SSH_CONNECTION% *}")
        connection.close()
        user, *_, address = str(result.stdout).split()
        return f"{user}@{address}"

    async def ask_all() -> list[str]:
        connections = AsyncsshTransport({"HOME": str(home)})
        try:
            return list(await asyncio.gather(*(ask(connections, host) for host in hosts)))
        finally:
            await connections.close()

    return asyncio.run(ask_all())


def _host(server: Server, address: str, **fields: Any) -> Host:
    arguments = {"port": server.port, "user": "deploy", "identity": str(server.identity), **fields}
    return Host("web1", address, **arguments)


def _configure(home: Path, text: str) -> None:
    (home / ".ssh" / "config").write_text(text, encoding="ascii")


def _trust(home: Path, server: Server, name: str, marker: str = "") -> None:
    """Have a key of the server be the only known one."""
    key = (server.keys / f"{name}.pub").read_text(encoding="ascii")
    (home / ".ssh" / "known_hosts").write_text(f"{marker}[127.*]:{server.port} {key}", encoding="ascii")


@pytest.mark.parametrize(
    ("configuration", "cipher"),
    [("", "aes256-gcm@openssh.com"), ("Ciphers aes128-ctr,chacha20-poly1305@openssh.com\n", "aes128-ctr")],
)
def test_the_cipher_is_that_of_the_configuration_else_the_fastest(
    configuration: str, cipher: str, home: Path, server: Server
) -> None:
    """The library would take ChaCha20, which it computes slowly; who names ciphers gets those."""
    _configure(home, configuration)

    async def ask() -> str:
        connections = AsyncsshTransport({"HOME": str(home)})
        connection = await connections.connect(_host(server, "127.1.0.20"))
        connection.close()
        return str(connection.get_extra_info("send_cipher"))

    assert asyncio.run(ask()) == cipher


def test_the_file_of_a_key_is_read_once(home: Path, server: Server, tmp_path: Path) -> None:
    """What connects the first host connects the others, also where the file has gone meanwhile."""
    identity = tmp_path / "user"
    identity.write_bytes(server.identity.read_bytes())

    async def ask() -> list[str]:
        connections, users = AsyncsshTransport({"HOME": str(home)}), list[str]()
        for number in (21, 22):
            connection = await connections.connect(_host(server, f"127.1.0.{number}", identity=str(identity)))
            users.append(str(connection.get_extra_info("username")))
            connection.close()
            identity.unlink(missing_ok=True)
        return users

    assert asyncio.run(ask()) == ["deploy", "deploy"]


def test_a_known_host_is_reached_with_a_key(home: Path, server: Server) -> None:
    """The address, the port, the user and the key are those of the host."""
    assert connect(home, _host(server, "127.1.0.1")) == ["deploy@127.1.0.1"]


@pytest.mark.parametrize("line", ["", "UserKnownHostsFile none\n", "StrictHostKeyChecking no\n"])
def test_an_unknown_host_key_is_refused_whatever_the_configuration_says(line: str, home: Path, server: Server) -> None:
    """The message has the fingerprint and the command with which a person trusts it."""
    (home / ".ssh" / "known_hosts").write_text("", encoding="ascii")
    _configure(home, line)
    with pytest.raises(
        HostUnreachable, match=r"its host key SHA256:\S+ is not known; if it is right: \S+ hosts trust web1"
    ):
        connect(home, _host(server, "127.1.0.2"))


def test_a_host_key_that_has_changed_is_refused(home: Path, server: Server) -> None:
    """The message says how the known key is removed, and no command of ours removes it."""
    _trust(home, server, "stranger")
    with pytest.raises(HostUnreachable, match=rf"is not the known one; .* ssh-keygen -R '\[127.1.0.3\]:{server.port}'"):
        connect(home, _host(server, "127.1.0.3"))


def test_a_host_certificate_of_a_known_authority_is_enough(home: Path, server: Server) -> None:
    """A line ``@cert-authority`` trusts all hosts whose keys the authority has signed."""
    _trust(home, server, "authority", "@cert-authority ")
    assert connect(home, _host(server, "127.1.0.4")) == ["deploy@127.1.0.4"]


def test_a_revoked_host_key_is_refused(home: Path, server: Server) -> None:
    """A line ``@revoked`` wins over one that knows the key."""
    with (home / ".ssh" / "known_hosts").open("a", encoding="ascii") as file:
        file.write(f"@revoked * {server.host_key}\n")
    with pytest.raises(HostUnreachable, match="its host key is refused: host key is revoked"):
        connect(home, _host(server, "127.1.0.5"))


def test_a_certificate_of_a_user_is_used(home: Path, server: Server) -> None:
    """The certificate beside a private key is what the host accepts; the key alone is unknown to it."""
    assert connect(home, _host(server, "127.1.0.6", identity=str(server.keys / "certified"))) == ["deploy@127.1.0.6"]


def test_a_wrong_key_is_said_so(home: Path, server: Server) -> None:
    """The message names the user, and is not followed by further attempts."""
    with pytest.raises(HostUnreachable, match="permission denied: it accepts no key of ours for deploy"):
        connect(home, _host(server, "127.1.0.7", identity=str(server.keys / "stranger")))


def test_a_missing_key_is_named(home: Path, server: Server, tmp_path: Path) -> None:
    """The message has the path of the file."""
    with pytest.raises(HostUnreachable, match="/missing: no such file or directory"):
        connect(home, _host(server, "127.1.0.8", identity=str(tmp_path / "missing")))


def test_a_host_that_refuses_is_tried_three_times(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is one more connection."""
    monkeypatch.setattr(transport, "_WAIT", 0.01)
    with resetting(after=0) as (port, attempts):
        with pytest.raises(HostUnreachable, match=rf"the connection was (ended before it was ready|reset) .*:{port}\)"):
            connect(home, _host(server, "127.0.0.1", port=port))
        assert len(attempts) == transport.ATTEMPTS


def test_a_port_without_a_server_is_named(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the address and the port."""
    monkeypatch.setattr(transport, "_WAIT", 0.01)
    with pytest.raises(HostUnreachable, match=r"connection refused \(127.1.0.9:1\)"):
        connect(home, _host(server, "127.1.0.9", port=1))


@contextmanager
def resetting(after: int) -> Iterator[tuple[int, list[int]]]:
    """Accept connections, read some bytes of each and reset it; yield the port, and a list that grows with each."""
    observed: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            observed.append(len(observed))
            connection.recv(after or 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], observed
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_silent_host_costs_its_timeout(home: Path, server: Server) -> None:
    """One that accepts and says nothing is given up after the seconds that it was given."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = _host(server, "127.0.0.1", port=silent.getsockname()[1], connect_timeout=0.3)
        with pytest.raises(HostUnreachable, match=r"no answer within 0.3 s"):
            connect(home, host)


def test_an_address_that_is_not_known_is_said_so(home: Path, server: Server) -> None:
    """The message is that of the resolver."""
    with pytest.raises(HostUnreachable, match=r"its address is not known: .*nosuch\.invalid"):
        connect(home, _host(server, "nosuch.invalid"))


def test_the_configuration_of_ssh_is_honoured(home: Path, server: Server) -> None:
    """Name, port, user, key and jump host are taken from it where the inventory gives none."""
    common = f"Port {server.port}\nIdentityFile {server.identity}\n"
    _configure(
        home,
        f"Host web1\nHostname 127.1.1.1\nUser ops\nProxyJump gate\n{common}Host gate\nHostname 127.1.1.2\nUser guest\n"
        + common,
    )
    assert connect(home, Host("web1")) == ["ops@127.1.1.1"]
    assert connect(home, Host("web1", user="deploy")) == ["deploy@127.1.1.1"]


def test_a_configuration_that_cannot_be_read_is_named(home: Path, server: Server) -> None:
    """The message has its file and line."""
    _configure(home, "Host *\nPort many\n")
    with pytest.raises(
        HostUnreachable, match=r"the configuration of ssh cannot be used: .*/config line 2: Invalid Port"
    ):
        connect(home, _host(server, "127.1.1.3", port=None))


def test_known_hosts_that_cannot_be_read_are_said_so(home: Path, server: Server) -> None:
    """A damaged line is quoted: whoever wrote it may have meant to revoke a key."""
    (home / ".ssh" / "known_hosts").write_text("@revok * ssh-ed25519 AAAA\n", encoding="ascii")
    with pytest.raises(HostUnreachable, match="the known hosts cannot be read: Invalid known hosts marker: revok"):
        connect(home, _host(server, "127.1.1.4"))


def test_a_host_without_a_common_algorithm_is_said_so(home: Path, server: Server) -> None:
    """It is not tried again."""
    _configure(home, "KexAlgorithms diffie-hellman-group1-sha1\n")
    with pytest.raises(HostUnreachable, match="it has no algorithm in common with us"):
        connect(home, _host(server, "127.1.1.5"))


def test_hosts_behind_one_jump_host_share_its_connection(home: Path, server: Server) -> None:
    """The jump host is connected to once, and the hosts behind it see connections that come from it."""
    server.profile("127.1.2.1", "exit 1")
    via = f"guest@127.1.2.1:{server.port}"
    before = _accepted(server, "guest")
    hosts = [_host(server, f"127.1.2.{number}", via=via, identity=str(server.identity)) for number in range(2, 6)]
    assert connect(home, *hosts) == [f"deploy@127.1.2.{number}" for number in range(2, 6)]
    assert _accepted(server, "guest") == before + 1


def _accepted(server: Server, user: str) -> int:
    """Return how often the server has accepted a key of a user."""
    return server.log.read_text(encoding="utf-8").count(f"Accepted publickey for {user} ")


def test_a_jump_host_that_cannot_be_reached_is_named(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the jump host, not the host behind it."""
    monkeypatch.setattr(transport, "_WAIT", 0.01)
    with pytest.raises(HostUnreachable, match=r"its jump host 127.1.2.9: connection refused \(127.1.2.9:1\)"):
        connect(home, _host(server, "127.1.2.10", via="guest@127.1.2.9:1"))


def test_the_key_of_an_agent_is_used(home: Path, server: Server, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only the agent has opens a host; without the agent nothing does."""
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    assert connect(home, _host(server, "127.1.3.1", identity=None)) == ["deploy@127.1.3.1"]
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(HostUnreachable, match="permission denied"):
        connect(home, _host(server, "127.1.3.1", identity=None))


@pytest.fixture
def agent(server: Server, tmp_path: Path) -> Iterator[str]:
    """The socket of an agent that has the user's key."""
    path = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            completed = subprocess.run(
                ["ssh-add", "-q", str(server.identity)],
                env={"SSH_AUTH_SOCK": path, "PATH": "/usr/bin:/bin"},
                check=False,
                capture_output=True,
            )
            if completed.returncode == 0:
                break
        yield path
    finally:
        process.terminate()
        process.wait()


def test_the_bytes_of_a_host_are_no_terminal_sequences(home: Path, server: Server) -> None:
    """What a host says in its refusal is escaped before it is shown."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"SSH-1.0-\x1b]0;owned\x07\r\n")
            connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(HostUnreachable) as refused:
            connect(home, _host(server, "127.0.0.1", port=listener.getsockname()[1]))
        thread.join()
    assert str(refused.value).isprintable()


def test_a_connection_on_which_no_program_starts_is_closed(tmp_path: Path) -> None:
    """Connections to a thousand such hosts would use up the descriptors of all others."""
    closed = asyncio.Event()

    class Refusing(asyncssh.SSHServer):
        """A server that everybody may use, for nothing."""

        def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - of the library
            """Let every user in."""
            return False

        def connection_lost(self, _error: object) -> None:
            """Note it."""
            closed.set()

    async def start() -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        async with await asyncssh.listen("127.0.0.1", 0, server_factory=Refusing, server_host_keys=[key]) as listener:
            port = listener.get_port()
            (tmp_path / ".ssh").mkdir()
            line = f"[127.0.0.1]:{port} {key.export_public_key().decode()}"
            (tmp_path / ".ssh" / "known_hosts").write_text(line, encoding="ascii")
            connections = AsyncsshTransport({"HOME": str(tmp_path)})
            with pytest.raises(HostUnreachable):
                await connections.start(Host("web1", "127.0.0.1", port, "root"), "true")
            await asyncio.wait_for(closed.wait(), 5)

    asyncio.run(start())


def test_connections_are_as_many_as_descriptors_allow() -> None:
    """The soft limit is raised as far as the hard one; beyond that there are fewer connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert transport.descriptor_limit(200) == 200
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 400
        assert transport.descriptor_limit(before[1]) < before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_host_keys_are_recorded_whole_or_not_at_all(tmp_path: Path) -> None:
    """On a full disk a part of a line would be written, and the next line would follow it."""
    file = tmp_path / "known_hosts"
    file.write_text("other ssh-ed25519 AAAA\n")
    key = HostKey(Endpoint("h", "h", 22, "", ()), "ssh-ed25519", "SHA256:x", "ssh-ed25519 " + "A" * 68, "unknown")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, most))
    try:
        with pytest.raises(OSError, match="No space left on device"):
            record_host_keys(file, [key])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert file.read_text() == "other ssh-ed25519 AAAA\n"
