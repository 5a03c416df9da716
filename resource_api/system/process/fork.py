"""Start a program that only reads, by a fork of this process alone.

``sh`` starts all others. Its import, with asyncio, takes as long as three of the programs that most runs start.
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
    """A forked child, by its number."""

    def __init__(self, pid: int) -> None:
        """Take over a child that has been forked."""
        self.pid = pid
        self._exit_code: int | None = None
        #: The thread that reads its output and one that stops it may wait at once.
        self._waiting = threading.Lock()

    def wait(self) -> int:
        """Wait for its end, and return its exit code, negative after a signal.

        Raise ``ChildProcessError`` when something else in this process has taken that.
        """
        with self._waiting:
            if self._exit_code is None:
                _, status = os.waitpid(self.pid, 0)
                self._exit_code = os.waitstatus_to_exitcode(status)
            return self._exit_code


def start(invocation: Invocation, out: int, err: int, report: int) -> Child:
    """Start a program with these descriptors for its stdout, its stderr and the child's report.

    The child writes the number of an error into the report. Raise ``OSError`` when there can be no child.
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
