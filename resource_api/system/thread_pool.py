"""Run provider calls in parallel threads while all other code runs under one lock.

A thread that runs a task holds the pool's lock and releases it only during a provider call (``unlocked``). All code of
the runtime therefore runs as in a run with one thread, and needs no other lock.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: Seconds of the grace period for running calls.
GRACE: Final = 5.0
#: Seconds between two checks for a signal: the kernel may deliver it to another thread.
_TICK: Final = 0.1


class Abandoned(Exception):  # noqa: N818 - a state of the pool, not a mistake
    """Tasks did not end within the grace period: their threads are abandoned and never get the lock again."""


class _Result(NamedTuple):
    value: object = None
    error: BaseException | None = None


class ThreadPool:
    """Threads that run tasks under one lock, released during a provider call; the owner of the pool holds it too."""

    def __init__(self, size: int) -> None:
        """Create a pool of up to ``size`` threads, each started when it is needed: a run may have few tasks."""
        self._size = size
        # It knows its owner: a signal handler may raise while the lock is being released or acquired.
        self._lock = RLock()
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        # None requests the grace period. ``put`` is safe in a signal handler that has interrupted a ``get`` of it.
        self._results: SimpleQueue[_Result | None] = SimpleQueue()
        self._threads: list[Thread] = []
        #: The number of started tasks whose results ``next`` has not returned.
        self._running = 0
        #: The end of the grace period, None before it begins.
        self._deadline: float | None = None
        self._abandoned = False

    def __enter__(self) -> Self:
        """Acquire the lock."""
        self._lock.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait until all tasks and then their threads have ended. Raise ``Abandoned`` as ``next`` does.

        Counting results would not do, as one is lost if a signal handler raises an exception while it is taken from the
        queue. The lock is released before, because a task needs it to end.
        """
        for _thread in self._threads:
            self._tasks.put(None)
        # Abandoned threads never end.
        if self._abandoned:
            return
        with suppress(RuntimeError):  # it is not held any more
            while True:  # more than once: ``_acquire`` repeats after an exception of a signal handler
                self._lock.release()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(self._seconds_left())
                self._check_grace_period()
                if thread.is_alive() and self._seconds_left() == 0:
                    self._lock.acquire()
                    self._abandon()

    @property
    def has_free_thread(self) -> bool:
        """Whether the next task would start at once."""
        return self._running < self._size

    def start(self, task: Callable[[], object]) -> None:
        """Run ``task`` in a free thread, or when one is free, with this thread's context variables.

        So its log lines have the bound fields. Raise ``RuntimeError`` if the system refuses the first thread.
        """
        if len(self._threads) < min(self._size, self._running + 1):
            self._add_thread()
        self._running += 1
        self._tasks.put(partial(copy_context().run, task))

    def _add_thread(self) -> None:
        """Start a further thread; where the system refuses more, go on with the started ones."""
        # A daemon thread: a call that never returns must not keep the process from exiting.
        thread = Thread(target=self._run_tasks, daemon=True, name=f"call-{len(self._threads) + 1}")
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.remove(thread)
            if not self._threads:
                raise
            self._size = len(self._threads)  # the system has no more threads: share the started ones

    def next(self) -> Any:
        """Wait for the next task to end and return its result, or raise its exception.

        Tasks end in any order, so a result itself must contain the operation that it belongs to. Raise ``Abandoned``
        when the grace period passes before a task ends.
        """
        with self.unlocked():
            result = self._wait()
        self._running -= 1
        if result.error is not None:
            raise result.error
        return result.value

    @contextmanager
    def unlocked(self) -> Iterator[None]:
        """Release the lock for a slow operation, such as a provider call, so that other threads go on.

        A thread that was abandoned meanwhile never returns from here.
        """
        self._lock.release()
        try:
            yield
        finally:
            self._acquire()

    def _acquire(self) -> None:
        """Acquire the lock in any case, as the caller releases it later.

        An exception that a signal handler raises meanwhile is raised after that.
        """
        try:
            self._lock.acquire()
        except BaseException:
            self._acquire()
            raise

    def start_grace_period(self) -> None:
        """Limit the running tasks to ``GRACE`` more seconds. Safe in a signal handler."""
        self._results.put(None)

    def _wait(self) -> _Result:
        """Return the next result of a task. A None in the queue, from a signal handler, begins the grace period.

        The wait is in short steps: Python calls signal handlers in the main thread only, and a signal that the kernel
        delivers to another thread does not end its wait. Raise ``Abandoned`` at the end of the grace period.
        """
        while True:
            try:
                result = self._results.get(timeout=self._seconds_left())
            except Empty:
                if self._seconds_left() == 0:
                    self._abandon()
                continue
            if result is not None:
                return result
            self._begin_grace_period()

    def _seconds_left(self) -> float:
        """Return the seconds to wait for a task: until the next check for a signal, or the end of the grace period."""
        return _TICK if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _check_grace_period(self) -> None:
        """Begin the grace period if a signal handler has requested it, while ``__exit__`` waits.

        The request is among the results in the queue, which nobody needs any more and which are dropped.
        """
        with suppress(Empty):  # there is no request
            while self._results.get_nowait() is not None:  # None is the request
                pass
            self._begin_grace_period()

    def _begin_grace_period(self) -> None:
        """Set the end of the grace period, unless it has begun before."""
        self._deadline = self._deadline or time.monotonic() + GRACE

    def _abandon(self) -> NoReturn:
        """Give up all running tasks, when calls go on after the grace period that follows an interrupt.

        Their threads then wait for the lock forever, so that no late call goes on with the run's objects. They are
        daemons, which do not keep the process. Raise ``Abandoned``.
        """
        self._abandoned = True
        self._running = 0
        raise Abandoned

    def _run_tasks(self) -> None:
        """Run tasks in a thread of the pool until one is None, and queue the result or exception of each for ``next``.

        A task runs under the lock, so that code outside of provider calls (``unlocked``) needs no locks of its own.
        """
        while (task := self._tasks.get()) is not None:
            with self._lock:
                try:
                    result = _Result(task())
                except BaseException as error:  # noqa: BLE001 - raised again by ``next``
                    result = _Result(error=error)
            self._results.put(result)
