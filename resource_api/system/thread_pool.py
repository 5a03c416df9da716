"""Threads that carry out tasks side by side, of which one at a time does the runtime's own work.

Whoever runs a task holds the baton, and puts it down only while a provider is being called. So everything but providers
is as in a run with one thread, and nothing else needs a lock. What the tasks are is the stages' business.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: Seconds that calls have to come back in once they are to be given up.
GRACE: Final = 5.0


class Abandoned(Exception):  # noqa: N818 - reads as what it says
    """Calls did not come back in time: their threads are left, and never get the baton again."""


class _Result(NamedTuple):
    value: Any = None
    error: BaseException | None = None


class Crew:
    """Up to ``size`` threads; while it is entered, the thread that entered it holds the baton too."""

    def __init__(self, size: int) -> None:
        """Start no thread yet."""
        self._size = size
        self._baton = Lock()
        self._tasks: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        # Putting into it is safe in a signal handler that has interrupted somebody who waits for it.
        self._results: SimpleQueue[_Result | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._running = 0
        self._until: float | None = None
        self._abandoned = False

    def __enter__(self) -> Self:
        """Take the baton."""
        self._baton.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for what still runs, and let the threads end. Raises ``Abandoned`` like ``next``."""
        try:
            while self._running:
                self.next(quietly=True)
        finally:
            for _thread in self._threads:
                self._tasks.put(_end)
            if not self._abandoned:
                self._baton.release()

    @property
    def idle(self) -> bool:
        """Whether a task would be begun at once."""
        return self._running < self._size

    def start(self, task: Callable[[], Any]) -> None:
        """Have a task carried out as soon as a thread is free. Raises ``RuntimeError`` when there is none to be had."""
        if len(self._threads) < min(self._size, self._running + 1):
            self._enlarge()
        self._running += 1
        self._tasks.put(task)

    def _enlarge(self) -> None:
        # A daemon: a call that does not come back must not keep the process from ending.
        thread = Thread(target=self._work, daemon=True, name=f"call-{len(self._threads) + 1}")
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
            # There are no more to be had: the calls share those that there are.
            self._size = len(self._threads)
        else:
            self._threads.append(thread)

    def next(self, *, quietly: bool = False) -> Any:
        """Wait for the next task that ends and give its result; raises what it raised, unless ``quietly``.

        Raises ``Abandoned`` when, after ``hurry``, none has ended within the grace.
        """
        with self.resting():
            result = self._wait()
        self._running -= 1
        if result.error is not None and not quietly:
            raise result.error
        return result.value

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Put the baton down for something that takes its time; whoever is not waited for any more never returns."""
        self._baton.release()
        try:
            yield
        finally:
            self._baton.acquire()

    def hurry(self) -> None:
        """Give the running tasks ``GRACE`` more seconds. Safe in a signal handler."""
        self._results.put(None)

    def _wait(self) -> _Result:
        while True:
            left = None if self._until is None else max(0.0, self._until - time.monotonic())
            try:
                result = self._results.get(timeout=left)
            except Empty:
                self._abandoned = True
                self._running = 0
                raise Abandoned from None
            if result is not None:
                return result
            self._until = self._until or time.monotonic() + GRACE

    def _work(self) -> None:
        while (task := self._tasks.get()) is not _end:
            with self._baton:
                try:
                    result = _Result(task())
                except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
                    result = _Result(error=error)
            self._results.put(result)


def _end() -> None:
    """Stand for the end of the tasks; never called."""
