"""End a computation of this thread that has passed its time limit, although it asks nobody whether to go on.

Programs and workers have time limits of their own, which come first. In another thread than the main one, and where
the program that embeds this one uses the alarm itself, nothing is ended. What is limited must not be decided here.
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
    from types import FrameType

#: Seconds that a call gets to end by itself, as it knows best what is to be said of it; a program is killed after two.
_GRACE: Final = 4.0


@contextmanager
def time_limit(deadline: float | None) -> Iterator[None]:
    """Raise ``ResourceError`` in the block some seconds after ``deadline``, in seconds of ``time.monotonic``."""
    if (
        deadline is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
        or signal.getitimer(signal.ITIMER_REAL)[0]
    ):
        yield
        return
    seconds = max(0.0, deadline - time.monotonic())
    is_running = True

    def end(_number: int, _frame: FrameType | None) -> None:
        if is_running:
            msg = f"timed out after {round(seconds, 1):g} s"
            raise ResourceError(msg)

    signal.signal(signal.SIGALRM, end)
    try:
        # Again and again: the first one may be caught by what the block calls.
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE, _GRACE)
        yield
    finally:
        is_running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
