"""End a computation of this thread that has passed its time limit, although it asks nobody whether to go on.

Programs and workers have time limits of their own, which come first. In the main thread an alarm ends also a regular
expression, elsewhere the interpreter ends what is written in Python. Where the program that embeds this one uses the
alarm itself, nothing is ended in the main thread. What is limited must not be decided here.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

#: Seconds that a call gets to end by itself, as it knows best what is to be said of it; a program is killed after two.
_GRACE: Final = 4.0


def time_limit(deadline: float, declared: float) -> AbstractContextManager[None]:
    """Return a context that raises ``ResourceError`` in it some seconds after ``deadline``, by ``time.monotonic``.

    The message names the time limit that was ``declared``, in seconds.
    """
    seconds, message = max(0.0, deadline - time.monotonic()), f"timed out after {declared:g} s"
    is_main = threading.current_thread() is threading.main_thread()
    return _alarm(seconds, message) if is_main else _asynchronous(seconds, message)


@contextmanager
def _alarm(seconds: float, message: str) -> Iterator[None]:
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    is_running = True

    def end(_number: int, _frame: object) -> None:
        if is_running:
            raise ResourceError(message)

    signal.signal(signal.SIGALRM, end)
    try:
        # Again and again: the first one may be caught by what the block calls.
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE, _GRACE)
        yield
    finally:
        is_running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextmanager
def _asynchronous(seconds: float, message: str) -> Iterator[None]:
    import ctypes

    class TimedOutError(ResourceError):
        """The interpreter raises a class, and makes its instance itself."""

        def __init__(self) -> None:
            super().__init__(message)

    thread, lock, is_running = ctypes.c_ulong(threading.get_ident()), threading.Lock(), True
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def end() -> None:
        with lock:
            if is_running:
                set_exception(thread, ctypes.py_object(TimedOutError))

    timer = threading.Timer(seconds + _GRACE, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_running = False
            set_exception(thread, None)
        timer.cancel()
