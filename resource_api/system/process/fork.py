"""Start a program that only reads, by fork(2) without ``sh``.

``sh`` starts all other programs. Its import, with asyncio, takes as long as three programs of a typical run.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from resource_api.system.process import child

if TYPE_CHECKING:
    from resource_api.system.process.child import Invocation


class Child:
    """A forked child process."""

    def __init__(self, pid: int) -> None:
        """Take over the child ``pid``."""
        self.pid = pid
        self._exit_code: int | None = None
        #: The thread that reads its output and another that stops it may wait at the same time.
        self._waiting = threading.Lock()

    def wait(self) -> int:
        """Wait for its end, and return its exit code, negative after a signal.

        Raise ``ChildProcessError`` if other code in this process has reaped it.
        """
        with self._waiting:
            if self._exit_code is None:
                _, status = os.waitpid(self.pid, 0)
                self._exit_code = os.waitstatus_to_exitcode(status)
            return self._exit_code


def start(invocation: Invocation, out: int, err: int, report: int) -> Child:
    """Start a program with descriptors for stdout, stderr and the child's report, which gets the number of an error.

    Raise ``OSError`` if no child can be forked.
    """
    child.prepare(invocation)
    parent, handled, stdin = os.getpid(), child.handled_signals(), child.stdin(invocation)
    # No handler of this process may run in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, child.signals())
    try:
        pid = os.fork()
        if pid == 0:
            child.execute(invocation, report, parent, handled, (stdin, out, err))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(stdin)
    return Child(pid)
