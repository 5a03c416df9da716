"""The command's own streams, where a signal comes in the middle of a write."""

from __future__ import annotations

import io
import os
import signal
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from resource_api.cli.output import _OwnStream, _without_output

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _interrupted() -> Iterator[None]:
    """Send SIGINT as soon as the block has written."""
    yield
    signal.raise_signal(signal.SIGINT)


def test_what_was_written_when_a_signal_came_is_not_written_again() -> None:
    """A signal right after the write, whose handler raises, and a flush at the end of the process."""
    ours, theirs = os.openpty()
    try:
        with closing(_OwnStream(theirs, lambda: None, _interrupted)) as stream:
            with pytest.raises(KeyboardInterrupt):
                stream.write("Plan: 1 to create.\n")
            stream.flush()
            assert os.read(ours, 1000) == b"Plan: 1 to create.\r\n"
            # Nothing below it runs Python code, which a signal could interrupt before the buffer knows of the write.
            assert type(stream.buffer) is io.BufferedWriter
            assert type(stream.buffer.raw) is io.FileIO
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_error_with_many_addresses_takes_linear_time() -> None:
    """They look as the positions at its end do, which remain when the output of a program is left out."""
    addresses = ", ".join(f"10.0.0.{number}:5432" for number in range(1000))
    error = f"no server answers (tried {addresses} in turn)"
    began = time.process_time()
    assert _without_output(error, ["a"]) == error
    assert time.process_time() - began < 1
    assert _without_output("failed: a (site.yaml:4, b.yaml:7, …)", ["a"]) == "failed (site.yaml:4, b.yaml:7, …)"
