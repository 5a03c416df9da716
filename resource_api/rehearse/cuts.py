"""Kill a run at a change of a file, and check that the next run reaches the state of an uncut one.

The process and its descendants stop at each system call that changes a file: the kernel asks this process before each
call, seccomp_unotify(2). A kill of the whole run right before a call simulates a crash of the machine. Writes to mapped
memory are not seen.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import platform
import random
import select
import signal
import socket
import stat
import struct
import time
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted
from resource_api.rehearse import side_effects
from resource_api.rehearse.result import Finding, RehearsalError, Verdict, finding
from resource_api.state.sqlite.store import SqliteStore
from resource_api.system.overlay import call_filters as bpf
from resource_api.system.overlay.isolated_run import IsolationError
from resource_api.system.overlay.overlay import describe_differing, differing_paths, read_contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.model.report import RunReport
    from resource_api.provider.context import Activity
    from resource_api.runtime.runtime import Runtime


#: Calls by name: the number on x86-64 and on arm64, None where there is none.
_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "write": (1, 64), "pwrite64": (18, 68), "writev": (20, 66), "pwritev": (296, 70), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "fallocate": (285, 47), "truncate": (76, 45), "ftruncate": (77, 46),
    "open": (2, None), "creat": (85, None), "openat": (257, 56),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
#: Call → index of the argument that is the descriptor to write to, which need not be a file.
_WRITES: Final = {"write": 0, "pwrite64": 0, "writev": 0, "pwritev": 0, "sendfile": 0, "copy_file_range": 2}
#: Call → index of the argument with the flags, which tell whether it creates or truncates a file.
_OPENS: Final = {"open": 1, "openat": 2}
_CREATING_FLAGS: Final = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)  # O_DIRECTORY makes none
#: Machine → its column in the table, its number in filters, and the number of seccomp(2).
_MACHINES: Final = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}

_PASS, _HOLD = (bpf.RETURN, 0, 0, bpf.ALLOW), (bpf.RETURN, 0, 0, bpf.ASK)
# struct seccomp_data: the number of the call, the machine, the address of the instruction, six arguments.
_DATA: Final = "iIQ6Q"
#: struct seccomp_notif.
_NOTIFICATION: Final = struct.Struct(f"QII{_DATA}")
_ANSWER: Final = struct.Struct("QqiI")
# SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND and SECCOMP_USER_NOTIF_FLAG_CONTINUE.
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE: Final = 1
#: Milliseconds between two calls of ``stopped``.
_POLL_MILLISECONDS: Final = 200


class Held(NamedTuple):
    """The end of a held run."""

    #: The number of changing calls, with the call at which it was killed.
    changes: int
    #: The program and the call at which it was killed, ``mv: rename``, or "".
    killed_at: str
    #: The exit code of the process, or None if it was killed.
    exit_code: int | None


class _HeldCall(NamedTuple):
    """A system call that the kernel holds until it is answered."""

    identifier: int
    process: int
    number: int
    arguments: Sequence[int]


def _run_held(
    function: Callable[[], int], kill_at: int, state_write: Callable[[], int], stopped: Callable[[], bool]
) -> Held:
    """Call ``function`` in a forked process, count its changes of files, and kill it right before one of them.

    The kernel holds each changing system call until this process answers, so the change at the cut is never made.
    Before change number ``kill_at`` (0: only count the changes), or when ``stopped`` returns True, all processes of the
    overlay but its first and this one are killed. ``state_write`` returns the number of the current write of state, 0
    for none; its system calls count as one change. ``function`` returns the exit code of the run. Raise
    ``IsolationError`` if the kernel refuses.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = os.fork()
            if not child:
                _call_held(function, theirs)
        # From the child: the descriptor by which held calls are answered.
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        os.waitpid(child, 0)
        raise IsolationError("the kernel does not let system calls be watched: cuts cannot be made")
    watched = os.pidfd_open(child)
    try:
        count, killed_at = _watch(descriptors[0], watched, kill_at, state_write, stopped)
        if kill := bool(killed_at) or stopped():
            os.kill(-1, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if kill:
            _kill_others()
    finally:
        os.close(watched)
        os.close(descriptors[0])
    return Held(count, killed_at, os.WEXITSTATUS(status) if os.WIFEXITED(status) else None)


def _call_held(function: Callable[[], int], channel: socket.socket) -> NoReturn:
    """In the forked process, install the filter that holds changing system calls, call ``function``, and exit.

    The exit code is that of ``function``, or 1 after an exception. Before the call, the parent receives the descriptor
    by which it answers held calls: without answers this process would wait forever.
    """
    code = 1
    try:
        _, machine, call = _MACHINES[platform.machine()]
        listener = bpf.install_with_listener(_filter(machine), call)
        socket.send_fds(channel, [b"+"], [listener])
        os.close(listener)
        channel.close()
        code = function()
    finally:
        os._exit(code)


def _watch(
    listener: int, child: int, kill_at: int, state_write: Callable[[], int], stopped: Callable[[], bool]
) -> tuple[int, str]:
    """Let the held system calls of the child pass one by one, until its end or change number ``kill_at``.

    Return the number of changes, and program and call of change ``kill_at``, such as ``mv: rename``, or "" if the child
    ended before it. That call gets no answer, and so is never made: the caller kills the child while it waits.
    """
    names = _names()
    count = last_write = 0  # ``last_write``: the write of state, or 0, of the change that was counted last
    for identifier, process, number, arguments in _held_calls(listener, child, stopped):
        call, write = names[number], state_write()
        is_same_write = write and write == last_write  # a write of state has many system calls, and is one change
        if not is_same_write and _changes_file(call, process, arguments):
            count, last_write = count + 1, write
            if count == kill_at:
                return count, f"{_program(process)}: {call}"  # without an answer, it is not made
        with suppress(FileNotFoundError):  # the process was killed
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(identifier, 0, 0, _CONTINUE))
    return count, ""


def _held_calls(listener: int, child: int, stopped: Callable[[], bool]) -> Iterator[_HeldCall]:
    """Yield the system calls that the kernel holds, until the child ends or ``stopped`` returns True.

    Each waits until the caller answers it. ``child``: a descriptor of the child, which is readable at its end.
    """
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    poller.register(child, select.POLLIN)
    while not stopped():
        ready = [descriptor for descriptor, _ in poller.poll(_POLL_MILLISECONDS)]
        if child in ready:
            return
        if listener in ready and (call := _receive(listener)) is not None:
            yield call


def _receive(listener: int) -> _HeldCall | None:
    """Return the next held system call from the kernel, or None if its process was killed or a signal came.

    The caller then waits for the next one.
    """
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.EINTR}:
            return None
        raise
    identifier, process, _flags, number, _machine, _address, *arguments = _NOTIFICATION.unpack(buffer)
    return _HeldCall(identifier, process, number, arguments)


def _changes_file(call: str, process: int, arguments: Sequence[int]) -> bool:
    """Return whether a held call of a process changes a file: a write does so to a regular file, not to a pipe."""
    if call not in _WRITES:
        return True
    descriptor = arguments[_WRITES[call]] & 0xFFFFFFFF  # the kernel uses 32 bits of it
    try:
        return stat.S_ISREG(os.stat(f"/proc/{process}/fd/{descriptor}").st_mode)
    except OSError:  # it has ended, or runs as another user
        return False


def _program(process: int) -> str:
    """Return the name of a process's program, for the description of the call at which it was killed."""
    try:
        with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a program"


def _kill_others() -> None:
    """Kill all other processes, and wait until they are reaped: none may change a file during the next run."""
    with suppress(ProcessLookupError):  # raised when there is none left
        while True:
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.001)


def _names() -> Mapping[int, str]:
    """Return number → name of the system calls that change files, for the filter and for the description of a cut.

    The numbers depend on the kind of machine. Raise ``IsolationError`` for an unknown one.
    """
    if platform.machine() not in _MACHINES:
        msg = f"cuts need the numbers of system calls, which are known for x86-64 and arm64, not {platform.machine()}"
        raise IsolationError(msg)
    column = _MACHINES[platform.machine()][0]
    return {number: name for name, numbers in _CALLS.items() if (number := numbers[column]) is not None}


def _filter(machine: int) -> list[bpf.Instruction]:
    """Return the program for seccomp that holds the changing system calls and lets all others pass.

    Calls that open files are held only if their flags create or truncate a file. An instruction has an operation, the
    numbers of instructions to skip if it is true and if it is false, and a value: ``(EQUAL, 0, 1, number), HOLD``
    holds the call ``number``, and skips the second instruction for any other call.
    """
    code = [(bpf.LOAD, 0, 0, bpf.MACHINE), (bpf.EQUAL, 1, 0, machine), _PASS, (bpf.LOAD, 0, 0, bpf.NUMBER)]
    for number, name in _names().items():
        if name in _OPENS:
            flags = bpf.ARGUMENTS + 8 * _OPENS[name]
            makes = [(bpf.LOAD, 0, 0, flags), (bpf.ANY_BIT, 0, 1, _CREATING_FLAGS), _HOLD, _PASS]
            code += [(bpf.EQUAL, 0, len(makes), number), *makes]
        else:
            code += [(bpf.EQUAL, 0, 1, number), _HOLD]
    return [*code, _PASS]


#: The same cuts in every rehearsal.
_SEED: Final = 18
#: State must outlive the cut. ``/run`` of an overlay is empty at first.
_STATE: Final = "/run/rehearsal/state.db"
#: The number of the current write of state, or 0, before the subject of the call.
_NUMBER: Final = struct.Struct("I")
_LONGEST: Final = 4096


def run(runtime: Runtime, apply: Callable[[Runtime], RunReport], layers: int, point: int) -> dict[str, Any]:
    """Apply a manifest and kill the run before change ``point`` (0: never), then apply it again to complete it.

    ``survives_cuts`` compares the returned document with that of an uncut run. It has ``changes``, the number of
    changes of files; ``at``, the cut system call, or ""; ``subject``, the resource whose provider was running;
    ``failed``, the findings of the second run; ``contents``, all written files after it. ``layers``: the descriptor of
    the overlay's layers. Raise ``RehearsalError`` if a run that is not killed fails.
    """
    runtime.with_copied_state(SqliteStore(_STATE))  # fills the file, which each process then opens for itself
    monitor = _Monitor()

    def work() -> int:
        mine = runtime.with_store(_MonitoredStore(SqliteStore(_STATE), monitor))
        mine.run.progress = lambda: monitor
        return apply(mine).exit_code

    held = _run_held(work, point, monitor.writing, lambda: runtime.run.cancelled)
    document = {"changes": held.changes, "at": held.killed_at, "failed": [], "subject": monitor.subject}
    if held.killed_at:
        report = apply(runtime.with_store(SqliteStore(_STATE)))
        document["failed"] = [
            finding(outcome.step, outcome.error) for outcome in report.steps if outcome.status == "failed"
        ]
    elif held.exit_code and not runtime.run.cancelled:
        raise RehearsalError("the run has succeeded, and fails when it is made once more on a new overlay")
    return {**document, "contents": read_contents(layers)}


class _Monitor:
    """Record, in memory that processes share, the current provider call and the current write of state.

    The process that watches reads them: the one to name the resource that a cut hit, the other as ``state_write``.
    """

    def __init__(self) -> None:
        """Create the memory, before the fork of the run: the run writes there, and the watching process reads it.

        So the watching process still knows the call and the write of a run that was killed.
        """
        #: The number of the current write of state, then the current call's subject, ended by a zero byte.
        self._memory = mmap.mmap(-1, _LONGEST)
        #: The number of writes of state so far, in the process that writes.
        self._count = 0

    @property
    def subject(self) -> str:
        """The subject of the current call, or ""."""
        return self._memory[_NUMBER.size :].partition(b"\0")[0].decode(errors="replace")

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Record the resources of a provider's call for the ``with`` block: a cut within it is reported for them.

        Their text is shortened to the size of the shared memory.
        """
        text = activity.subject.encode()[: _LONGEST - _NUMBER.size - 1] + b"\0"
        self._memory[_NUMBER.size : _NUMBER.size + len(text)] = text
        try:
            yield
        finally:
            self._memory[_NUMBER.size : _NUMBER.size + 1] = b"\0"

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:  # noqa: ARG002 - the protocol's
        """Return a context around a wait, which is not recorded."""
        return nullcontext(lambda: None)

    def writing(self) -> int:
        """Return the number of the current write of state, or 0."""
        return int(_NUMBER.unpack_from(self._memory)[0])

    def write(self, method: Callable[..., Any], *arguments: object, **options: object) -> Any:
        """Call a method that writes state, and record its number meanwhile, so that its system calls are one change.

        SQLite makes very many, and most cuts would otherwise hit state instead of resources.
        """
        self._count += 1
        _NUMBER.pack_into(self._memory, 0, self._count)
        try:
            return method(*arguments, **options)
        finally:
            _NUMBER.pack_into(self._memory, 0, 0)


class _MonitoredStore:
    """A store that records its writes in a monitor, so that a cut is named by the write of state that it hit."""

    def __init__(self, store: SqliteStore, monitor: _Monitor) -> None:
        """Pass all calls on to ``store``, and record in ``monitor`` when it writes."""
        self._store = store
        self._monitor = monitor

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        """Hold the lock of the store for the ``with`` block; taking and releasing it are writes of state.

        The block itself is not: it is the run, whose changes of files are counted one by one.
        """
        held = self._store.lock(command, timeout)
        self._monitor.write(held.__enter__)
        try:
            yield
        finally:
            self._monitor.write(held.__exit__, None, None, None)

    def __getattr__(self, name: str) -> Any:
        """Return a member of the store; every method counts as a write of state."""
        member = getattr(self._store, name)
        return partial(self._monitor.write, member) if callable(member) else member


def points(changes: int, count: int) -> list[int]:
    """Return the numbers, from 1, of up to ``count`` of a run's ``changes`` to cut at, spread over the whole run.

    Each is drawn from one of equal parts: 3 of 9 changes are one of 1 to 3, one of 4 to 6 and one of 7 to 9.
    """
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    parts = min(count, changes)
    borders = [changes * part // parts for part in range(parts + 1)] if parts else []
    return [chance.randint(low + 1, high) for low, high in pairwise(borders)]


def survives_cuts(
    count: int,
    first: Mapping[str, Any],
    attempt: Callable[[int], Mapping[str, Any]],
    writers: Mapping[str, Sequence[str]],
    position_of: Callable[[str], str],
) -> Verdict:
    """Return the verdict whether the next run reaches the same state after each of ``count`` runs that are cut once.

    ``first``: the contents after the first run; paths that differ after a second uncut run, as by a time, are not
    compared. ``attempt`` returns the document of ``run`` for a cut before the change with a number. ``writers``: path →
    the references of its writers. ``position_of`` returns the position of a reference's declaration.
    """
    uncut = attempt(0)
    compared = (uncut["contents"].keys() | first.keys()) - differing_paths(first, uncut["contents"])
    findings: dict[tuple[str, str], Finding] = {}
    cut = 0
    for point in points(uncut["changes"], count):
        outcome = attempt(point)
        if not outcome["at"]:  # it ended before: two runs may differ in their number of changes
            continue
        cut += 1
        for problem in _findings(outcome, uncut, compared, writers):
            cause = f"cut before change {point} of {uncut['changes']} ({outcome['at']}): {problem.text}"
            complete = problem._replace(text=cause, place=problem.place or position_of(problem.reference))
            findings.setdefault((problem.reference, problem.text), complete)
    problems = list(findings.values())
    text = f"{counted(cut, 'cut')} in a run of {counted(uncut['changes'], 'change')} of files"
    return Verdict("survives cuts", not problems, text, problems)


def _findings(
    outcome: Mapping[str, Any], uncut: Mapping[str, Any], compared: set[str], writers: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Yield findings about the run after a cut: its failed steps, or else the paths that differ from an uncut run.

    ``outcome`` and ``uncut``: the documents of the cut run and of an uncut one. A path is compared if two uncut runs
    agree on it (``compared``), or if no uncut run writes it. ``writers``: path → the references of its writers, to name
    the resource in the finding.
    """
    if outcome["failed"]:
        for fields in outcome["failed"]:
            failure = Finding(*fields)
            yield failure._replace(text=f"the next run fails: {failure.text}")
        return
    by_reference: dict[str, list[str]] = {}
    for path in sorted(differing_paths(uncut["contents"], outcome["contents"])):
        is_compared = path in compared or path not in uncut["contents"]
        if is_compared and not side_effects.is_common(path):
            # The last writer of the first run, otherwise the resource whose call was cut.
            reference = writers[path][-1] if path in writers else outcome["subject"]
            by_reference.setdefault(reference, []).append(path)
    for reference, group in by_reference.items():
        yield Finding(reference, f"{describe_differing(group)} after the next run")
