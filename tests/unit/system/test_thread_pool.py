"""Threads for provider calls end with their tasks, whatever a signal handler raises meanwhile."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.system import thread_pool
from resource_api.system.thread_pool import Abandoned, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Interrupted(Exception):  # noqa: N818 - as the library's own
    """Raised by a signal handler, as ``KeyboardInterrupt`` is."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise ``Interrupted`` in this thread after so many seconds, unless the block has ended."""

    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    clock, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, clock, interval)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.timeout(method="thread")
def test_an_exception_of_a_signal_handler_never_keeps_the_pool_from_ending() -> None:
    """Wherever it comes: while the lock is acquired or released, and as a result arrives."""
    came = 0
    for number in range(600):
        ended: list[int] = []
        try:
            with ThreadPool(2) as pool:
                # An exception in the start of a thread is nothing that the standard library is ready for.
                _run(pool, [0, 1], ended)
                with interrupted_after(0.00005 + number * 0.000003):
                    _run(pool, range(2, 40), ended)
        except Interrupted:
            came += 1
        assert len(ended) == len(set(ended)), "a task runs once"
    assert came > 50


def _run(pool: ThreadPool, tasks: Iterable[int], ended: list[int]) -> None:
    """Run tasks, each of which adds its number to ``ended``."""
    for number in tasks:
        while not pool.has_free_thread:
            pool.next()
        pool.start(partial(ended.append, number))


def test_all_tasks_that_were_begun_have_ended_with_the_pool() -> None:
    """Also where the block is left by an exception, whose results nobody takes."""
    ended: list[int] = []

    def call(pool: ThreadPool, number: int) -> None:
        with pool.unlocked():
            time.sleep(0.02)
        ended.append(number)

    with pytest.raises(Interrupted), ThreadPool(3) as pool:  # noqa: PT012 - the block is the subject
        for number in range(3):
            pool.start(partial(call, pool, number))
        raise Interrupted
    assert sorted(ended) == [0, 1, 2]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_task_that_outlasts_the_grace_period_is_abandoned(monkeypatch: pytest.MonkeyPatch, *, accepted: bool) -> None:
    """While its result is waited for, and while the pool ends."""
    monkeypatch.setattr(thread_pool, "GRACE", 0.1)
    reached: list[str] = []

    def call(pool: ThreadPool) -> None:
        with pool.unlocked():
            time.sleep(0.5)
        reached.append("the lock")

    with pytest.raises(Abandoned), ThreadPool(1) as pool:  # noqa: PT012 - the block is the subject
        pool.start(partial(call, pool))
        pool.start_grace_period()
        if accepted:
            pool.next()
    time.sleep(0.6)
    assert reached == []
    with pool.unlocked():  # nothing is left to other tests
        time.sleep(0.1)
    assert reached == ["the lock"]
