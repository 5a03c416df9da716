"""What a carrier asks of that which connects to a host: start a program there, and pass on its streams.

``asyncssh_transport`` does it with a library, ``openssh_transport`` with the program ``ssh``. What is equal for both
stands here: how long and how often is tried, and what is said where it fails.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from resource_api.fleet.carriers.carrier import Host

#: A connection on which nothing comes for so many seconds is asked, so many times, before it counts as lost.
KEEPALIVE_SECONDS: Final = 15
KEEPALIVE_COUNT: Final = 3
#: Attempts to connect before a job is sent; there is none after.
ATTEMPTS: Final = 3
#: Connections that are begun to the hosts behind one jump host in a second.
VIA_RATE: Final = 10
#: Bytes that a host may send before we have read them.
WINDOW: Final = 64 * 1024
#: Seconds until the exit code of a process must have followed the end of its output.
EXIT_SECONDS: Final = 2.0
#: Seconds before the second attempt, and the factor from one to the next; each is varied by half.
_WAIT: Final = 0.4
_GROWTH: Final = 2.5
#: Characters that are kept of what a host, or what connects to it, says about a failure.
_MAX_TEXT: Final = 300
#: Descriptors that are kept for everything but connections.
_OTHER_DESCRIPTORS: Final = 64

T = TypeVar("T")


class Unreachable(ResourceError):  # noqa: N818 - reads as what it says
    """A host to which there is no connection; the message says why, and what to do about it."""

    #: Whether another attempt may succeed at once.
    passing = False


class Lost(ResourceError):  # noqa: N818 - reads as what it says
    """A connection that was there and has ended."""


class Process(Protocol):
    """A program on a host, with the connection that it has for itself; the end of the ``with`` block closes it."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    async def read(self) -> bytes:
        """Return what came on standard output; nothing at its end. Raise ``Lost``."""

    async def read_error(self) -> bytes:
        """Return what came on standard error; nothing at its end. Raise ``Lost``."""

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input, as fast as they are read. Raise ``Lost``."""

    async def exit_code(self) -> int | None:
        """Return the exit code once the output has ended; None where there is none. Raise ``Lost``."""

    def close(self) -> None:
        """Close the connection; what has not been read is lost."""


class Transport(Protocol):
    """One way to hosts; used in one event loop."""

    async def start(self, host: Host, command: str, *, terminal: bool = False) -> Process:
        """Connect to a host, and start a command there by its login shell. Raise ``Unreachable``.

        ``terminal``: it has one, which passes on every byte as it is.
        """

    async def close(self) -> None:
        """Free what hosts have shared; every process was closed before."""


async def attempted(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what one of at most ``ATTEMPTS`` attempts returns. Raise ``Unreachable``, that of the last one."""
    for number in range(ATTEMPTS):
        try:
            return await attempt()
        except Unreachable as error:
            if not error.passing or number == ATTEMPTS - 1:
                raise
        await asyncio.sleep(_WAIT * _GROWTH**number * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
    raise AssertionError


class JumpPace:
    """Spreads the connections that are begun behind jump hosts over time: sshd drops what comes all at once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._begins: dict[str, float] = {}

    async def wait(self, via: str) -> None:
        """Wait until another connection may be begun behind some jump hosts."""
        now = asyncio.get_running_loop().time()
        begin = max(self._begins.get(via, 0.0), now)
        self._begins[via] = begin + 1 / VIA_RATE
        await asyncio.sleep(begin - now)


def unreachable(text: str, *, passing: bool = False) -> Unreachable:
    """Return the error for a host that is not reached; what hosts have a part in is escaped and cut."""
    found = Unreachable(escape(text)[:_MAX_TEXT])
    found.passing = passing
    return found


def lost(text: str) -> Lost:
    """Return the error for a connection that has ended, its text escaped and cut."""
    return Lost(escape(text)[:_MAX_TEXT])


def descriptor_limit(wanted: int, *, each: int = 2) -> int:
    """Return how many of ``wanted`` connections can be open at once, after raising the limit as far as is allowed.

    ``each``: the descriptors that one connection needs.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = each * wanted + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, (soft - _OTHER_DESCRIPTORS) // each))
