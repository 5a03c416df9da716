"""Run one program: read its output, wait for it, and end it with all its descendants. Needs Linux 5.3.

``sh`` forks and reaps; no other module uses it. The child executes the program itself (``child.execute``), because it
changes its identity, dies with its parent and reports errors by number. It is given pipes of this module, so that
``sh`` starts no reader threads: no exception is lost in a callback, a slow consumer slows the program down, and a
daemon that holds the program's stdout delays nothing. A program that only reads is started by fork(2) instead: most
runs start no other kind, and avoid the import of ``sh``, which takes 80 ms.
"""

from __future__ import annotations

import errno
import gc
import glob
import os
import select
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.process import process_tree
from resource_api.system.process.child import (
    Invocation,
    above_standard_streams,
    execute,
    handled_signals,
    open_stdin,
    prepare,
    signals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "STDERR",
    "STDOUT",
    "Invocation",
    "Process",
    "describe_exit",
    "interrupt",
    "set_listener",
    "starter",
    "stop_all",
]

STDOUT: Final = 1
STDERR: Final = 2
GRACE: Final = 2.0  # seconds from SIGTERM to SIGKILL

_CHUNK: Final = 65536
_PIPE_BYTES: Final = 131072  # bytes that two pipes can still contain when the program has ended
_LONGEST_WAIT: Final = 86_400_000  # milliseconds of one wait, which the system limits to 24 days
_LINGER_SECONDS: Final = 0.1  # seconds that descendants may still write after the program has ended
#: The largest number of descriptors that a start opens.
_MOST_DESCRIPTORS: Final = 12
#: Exit codes, also of signals, for which ``sh`` raises no exception.
_ANY_EXIT_CODE: Final = range(-64, 256)

_LOCK: Final = threading.RLock()  # protects the registry, and hides children from scans until they are registered
_running: Final[set[Process]] = set()
_ended = 0  # the number of programs that were removed from the registry
#: One entry per program that the main thread is starting: the interrupt that ``interrupt`` has deferred, or None.
_deferred: Final[list[KeyboardInterrupt | None]] = []


def _listener(_pid: int, *, running: bool) -> None:
    """Ignore the start or end of a program; replaced by ``set_listener``."""


class Process(AbstractContextManager["Process"]):
    """A running program; leaving its ``with`` block stops it with all its descendants, unless it has ended.

    ``exit_code`` is None while it runs and negative after a signal. The child executes the program itself, later:
    ``failure`` is its error, set at the end.
    """

    def __init__(self, invocation: Invocation) -> None:
        """Start the program in its own session. Raise ``OSError`` if no child can be started.

        An interrupt that comes during the start is deferred until the program is registered: then the program is ended
        and the interrupt raised, see ``interrupt``.
        """
        self.exit_code: int | None = None
        self.failure: OSError | None = None
        #: Whether ``stop`` has ended it.
        self.stopped = False
        #: Held by ``stop``, which different threads may call.
        self._stop_lock = threading.RLock()
        self._watch = -1  # a pidfd: readable when the program has ended
        #: None if it had ended before it could be read.
        self._row: process_tree.ProcessRow | None = None
        main = threading.current_thread() is threading.main_thread()
        if main:
            _deferred.append(None)
        try:
            self._begin(invocation)
        finally:
            if main and (error := _deferred.pop()) is not None:  # see ``interrupt``
                if self in _running:
                    self.stop(0)
                    self._close_after_end()
                raise error

    def _begin(self, invocation: Invocation) -> None:
        """Start the program with pipes for its output, and register it; after an exception kill it and close all pipes.

        The lock is held until the program is registered: a thread that ends another program would otherwise see an
        unknown child, and kill it as an orphan of that program. The third pipe reports an error of the start.
        """
        start, child, ends = self._starter(invocation), None, list[int]()
        try:
            for _ in range(3):
                ends += map(above_standard_streams, os.pipe2(os.O_CLOEXEC))
            # Pairs: the end to read from, which stays open here, and the end to write to.
            self._out, out, self._err, err, self._report, report = ends
            if invocation.identity is not None:  # a program that opens /dev/stdout needs rights on the pipe itself
                for pipe in (out, err):
                    os.fchown(pipe, invocation.identity.uid, -1)
            with _LOCK:
                child = self._child = start(invocation, out, err, report)
                self.pid: int = child.pid
                with suppress(ProcessLookupError, FileNotFoundError):  # it may have ended and been reaped already
                    self._watch = os.pidfd_open(self.pid)
                    self._row = process_tree.read(self.pid)
                if self._watch < 0:
                    child = None  # its process id may be that of another process by now
                    self._reap()
                _running.add(self)
            _listener(self.pid, running=True)
        except BaseException:
            _running.discard(self)
            if child:
                _kill(child.pid)
            for fd in {*ends[::2], self._watch} - {-1}:
                os.close(fd)
            raise
        finally:
            for fd in ends[1::2]:
                os.close(fd)

    def __exit__(self, *_: object) -> None:
        """Stop the program if the ``with`` block was left before its end, and close the pipes."""
        try:
            if self.exit_code is None:
                self.stop(GRACE)
        finally:
            self._close_after_end()

    def chunks(self, timeout: Callable[[], float]) -> Iterator[tuple[int, bytes]]:
        """Yield chunks of ``STDOUT`` and ``STDERR`` until the program has ended, in constant memory.

        ``timeout`` is called before each wait and returns its limit in seconds; it stops the reading by raising. Output
        of descendants is read for 0.1 s after the end of the program: a daemon may hold the pipes open forever.
        """
        streams = {self._out: STDOUT, self._err: STDERR}
        poller = select.poll()
        for fd in {*streams, self._watch} - {-1}:
            poller.register(fd, select.POLLIN)
        # After the end of the program: the time, and the bytes that its own output in the pipes can still have.
        until, remaining = time.monotonic() + _LINGER_SECONDS, _PIPE_BYTES
        while streams or self.exit_code is None:
            ended = self.exit_code is not None
            ready = poller.poll(min(_LONGEST_WAIT, 1000 * (max(0.0, until - time.monotonic()) if ended else timeout())))
            for fd, _ in ready:
                if fd == self._watch:
                    poller.unregister(fd)
                    self._reap()
                    until = time.monotonic() + _LINGER_SECONDS
                elif chunk := os.read(fd, _CHUNK):
                    remaining -= len(chunk) if ended else 0
                    yield streams[fd], chunk
                else:
                    poller.unregister(fd)
                    del streams[fd]
            # A busy descendant may fill the pipes again and again: after the time, the program's own output is enough.
            if ended and (not ready or (remaining < 0 and time.monotonic() > until)):
                return

    def has_ended(self) -> bool:
        """Return whether the program itself has ended; its descendants may still run."""
        return self.exit_code is not None or _readable(self._watch, 0)

    def stop(self, grace: float) -> None:
        """End the program and all its descendants: SIGTERM, ``grace`` seconds, SIGKILL; nothing if it has ended.

        Can be called from any thread. Output of the grace period is dropped, as a full pipe would block the program.
        """
        with self._stop_lock, process_tree.adopting():
            with _LOCK:
                if self not in _running or self.has_ended() or self._row is None:
                    return
                # For ``_scan``: orphans of a program that has ended since then cannot be told from this one's.
                before = _ended
                tree = process_tree.Tree(self._row, lambda: self._scan(before))
            self.stopped = True
            try:
                if grace:
                    tree.terminate()
                until = time.monotonic() + grace
                while tree.alive() and time.monotonic() < until:
                    self._drop_output(0.02)
            finally:
                tree.kill()
            if _readable(self._watch, 1000):
                self._reap()

    def _scan(self, before: int) -> process_tree.Scan:
        """Return the process table, and the process ids of the other running programs, to find this one's orphans.

        A child of this process that is none of them is an orphan of this program. But if another program has ended
        since ``before`` (the value of ``_ended`` then), it may be a daemon of that program, which must survive: return
        None instead of the ids.
        """
        with _LOCK:
            rows = process_tree.table()
            running = _running - {self}
            # A program that still runs after this scan has adopted all its orphans itself until then.
            certain = _ended == before and not any(map(Process.has_ended, running))
            return rows, {program.pid for program in running} if certain else None

    def _starter(self, invocation: Invocation) -> Callable[[Invocation, int, int, int], Any]:
        """Return the function that starts a program; see ``starter``. A subclass may start it otherwise."""
        return starter(reading=invocation.reading)

    def _reap(self) -> None:
        """Wait for the end of the program, and set its exit code."""
        self.exit_code = self._child.wait()

    def _close_after_end(self) -> None:
        """Unregister an ended program, store the error of its start, if any, and close its pipes.

        ``_ended`` counts it, so that a concurrent ``_scan`` notices that its daemons may be unknown children now.
        """
        global _ended  # noqa: PLW0603 - one registry per process, as children are
        with _LOCK:
            _running.discard(self)
            _ended += 1
            self.failure = self._read_start_error()
            for fd in {self._watch, self._out, self._err, self._report} - {-1}:
                os.close(fd)
        _listener(self.pid, running=False)

    def _read_start_error(self) -> OSError | None:
        """Return the error of the program's start, from the number that the child has reported, or None."""
        os.set_blocking(self._report, False)  # another child may hold the other end until it executes its program
        with suppress(BlockingIOError):
            if number := os.read(self._report, _CHUNK):
                return OSError(int(number), os.strerror(int(number)))
        return None

    def _drop_output(self, seconds: float) -> None:
        """Drop the output for some seconds, so that a program that is being ended does not block on a full pipe."""
        until = time.monotonic() + seconds
        poller = select.poll()
        for fd in (self._out, self._err):
            poller.register(fd, select.POLLIN)
        while (remaining := until - time.monotonic()) > 0:
            for fd, _ in poller.poll(1000 * remaining):
                if not os.read(fd, _CHUNK):
                    poller.unregister(fd)


def set_listener(listener: Callable[..., None]) -> None:
    """Call ``listener(pid, running=...)`` at each start and end, for a run to end the programs of its worker."""
    global _listener  # noqa: PLW0603 - as the registry
    _listener = listener


def interrupt(message: str = "") -> None:
    """Raise ``KeyboardInterrupt``; to be called in a signal handler after ``stop_all``.

    While the main thread starts a program, the interrupt is deferred until the program is registered and ended: raised
    between the fork and the registration, it would leave the program running. ``Process.__init__`` then raises it.
    """
    error = KeyboardInterrupt(message)
    if not _deferred:
        raise error
    _deferred[-1] = error


def stop_all() -> None:
    """Kill all running programs with their descendants at once, for an interrupt; return when they have ended."""
    with _LOCK:
        running = list(_running)
    for process in running:
        process.stop(0)


def describe_exit(exit_code: int) -> str:
    """Return the end of a program for a message: ``returned 3``, or for a negative code ``was killed by SIGTERM``."""
    if exit_code >= 0:
        return f"returned {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exit_code, f'signal {-exit_code}')}"


def _readable(fd: int, milliseconds: int) -> bool:
    """Return whether a descriptor can be read within ``milliseconds``; a pidfd can when its process has ended."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(milliseconds))


def starter(*, reading: bool = False) -> Callable[[Invocation, int, int, int], object]:
    """Return a function that starts a program with descriptors for its stdout, its stderr, and the child's report.

    ``reading``: the program only reads, and is started without the library ``sh``, whose import takes time. The
    function returns an object with ``pid`` and ``wait()``, and raises ``OSError`` if no child can be started. It does
    not wait until the program is executed, which the program's user may delay; a child that cannot execute it reports
    the number of the error. Call this before creating the descriptors, as the import of ``sh`` may open some.
    """
    start = _start_reading if reading else partial(_spawn, _sh())
    return lambda *arguments: _in_lasting_thread(partial(start, *arguments))


class _Child:
    """A forked child process."""

    def __init__(self, pid: int) -> None:
        """Take over the forked child ``pid``, to wait for its end."""
        self.pid = pid
        self._exit_code: int | None = None
        #: The thread that reads its output and another that stops it may wait at the same time.
        self._wait_lock = threading.Lock()

    def wait(self) -> int:
        """Wait for the child, and return its exit code, negative after a signal. Raise ``ChildProcessError``."""
        with self._wait_lock:
            if self._exit_code is None:
                _, status = os.waitpid(self.pid, 0)
                self._exit_code = os.waitstatus_to_exitcode(status)
            return self._exit_code


def _start_reading(invocation: Invocation, out: int, err: int, report: int) -> _Child:
    """Start a program by fork(2), without ``sh``; see ``starter``. Raise ``OSError`` if no child can be forked."""
    prepare()
    parent, handled, stdin = os.getpid(), handled_signals(), open_stdin(invocation)
    # No handler of this process may run in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals())
    try:
        pid = os.fork()
        if pid == 0:
            execute(invocation, report, parent, handled, (stdin, out, err))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(stdin)
    return _Child(pid)


def _in_lasting_thread(start: Callable[[], object]) -> object:
    """Return the result of ``start``, called in a thread that lasts as long as this process.

    The kernel kills a program when the thread that has started it ends (``process_tree.end_with``), and threads of
    providers and of ``--parallel`` may end before the program. Raise ``OSError``, also if there is no thread.
    """
    if threading.current_thread() is threading.main_thread():
        return start()
    answers: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    try:
        _lasting_thread(os.getpid()).put((start, answers))
    except RuntimeError:  # no more threads
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    started, error = answers.get()
    if error is not None:
        raise error
    return started


@cache
def _lasting_thread(_pid: int) -> SimpleQueue[object]:
    """Return the queue of tasks for the thread that starts programs, and at first start this thread.

    It must last, because the kernel kills the programs when it ends. There is one for each process id ``_pid``, as a
    forked child does not have the thread of its parent. It is a daemon thread: one of a ``ThreadPoolExecutor`` ends
    with the main thread, although an embedding program may go on.
    """
    tasks: SimpleQueue[object] = SimpleQueue()
    threading.Thread(target=_start_programs, args=(tasks,), daemon=True, name="programs").start()
    return tasks


def _start_programs(tasks: SimpleQueue[Any]) -> None:
    """Start programs for other threads: a task is a function and the queue for its result or its error."""
    while True:
        start, answers = tasks.get()
        try:
            answers.put((start(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked for the program
            answers.put((None, error))
        # Otherwise they would be in memory until the next program.
        del start, answers


@cache
def _sh() -> object:
    """Import the library ``sh`` and return it, without its effects on an embedding program.

    At its import it replaces ``glob.glob``, which is restored, and it logs each program, which is switched off.
    """
    import logging

    original, first = glob.glob, "sh" not in sys.modules
    import sh

    if first:
        glob.glob = original
    logging.getLogger("sh").setLevel(logging.CRITICAL + 1)
    return sh


def _open_standard_streams() -> None:
    """Open the standard descriptors that the caller of this process has closed, as pipes of ``sh`` would get them.

    Call this right before ``sh`` opens its pipes: earlier, a file of another thread may have the number of a closed
    stream, which is free again when that file is closed.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _check_descriptors() -> None:
    """Raise ``OSError`` unless enough descriptors are free for a start by ``sh``: a start that fails leaks some.

    As many as a start needs are opened, and closed again.
    """
    probes: list[int] = []
    try:
        # Not a list of its own: after a failure, ``probes`` holds those that were opened.
        probes.extend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_MOST_DESCRIPTORS))
    finally:
        for fd in probes:
            os.close(fd)


def _spawn(sh: Any, invocation: Invocation, out: int, err: int, report: int) -> object:
    """Start a program by the library ``sh``. Raise ``OSError``.

    The child waits for a byte in the pipe ``go``, which is written after ``sh`` has returned. If ``sh`` fails after the
    fork, the child exits instead of executing a program that nobody would wait for. A failed fork, at the limit of
    processes, leaks the descriptors that ``sh`` has opened before.
    """
    _check_descriptors()
    prepare()
    _open_standard_streams()
    stdin, collects = open_stdin(invocation), gc.isenabled()
    go, release = map(above_standard_streams, os.pipe2(os.O_CLOEXEC))
    handled = (*handled_signals(), signal.SIGHUP)  # ``sh`` ignores that in the background
    execution = partial(execute, invocation, report, os.getpid(), handled, go=go)
    options: dict[str, object] = {"_in": stdin, "_out": out, "_err": err, "_bg": True, "_bg_exc": False}
    options |= {"_new_session": True, "_preexec_fn": execution, "_ok_code": _ANY_EXIT_CODE}
    try:
        running = sh.Command(invocation.path)(**options)
        os.write(release, b"!")
    except sh.CommandNotFound:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    except RuntimeError:  # no thread for the reaper of ``sh``
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    else:
        # Without the references of the two to each other, their memory is free at the end of the program.
        process, running.process = running.process, None
        return process
    finally:
        for fd in (stdin, go, release):
            os.close(fd)
        if collects:  # ``sh`` leaves it disabled after a failure
            gc.enable()


def _kill(pid: int) -> None:
    """Kill a child that could not be registered, with its process group, and reap it; it may have ended already."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(OSError):  # it may not have made its group yet
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, 0)
