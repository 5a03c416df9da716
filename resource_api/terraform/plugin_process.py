"""The program of a Terraform provider: its start, its handshake, its calls and its end, as go-plugin defines them.

Source: hashicorp/go-plugin, docs/internals.md. The program listens on a socket in a private directory, and prints its
path in one line: ``1|6|unix|PATH|grpc|CERTIFICATE``.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import tempfile
import threading
import time
from collections import deque
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceAPIError
from resource_api.system.process.process import STDOUT, Invocation, Process, describe_exit
from resource_api.terraform.channel import (
    UNAVAILABLE,
    CallError,
    Certificate,
    Channel,
    PluginAddress,
    generate_certificate,
)
from resource_api.terraform.messages import METHODS, Message, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Not a secret: it tells a program that another program has started it, and not a person.
_COOKIE: Final = {"TF_PLUGIN_MAGIC_COOKIE": "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"}
_VERSIONS: Final = (5, 6)
#: Seconds: until the handshake, and from the request to end until the program is killed.
HANDSHAKE_LIMIT: Final = 20.0
_SHUTDOWN_LIMIT: Final = 2.0
#: Lines of output in an error, and the longest part of a line that is kept, in bytes.
_LINES, _LONGEST_LINE = 5, 1 << 16
#: The separators of the parts of a handshake.
_SEPARATORS: Final = 4
#: Variables of this program that are none of a provider's business, such as the key of the state.
_OURS: Final = "RESOURCE_API_"
#: Levels of hclog → levels of the log.
_LEVELS: Final = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "error": "err"}


class PluginError(ResourceAPIError):
    """The program cannot be started, or a call failed; ``code`` is the name of gRPC's status, or empty."""

    def __init__(self, message: str, code: str = "") -> None:
        """Keep the message and the code."""
        super().__init__(message)
        self.code = code


class HandshakeError(PluginError):
    """The program ended, or printed no handshake within the time limit."""


class PluginProcess:
    """A running program of a provider. Threads may call it side by side, each on a connection of its own.

    ``log(level, text)`` receives each line of its output. ``client`` is the certificate that it shall demand.
    """

    def __init__(
        self, command: Sequence[str], log: Callable[[str, str], None], client: Certificate | None = None
    ) -> None:
        """Start the program of a provider and wait for its handshake.

        It listens in a private directory, so that no other user can call it. Raise ``HandshakeError`` without a
        handshake within 20 s, ``PluginError`` if it cannot be started.
        """
        self._log = log
        self._client = client
        self._directory = tempfile.mkdtemp(prefix="resource-api-")  # mode 0700: no other user can connect
        #: The last lines of output, for errors.
        self._tail: deque[str] = deque(maxlen=_LINES)
        #: Lines of stdout until the handshake, and None after the end of the program.
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        #: The connection of each thread, and all of them, for ``close``.
        self._local, self._channels = threading.local(), list[Channel]()
        try:
            invocation = Invocation(command[0], tuple(command[1:]), self._environment(), os.getcwd(), reading=True)
            self._process = Process(invocation)
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise PluginError(f"{command[0]} cannot be started: {error.strerror}") from None
        self._reader = threading.Thread(target=self._read_output, name="terraform-output", daemon=True)
        self._reader.start()
        try:
            # ``version`` is set only then: without it the program has not begun.
            endpoint, self.version = self._await_handshake()
            self._endpoint = endpoint if client is None else endpoint._replace(client=client.certificate + client.key)
        except PluginError:
            self.close()
            raise

    def _environment(self) -> dict[str, str]:
        """Return the environment variables of the program.

        They are those of the caller, which may be credentials, without ``RESOURCE_API_...``, such as the key of the
        state; those of go-plugin's handshake; and the private directory, in which the program makes its socket.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        protocols = {"PLUGIN_PROTOCOL_VERSIONS": ",".join(map(str, _VERSIONS)), **_COOKIE}
        if self._client is not None:
            protocols["PLUGIN_CLIENT_CERT"] = self._client.certificate.decode()
        return {**inherited, **protocols, "TMPDIR": self._directory, "PLUGIN_UNIX_SOCKET_DIR": self._directory}

    def _read_output(self) -> None:
        """Pass on the lines of the program until it ends, in a thread of its own: a full pipe would block it.

        An overlong line loses its beginning. None in the queue at the end stands for the end of the output in
        ``_await_handshake``.
        """
        unfinished = dict.fromkeys((STDOUT, STDOUT + 1), b"")  # the last line of stdout and of stderr so far
        for stream, chunk in self._process.chunks(lambda: 3600.0):  # the time of one wait: there is no limit
            *lines, unfinished[stream] = (unfinished[stream] + chunk)[-_LONGEST_LINE:].split(b"\n")
            for line in lines:
                self._pass_on(stream, line.decode(errors="replace").rstrip("\r"))
        for stream, line in unfinished.items():
            if line:
                self._pass_on(stream, line.decode(errors="replace"))
        self._lines.put(None)

    def _pass_on(self, stream: int, line: str) -> None:
        """Queue a line of stdout for ``_await_handshake`` until the handshake has come; log it, with its level.

        The handshake itself is not logged: it is an address for this process, and no message.
        """
        if stream == STDOUT and not hasattr(self, "version"):  # the handshake has not come yet
            self._lines.put(line)
            if line.count("|") >= _SEPARATORS:
                return
        level, text = parse_log_line(line)
        self._tail.append(text)
        self._log(level, text)

    def _await_handshake(self) -> tuple[PluginAddress, int]:
        """Wait for the line with the program's address and version of the protocol, and return both.

        Other lines before it are skipped. Raise ``HandshakeError`` if the program ends before, or it does not come in
        time.
        """
        end = time.monotonic() + HANDSHAKE_LIMIT
        while True:
            try:
                line = self._lines.get(timeout=max(end - time.monotonic(), 0.001))
            except queue.Empty:
                raise HandshakeError(f"has not begun within {HANDSHAKE_LIMIT:.0f} s{self._printed()}") from None
            if line is None:
                exit_code = self._process.exit_code
                ended = describe_exit(exit_code) if exit_code is not None else "ended"
                raise HandshakeError(f"{ended} before its handshake{self._printed()}")
            if line.count("|") >= _SEPARATORS:
                return parse_handshake(line)

    def _printed(self) -> str:
        """Return the program's last lines as the end of a message, or ""; they may arrive just after its end."""
        self._reader.join(0.1)
        return f", and printed: {'; '.join(self._tail)}" if self._tail else ""

    @property
    def is_open_to_others(self) -> bool:
        """Whether any user of the machine can connect to it."""
        return self._endpoint.network == "tcp" and not self._endpoint.certificate

    def call(self, method: str, timeout: float | None = None, **fields: object) -> Message:
        """Call a method, and return the fields of its response. Raise ``PluginError``; ``timeout`` is in seconds."""
        called = METHODS[method]
        with self._errors(method):
            request = encode(called.request, fields)
            return decode(called.response, self._channel().call(called.path(self.version), request, timeout))

    def stream(self, method: str, timeout: float | None = None, **fields: object) -> Iterator[Message]:
        """Call a method with a stream of responses, and yield the fields of each. Raise ``PluginError``."""
        called = METHODS[method]
        with self._errors(method):
            request = encode(called.request, fields)
            for message in self._channel().stream(called.path(self.version), request, timeout):
                yield decode(called.response, message)

    @contextmanager
    def _errors(self, method: str) -> Iterator[None]:
        """Raise ``PluginError`` for a failed call, with the method's name, and the last output of an ended program."""
        name = METHODS[method].names[self.version - 5]  # the names in protocol 5 and in 6
        try:
            yield
        except CallError as error:
            printed = self._printed() if error.code == UNAVAILABLE else ""
            raise PluginError(f"{name}: {error}{printed}", error.code) from None
        except (ValueError, OSError, RecursionError) as error:
            raise PluginError(f"{name}: {getattr(error, 'strerror', None) or error}") from error

    def _channel(self) -> Channel:
        """Return the connection of this thread, a new one after its end: a connection has one call at a time."""
        channel: Channel | None = getattr(self._local, "channel", None)
        if channel is None or channel.is_closed:
            channel = self._local.channel = Channel(self._endpoint)
            self._channels.append(channel)
        return channel

    def close(self) -> None:
        """Ask the program to end, kill it with its children after two seconds, and remove its socket."""
        if hasattr(self, "version") and not self._process.has_ended():
            with suppress(CallError, OSError, ValueError), closing(Channel(self._endpoint)) as channel:
                channel.call("/plugin.GRPCController/Shutdown", b"", _SHUTDOWN_LIMIT)
            self._reader.join(_SHUTDOWN_LIMIT)
        self._process.stop(0)
        self._reader.join(_SHUTDOWN_LIMIT)  # before the pipes that it reads are closed
        for opened in self._channels:
            opened.close()
        self._process.__exit__(None, None, None)
        shutil.rmtree(self._directory, ignore_errors=True)


def start(command: Sequence[str], log: Callable[[str, str], None]) -> PluginProcess:
    """Start a program; one that listens on TCP is started anew, and demands a certificate of ours.

    Most programs listen on a private socket, and no certificate is made for them. Raise ``PluginError``.
    """
    process = PluginProcess(command, log)
    if not process.is_open_to_others:
        return process
    process.close()
    try:
        certificate = generate_certificate()
    except ImportError as error:
        msg = f"listens on TCP, and a certificate against other users cannot be made here: {error}"
        raise PluginError(msg) from error
    process = PluginProcess(command, log, client=certificate)
    if process.is_open_to_others:
        process.close()
        raise PluginError("listens on TCP without TLS, where any user of the machine could call it")
    return process


def parse_handshake(line: str) -> tuple[PluginAddress, int]:
    """Return the endpoint and the version in the handshake of a program. Raise ``PluginError`` for another protocol.

    >>> parse_handshake("1|6|unix|/tmp/plugin|grpc|")[1]
    6
    """
    core, version, network, address, protocol, *rest = line.split("|")
    versions = {str(number): number for number in _VERSIONS}
    is_address = network == "unix" or (network == "tcp" and address.rpartition(":")[2].isdecimal())
    if core != "1" or protocol != "grpc" or version not in versions or not is_address:
        raise PluginError(f"speaks '{line[:60]}', which is neither protocol 5 nor 6 over gRPC")
    try:  # go-plugin leaves out the padding
        certificate = base64.b64decode(rest[0] + "=" * (-len(rest[0]) % 4)) if rest else b""
    except ValueError:
        raise PluginError("names a certificate in its handshake that is damaged") from None
    return PluginAddress(network, address, certificate), versions[version]


def parse_log_line(line: str) -> tuple[str, str]:
    """Return the level and the text of a line of a program, which may be one of hclog in JSON.

    >>> parse_log_line('{"@level": "warn", "@message": "slow", "try": 2}')
    ('warning', 'slow try=2')
    """
    if line[:1] == "{":
        with suppress(ValueError, AttributeError, TypeError, RecursionError):
            row = json.loads(line)
            extra = [f"{name}={value}" for name, value in row.items() if not name.startswith("@")]
            return _LEVELS.get(row.get("@level"), "debug"), " ".join([str(row.get("@message", "")), *extra])
    return "debug", line
