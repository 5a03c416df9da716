"""The transport interface: start a program on a host and relay its streams.

``asyncssh_transport`` uses a library, ``openssh_transport`` the program ``ssh``. Their common part is here: attempts,
timeouts and error messages.
"""

from __future__ import annotations

import asyncio
import random
import resource
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from resource_api.fleet.connections import Host

#: Idle seconds before a keepalive request, and unanswered requests before a connection is lost.
KEEPALIVE_SECONDS: Final = 15
KEEPALIVE_COUNT: Final = 3
#: Attempts to connect; a job is sent once.
ATTEMPTS: Final = 3
#: New connections per second behind one jump host.
VIA_RATE: Final = 10
#: Bytes that a host may send before they are read.
WINDOW: Final = 64 * 1024
#: Seconds from the end of a process's output to its exit code.
EXIT_SECONDS: Final = 2.0
#: Seconds before the second attempt, and the growth factor; with a jitter of 50 %.
_WAIT: Final = 0.4
_GROWTH: Final = 2.5
#: Largest length of an error message from a host or from ssh.
_MAX_TEXT: Final = 300
#: Descriptors that are not for connections.
_OTHER_DESCRIPTORS: Final = 64

T = TypeVar("T")


class HostUnreachable(ResourceError):  # noqa: N818 - a state of the host
    """A host cannot be connected to; the message has the reason and a remedy."""

    #: Whether another attempt may succeed at once.
    transient = False


class ConnectionLost(ResourceError):  # noqa: N818 - a state of the host
    """An established connection ended."""


class RemoteProcess(Protocol):
    """A program on a host, with a connection of its own; the end of the ``async with`` block closes it."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    async def read(self) -> bytes:
        """Return bytes from standard output, b"" at its end. Raise ``ConnectionLost``."""

    async def read_error(self) -> bytes:
        """Return bytes from standard error, b"" at its end. Raise ``ConnectionLost``."""

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, at the speed of the reader. Raise ``ConnectionLost``."""

    async def exit_code(self) -> int | None:
        """Return the exit code after the end of the output, or None. Raise ``ConnectionLost``."""

    def close(self) -> None:
        """Close the connection; unread output is lost."""


class Transport(Protocol):
    """A way to connect to hosts; used in one event loop."""

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> RemoteProcess:
        """Connect to a host and start a command in its login shell. Raise ``HostUnreachable``.

        With ``terminal`` the command gets a terminal, because doas asks for a password only there. The terminal is in
        raw mode, in which it passes all bytes unchanged.
        """

    async def close(self) -> None:
        """Free shared resources; all processes were closed before."""


async def attempted(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``attempt``, called up to ``ATTEMPTS`` times while its error may be transient.

    The growing pauses are random, so that many hosts do not try again at the same time. Raise ``HostUnreachable``.
    """
    for number in range(ATTEMPTS):
        try:
            return await attempt()
        except HostUnreachable as error:
            if not error.transient or number == ATTEMPTS - 1:
                raise
        await asyncio.sleep(_WAIT * _GROWTH**number * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
    raise AssertionError  # not reached: the last attempt returns or raises


class JumpPace:
    """Limits the rate of new connections behind jump hosts: sshd drops connections that come all at once."""

    def __init__(self) -> None:
        """Start without delays."""
        #: Jump hosts → the earliest time of the next connection behind them, by the clock of the loop.
        self._begins: dict[str, float] = {}

    async def wait(self, via: str) -> None:
        """Wait until the next connection through the jump hosts ``via`` may begin.

        Its begin is reserved at once, ``1 / VIA_RATE`` seconds after the one before, so waiting tasks begin in turn.
        """
        now = asyncio.get_running_loop().time()
        begin = max(self._begins.get(via, 0.0), now)
        self._begins[via] = begin + 1 / VIA_RATE
        await asyncio.sleep(begin - now)


def unreachable(text: str, *, transient: bool = False) -> HostUnreachable:
    """Return the error for an unreachable host; ``transient``: another attempt may succeed.

    The text is escaped and cut, because the untrusted host may have sent a part of it.
    """
    error = HostUnreachable(escape(text)[:_MAX_TEXT])
    error.transient = transient
    return error


def lost(text: str) -> ConnectionLost:
    """Return the error for a lost connection, its text escaped and cut."""
    return ConnectionLost(escape(text)[:_MAX_TEXT])


def descriptor_limit(connections: int, *, descriptors: int = 2) -> int:
    """Raise the limit of open files for ``connections`` of ``descriptors`` each; return the number that it allows.

    The system's hard limit may allow fewer: callers then make that many connections at once, where each further one
    would fail for lack of descriptors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors * connections + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, (soft - _OTHER_DESCRIPTORS) // descriptors))
