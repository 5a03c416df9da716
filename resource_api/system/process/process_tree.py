"""Everything that a program has started, found in the process table and ended; needs Linux 5.3.

A process group or session is not enough: a daemon leaves both. What is followed instead is descent. A started program
is marked as a subreaper (``adopt_orphans``), so that while it lives its orphans are its children; the mark survives
exec and is not inherited, so its daemons leave it, and us, when it ends in peace.

How a program is started and what is read from it do not belong here.
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

_KILL: Final = 5.0  # seconds after which what SIGKILL has not ended is left to the kernel
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37

_lock: Final = threading.RLock()
_adopters: Final[list[int]] = []  # what to restore, then one entry for each that needs us as a subreaper


class Row(NamedTuple):
    """One line of the process table; ``start`` (clock ticks) tells a process from a later one of the same number."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


#: The process table, and those of our children that are no orphans of the tree (None: cannot be told).
Scan = tuple["Mapping[int, Row]", "set[int] | None"]


def table() -> dict[int, Row]:
    """Give all processes of this moment by their numbers."""
    rows = (row(int(name)) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - bare names, fast
    return {found.pid: found for found in rows if found}


def row(pid: int) -> Row | None:
    """Give one process, or None when there is none of this number."""
    try:
        return read(pid)
    except OSError:
        return None


def read(pid: int) -> Row:
    """Give one process; raises ``OSError`` when it cannot be read."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hundreds of them, in a hurry
        fields = file.read().rpartition(b")")[2].split()
    return Row(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def adopt_orphans() -> None:
    """Make the calling process the parent of its orphaned descendants; call ``prepare`` before a fork."""
    prepare()(_SET_SUBREAPER, 1, 0, 0, 0)


@cache
def prepare() -> Any:
    """Load ``prctl``, so that a forked child need not."""
    import ctypes  # noqa: PLC0415 - with the first program

    function = ctypes.CDLL(None).prctl
    function.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return function


@contextmanager
def adopting() -> Iterator[None]:
    """Adopt orphans for a while, then be again what we were: the program that embeds us may have its own ideas."""
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
    import ctypes  # noqa: PLC0415 - only when something has to be stopped

    answer = ctypes.c_int()
    prepare()(_GET_SUBREAPER, ctypes.addressof(answer), 0, 0, 0)
    return answer.value


class Tree:
    """The descendants of one program, also those in sessions of their own whose parents are gone.

    Once the program itself is ending, its orphans come to us: use it within ``adopting``. ``scan`` reads the table and
    says which of our children are strangers; None when another program has ended meanwhile, for its daemons are to
    live. Then only parents and sessions tell. ``known`` are members that descent no longer tells.
    """

    def __init__(self, root: Row, scan: Callable[[], Scan], known: Iterable[Row] = ()) -> None:
        """Remember whose children we have already, so as to know what is adopted later."""
        self._root = root.pid
        self._scan = scan
        self._starts = {each.pid: each.start for each in (root, *known)}
        self._sessions = set(self._starts)
        self._before = {each.pid for each in table().values() if each.parent == os.getpid()}

    def alive(self) -> list[Row]:
        """Look again, reap what was adopted and has ended, and give the members that still run."""
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

    def _joins(self, each: Row, rows: Mapping[int, Row], strangers: set[int] | None) -> bool:
        if self._starts.get(each.pid) == each.start or each.session == os.getsid(0):
            return False
        parent = rows.get(each.parent)
        born = parent is not None and self._starts.get(parent.pid) == parent.start
        adopted = each.parent == os.getpid() and strangers is not None and each.pid not in strangers | self._before
        return born or adopted or each.session in self._sessions

    def terminate(self) -> None:
        """Ask all members to end, at one moment: no parent sees a child end and goes on with its next step."""
        members = self._freeze()
        for number in (signal.SIGTERM, signal.SIGCONT):
            for each in members:
                _send(each, number)

    def kill(self) -> None:
        """End all members, and leave no zombie of theirs among our children."""
        until = time.monotonic() + _KILL
        while (members := self._freeze()) and time.monotonic() < until:
            for each in members:
                _send(each, signal.SIGKILL)
            time.sleep(0.002)
        self.alive()

    def _freeze(self) -> list[Row]:
        """Stop members until no new one appears: what is stopped cannot fork, so none slips away."""
        frozen: dict[int, Row] = {}
        for _ in range(50):
            fresh = [each for each in self.alive() if each.pid not in frozen]
            if not fresh:
                break
            for each in fresh:
                _send(each, signal.SIGSTOP)
                frozen[each.pid] = each
        return list(frozen.values())


def _send(target: Row, number: int) -> None:
    """Signal exactly this process, never a later one of the same number; one that is gone needs none."""
    with suppress(OSError):
        fd = os.pidfd_open(target.pid)
        try:
            found = row(target.pid)
            if found and found.start == target.start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
