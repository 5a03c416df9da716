"""The transport of the library asyncssh, in one event loop; and the host keys for ``hosts trust``.

``~/.ssh/config``, keys, certificates, an agent, jump hosts and known hosts are used as OpenSSH uses them, except that
an unknown host key is always refused, despite the configuration. No other module imports asyncssh.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import errno
import os
import socket
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import transport
from resource_api.fleet.connections import jump_chain
from resource_api.fleet.transport import ConnectionLost, HostUnreachable, unreachable
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.directories import Directories, canonical_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.fleet.connections import Host

#: Modes of a terminal in raw mode: those that are set, and those that are not (RFC 4254, 8).
_RAW: Final = ("PTY_CS8",)
_NOT_RAW: Final = (
    *("PTY_ICANON", "PTY_ISIG", "PTY_IEXTEN", "PTY_ECHO", "PTY_ECHOE", "PTY_ECHOK", "PTY_ECHONL", "PTY_OPOST"),
    *("PTY_ONLCR", "PTY_OCRNL", "PTY_ICRNL", "PTY_INLCR", "PTY_IGNCR", "PTY_ISTRIP", "PTY_INPCK", "PTY_IXON"),
    *("PTY_IXOFF", "PTY_PARENB", "PTY_IUTF8"),
)
#: Preferred ciphers: the library computes them three times as fast as ChaCha20.
_CIPHERS: Final = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
_PORT: Final = 22
#: Key types for an unknown host: no certificates, whose authority would be unknown, too.
_PLAIN_KEYS: Final = (
    *("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("rsa-sha2-512", "rsa-sha2-256"),
)
_GLOBAL_KNOWN_HOSTS: Final = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
#: Number of hosts to ask for their keys in parallel.
_KEYS_AT_ONCE: Final = 50


class Endpoint(NamedTuple):
    """The network address of a host, after the configuration was applied."""

    #: The name in files of known hosts.
    name: str
    address: str
    port: int
    #: Jump hosts, the nearest first: ``a,user@b:2222``.
    via: str
    #: The files of known hosts, including the machine's.
    known_hosts: Sequence[str]
    #: Whether the configuration restricts the ciphers, and the keys of the agent.
    configured_ciphers: bool = False
    configured_identities: bool = False

    @property
    def text(self) -> str:
        """``10.0.0.9:22``, for messages."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def pattern(self) -> str:
        """The name in the syntax of a file of known hosts."""
        return self.name if self.port == _PORT else f"[{self.name}]:{self.port}"


class HostKey(NamedTuple):
    """The public key that a host presented."""

    endpoint: Endpoint
    #: ``ssh-ed25519``.
    algorithm: str
    #: ``SHA256:…``.
    fingerprint: str
    #: The key in the syntax of a file of known hosts.
    line: str
    #: ``known``, ``unknown``, ``changed`` if another key is known, or ``revoked``.
    trust: str


class AsyncsshTransport:
    """Connects to hosts by asyncssh; hosts share the connections to their jump hosts."""

    def __init__(self, environment: Mapping[str, str], alternative: str = "in the inventory transport: ssh") -> None:
        """Use the configuration of the user whose ``HOME`` is in ``environment``.

        Raise ``ResourceError`` with the advice ``alternative`` if the library is not installed.
        """
        self.library = _library(alternative)
        self._directory = known_hosts_file(environment).parent
        self._client = _client(self.library)
        #: Files of known hosts → the function that finds keys in them.
        self._key_finders: dict[tuple[str, ...], object] = {}
        #: The path of a private key → its keys.
        self._identities: dict[str, Sequence[object]] = {}
        #: ``via`` and the jump hosts that it names → the connection to the last one, shared by all hosts behind it.
        self._jumps: dict[tuple[str, tuple[Host, ...]], asyncio.Task[Any]] = {}
        self._pace = transport.JumpPace()

    def endpoint(self, host: Host) -> Endpoint:
        """Return the address, port, jump hosts and files of known hosts of a host, by the user's ssh configuration.

        The inventory takes precedence. The library applies the configuration itself when it connects, but these results
        are needed before: for known keys, jump hosts and messages. Raise ``HostUnreachable`` for an invalid
        configuration.
        """
        target = self._target(host.address or host.name, host.port, host.user)
        try:
            # Without keys, which would be read only to be dropped.
            options = self.library.SSHClientConnectionOptions(**target, client_keys=None)
        except (ValueError, OSError) as error:
            raise unreachable(f"the configuration of ssh cannot be used: {error}") from error
        config = options.config
        user_files = config.get("UserKnownHostsFile", [str(self._directory / "known_hosts")])
        global_files = config.get("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS)
        via = host.via if host.via is not None else options.tunnel or ""
        return Endpoint(
            options.host_key_alias or options.host,
            options.host,
            options.port,
            "" if via == "none" else via,
            list(map(os.path.expanduser, (*user_files, *global_files))),
            configured_ciphers=bool(config.get("Ciphers")),
            configured_identities=bool(config.get("IdentitiesOnly")),
        )

    async def connect(self, host: Host, endpoint: Endpoint | None = None) -> Any:
        """Return a connection of asyncssh to ``endpoint``, None for the configured one. Raise ``HostUnreachable``."""
        target = endpoint or self.endpoint(host)
        return await transport.attempted(lambda: self._attempt(host, target))

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> AsyncsshProcess:
        """Connect to a host and start a command in its login shell. Raise ``HostUnreachable``.

        With ``terminal`` the command gets a terminal, because doas asks for a password only there. The terminal is in
        raw mode, in which it passes all bytes unchanged.
        """
        library, endpoint = self.library, self.endpoint(host)
        connection = await self.connect(host, endpoint)
        options: dict[str, object] = {"request_pty": False}
        if terminal:
            modes = {getattr(library, name): int(name in _RAW) for name in (*_RAW, *_NOT_RAW)}
            options = {"request_pty": "force", "term_type": "dumb", "term_modes": modes}
        try:
            with self._errors(host, endpoint):
                opened = connection.create_process(
                    command, encoding=None, window=transport.WINDOW, env={}, send_env=[], **options
                )
                process = await asyncio.wait_for(opened, host.connect_timeout)
        except BaseException:
            connection.abort()
            raise
        return AsyncsshProcess(library, connection, process)

    async def host_key(self, host: Host) -> HostKey:
        """Return a host's key and trust, without authentication, for ``hosts trust``. Raise ``HostUnreachable``."""
        endpoint = self.endpoint(host)
        target = {**self._target(endpoint.address, endpoint.port, None), **await self._route(host, endpoint)}
        trusted = self.trusted(endpoint)
        # A host may have several keys: the one of a known key's algorithm can be compared with it.
        algorithms = [name.decode("ascii") for known in trusted for name in known.sig_algorithms]
        with self._errors(host, endpoint):
            request = self.library.get_server_host_key(**target, server_host_key_algs=algorithms or _PLAIN_KEYS)
            key = await asyncio.wait_for(request, host.connect_timeout)
            if key is None:
                raise unreachable(f"it shows no key ({endpoint.text})")
        trust = "known" if key in trusted else "changed" if trusted else "unknown"
        if key in self._key_finder(endpoint)(endpoint.name, "", endpoint.port)[2]:  # the revoked keys
            trust = "revoked"
        line = " ".join(key.export_public_key().decode("ascii").split()[:2])  # without a comment
        return HostKey(endpoint, key.get_algorithm(), key.get_fingerprint(), line, trust)

    def trusted(self, endpoint: Endpoint, *, authorities: bool = False) -> Sequence[Any]:
        """Return the keys of a host in its files of known hosts, to distinguish an unknown host from a changed key.

        With ``authorities`` the keys of the host's certificate authorities are included.
        """
        port = None if endpoint.port == _PORT else endpoint.port  # the files contain a port only if it is not 22
        keys, authority_keys, *_ = self._key_finder(endpoint)(endpoint.name, "", port)
        return [*keys, *(authority_keys if authorities else ())]

    async def close(self) -> None:
        """Close the shared connections to jump hosts at the end of a run, and cancel the attempts to open one."""
        for task in self._jumps.values():
            task.cancel()
            if task.done() and not _has_failed(task):
                task.result().abort()
        self._jumps.clear()

    def _target(self, address: str, port: int | None, user: str | None) -> dict[str, object]:
        """Return asyncssh's arguments for the address of a host and for the user's configuration file, if readable.

        For a port or user of None asyncssh takes the value in that file.
        """
        config = self._directory / "config"
        target: dict[str, object] = {"host": address, "config": [str(config)] if os.access(config, os.R_OK) else None}
        if port is not None:
            target["port"] = port
        if user is not None:
            target["username"] = user
        return target

    async def _attempt(self, host: Host, endpoint: Endpoint) -> object:
        """Connect to a host once, through its jump hosts. Raise ``HostUnreachable`` with the reason.

        Without configured ciphers, the ciphers that the library computes fast are preferred. If no key of the host is
        known, the host is asked for a plain key: a certificate could not be verified, as its authority is unknown too.
        """
        refused_keys: list[str] = []
        arguments = {
            **self._target(host.address or host.name, host.port, host.user),
            **self._settings(host.connect_timeout, self._key_finder(endpoint), refused_keys),
        }
        if not endpoint.configured_ciphers:
            arguments["encryption_algs"] = _CIPHERS
        with self._errors(host, endpoint, refused_keys):
            if host.identity is not None:
                arguments["client_keys"] = self._identity(host.identity, endpoint)
            if not self.trusted(endpoint, authorities=True):
                arguments["server_host_key_algs"] = _PLAIN_KEYS
            arguments.update(await self._route(host, endpoint))
            return await self.library.connect(**arguments)

    def _identity(self, identity: str, endpoint: Endpoint) -> Sequence[object]:
        """Return the private keys of the file ``identity`` for the library's argument ``client_keys``.

        The file is read once for all hosts. Each connection gets copies, because the library modifies the key objects.
        """
        path = os.path.expanduser(identity)
        if endpoint.configured_identities:
            return [path]  # with ``IdentitiesOnly`` the library selects the keys of the agent by the path
        if path not in self._identities:
            self._identities[path] = self.library.load_keypairs([path])
        return list(map(copy, self._identities[path]))

    def _settings(self, seconds: float, known_hosts: object, refused_keys: list[str]) -> dict[str, object]:
        """Return the arguments of a connection that take precedence over the user's ssh configuration.

        No password is asked for, since nobody may be there to answer; and neither the user's agent, display nor
        environment is forwarded, since the host needs only its job. ``refused_keys`` receives the fingerprints of
        refused host keys.
        """
        return {
            "client_factory": partial(self._client, refused_keys),
            "known_hosts": known_hosts,
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

    def _key_finder(self, endpoint: Endpoint) -> Any:
        """Return the function by which asyncssh finds a host's keys in the endpoint's files of known hosts.

        The files are read once for all endpoints that have the same ones. Raise ``HostUnreachable`` for a damaged file.
        """
        files = tuple(endpoint.known_hosts)
        if files not in self._key_finders:
            readable = [file for file in files if os.access(file, os.R_OK)]
            try:
                known_hosts = self.library.read_known_hosts(readable)
                revokes = any(b"@revoked" in Path(file).read_bytes() for file in readable)
            except (ValueError, OSError) as error:
                raise unreachable(f"the known hosts cannot be read: {error}") from error
            # Revoked keys need ``_keys_of``. It searches several times, and each search hashes all lines with hashed
            # names, so the library's own search is used where no key is revoked.
            self._key_finders[files] = partial(_keys_of, known_hosts) if revokes else known_hosts.match
        return self._key_finders[files]

    async def _route(self, host: Host, endpoint: Endpoint) -> dict[str, object]:
        """Return asyncssh's argument ``tunnel`` for a connection to a host: the connection to its last jump host.

        For a direct connection it is None, so that the library adds no jump host of the user's configuration.
        """
        if not endpoint.via:
            return {"tunnel": None}
        # Jump hosts refuse many connections that come at once.
        await self._pace.wait(endpoint.via)
        return {"tunnel": await self._jump(endpoint.via, host)}

    @contextmanager
    def _errors(self, host: Host, endpoint: Endpoint, refused_keys: Sequence[str] = ()) -> Iterator[None]:
        """Turn the errors of a connection into ``HostUnreachable`` with a message for the user.

        ``refused_keys``: the fingerprints of refused host keys, for the message, as the library's error has none.
        """
        try:
            yield
        except HostUnreachable:
            raise
        except Exception as error:
            if isinstance(error, self.library.HostKeyNotVerifiable):
                text, transient = self._untrusted(str(error), host, endpoint, refused_keys), False
            else:
                text, transient = _explanation(self.library, error, host)
            raise unreachable(f"{text} ({endpoint.text})", transient=transient) from error

    def _untrusted(self, text: str, host: Host, endpoint: Endpoint, refused_keys: Sequence[str]) -> str:
        """Return the error message for a host key that was refused because it is not the known one, with the remedy.

        ``text``: the library's message, which is used if no key was recorded, as for a damaged certificate.
        """
        if not refused_keys:
            return f"its host key is refused: {_uncapitalized(text)}"
        if self.trusted(endpoint):
            return _changed_key(refused_keys[-1], endpoint, "its host key")
        return f"its host key {refused_keys[-1]} is not known; if it is right: resource-api hosts trust {host.name}"

    async def _jump(self, via: str, host: Host) -> object:
        """Return the connection to the last jump host of ``via``, which all hosts behind this jump host share.

        A new connection is opened after a failed attempt, or when the earlier connection is closed.
        """
        key = via, host.jump_hosts
        task = self._jumps.get(key)
        if task is None or (task.done() and (_has_failed(task) or task.result().is_closed())):
            task = self._jumps[key] = asyncio.create_task(self._open_jump(via, host))
        with errors_as(HostUnreachable, HostUnreachable, "its jump host "):
            return await asyncio.shield(task)  # a cancelled host must not cancel it for the others

    async def _open_jump(self, via: str, host: Host) -> object:
        """Open a connection to the last jump host in ``via``, through the jump hosts before it, for ``_jump``.

        ``host``: a host behind it, whose inventory has the settings of the jump hosts. Raise ``HostUnreachable`` with
        the name of the jump host that failed.
        """
        first_hops, _, last = via.rpartition(",")
        target = jump_chain(host._replace(via=last))[-1]  # the last jump host with the settings of the inventory
        # Without another hop "none", so that the configuration of ssh adds none.
        target = target._replace(via=first_hops or target.via or "none")
        with errors_as(HostUnreachable, HostUnreachable, f"{target.name}: "):
            return await self.connect(target)


class AsyncsshProcess(transport.RemoteProcess):
    """A program on a host, with a connection of its own."""

    def __init__(self, library: Any, connection: Any, process: Any) -> None:
        """Wrap a process of asyncssh and its connection, which is closed with it.

        ``library``: asyncssh with its exceptions, as this module imports it only when it is used.
        """
        self._connection = connection
        self._process = process
        #: The exceptions of a lost connection.
        self._lost = (library.Error, library.DisconnectError, OSError)

    async def read(self) -> bytes:
        """Return bytes from standard output, b"" at its end. Raise ``ConnectionLost``."""
        return await self._read(self._process.stdout)

    async def read_error(self) -> bytes:
        """Return bytes from standard error, b"" at its end. Raise ``ConnectionLost``."""
        return await self._read(self._process.stderr)

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, and wait while the host reads slowly. Raise ``ConnectionLost``."""
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except self._lost as error:
            raise _lost(error) from error

    async def exit_code(self) -> int | None:
        """Return the exit code of the program after the end of its output.

        None if a signal has ended the program (asyncssh returns a negative number for it), or if the host does not send
        the exit code in time.
        """
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
        """Return the next bytes of standard output or standard error, b"" at its end. Raise ``ConnectionLost``."""
        try:
            data: bytes = await stream.read(transport.WINDOW)
        except self._lost as error:
            raise _lost(error) from error
        return data


def _has_failed(task: asyncio.Task[Any]) -> bool:
    """Return whether a task that is done has no result."""
    return task.cancelled() or task.exception() is not None


def _explanation(library: Any, error: Exception, host: Host) -> tuple[str, bool]:
    """Return the message for users about an error of asyncssh at a connection to ``host``, and whether to try again.

    Another attempt may succeed only after an error that passes by itself, such as a refused connection.
    """
    user = f" for {host.user}" if host.user else ""
    for kind, message, transient in (
        (TimeoutError, f"no answer within {host.connect_timeout:g} s", False),
        (ConnectionRefusedError, "connection refused", True),
        (ConnectionResetError, "the connection was reset", True),
        (library.ConnectionLost, "the connection was ended before it was ready", True),
        (library.PermissionDenied, f"permission denied: it accepts no key of ours{user}", False),
        (library.KeyExchangeFailed, "it has no algorithm in common with us", False),
    ):
        if isinstance(error, kind):
            return message, transient
    if isinstance(error, socket.gaierror):
        return f"its address is not known: {error.strerror}", error.errno == socket.EAI_AGAIN
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return f"{file}{_uncapitalized(error.strerror)}", error.errno in {errno.ECONNRESET, errno.EPIPE}
    if isinstance(error, library.DisconnectError):
        return f"the connection was ended: {_uncapitalized(error.reason)}", False
    return str(error) or type(error).__name__, False


def _changed_key(fingerprint: str, endpoint: Endpoint, key: str) -> str:
    """Return the message about a key of a host that has another known one; ``key``: its name in the message."""
    remove = f"ssh-keygen -R '{endpoint.pattern}'"
    return f"{key} {fingerprint} is not the known one; if that is right, remove the known one: {remove}"


def _keys_of(known_hosts: Any, host: str, address: str, port: int | None) -> Sequence[object]:
    """Return asyncssh's key lists of a host, the third one with all revoked keys; replaces ``known_hosts.match``.

    The library ignores revoked keys under ``[host]:port`` if no trusted key has that name, so a revoked key could be
    accepted. Here a key is revoked if a line under either name, with or without the port, revokes it.
    """
    key_lists = known_hosts.match(host, address, port)
    names = [f"[{name}]:{port}" for name in (host, address) if name and port]
    revoked = [key for name in (*names, host) for key in known_hosts.match(name, "", None)[2]]
    return (*key_lists[:2], [*key_lists[2], *revoked], *key_lists[3:])


def _client(library: Any) -> Any:
    """Return a client class whose instances add refused keys to a list, for messages: the library's error has none."""

    class KeyRecorder(library.SSHClient):  # type: ignore[misc] # of a library that is imported late
        """Records refused keys."""

        def __init__(self, refused_keys: list[str]) -> None:
            """Add the fingerprints of refused host keys to ``refused_keys``, for the message of the failure."""
            self._refused_keys = refused_keys

        def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:  # noqa: ARG002
            """Record the key, which is not known, and refuse it."""
            self._refused_keys.append(key.get_fingerprint())
            return False

    return KeyRecorder


def known_hosts_file(environment: Mapping[str, str]) -> Path:
    """Return the known hosts file of the user of ``environment``."""
    return Path(environment.get("HOME") or "~").expanduser() / ".ssh" / "known_hosts"


def host_keys(hosts: Sequence[Host], environment: Mapping[str, str]) -> list[HostKey | HostUnreachable]:
    """Return each host's key, or the reason why it shows none, in the order of the hosts, for ``hosts trust``.

    At most ``_KEYS_AT_ONCE`` hosts are connected at a time. Raise ``ResourceError`` if the library is not installed.
    """
    connections = AsyncsshTransport(environment, "visit each host with ssh once")
    slots = asyncio.Semaphore(transport.descriptor_limit(_KEYS_AT_ONCE))

    async def host_key(host: Host) -> HostKey | HostUnreachable:
        """Return the key of a host, or the error as a value, so that it does not end the others."""
        async with slots:
            try:
                return await connections.host_key(host)
            except HostUnreachable as error:
                return error

    async def all_keys() -> list[HostKey | HostUnreachable]:
        """Return the answers of all hosts, and close the connections in the loop that has opened them."""
        try:
            return await asyncio.gather(*map(host_key, hosts))
        finally:
            await connections.close()

    return asyncio.run(all_keys())


def _lost(error: Exception) -> ConnectionLost:
    """Return ``ConnectionLost`` for an error of asyncssh, whose text is omitted where it only repeats the message."""
    text = str(error)
    detail = "" if text in {"", "Connection lost"} else f": {_uncapitalized(text)}"
    return transport.lost(f"the connection was lost{detail}")


def _uncapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def _library(alternative: str) -> Any:
    """Return the optional library asyncssh, imported only when a host is reached with it.

    Raise ``ResourceError`` if it is not installed, with the advice to install it or to use the ``alternative``.
    """
    try:
        with linker_cache():  # the search for two rare libraries would be a fifth of the import
            import asyncssh
    except ImportError as error:
        install = "pip install 'resource-api[ssh]'"
        msg = f"hosts are reached with the library asyncssh: {install}; or without it: {alternative}"
        raise ResourceError(msg) from error
    asyncssh.set_log_level("CRITICAL")  # its errors are raised too, and reported for their host
    return asyncssh


_CACHE: Final = Path("/etc/ld.so.cache")


@contextmanager
def linker_cache() -> Iterator[None]:
    """Make ``ctypes`` find libraries only in the cache of the dynamic linker, to import asyncssh faster.

    Otherwise ``ctypes`` starts ``ldconfig``, ``gcc`` and ``ld`` one after the other to search for a missing library.
    Without a cache, and with ``LD_LIBRARY_PATH``, the search is unchanged.
    """
    find = ctypes.util.find_library
    try:
        cache = _CACHE.read_bytes()
    except OSError:
        cache = b""
    if cache and not os.environ.get("LD_LIBRARY_PATH"):
        ctypes.util.find_library = lambda name: find(name) if f"lib{name}.so".encode() in cache else None
    try:
        yield
    finally:
        ctypes.util.find_library = find


def distrust_reason(key: HostKey, fingerprints: Collection[str]) -> str:
    """Return the reason why ``hosts trust`` must not record a key, or "".

    ``fingerprints``: those of the keys that the user allows, or none for all keys.
    """
    if key.trust == "changed":
        return _changed_key(key.fingerprint, key.endpoint, "its key")
    if key.trust == "revoked":
        return f"its key {key.fingerprint} is revoked: a line @revoked in a file of known hosts has it"
    if fingerprints and key.trust == "unknown" and key.fingerprint not in fingerprints:
        return f"its key {key.fingerprint} is not among the given fingerprints"
    return ""


def record_host_keys(file: Path, keys: Iterable[HostKey]) -> None:
    """Append keys to a file of known hosts, for ``hosts trust``. Raise ``OSError``.

    A missing file is created with its directory, and a last line without a line break gets one. All lines are added by
    one write. If the full disk takes only a part of them, the file is cut to its former size, because a broken line
    could make it unusable.
    """
    lines = dict.fromkeys(f"{key.endpoint.pattern} {key.line}\n" for key in keys)
    path = canonical_path(os.path.abspath(file))  # follows links once: no directory can be exchanged meanwhile
    with Directories() as directories:
        directories.make(os.path.dirname(path))
        directory, name = directories.follow(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory.fd)
    with os.fdopen(descriptor, "rb+", buffering=0) as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - 1))
        begin = "" if opened.read(1) in {b"", b"\n"} else "\n"
        content = (begin + "".join(lines)).encode()
        if opened.write(content) < len(content):
            opened.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        os.fsync(opened.fileno())
