"""Define the invocation of a program, and the steps of a forked child up to exec; ``spawn`` forks it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from resource_api.model.values.start_up import NamedTuple
from resource_api.system.process import identity, process_tree

# Imported whole: a module loaded late would be loaded in the forked child, when it cannot read our files any more.
from resource_api.system.process.core_dumps import restore_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

_LAST_STANDARD_STREAM: Final = 2


class Invocation(NamedTuple):
    """A program to run: its absolute path, arguments (surrogate escapes for bytes), and whole environment.

    ``identity`` is the user to run it as, None: this process's user. It reads from the descriptor ``stdin``, or from
    ``input`` if that is None.
    """

    path: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    input: bytes | None = None
    identity: identity.Identity | None = None
    stdin: int | None = None
    #: Whether it changes nothing.
    reading: bool = False
    #: Called in a process between this one and the program, with the process id of the program.
    guard: Callable[[int], NoReturn] | None = None


def prepare() -> None:
    """Load and compute everything that the child needs: loading a library in a forked child is not safe."""
    process_tree.prepare()
    signals()


@cache
def signals() -> Sequence[int]:
    """Return the number of every signal that a process may handle; as plain numbers they are fast to pass on."""
    return sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def open_stdin(invocation: Invocation) -> int:
    """Return a new descriptor for a program's standard input: the invocation's, its input, or an empty one."""
    if invocation.stdin is not None:
        return above_standard_streams(os.dup(invocation.stdin))
    data = invocation.input
    if data is None:
        return above_standard_streams(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    fd = above_standard_streams(os.memfd_create("input", os.MFD_CLOEXEC))
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def above_standard_streams(fd: int) -> int:
    """Return ``fd``, or a duplicate above 2 if it is 0, 1 or 2: the child's own streams would take its place.

    A new descriptor gets such a number where this process runs with a standard stream closed, or another thread has
    just closed the file with that number. ``/dev/null`` stays open there, so that the next descriptor does not get it.
    """
    if fd > _LAST_STANDARD_STREAM:
        return fd
    moved, null = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD_STREAM + 1), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)  # stays open: a descriptor that ``sh`` opens next would get the number
    if null > _LAST_STANDARD_STREAM:
        os.close(null)
    return moved


def handled_signals() -> Sequence[int]:
    """Return the signals that this process handles or ignores, for its child to reset; call this before a fork."""
    return [number for number in signals() if signal.getsignal(number) is not signal.SIG_DFL]


def enter(parent: int, handled: Sequence[int]) -> None:
    """Prepare the child: end it with ``parent``, make it a subreaper, reset signals, their mask and the umask.

    ``handled`` are the parent's ``handled_signals``: resetting only those saves copies of memory pages.
    """
    process_tree.end_with(parent)
    process_tree.adopt_orphans()
    os.umask(0o022)
    restore_limit()
    for number in handled:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def execute(
    invocation: Invocation,
    report: int,
    parent: int,
    handled: Sequence[int],
    streams: Sequence[int] = (),
    *,
    go: int | None = None,
) -> NoReturn:
    """Execute the program in the child, perhaps as another user; never return.

    With ``streams``, its new standard streams, the child first starts a session. The number of an error is written to
    ``report``. All other descriptors of this process are closed before a change of identity, also the one on which
    ``sh`` waits for the child. The directory is entered with the user's rights only. With ``go``, the child waits until
    its parent writes there, and exits if the parent closes it instead.
    """
    try:
        if streams:
            os.setsid()
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
        if invocation.guard is not None:
            parent = _fork_guarded(invocation.guard, parent)
        close_all_but({0, 1, 2, report, go})
        if go is not None:
            if not os.read(go, 1):
                os._exit(255)
            os.close(go)
        if invocation.identity is not None:
            identity.assume(invocation.identity)
        os.chdir(invocation.cwd)
        # Only now: a change of identity would undo it.
        enter(parent, handled)
        words = [_encoded(word) for word in (invocation.path, *invocation.arguments)]
        variables = {_encoded(name): _encoded(value) for name, value in invocation.env.items()}
        os.execve(words[0], words, variables)  # noqa: S606 - as the module does with sh
    except BaseException as error:  # noqa: BLE001 - a forked child must not continue as its parent
        number = error.errno if isinstance(error, OSError) else None
        os.write(report, str(number or errno.EINVAL).encode())
    finally:
        os._exit(255)


def _fork_guarded(guard: Callable[[int], NoReturn], parent: int) -> int:
    """Fork again, guard the new child from the calling process, and return in the child with the guardian's number.

    The guardian ends with ``parent``, adopts the orphans of the child, and stays in the child's session.
    """
    process_tree.end_with(parent)
    process_tree.adopt_orphans()
    guardian = os.getpid()
    if program := os.fork():
        guard(program)
    return guardian


def close_all_but(descriptors: Container[int | None]) -> None:
    """Close all descriptors of this process except ``descriptors``."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in descriptors:
            with suppress(OSError):  # the listing's descriptor is closed already
                os.close(int(name))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
