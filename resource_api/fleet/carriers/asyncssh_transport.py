"""Connections by SSH: the only module that imports asyncssh.

``~/.ssh/config``, keys, certificates, an agent, jump hosts and known hosts are used as OpenSSH uses them, with one
difference: an unknown host key is always refused, whatever the configuration says. What is said on a connection is in
``ssh_carrier``. Everything here runs in one event loop.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.fleet.carriers import transport
from resource_api.fleet.carriers.library_search import linker_cache
from resource_api.fleet.carriers.transport import Lost, Unreachable, unreachable
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.fleet.carriers.carrier import Host

#: Modes of a terminal that passes on every byte: what it has, and what it has not (RFC 4254, 8).
_RAW: Final = ("PTY_CS8",)
_NOT_RAW: Final = (
    *("PTY_ICANON", "PTY_ISIG", "PTY_IEXTEN", "PTY_ECHO", "PTY_ECHOE", "PTY_ECHOK", "PTY_ECHONL", "PTY_OPOST"),
    *("PTY_ONLCR", "PTY_OCRNL", "PTY_ICRNL", "PTY_INLCR", "PTY_IGNCR", "PTY_ISTRIP", "PTY_INPCK", "PTY_IXON"),
    *("PTY_IXOFF", "PTY_PARENB", "PTY_IUTF8"),
)
#: Before the other ciphers: the library computes it three times as fast as ChaCha20.
_CIPHERS: Final = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
_PORT: Final = 22
#: What an unknown host is asked for: a key, no certificate of an authority that is not known either.
_PLAIN_KEYS: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_GLOBAL_KNOWN_HOSTS: Final = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
#: Hosts that are asked for their keys side by side.
_KEYS_AT_ONCE: Final = 50


class Place(NamedTuple):
    """Where a host is reached, after the configuration has been applied."""

    #: What the configuration calls it; the name in a file of known hosts.
    name: str
    address: str
    port: int
    #: Jump hosts, the nearest first: ``a,user@b:2222``.
    via: str
    #: The files of known hosts; those of this machine are read too.
    known_hosts: Sequence[str]
    #: Whether the configuration says which ciphers there are, or which keys of an agent are used.
    own_ciphers: bool = False
    own_identities: bool = False

    @property
    def shown(self) -> str:
        """``10.0.0.9:22``, for messages."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def pattern(self) -> str:
        """The name as a file of known hosts has it."""
        return self.name if self.port == _PORT else f"[{self.name}]:{self.port}"


class HostKey(NamedTuple):
    """The public key that a host has shown."""

    place: Place
    #: ``ssh-ed25519``.
    algorithm: str
    #: ``SHA256:…``.
    fingerprint: str
    #: What follows the name in a line of a file of known hosts.
    line: str
    #: ``known``; ``unknown``; ``changed``, where another key is known; or ``revoked``.
    trust: str


class Connections:
    """Connects to hosts, and keeps the connections to the jump hosts that they share."""

    def __init__(self, environment: Mapping[str, str], otherwise: str = "in the inventory transport: ssh") -> None:
        """Use the configuration of the user whose ``HOME`` is in ``environment``.

        ``otherwise`` is what can be done without the library: ``ResourceError`` says so where it is not installed.
        """
        self.library = _library(otherwise)
        self._directory = known_hosts_file(environment).parent
        self._client = _client(self.library)
        self._known: dict[tuple[str, ...], Any] = {}
        self._keys: dict[str, Sequence[Any]] = {}
        self._jumps: dict[str, asyncio.Task[Any]] = {}
        self._pace = transport.JumpPace()

    def place(self, host: Host) -> Place:
        """Return where a host is reached. Raise ``Unreachable`` for a configuration that cannot be used."""
        given = self._given(host.address or host.name, host.port, host.user)
        try:
            found = self.library.SSHClientConnectionOptions(**given, client_keys=None)
        except (ValueError, OSError) as error:
            msg = f"the configuration of ssh cannot be used: {error}"
            raise unreachable(msg) from error
        own = found.config.get("UserKnownHostsFile", [str(self._directory / "known_hosts")])
        machine = found.config.get("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS)
        via = host.via if host.via is not None else found.tunnel or ""
        files = [_expanded(each) for each in (*own, *machine)]
        name = found.host_key_alias or found.host
        own_ciphers, own_identities = (bool(found.config.get(each)) for each in ("Ciphers", "IdentitiesOnly"))
        return Place(name, found.host, found.port, "" if via == "none" else via, files, own_ciphers, own_identities)

    async def connect(self, host: Host, place: Place | None = None) -> Any:
        """Return a connection, of asyncssh, after at most ``transport.ATTEMPTS`` attempts. Raise ``Unreachable``.

        ``place``: where the host is reached; None: what the configuration says.
        """
        found = place or self.place(host)
        return await transport.attempted(lambda: self._attempt(host, found))

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> Process:
        """Connect to a host, and start a command there by its login shell. Raise ``Unreachable``.

        ``terminal``: it has one, which passes on every byte as it is.
        """
        library, place = self.library, self.place(host)
        connection = await self.connect(host, place)
        options: dict[str, Any] = {"request_pty": False}
        if terminal:
            modes = {getattr(library, name): int(name in _RAW) for name in (*_RAW, *_NOT_RAW)}
            options = {"request_pty": "force", "term_type": "dumb", "term_modes": modes}
        with _Explained(self, host, place, []):
            opened = connection.create_process(
                command, encoding=None, window=transport.WINDOW, env={}, send_env=[], **options
            )
            process = await asyncio.wait_for(opened, host.connect_timeout)
        return Process(library, connection, process)

    async def host_key(self, host: Host) -> HostKey:
        """Return the key that a host shows; nothing is sent to it but what shows the key. Raise ``Unreachable``."""
        place = self.place(host)
        given = {**self._given(place.address, place.port, host.user), **await self._route(host, place)}
        for name in ("username", "known_hosts"):
            given.pop(name, None)
        with _Explained(self, host, place, []):
            wanted = self.library.get_server_host_key(**given, **self._key_kinds(place))
            key = await asyncio.wait_for(wanted, host.connect_timeout)
            if key is None:
                msg = f"it shows no key ({place.shown})"
                raise unreachable(msg)
        trusted = self.trusted(place)
        trust = "known" if key in trusted else "changed" if trusted else "unknown"
        if key in self._known_hosts(place)(place.name, "", place.port)[2]:
            trust = "revoked"
        line = key.export_public_key().decode("ascii").strip()
        return HostKey(place, key.get_algorithm(), key.get_fingerprint(), " ".join(line.split()[:2]), trust)

    def trusted(self, place: Place, *, authorities: bool = False) -> Sequence[Any]:
        """Return the known keys of a host; with ``authorities`` also those of authorities that may certify it."""
        port = None if place.port == _PORT else place.port
        keys, authority_keys, *_ = self._known_hosts(place)(place.name, "", port)
        return [*keys, *(authority_keys if authorities else ())]

    async def close(self) -> None:
        """Close the connections to jump hosts."""
        for task in self._jumps.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().abort()
        self._jumps.clear()

    def _given(self, address: str, port: int | None, user: str | None) -> dict[str, Any]:
        """Return what asyncssh is given of a host; what is left out is taken from the configuration."""
        config = self._directory / "config"
        found: dict[str, Any] = {"host": address, "config": [str(config)] if os.access(config, os.R_OK) else None}
        if port is not None:
            found["port"] = port
        if user is not None:
            found["username"] = user
        return found

    async def _attempt(self, host: Host, place: Place) -> Any:
        shown: list[str] = []
        given = {
            **self._given(host.address or host.name, host.port, host.user),
            **self._settings(host.connect_timeout, self._known_hosts(place), shown),
        }
        if not place.own_ciphers:
            given["encryption_algs"] = _CIPHERS
        with _Explained(self, host, place, shown):
            if host.identity is not None:
                path = _expanded(host.identity)
                given["client_keys"] = [path] if place.own_identities else self._identity(path)
            if not self.trusted(place, authorities=True):
                given["server_host_key_algs"] = _PLAIN_KEYS
            given.update(await self._route(host, place))
            return await self.library.connect(**given)

    def _identity(self, path: str) -> Sequence[Any]:
        """Return the keys in a file, which is read once, for one connection: which signs with it notes how."""
        if path not in self._keys:
            self._keys[path] = self.library.load_keypairs([path])
        return list(map(copy, self._keys[path]))

    def _settings(self, seconds: float, known: Any, shown: list[str]) -> dict[str, Any]:
        """Return what is never taken from the configuration; ``shown`` gets the fingerprint of an untrusted key."""
        return {
            "client_factory": partial(self._client, shown),
            "known_hosts": known,
            "connect_timeout": seconds,
            "login_timeout": seconds,
            "keepalive_interval": transport.KEEPALIVE_SECONDS,
            "keepalive_count_max": transport.KEEPALIVE_COUNT,
            "password_auth": False,
            "kbdint_auth": False,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "send_env": [],
            "env": {},
        }

    def _known_hosts(self, place: Place) -> Any:
        """Return what finds the keys of a host in some files, which are read once."""
        files = tuple(place.known_hosts)
        if files not in self._known:
            readable = [file for file in files if os.access(file, os.R_OK)]
            try:
                known = self.library.read_known_hosts(readable)
                revokes = any(b"@revoked" in Path(file).read_bytes() for file in readable)
            except (ValueError, OSError) as error:
                msg = f"the known hosts cannot be read: {error}"
                raise unreachable(msg) from error
            # Names may be hashed there: each search costs time for every line.
            self._known[files] = partial(_keys_of, known) if revokes else known.match
        return self._known[files]

    def _key_kinds(self, place: Place) -> dict[str, Any]:
        """Return what makes a host show a plain key: of a kind that is known of it, or of any kind."""
        names = [name.decode("ascii") for key in self.trusted(place) for name in key.sig_algorithms]
        return {"server_host_key_algs": names or _PLAIN_KEYS}

    async def _route(self, host: Host, place: Place) -> dict[str, Any]:
        """Return what leads a connection through the jump hosts of a place, if it has some."""
        if not place.via:
            return {"tunnel": None}
        await self._pace.wait(place.via)
        return {"tunnel": await self._jump(place.via, host)}

    async def _jump(self, via: str, host: Host) -> Any:
        """Return the connection to the last of some jump hosts, which all hosts behind it share."""
        task = self._jumps.get(via)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed())):
            task = self._jumps[via] = asyncio.create_task(self._open_jump(via, host))
        try:
            return await asyncio.shield(task)
        except Unreachable as error:
            failed = Unreachable(f"its jump host {error}")
            failed.passing = False
            raise failed from error

    async def _open_jump(self, via: str, host: Host) -> Any:
        before, _, last = via.rpartition(",")
        user, _, text = last.rpartition("@")
        name, colon, port = text.rpartition(":")
        number = int(port) if colon and port.isdigit() else None
        target = host._replace(
            name=name if number else text, address="", port=number, user=user or None, via=before or "none"
        )
        try:
            return await self.connect(target)
        except Unreachable as error:
            failed = Unreachable(f"{target.name}: {error}")
            raise failed from error


class Process(transport.Process):
    """A program on a host, with the connection that it has for itself."""

    def __init__(self, library: Any, connection: Any, process: Any) -> None:
        """Use a process of asyncssh."""
        self._connection = connection
        self._process = process
        self._lost = (library.Error, library.DisconnectError, OSError)

    async def read(self) -> bytes:
        """Return what came on standard output; nothing at its end. Raise ``Lost``."""
        return await self._read(self._process.stdout)

    async def read_error(self) -> bytes:
        """Return what came on standard error; nothing at its end. Raise ``Lost``."""
        return await self._read(self._process.stderr)

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, as fast as they are read. Raise ``Lost``."""
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except self._lost as error:
            raise _lost(error) from error

    async def exit_code(self) -> int | None:
        """Return the exit code once the output has ended; None where there is none."""
        try:
            await asyncio.wait_for(self._process.wait_closed(), transport.EXIT_SECONDS)
        except TimeoutError:
            return None
        code: int | None = self._process.returncode
        return None if code is None or code < 0 else code

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _read(self, stream: Any) -> bytes:
        try:
            data: bytes = await stream.read(transport.WINDOW)
        except self._lost as error:
            raise _lost(error) from error
        return data


class _Explained:
    """Turns whatever goes wrong with a connection into ``Unreachable``, with words for people."""

    def __init__(self, connections: Connections, host: Host, place: Place, shown: Sequence[str]) -> None:
        self._connections = connections
        self._library = connections.library
        self._host = host
        self._place = place
        self._shown = shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, Unreachable) or not isinstance(error, Exception):
            return
        raise self._explain(error) from error

    def _explain(self, error: Exception) -> Unreachable:
        text, passing = self._words(error)
        return unreachable(f"{text} ({self._place.shown})", passing=passing)

    def _words(self, error: Exception) -> tuple[str, bool]:
        """Return what went wrong, and whether another attempt may succeed."""
        library = self._library
        for kind, words, passing in self._known_errors():
            if isinstance(error, kind):
                return words, passing
        if isinstance(error, library.HostKeyNotVerifiable):
            return self._untrusted(str(error)), False
        if isinstance(error, socket.gaierror):
            return f"its address is not known: {error.strerror}", error.errno == socket.EAI_AGAIN
        if isinstance(error, OSError) and error.strerror:
            file = f"{error.filename}: " if error.filename else ""
            return f"{file}{_lower(error.strerror)}", error.errno in {errno.ECONNRESET, errno.EPIPE}
        if isinstance(error, library.DisconnectError):
            return f"the connection was ended: {_lower(error.reason)}", False
        return str(error) or type(error).__name__, False

    def _known_errors(self) -> Sequence[tuple[type[Exception], str, bool]]:
        library, seconds = self._library, self._host.connect_timeout
        return (
            (TimeoutError, f"no answer within {seconds:g} s", False),
            (ConnectionRefusedError, "connection refused", True),
            (ConnectionResetError, "the connection was reset", True),
            (library.ConnectionLost, "the connection was ended before it was ready", True),
            (library.PermissionDenied, f"permission denied: it accepts no key of ours{self._user()}", False),
            (library.KeyExchangeFailed, "it has no algorithm in common with us", False),
        )

    def _user(self) -> str:
        return f" for {self._host.user}" if self._host.user else ""

    def _untrusted(self, text: str) -> str:
        """Return why a host key was refused."""
        if not self._shown:
            return f"its host key is refused: {_lower(text)}"
        key = self._shown[-1]
        if self._connections.trusted(self._place):
            remove = f"ssh-keygen -R '{self._place.pattern}'"
            return f"its host key {key} is not the known one; if that is right, remove the known one: {remove}"
        return f"its host key {key} is not known; if it is right: resource-api hosts trust {self._host.name}"


def _keys_of(known: Any, host: str, address: str, port: int | None) -> Sequence[Any]:
    """Return the keys of a host: trusted ones, those of authorities, revoked ones, and so on.

    A key that is revoked with the port, or without it, is so whatever the other lines are: the library forgets the
    lines with the port where none of them has a key that is trusted.
    """
    found = known.match(host, address, port)
    names = [f"[{name}]:{port}" for name in (host, address) if name and port]
    revoked = [key for name in (*names, host) for key in known.match(name, "", None)[2]]
    return (*found[:2], [*found[2], *revoked], *found[3:])


def _client(library: Any) -> Any:
    """Return the class of clients that add the keys that they have refused to a list that they are given."""

    class Client(library.SSHClient):  # type: ignore[misc] # of a library that is imported late
        """Keeps the key that was refused."""

        def __init__(self, shown: list[str]) -> None:
            self._shown = shown

        def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:  # noqa: ARG002
            """Refuse the key: it is not among the known ones."""
            self._shown.append(key.get_fingerprint())
            return False

    return Client


def known_hosts_file(environment: Mapping[str, str]) -> Path:
    """Return the file in which the user of ``environment`` records the keys of hosts."""
    return Path(environment.get("HOME") or "~").expanduser() / ".ssh" / "known_hosts"


def host_keys(hosts: Sequence[Host], environment: Mapping[str, str]) -> list[HostKey | Unreachable]:
    """Return for each host the key that it shows, or why it shows none. Raise ``ResourceError``."""
    return asyncio.run(_host_keys(hosts, environment))


async def _host_keys(hosts: Sequence[Host], environment: Mapping[str, str]) -> list[HostKey | Unreachable]:
    connections = Connections(environment, "visit each host with ssh once")
    slots = asyncio.Semaphore(transport.descriptor_limit(_KEYS_AT_ONCE))

    async def found(host: Host) -> HostKey | Unreachable:
        async with slots:
            try:
                return await connections.host_key(host)
            except Unreachable as error:
                return error

    try:
        return list(await asyncio.gather(*map(found, hosts)))
    finally:
        await connections.close()


def _lost(error: Exception) -> Lost:
    text = str(error)
    detail = "" if text in {"", "Connection lost"} else f": {_lower(text)}"
    return transport.lost(f"the connection was lost{detail}")


def _expanded(path: str) -> str:
    return os.path.expanduser(path)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _library(otherwise: str) -> Any:
    """Return asyncssh. Raise ``ResourceError`` where it is not installed."""
    try:
        with linker_cache():  # it looks for two libraries that few have, which would be a fifth of its import
            import asyncssh
    except ImportError as error:
        msg = (
            f"hosts are reached with the library asyncssh: pip install 'resource-api[ssh]'; or without it: {otherwise}"
        )
        raise ResourceError(msg) from error
    asyncssh.set_log_level("CRITICAL")
    return asyncssh
