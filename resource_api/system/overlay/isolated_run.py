"""Run a function in a process that has an overlay of this machine, and nothing else in common with it.

Three processes: one waits outside; one is the first of a new process table, builds the root and waits for all others;
one calls the function. When any of the first two ends, however it ends, the kernel kills all others and removes the
mounts, and with the last of them what was written.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, reason
from resource_api.system.filesystem import directories
from resource_api.system.overlay import call_filters, namespaces, root
from resource_api.system.overlay.process_limit import ProcessLimit
from resource_api.system.overlay.root import mounts
from resource_api.system.process import core_dumps, identity
from resource_api.system.process.child import close_all_but

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.system.overlay.root import Mount

#: Comes to a process when its parent has died, if it asks for that with ``namespaces.die_with``.
PARENT_DIED: Final = signal.SIGRTMAX
_PASSED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals(NamedTuple):
    """What a process does with the signals that are passed on."""

    handlers: Mapping[int, Any]
    mask: Collection[int]

    def restore(self) -> None:
        """Do that in this process."""
        for number, handler in self.handlers.items():
            # None: the handler was not installed by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def signals_blocked() -> Iterator[Signals]:
    """Block what ``wait`` takes in the ``with`` block and in processes started there; yield what was done before."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED, signal.SIGCHLD, PARENT_DIED})
    before = Signals({number: signal.getsignal(number) for number in (*_PASSED, signal.SIGCHLD)}, mask)
    # While it is ignored, it does not come.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield before
    finally:
        before.restore()


def wait(child: int, *, orphans: bool = False) -> int:
    """Wait until a child has ended, with ``orphans`` for others too; return the number of the last signal passed on.

    0: none came. What this process ignores is not passed on. When the parent of this process dies, the child is killed.
    """
    passed = 0
    taken = {number for number in _PASSED if signal.getsignal(number) is not signal.SIG_IGN}
    while not _has_ended(child, orphans=orphans):
        number = signal.sigwaitinfo({*taken, signal.SIGCHLD, PARENT_DIED}).si_signo
        if number == PARENT_DIED:
            os.kill(child, signal.SIGKILL)
        elif number != signal.SIGCHLD:
            passed = number
            os.kill(child, number)
    return passed


def _has_ended(child: int, *, orphans: bool) -> bool:
    while True:
        ended, _ = os.waitpid(-1 if orphans else child, os.WNOHANG)
        if ended in {0, child}:
            return ended == child


#: The capabilities that reach beyond the overlay (capabilities(7)), by number.
_NET_ADMIN: Final = 12
_NET_RAW: Final = 13
_DROPPED: Final = {
    "DAC_READ_SEARCH": 2,
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_PTRACE": 19,
    "SYS_PACCT": 20,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "SYS_RESOURCE": 24,
    "SYS_TIME": 25,
    "SYS_TTY_CONFIG": 26,
    "MKNOD": 27,
    "AUDIT_CONTROL": 30,
    "MAC_OVERRIDE": 32,
    "MAC_ADMIN": 33,
    "SYSLOG": 34,
    "WAKE_ALARM": 35,
    "BLOCK_SUSPEND": 36,
    "PERFMON": 38,
    "BPF": 39,
    "CHECKPOINT_RESTORE": 40,
}
_FAILED: Final = b"-"
_RETURNED: Final = b"+"


class IsolationError(ResourceAPIError):
    """What an isolated run needs is missing on this machine, or refused to this user."""


class Isolation(NamedTuple):
    """How far a run is isolated."""

    #: The bound of what is written, as for tmpfs(5): bytes, with k, m or g, or a percentage of the memory.
    size: str = "25%"
    #: Whether the network is that of the machine; otherwise there is none.
    network: bool = False
    #: Returns the descriptors that the function uses, beside the standard ones.
    kept: Callable[[], Collection[int]] = tuple


class Overlay(NamedTuple):
    """What the function of an isolated run is called with."""

    #: A descriptor of the directory with the upper layers; ``written_files`` reads it.
    layers: int


class Ended(NamedTuple):
    """How an isolated run has ended."""

    #: What the function has returned; None: it was killed.
    answer: bytes | None
    #: The number of the signal that was passed on to it; 0: none.
    signal: int = 0


class _Started(NamedTuple):
    """What the processes of a run are started with."""

    function: Callable[[Overlay], bytes]
    isolation: Isolation
    mounts: Sequence[Mount]
    #: What the function finds installed.
    signals: Signals
    #: A descriptor of a file in memory.
    answer: int


def run(function: Callable[[Overlay], bytes], isolation: Isolation) -> Ended:
    """Call ``function`` in isolation; return what it has returned. Raise ``IsolationError``.

    Its standard output and error are those of this process; other descriptors are closed there unless kept. A signal
    that would interrupt this process is passed on to it. This process must have one thread.
    """
    found = mounts()
    here = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.memfd_create("answer"), "rb") as answer, signals_blocked() as before:
        started = _Started(function, isolation, found, before, answer.fileno())
        number = wait(_fork(lambda: _outside(started, here), started.answer))
        answer.seek(0)
        kind, text = answer.read(1), answer.read()
    if kind == _FAILED:
        raise IsolationError(text.decode())
    return Ended(text if kind == _RETURNED else None, number)


def _fork(function: Callable[[], None], answer: int) -> int:
    """Return the number of a process that calls ``function`` and ends; what it raises is the answer."""
    if child := os.fork():
        return child
    code = 1
    try:
        function()
        code = 0
    except KeyboardInterrupt:  # after a signal, of which the caller knows
        pass
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _answer(answer, _FAILED, f"this machine cannot be isolated: {where}{error.strerror or error}".encode())
    except BaseException as error:  # noqa: BLE001 - the last frame of this process
        _answer(answer, _FAILED, f"this machine cannot be isolated: {reason(error)}".encode())
    finally:
        os._exit(code)


def _answer(descriptor: int, kind: bytes, text: bytes) -> None:
    """Write an answer; without its first byte, which is written last, it is none."""
    view, place = memoryview(text), 1
    while view:
        written = os.pwrite(descriptor, view, place)
        view, place = view[written:], place + written
    os.pwrite(descriptor, kind, 0)


def _outside(started: _Started, parent: int) -> None:
    """Be the process that waits outside of the new process table."""
    os.setsid()
    limit = ProcessLimit()
    flags = namespaces.NEW_MOUNTS | namespaces.NEW_PROCESSES | namespaces.NEW_IPC | namespaces.NEW_HOST_NAME
    flags |= 0 if started.isolation.network else namespaces.NEW_NETWORK
    if os.geteuid() == 0:
        namespaces.unshare(flags)
    else:
        namespaces.unshare_as_user(flags)
    # Not at once: a control group has to be removed.
    namespaces.die_with(parent, PARENT_DIED)
    wait(_fork(lambda: _first(started, limit), started.answer))
    limit.remove()


def _first(started: _Started, limit: ProcessLimit) -> None:
    """Be the first process of the new table: build the root, and wait for all that is started."""
    # The parent has the number 0 here.
    namespaces.die_with(0)
    directory = os.getcwd()
    namespaces.make_mounts_private()
    limit.enforce()
    layers = root.build(started.mounts, started.isolation.size)
    with suppress(OSError):
        os.chdir(directory)
    if not started.isolation.network:
        namespaces.start_loopback()
    child = _fork(lambda: _inside(started, layers), started.answer)
    os.close(layers)
    wait(child, orphans=True)


def _dropped(isolation: Isolation) -> Iterable[int]:
    """Return the capabilities that the function does not have; in its namespace, another user than root had all."""
    if os.geteuid():
        return range(64)
    return (*_DROPPED.values(), *((_NET_ADMIN, _NET_RAW) if isolation.network else ()))


def _inside(started: _Started, layers: int) -> None:
    """Give up what reaches beyond the overlay, and call the function."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    close_all_but({0, 1, 2, layers, started.answer, *started.isolation.kept()})
    # 1 is the limit with which no program of core_pattern is started either, core(5).
    core_dumps.limit(1)
    with suppress(OSError):
        identity.join_new_session_keyring()
    call_filters.refuse()
    namespaces.drop_capabilities(_dropped(started.isolation))
    if os.geteuid():
        directories.ROOT.add(namespaces.unknown_user())
    started.signals.restore()
    answer = started.function(Overlay(layers))
    sys.stdout.flush()
    sys.stderr.flush()
    _answer(started.answer, _RETURNED, answer)
