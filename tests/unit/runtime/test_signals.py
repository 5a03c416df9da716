"""What a signal that comes in the middle of a write does to the line about it."""

from __future__ import annotations

import io
import os
import signal
import time
from typing import Any

from resource_api.provider.context import RunContext
from resource_api.runtime.signals import Interrupts
from resource_api.system.log import Log, StreamLogger, render_line


class _Interrupted(io.RawIOBase):
    """A file whose first write is interrupted by SIGTERM."""

    def __init__(self) -> None:
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        first, self.written = not self.written, self.written + bytes(data)
        if first:
            os.kill(os.getpid(), signal.SIGTERM)
        return len(bytes(data))


def test_a_signal_in_the_middle_of_a_write_is_told_of_after_it() -> None:
    """The stream cannot be written to in the handler."""
    file = _Interrupted()
    stream = io.TextIOWrapper(io.BufferedWriter(file), write_through=True)
    run = RunContext(Log("notice", [render_line], StreamLogger(stream), terse=True))
    run.applying = True
    with Interrupts(run):
        run.log.write("notice", "", "created")
        until = time.monotonic() + 20
        while file.written.count(b"\n") < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert file.written.splitlines() == [
        b"Notice: created",
        b"Warning: interrupted: finishing the current step; press Ctrl-C again to stop it",
    ]
    assert run.cancelled
