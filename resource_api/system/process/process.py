"""Runs one program and owns whatever it starts, until it ends or is stopped. Needs Linux 5.3.

``spawn`` starts it; pipes, waiting and killing are ours. With descriptors of ours ``sh`` starts no reader: no callback
can lose an exception, a slow consumer slows the program down, and nothing waits for a daemon that kept the program's
stdout.

What a program may be called with, what is logged, and words for people do not belong here: see ``command``.
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
from resource_api.system.process.spawn import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

__all__ = ["STDERR", "STDOUT", "Invocation", "Process", "describe_exit", "set_listener", "stop_all"]

STDOUT: Final = 1
STDERR: Final = 2
GRACE: Final = 2.0  # seconds from SIGTERM to SIGKILL

_CHUNK: Final = 65536
_OWED: Final = 131072  # bytes that two pipes can still hold when the program has ended
_LINGER: Final = 0.1  # seconds that others may still write into the pipes of a program that has ended

_LOCK: Final = threading.RLock()  # the registry, and: no scan sees a child that is not yet registered
_running: Final[set[Process]] = set()
_ended = 0  # how many programs have left the registry


def _tell(_pid: int, *, running: bool) -> None:
    """Tell nobody that a program has begun or ended, until somebody wants to know."""


class Process:
    """A running program; leaving its ``with`` before it has ended stops it and everything that it has started.

    ``exit_code`` is None while it runs and negative after a signal. Raises ``OSError`` when it cannot be started.
    """

    def __init__(self, invocation: Invocation) -> None:
        """Start the program in a session of its own."""
        self.exit_code: int | None = None
        self.stopped = False
        self._stopping = threading.RLock()
        self._watch = -1  # readable when the program has ended
        self._row: process_tree.Row | None = None
        start, child, ends = self._starter(), None, list[int]()
        try:
            for _ in range(2):
                ends += os.pipe2(os.O_CLOEXEC)
            self._out, _, self._err, _ = ends
            with _LOCK:
                child = self._child = start(invocation, ends[1], ends[3])
                self.pid: int = child.pid
                with suppress(ProcessLookupError, FileNotFoundError):  # it can have ended and been reaped already
                    self._watch = os.pidfd_open(self.pid)
                    self._row = process_tree.read(self.pid)
                if self._watch < 0:
                    self._reap()
                _running.add(self)
            _tell(self.pid, running=True)
        except BaseException:
            if child:
                spawn.kill(child.pid)
            for fd in {*ends[::2], self._watch} - {-1}:
                os.close(fd)
            raise
        finally:
            for fd in ends[1::2]:
                os.close(fd)

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Stop what has not ended, whatever the reason for leaving: an error, an interrupt, a closed iterator."""
        try:
            if self.exit_code is None:
                self.stop(GRACE)
        finally:
            self._leave()

    def chunks(self, patience: Callable[[], float]) -> Iterator[tuple[int, bytes]]:
        """Yield what arrives on ``STDOUT`` and ``STDERR`` until the program has ended, in constant memory.

        ``patience`` is asked before each wait how many seconds it may take; it ends the reading by raising.
        Whoever still holds the pipes after the end is heard for 0.1 s and then left alone.
        """
        streams = {self._out: STDOUT, self._err: STDERR}
        poller = select.poll()
        for fd in {*streams, self._watch} - {-1}:
            poller.register(fd, select.POLLIN)
        until, owed = time.monotonic() + _LINGER, _OWED
        while streams or self.exit_code is None:
            ended = self.exit_code is not None
            ready = poller.poll(1000 * (max(0.0, until - time.monotonic()) if ended else patience()))
            for fd, _ in ready:
                if fd == self._watch:
                    poller.unregister(fd)
                    self._reap()
                    until = time.monotonic() + _LINGER
                elif chunk := os.read(fd, _CHUNK):
                    owed -= len(chunk) if ended else 0
                    yield streams[fd], chunk
                else:
                    poller.unregister(fd)
                    del streams[fd]
            if ended and (not ready or (owed < 0 and time.monotonic() > until)):
                return

    def has_ended(self) -> bool:
        """Whether the program itself is gone; what it has started may still run."""
        return self.exit_code is not None or _readable(self._watch, 0)

    def stop(self, grace: float) -> None:
        """End the program and all its process_tree: SIGTERM, ``grace`` seconds, SIGKILL. A program that ended is left.

        Safe from any thread. Output that arrives in the meantime is dropped when there is a grace.
        """
        with self._stopping, process_tree.adopting():
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
                    self._discard(0.02)
            finally:
                tree.kill()
            if _readable(self._watch, 1000):
                self._reap()

    def _scan(self, before: int) -> process_tree.Scan:
        with _LOCK:
            rows = process_tree.table()
            others = _running - {self}
            # Only one that is alive after the look has kept all its orphans to itself until then.
            certain = _ended == before and not any(map(Process.has_ended, others))
            return rows, {other.pid for other in others} if certain else None

    def _starter(self) -> Callable[[Invocation, int, int], Any]:
        """Give what starts a program with its output on two descriptors."""
        return spawn.starter()

    def _reap(self) -> None:
        self.exit_code = self._child.wait()

    def _leave(self) -> None:
        global _ended  # noqa: PLW0603 - one registry per process, as children are
        with _LOCK:
            _running.discard(self)
            _ended += 1
            for fd in {self._watch, self._out, self._err} - {-1}:
                os.close(fd)
        _tell(self.pid, running=False)

    def _discard(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        poller = select.poll()
        for fd in (self._out, self._err):
            poller.register(fd, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            for fd, _ in poller.poll(1000 * left):
                if not os.read(fd, _CHUNK):
                    poller.unregister(fd)


def set_listener(listener: Callable[..., None]) -> None:
    """Have ``listener(pid, running=...)`` told of every program that begins and ends from now on."""
    global _tell  # noqa: PLW0603 - as the registry
    _tell = listener


def stop_all() -> None:
    """Kill every program that is running now, with all process_tree and without grace; returns when they are gone."""
    with _LOCK:
        running = list(_running)
    for process in running:
        process.stop(0)


def describe_exit(exit_code: int) -> str:
    """Say how a program ended: ``returned 3``, ``was killed by SIGTERM``."""
    if exit_code >= 0:
        return f"returned {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-exit_code, f'signal {-exit_code}')}"


def _readable(fd: int, milliseconds: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(milliseconds))
