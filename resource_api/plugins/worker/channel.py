"""The worker's end of the two pipes between it and the runtime: whole frames, sent and received.

Only the process that made a channel speaks on it: what a provider forks is not heard. The other end is ``worker``'s.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from resource_api.plugins.worker.messages import Splitter, pack

if TYPE_CHECKING:
    from resource_api.plugins.worker.messages import Frame

#: The exit code of a worker that cannot speak with the runtime any more.
DISCONNECTED: Final = 71

_CHUNK: Final = 1 << 16
#: Where our descriptors are put: a provider that closes what it does not know gets numbers below for its own files.
_HIGH: Final = 200


class Disconnected(BaseException):
    """The other side cannot be heard or told any more; no ``Exception``, for it is nothing that a provider handles."""


class Channel:
    """Frames from one descriptor and to another, both taken over."""

    def __init__(self, source: int, target: int) -> None:
        """Take over two descriptors; what is executed does not inherit them."""
        self._source = secured(source)
        self._target = secured(target)
        self._pid = os.getpid()
        self.splitter = Splitter()
        self._frames: deque[Frame] = deque()
        self._sending = threading.Lock()

    def send(self, kind: str, **body: Any) -> None:
        """Send a frame. Raises ``Disconnected``, and ``ProviderError`` for one that is too large."""
        data = memoryview(pack(kind, body))
        if os.getpid() != self._pid:
            return
        try:
            with self._sending:
                while data:
                    data = data[os.write(self._target, data) :]
        except OSError as error:
            raise Disconnected from error

    def receive(self) -> Frame:
        """Wait for the next frame. Raises ``Disconnected``."""
        while not self._frames:
            self._read()
        return self._frames.popleft()

    def waiting(self) -> bool:
        """Whether a frame, or the end, has come. Raises ``Disconnected``."""
        try:
            return bool(self._frames or select.select([self._source], [], [], 0)[0])
        except (OSError, ValueError) as error:
            raise Disconnected from error

    def _read(self) -> None:
        try:
            data = os.read(self._source, _CHUNK)
            self._frames.extend(self.splitter.feed(data))
        except (OSError, ValueError) as error:
            raise Disconnected from error
        if not data:
            raise Disconnected


def secured(descriptor: int) -> int:
    """Give a descriptor under a high number that nothing executed inherits; the one given is closed."""
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # the limit of descriptors is lower
        fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        return descriptor
    os.close(descriptor)
    return high
