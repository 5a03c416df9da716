"""Keeps foreign code from changing this process for everybody.

The working directory, umask, environment, search path, signal handlers, standard streams and their descriptors are
as before when the code has returned; a forked child that returns from it ends at once. Nothing here knows what a
provider is.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ProviderError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM)
_STANDARD: Final = (0, 1, 2)

#: The standard descriptors as they must be, while foreign code is running in several threads; else empty.
_shared: Final[list[tuple[int, int]]] = []


class _World(NamedTuple):
    """What a call must leave as it was."""

    directory: str | None
    umask: int
    environment: dict[str, str]
    path: list[str]
    recursion: int
    streams: tuple[Any, ...]
    handlers: tuple[Any, ...]


def _umask() -> int:
    """Read the umask; the kernel only tells it while it is being set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _look() -> _World:
    try:
        directory = os.getcwd()  # noqa: PTH109 - pathlib costs more than the call
    except OSError:
        directory = None
    return _World(
        directory,
        _umask(),
        dict(os.environ),
        list(sys.path),
        sys.getrecursionlimit(),
        (sys.stdin, sys.stdout, sys.stderr),
        tuple(map(signal.getsignal, _SIGNALS)),
    )


@contextmanager
def protected() -> Iterator[None]:
    """Run foreign code; afterwards this process is as it was, but for what must wait for others that run beside it."""
    pid = os.getpid()
    before, descriptors = (None, _shared) if _shared else (_look(), _hold())
    try:
        yield
    finally:
        if os.getpid() != pid:
            os._exit(70)
        if before is not None:
            _restore(before)
        _give_back(descriptors)
        if descriptors is not _shared:
            _close(descriptors)


@contextmanager
def shared() -> Iterator[None]:
    """Let foreign code run in several threads; what would disturb the others is put back when the last has ended.

    The standard descriptors are given back after each: our lines must not end up in a provider's file.
    """
    with protected():
        _shared.extend(_hold())
        try:
            yield
        finally:
            _close(_shared)
            _shared.clear()


def answer(question: Callable[..., Any], *arguments: Any) -> Any:
    """Ask a provider a question: an exit, or what else is no ``Exception``, is a wrong answer.

    It becomes a ``ProviderError``, so that it is contained like one. Interrupts pass.
    """
    try:
        return question(*arguments)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ProviderError(reason(error)) from error


@contextmanager
def answering() -> Iterator[None]:
    """Run a provider's code that answers a question, as ``answer`` does; afterwards this process is as it was."""
    with protected():
        try:
            yield
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ProviderError(reason(error)) from error


def _restore(before: _World) -> None:
    sys.setrecursionlimit(before.recursion)
    after = _look()
    if after == before:
        return
    if before.directory and after.directory != before.directory:
        os.chdir(before.directory)
    os.umask(before.umask)
    if after.environment != before.environment:
        os.environ.clear()
        os.environ.update(before.environment)
    sys.path[:] = before.path
    sys.stdin, sys.stdout, sys.stderr = before.streams
    for number, handler in zip(_SIGNALS, before.handlers, strict=True):
        if signal.getsignal(number) != handler and handler is not None:
            signal.signal(number, handler)


def _hold() -> list[tuple[int, int]]:
    """Keep a second descriptor for each standard one: what is opened after one was closed would get its number."""
    held = []
    for number in _STANDARD:
        with suppress(OSError):
            held.append((number, fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)))
    return held


def _give_back(held: list[tuple[int, int]]) -> None:
    for number, copy in held:
        if _identity(number) != _identity(copy):
            os.dup2(copy, number)


def _close(held: list[tuple[int, int]]) -> None:
    for _, copy in held:
        os.close(copy)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
