"""Wait for a process and pass signals on to it; none is lost, at whatever moment it comes.

The signals are blocked from before the process is started, and taken one by one with sigwaitinfo(2). A handler does not
do: after a signal that comes just before the wait begins, it would only be called when the wait has ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

#: Comes to a process when its parent has died, if it asks for that with ``namespaces.die_with``.
PARENT_DIED: Final = signal.SIGRTMAX
_PASSED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals(NamedTuple):
    """What a process does with the signals that are passed on."""

    handlers: Mapping[int, Any]
    mask: Collection[int]

    def restore(self) -> None:
        """Do that in this process."""
        for number, handler in self.handlers.items():
            # None: the handler was not installed by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def signals_blocked() -> Iterator[Signals]:
    """Block what ``wait`` takes in the ``with`` block and in processes started there; yield what was done before."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED, signal.SIGCHLD, PARENT_DIED})
    before = Signals({number: signal.getsignal(number) for number in (*_PASSED, signal.SIGCHLD)}, mask)
    # While it is ignored, it does not come.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield before
    finally:
        before.restore()


def wait(child: int, *, orphans: bool = False) -> int:
    """Wait until a child has ended, with ``orphans`` for others too; return the number of the last signal passed on.

    0: none came. What this process ignores is not passed on. When the parent of this process dies, the child is killed.
    """
    passed = 0
    taken = {number for number in _PASSED if signal.getsignal(number) is not signal.SIG_IGN}
    while not _has_ended(child, orphans=orphans):
        number = signal.sigwaitinfo({*taken, signal.SIGCHLD, PARENT_DIED}).si_signo
        if number == PARENT_DIED:
            os.kill(child, signal.SIGKILL)
        elif number != signal.SIGCHLD:
            passed = number
            os.kill(child, number)
    return passed


def _has_ended(child: int, *, orphans: bool) -> bool:
    while True:
        ended, _ = os.waitpid(-1 if orphans else child, os.WNOHANG)
        if ended in {0, child}:
            return ended == child
