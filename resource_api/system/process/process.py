"""Run one program: read its output, wait for it, and end it with all its descendants. Needs Linux 5.3.

``spawn`` starts it with pipes of this module, so that ``sh`` starts no reader threads: no exception is lost in a
callback, a slow consumer slows the program down, and a daemon that holds the program's stdout delays nothing.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.system.process import process_tree, spawn
from resource_api.system.process.child import Invocation, above_standard_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

__all__ = ["STDERR", "STDOUT", "Invocation", "Process", "describe_exit", "interrupt", "set_listener", "stop_all"]

STDOUT: Final = 1
STDERR: Final = 2
GRACE: Final = 2.0  # seconds from SIGTERM to SIGKILL

_CHUNK: Final = 65536
_PIPES: Final = 131072  # bytes that two pipes can still contain when the program has ended
_LINGER: Final = 0.1  # seconds that descendants may still write after the program has ended

_LOCK: Final = threading.RLock()  # protects the registry, and hides children from scans until they are registered
_running: Final[set[Process]] = set()
_ended = 0  # the number of programs that were removed from the registry
#: One entry per program that the main thread is starting: the interrupt that ``interrupt`` has deferred, or None.
_deferred: Final[list[KeyboardInterrupt | None]] = []


def _listener(_pid: int, *, running: bool) -> None:
    """Ignore the start or end of a program; replaced by ``set_listener``."""


class Process:
    """A running program; leaving its ``with`` block stops it with all its descendants, unless it has ended.

    ``exit_code`` is None while it runs and negative after a signal. The child executes the program itself, later:
    ``failure`` is its error, set at the end.
    """

    def __init__(self, invocation: Invocation) -> None:
        """Start the program in its own session. Raise ``OSError`` if no child can be started."""
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
        """Start the program and register it; after an exception it is killed and closed."""
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
                spawn.kill(child.pid)
            for fd in {*ends[::2], self._watch} - {-1}:
                os.close(fd)
            raise
        finally:
            for fd in ends[1::2]:
                os.close(fd)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Stop a program that has not ended, and close the pipes."""
        try:
            if self.exit_code is None:
                self.stop(GRACE)
        finally:
            self._close_after_end()

    def chunks(self, timeout: Callable[[], float]) -> Iterator[tuple[int, bytes]]:
        """Yield chunks of ``STDOUT`` and ``STDERR`` until the program has ended, in constant memory.

        ``timeout`` is called before each wait and returns its limit in seconds; it stops the reading by raising.
        Output of descendants is read for 0.1 s after the end of the program.
        """
        streams = {self._out: STDOUT, self._err: STDERR}
        poller = select.poll()
        for fd in {*streams, self._watch} - {-1}:
            poller.register(fd, select.POLLIN)
        # After the end of the program: the time, and the bytes that its own output in the pipes can still have.
        until, remaining = time.monotonic() + _LINGER, _PIPES
        while streams or self.exit_code is None:
            ended = self.exit_code is not None
            ready = poller.poll(1000 * (max(0.0, until - time.monotonic()) if ended else timeout()))
            for fd, _ in ready:
                if fd == self._watch:
                    poller.unregister(fd)
                    self._reap()
                    until = time.monotonic() + _LINGER
                elif chunk := os.read(fd, _CHUNK):
                    remaining -= len(chunk) if ended else 0
                    yield streams[fd], chunk
                else:
                    poller.unregister(fd)
                    del streams[fd]
            if ended and (not ready or (remaining < 0 and time.monotonic() > until)):
                return

    def has_ended(self) -> bool:
        """Return whether the program itself has ended; its descendants may still run."""
        return self.exit_code is not None or _readable(self._watch, 0)

    def stop(self, grace: float) -> None:
        """End the program and all its descendants: SIGTERM, ``grace`` seconds, SIGKILL; nothing if it has ended.

        Can be called from any thread. Output that arrives during the grace period is dropped.
        """
        with self._stop_lock, process_tree.adopting():
            with _LOCK:
                if self not in _running or self.has_ended() or self._row is None:
                    return
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
        """Return a ``Scan`` for the tree of this program; ``before``: ``_ended`` when the tree was made."""
        with _LOCK:
            rows = process_tree.table()
            running = _running - {self}
            # A program that still runs after this scan has adopted all its orphans itself until then.
            certain = _ended == before and not any(map(Process.has_ended, running))
            return rows, {program.pid for program in running} if certain else None

    def _starter(self, invocation: Invocation) -> Callable[[Invocation, int, int, int], Any]:
        """Return the function that starts a program; see ``spawn.starter``."""
        return spawn.starter(reading=invocation.reading)

    def _reap(self) -> None:
        """Wait for the end of the program, and set its exit code."""
        self.exit_code = self._child.wait()

    def _close_after_end(self) -> None:
        """Unregister an ended program, read the error of its start, if any, and close its pipes."""
        global _ended  # noqa: PLW0603 - one registry per process, as children are
        with _LOCK:
            _running.discard(self)
            _ended += 1
            self.failure = self._read_start_error()
            for fd in {self._watch, self._out, self._err, self._report} - {-1}:
                os.close(fd)
        _listener(self.pid, running=False)

    def _read_start_error(self) -> OSError | None:
        """Return the error by which the child could not execute the program, from its report, or None."""
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
    """Call ``listener(pid, running=...)`` at the start and end of every program from now on."""
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
    """Kill all running programs with their descendants, without a grace period; return when they have ended."""
    with _LOCK:
        running = list(_running)
    for process in running:
        process.stop(0)


def describe_exit(exit_code: int) -> str:
    """Return the end of a program as text: ``returned 3``, ``was killed by SIGTERM``."""
    if exit_code >= 0:
        return f"returned {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exit_code, f'signal {-exit_code}')}"


def _readable(fd: int, milliseconds: int) -> bool:
    """Return whether a descriptor can be read within a time; a pidfd can when its process has ended."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(milliseconds))
