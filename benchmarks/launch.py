"""Run one program and print its cost. A small process, because a child inherits the peak memory of its parent.

If the benchmarks, which write large manifests, started a program directly, it would show their peak memory.
"""

from __future__ import annotations

import os
import sys
import time


def launch(words: list[str]) -> None:
    """Run ``words`` without input and output; print exit code, processor time, peak memory in KiB, and elapsed time."""
    nothing = os.open(os.devnull, os.O_RDWR)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        try:
            os.execvp(words[0], words)  # noqa: S606 - our own commands
        finally:
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    cost = f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss} {time.monotonic() - began}"
    sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {cost}\n")


launch(sys.argv[1:])
