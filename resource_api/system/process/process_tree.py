"""Find all descendants of a program in the process table, and end them. Needs Linux 5.3.

A process group or session is not enough, because a daemon leaves both. A started program is marked as a subreaper
(``adopt_orphans``): while it runs, its orphans become its children. The mark survives exec and is not inherited, so the
daemons of a program that has ended normally belong to init.

How a program is started, and its output, must not enter here.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_KILL: Final = 5.0  # seconds until processes that SIGKILL has not ended are left to the kernel
# Operations of prctl(2).
SET_DUMPABLE: Final = 4
_SET_DEATH_SIGNAL: Final = 1
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37

_lock: Final = threading.RLock()
_adopters: Final[list[int]] = []  # the setting to restore, then one entry for each user of ``adopting``


class ProcessRow(NamedTuple):
    """One process; ``start`` (clock ticks) distinguishes it from a later process of the same number."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


#: The process table, and the children of this process that are not orphans of the tree (None: unknown).
Scan = tuple["Mapping[int, ProcessRow]", "set[int] | None"]


def table() -> dict[int, ProcessRow]:
    """Return all present processes by number."""
    rows = (row(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return {found.pid: found for found in rows if found}


def row(pid: int) -> ProcessRow | None:
    """Return one process; None when it cannot be read."""
    try:
        return read(pid)
    except OSError:
        return None


def read(pid: int) -> ProcessRow:
    """Return one process. Raise ``OSError`` when it cannot be read."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return ProcessRow(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def adopt_orphans() -> None:
    """Make the calling process the parent of its orphaned descendants; call ``prepare`` before a fork."""
    prepare()(_SET_SUBREAPER, 1, 0, 0, 0)


def end_with(parent: int) -> None:
    """Have the kernel kill the calling process when the thread that forked it has ended; ``prepare`` comes first.

    ``parent`` is the process of that thread: where it has gone already, the calling process ends. The setting survives
    exec, but for programs that are set-user-ID, set-group-ID or have capabilities; what is forked does not inherit it.
    """
    prepare()(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(255)


@cache
def prepare() -> Any:
    """Return ``prctl``; to be called before a fork, since loading it in the child is not safe."""
    import ctypes

    function = ctypes.CDLL(None).prctl
    function.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return function


@contextmanager
def adopting() -> Iterator[None]:
    """Be a subreaper inside the ``with`` block, then restore the setting of the embedding program."""
    with _lock:
        if not _adopters:
            _adopters.append(_is_subreaper())
            adopt_orphans()
        _adopters.append(1)
    try:
        yield
    finally:
        with _lock:
            _adopters.pop()
            if len(_adopters) == 1:
                prepare()(_SET_SUBREAPER, _adopters.pop(), 0, 0, 0)


def _is_subreaper() -> int:
    import ctypes

    answer = ctypes.c_int()
    prepare()(_GET_SUBREAPER, ctypes.addressof(answer), 0, 0, 0)
    return answer.value


class Tree:
    """The descendants of one program, including orphans in sessions of their own.

    When the program ends, its orphans become children of this process: use the tree within ``adopting``. ``scan``
    returns the process table and the children of this process that do not belong to the tree. They are None when
    another program has ended meanwhile, since its daemons must survive; then only parents and sessions count.
    ``known`` are members that can no longer be found by descent.
    """

    def __init__(self, root: ProcessRow, scan: Callable[[], Scan], known: Iterable[ProcessRow] = ()) -> None:
        """Record the present children of this process, to recognize orphans that it adopts later."""
        self._root = root.pid
        self._scan = scan
        self._starts = {each.pid: each.start for each in (root, *known)}
        self._sessions = set(self._starts)
        self._before = {each.pid for each in table().values() if each.parent == os.getpid()}

    def alive(self) -> list[ProcessRow]:
        """Update the tree, reap adopted members that have ended, and return the running ones."""
        rows, strangers = self._scan()
        while fresh := [each for each in rows.values() if self._joins(each, rows, strangers)]:
            self._starts.update((each.pid, each.start) for each in fresh)
            self._sessions.update(each.session for each in fresh)
        members = [each for each in rows.values() if self._starts.get(each.pid) == each.start]
        for each in members:
            if each.state == "Z" and each.parent == os.getpid() and each.pid != self._root:
                with suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)
        return [each for each in members if each.state not in "ZX"]

    def _joins(self, each: ProcessRow, rows: Mapping[int, ProcessRow], strangers: set[int] | None) -> bool:
        if self._starts.get(each.pid) == each.start or each.session == os.getsid(0):
            return False
        parent = rows.get(each.parent)
        child = parent is not None and self._starts.get(parent.pid) == parent.start
        adopted = each.parent == os.getpid() and strangers is not None and each.pid not in strangers | self._before
        return child or adopted or each.session in self._sessions

    def terminate(self) -> None:
        """Send SIGTERM to all members while they are stopped: no parent continues because a child has ended."""
        members = self._freeze()
        for number in (signal.SIGTERM, signal.SIGCONT):
            for each in members:
                _send(each, number)

    def kill(self) -> None:
        """Kill all members, and reap those that are children of this process."""
        until = time.monotonic() + _KILL
        while (members := self._freeze()) and time.monotonic() < until:
            for each in members:
                _send(each, signal.SIGKILL)
            time.sleep(0.002)
        self.alive()

    def _freeze(self) -> list[ProcessRow]:
        """Stop members until no new one appears: a stopped process cannot fork."""
        frozen: dict[int, ProcessRow] = {}
        for _ in range(50):
            fresh = [each for each in self.alive() if each.pid not in frozen]
            if not fresh:
                break
            for each in fresh:
                _send(each, signal.SIGSTOP)
                frozen[each.pid] = each
        return list(frozen.values())


def _send(target: ProcessRow, number: int) -> None:
    """Send a signal to exactly this process, never to a later one of the same number; ignore one that has ended."""
    with suppress(OSError):
        fd = os.pidfd_open(target.pid)
        try:
            found = row(target.pid)
            if found and found.start == target.start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
