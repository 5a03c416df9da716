"""The parent of a worker: adopts the worker's orphans, and ends them if the worker crashes.

The kernel gives orphans to the nearest ancestor that requests them, prctl(2). So no program of a provider can leave
the tree, in any session. The guardian of a Python worker is forked before anything else is imported, and
holds no memory of the worker; the guardian of a program is forked from the runtime.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from typing import Final, NoReturn

#: Seconds until processes that SIGKILL has not ended are left to the kernel.
_KILL: Final = 5.0


def fork(lifeline: int) -> None:
    """Fork, and return only in the child, which becomes the worker; this process becomes the worker's guardian.

    So the runtime's child is the guardian, which gets the worker's orphans and ends with the worker's exit code.
    ``lifeline`` is a descriptor that is readable once the runtime has closed its end, in a regular close or by its own
    end: the programs that the worker left running are then not killed.
    """
    if child := os.fork():
        try:
            import ctypes

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
            guard(lifeline, child)
        finally:
            os._exit(1)


def guard(lifeline: int, child: int) -> NoReturn:
    """Wait for the end of ``child``, the worker, and end this process with the same code or signal.

    The kernel has given the worker's orphans to this process. After a crash of the worker they are killed, because
    nothing controls them any more. Once the runtime has closed ``lifeline`` they may go on, as after a regular end.
    """
    # The pipes of the worker, of which only the worker may hold ends: their closing shows that it has ended.
    os.closerange(0, lifeline)
    os.closerange(lifeline + 1, os.sysconf("SC_OPEN_MAX"))
    status = None
    while status is None:
        ended, code = os.wait()
        status = code if ended == child else None
    # After a regular end, or once the lifeline is closed, programs that were left running go on.
    if status and not select.select([lifeline], [], [], 0)[0]:
        _end_children()
    if os.WIFSIGNALED(status):
        # The worker itself has written the core dump.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        # This process has to end by the signal of the worker, so that its parent sees the same end.
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _end_children() -> None:
    """Kill all children of this process until there are none, for a limited time.

    One pass is not enough: the children of a killed process become children of this one.
    """
    until = time.monotonic() + _KILL
    while time.monotonic() < until:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = list(map(int, file.read().split()))
        if not children:
            return
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
