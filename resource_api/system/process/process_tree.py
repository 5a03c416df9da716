"""Find all descendants of a program in the process table, and end them. Needs Linux 5.3.

A process group or session is not enough, because a daemon leaves both. A started program is marked as a subreaper
(``adopt_orphans``): while it runs, its orphans become its children. The mark survives exec and is not inherited, so the
daemons of a program that has ended normally belong to init.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from array import array
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.system import c_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_KILL_SECONDS: Final = 5.0  # seconds after which processes that survive SIGKILL are left to the kernel
# Operations of prctl(2).
_SET_DEATH_SIGNAL: Final = 1
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37
#: Picks four of the fields behind the name, the second one, by their numbers in proc_pid_stat(5).
_state_parent_session_start: Final = itemgetter(*(number - 3 for number in (3, 4, 6, 22)))

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
    return {process.pid: process for process in rows if process}


def row(pid: int) -> ProcessRow | None:
    """Return one process, or None if it cannot be read, as one that has ended."""
    try:
        return read(pid)
    except OSError:
        return None


def read(pid: int) -> ProcessRow:
    """Return one process, from its line in proc_pid_stat(5). Raise ``OSError`` if it cannot be read."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        behind_name = file.read().rpartition(b")")[2]  # the name, in parentheses, may contain spaces and parentheses
    state, parent, session, start = _state_parent_session_start(behind_name.split())
    return ProcessRow(pid, state.decode(), int(parent), int(session), int(start))


def adopt_orphans() -> None:
    """Make the calling process the parent of its orphaned descendants; call ``prepare`` before a fork."""
    c_library.prctl(_SET_SUBREAPER, 1)


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Make the kernel send the calling process a signal when its parent thread ends, as it must not outlive a run.

    ``parent``: the process id of the parent; if that has ended before this call, the signal is sent at once. The
    setting survives exec, except of programs that are set-user-ID, set-group-ID or have capabilities; children do not
    inherit it. Call ``prepare`` before the fork.
    """
    c_library.prctl(_SET_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def prepare() -> None:
    """Load ``prctl`` for a child; call this before a fork, since loading it in the child is not safe."""
    c_library.load()


@contextmanager
def adopting() -> Iterator[None]:
    """Make this process the parent of orphaned descendants (subreaper) inside the ``with`` block.

    So the orphans of a program that is being ended come here and are found. Blocks of several threads may overlap; the
    last one restores the embedding program's setting.
    """
    with _lock:
        if not _adopters:
            _adopters.append(_is_subreaper())  # the setting to restore, before one entry for each block
            adopt_orphans()
        _adopters.append(1)
    try:
        yield
    finally:
        with _lock:
            _adopters.pop()
            if len(_adopters) == 1:
                c_library.prctl(_SET_SUBREAPER, _adopters.pop())


def _is_subreaper() -> int:
    """Return 1 if this process adopts orphaned descendants already (prctl(2)), else 0: the setting to restore."""
    setting = array("i", [0])
    c_library.prctl(_GET_SUBREAPER, setting.buffer_info()[0])
    return setting[0]


class Tree:
    """The descendants of one program, including orphans in sessions of their own.

    When the program ends, its orphans become children of this process: use the tree within ``adopting``. ``scan``
    returns the process table and the children of this process that do not belong to the tree, or None for the latter if
    another program has ended meanwhile, since its daemons must survive; then only parents and sessions count.
    ``members`` are further members that cannot be recognized by descent any more.
    """

    def __init__(self, root: ProcessRow, scan: Callable[[], Scan], members: Iterable[ProcessRow] = ()) -> None:
        """Begin with the program ``root`` and ``members`` that are known already; ``scan`` reads the process table.

        The children that this process has now are recorded, as orphans of the program become its children too.
        """
        self._root = root.pid
        self._scan = scan
        #: Number → start of each process that ever was a member, and the sessions of all of them.
        self._starts = {member.pid: member.start for member in (root, *members)}
        # A session has the number of the process that began it, which any member may do.
        self._sessions = set(self._starts)
        #: The children that this process had before, which are no orphans of the tree.
        self._before = {child.pid for child in table().values() if child.parent == os.getpid()}

    def alive(self) -> list[ProcessRow]:
        """Add new descendants to the tree, reap those that this process has adopted, and return the running ones.

        A new member may have children or a session by which further processes join, so the table is searched again
        until none joins. The program itself is not reaped here but by ``Process``, which needs its exit code.
        """
        rows, strangers = self._scan()
        while joined := [process for process in rows.values() if self._joins(process, rows, strangers)]:
            self._starts.update((process.pid, process.start) for process in joined)
            self._sessions.update(process.session for process in joined)
        members = [process for process in rows.values() if self._starts.get(process.pid) == process.start]
        for member in members:
            if member.state == "Z" and member.parent == os.getpid() and member.pid != self._root:
                with suppress(ChildProcessError):
                    os.waitpid(member.pid, os.WNOHANG)
        return [member for member in members if member.state not in "ZX"]  # a zombie, or dead: proc_pid_stat(5)

    def _joins(self, process: ProcessRow, rows: Mapping[int, ProcessRow], strangers: set[int] | None) -> bool:
        """Return whether a process of the table ``rows`` that is no member yet belongs to the tree.

        It does if its parent is a member; if it is an orphan that this process has adopted; or if it is in the session
        of a member, as its parent was a member and has ended. An adopted orphan is a new child of this process that is
        not among ``strangers``, the other programs; if these are None, orphans cannot be told apart, and do not join.
        """
        # A process in the session of this one is none of the tree: the program has begun a session of its own.
        if self._starts.get(process.pid) == process.start or process.session == os.getsid(0):
            return False
        parent = rows.get(process.parent)
        is_child = parent is not None and self._starts.get(parent.pid) == parent.start
        is_own_child = process.parent == os.getpid() and process.pid not in self._before
        is_adopted = is_own_child and strangers is not None and process.pid not in strangers
        return is_child or is_adopted or process.session in self._sessions

    def terminate(self) -> None:
        """Send SIGTERM to all members, so that each can end in order.

        They are stopped by SIGSTOP meanwhile, so that none reacts to the end of another, as by starting it again,
        before it has its own signal.
        """
        members = self._freeze()
        for number in (signal.SIGTERM, signal.SIGCONT):
            for member in members:
                _send(member, number)

    def kill(self) -> None:
        """Kill all members, until there are none, and reap those that are children of this process."""
        until = time.monotonic() + _KILL_SECONDS
        while (members := self._freeze()) and time.monotonic() < until:
            for member in members:
                _send(member, signal.SIGKILL)
            time.sleep(0.002)
        self.alive()  # reaps the last ones

    def _freeze(self) -> list[ProcessRow]:
        """Stop all members by SIGSTOP and return them: a stopped process cannot fork another that would escape."""
        frozen: dict[int, ProcessRow] = {}
        for _ in range(50):  # a bound for processes that fork faster than they are stopped
            running = [member for member in self.alive() if member.pid not in frozen]
            if not running:
                break
            for member in running:
                _send(member, signal.SIGSTOP)
                frozen[member.pid] = member
        return list(frozen.values())


def _send(target: ProcessRow, number: int) -> None:
    """Send a signal to exactly this process, never to a later one of the same number; ignore one that has ended."""
    with suppress(OSError):
        fd = os.pidfd_open(target.pid)
        try:
            present = row(target.pid)
            if present and present.start == target.start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
