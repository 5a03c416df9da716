"""A worker's connection to the runtime: frames over two pipes, and the run, outcomes and mask that send them.

A provider in a worker gets an ordinary ``Context``; only writing, recording and requesting is replaced here. The rules
of reporting are checked in the worker, where the report is made. The runtime's end is ``process``.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.assets import KINDS, Asset, Content, Limits, Member
from resource_api.model.values.errors import ProviderError
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import is_secret
from resource_api.plugins.worker.protocol import Decoder, decode_error, difference_fields, encode
from resource_api.provider.context import RunContext
from resource_api.provider.outcomes import CallOutcomes
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from resource_api.model.change import Difference
    from resource_api.model.event import LogEvent
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.worker.protocol import Frame

_CHUNK: Final = 1 << 16
#: Our descriptors get high numbers: a provider that closes low ones, or expects them for its own files, may.
_LOWEST_DESCRIPTOR: Final = 200


class Disconnected(BaseException):
    """The connection is lost; no ``Exception``, because a provider must not handle it."""


class Connection:
    """Frames from one descriptor and to another, for the process that made it: a forked child has no connection."""

    def __init__(self, source: int, target: int) -> None:
        """Take over two descriptors; executed programs do not inherit them."""
        self._source = move_descriptor(source)
        self._target = move_descriptor(target)
        self._pid = os.getpid()
        self.decoder = Decoder()
        self._frames: deque[Frame] = deque()
        self._sending = threading.Lock()

    def send(self, kind: str, **body: Any) -> None:
        """Send a frame. Raise ``Disconnected``, and ``ProviderError`` for one that is too large."""
        data = memoryview(encode(kind, body))
        if os.getpid() != self._pid:
            return
        try:
            with self._sending:
                while data:
                    data = data[os.write(self._target, data) :]
        except OSError as error:
            raise Disconnected from error

    def receive(self) -> Frame:
        """Wait for the next frame. Raise ``Disconnected``."""
        while not self._frames:
            self._read()
        return self._frames.popleft()

    def has_input(self) -> bool:
        """Whether ``receive`` would return or raise at once. Raise ``Disconnected``."""
        if os.getpid() != self._pid:
            return False
        try:
            return bool(self._frames or select.select([self._source], [], [], 0)[0])
        except (OSError, ValueError) as error:
            raise Disconnected from error

    def _read(self) -> None:
        if os.getpid() != self._pid:  # the input is for the parent
            raise Disconnected
        try:
            data = os.read(self._source, _CHUNK)
            self._frames.extend(self.decoder.feed(data))
        except (OSError, ValueError) as error:
            raise Disconnected from error
        if not data:
            raise Disconnected


def move_descriptor(descriptor: int) -> int:
    """Return a duplicate with a high number that executed programs do not inherit; the original is closed."""
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    except OSError:  # the limit of descriptors is lower
        fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        return descriptor
    os.close(descriptor)
    return high


class WorkerRun(RunContext):
    """The run as a worker sees it: log lines, outcomes and requests go through the connection."""

    def __init__(self, connection: Connection, level: str) -> None:
        """Send log lines from ``level`` on."""
        self._connection = connection
        #: Held while something is requested and the answer awaited.
        self._lock = threading.Lock()
        #: The number of the current call: a context that a thread keeps from an earlier one sends nothing.
        self._call = 0
        self._calling = False
        self._cancelled = False
        #: Whether the run is interrupted, and not only the current call to be ended.
        self.interrupted = False
        self._any_failed = False
        connection.decoder.content = _requesting_content(self.request)
        super().__init__(Log(level, self._send_event))
        self.log.mask = mask = _SendingMask(connection)
        connection.decoder.on_secret = mask.arrived

    @property
    def cancelled(self) -> bool:
        """Whether the runtime cancelled the current call."""
        if self.interrupted:
            return True
        with self._lock:
            while self._calling and not self._cancelled and self._connection.has_input():
                self._cancelled = self._connection.receive().kind == "cancel"
            return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        """Ignore the initial value that ``RunContext`` sets: only the runtime cancels."""

    def isolates(self, definition: TypeDefinition) -> bool:
        """Return False: this is the worker."""
        del definition
        return False

    @contextmanager
    def call(self) -> Iterator[None]:
        """Begin and end a call: only within it may frames of the runtime be read here."""
        with self._lock:
            self._call += 1
            self._calling, self._cancelled, self._any_failed = True, False, False
        try:
            yield
        finally:
            with self._lock:
                self._calling = False

    def new_outcomes(self, *arguments: Any, **keywords: Any) -> CallOutcomes:
        """Return outcomes that are also sent to the runtime."""
        return _SendingOutcomes(partial(self._send_outcome, self._call), *arguments, **keywords)

    def blocked(self, name: Name) -> bool:
        """Request whether a prerequisite of a name has failed; while nothing has failed in this call, none can have."""
        return self._any_failed and bool(self.request("blocked", name=name))

    def report_begun(self, names: Collection[Name]) -> None:
        """Report with which names of ``set`` the provider has begun."""
        self._connection.send("begun", names=list(names))

    def request(self, kind: str, **body: Any) -> Any:
        """Return the runtime's answer; raise the error in it, and ``ProviderError`` outside of a call."""
        with self._lock:
            if not self._calling:
                msg = f"'{kind}' is requested after the call has ended that it belongs to"
                raise ProviderError(msg)
            self._connection.send(kind, **body)
            while (answer := self._connection.receive()).kind == "cancel":
                self._cancelled = True
        if answer.kind == "refused":
            raise decode_error(answer.body)
        return answer.body["value"]

    def _send_outcome(self, call: int, kind: str, **body: Any) -> None:
        if self._calling and call == self._call:
            self._any_failed = self._any_failed or body.get("status") == "failed"
            self._connection.send(kind, **body)

    def _send_event(self, event: LogEvent) -> None:
        level, subject, text, fields, change = event
        extra = {} if change is None else {"change": difference_fields(change)}
        self._connection.send("log", level=level, subject=subject, text=text, fields=fields, **extra)


class _SendingOutcomes(CallOutcomes):
    """Outcomes that are sent to the runtime after the check of the rules of reporting."""

    def __init__(self, send: Callable[..., None], *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._send = send

    def set_status(self, names: list[Name], status: str, cause: object = "", *, tainted: bool = False) -> None:
        for name in names:
            super().set_status([name], status, cause, tainted=tainted)
            fields = {"tainted": True} if tainted else {}
            self._send("status", name=name, status=status, reason=self[name].reason, logged=True, **fields)

    def log_status(self, names: list[Name], status: str, text: object) -> None:
        self._send("status_line", names=list(names), status=status, text=f"{text}")

    def add_attribute(self, name: Name, difference: Difference, text: str) -> None:
        super().add_attribute(name, difference, text)
        self._send("attribute", name=name, **difference_fields(difference))


class _SendingMask(Mask):
    """Sends secrets to the runtime, which masks them; here they are known for texts that must be shortened."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def add(self, value: Any) -> None:
        if is_secret(value):
            super().add(value)
            self._connection.send("conceal", value=value)

    def arrived(self, secret: Any) -> None:
        """Add a secret that the runtime has sent."""
        super().add(secret)


def _requesting_content(request: Callable[..., Any]) -> Callable[[str, str, str, Any], Content]:
    """Return a function that makes contents in a worker; their bytes are read with ``request``."""

    def content(word: str, sha256: str, origin: str, source: Any) -> Content:
        def open_asset() -> BinaryIO:
            reader = request("open", word=word, sha256=sha256, limits=None)
            return io.BufferedReader(_RequestedBytes(partial(request, "read", reader=reader)))

        def members(limits: Limits) -> Iterator[Member]:
            reader = request("open", word=word, sha256=sha256, limits=tuple(limits))
            while (member := request("member", reader=reader)) is not None:
                name, kind, mode, target = member
                yield Member(name, kind, mode, target, iter(partial(request, "read", reader=reader), None))

        return KINDS[word](sha256, origin, source, open_asset if word == Asset.word else members)

    return content


class _RequestedBytes(io.RawIOBase):
    """The bytes of an asset, requested chunk by chunk."""

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        self._read_chunk = read
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the rest of the last chunk, or the beginning of the next."""
        if not self._rest:
            self._rest = self._read_chunk() or b""
        piece = self._rest[: len(buffer)]
        buffer[: len(piece)] = piece
        self._rest = self._rest[len(piece) :]
        return len(piece)
