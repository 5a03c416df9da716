"""Run a program for the command ``run``: its exit code and the end of what it printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.process.child import Invocation
from resource_api.system.process.process import STDOUT, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHELL: Final = "/bin/sh"
#: Bytes of the end of each stream that are kept.
LARGEST: Final = 64 * 1024
#: Seconds between two looks whether the run was interrupted.
_TICK: Final = 0.2
#: The exit code of a program that signal N ended is this and N, as in a shell.
_SIGNALLED: Final = 128


class _End:
    """The end of a stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Keep the last ``LARGEST`` bytes."""
        self._bytes += chunk
        if (extra := len(self._bytes) - LARGEST) > 0:
            self._dropped += extra
            del self._bytes[:extra]

    def text(self) -> str:
        """Return the text, after the number of bytes that were dropped."""
        text = self._bytes.decode("utf-8", "replace")
        return f"… ({self._dropped} bytes before this)\n{text}" if self._dropped else text


def run(words: Sequence[str], interrupted: Callable[[], bool]) -> dict[str, Any]:
    """Run a program without input, until its end or an interrupt; return its exit code and its output.

    A single word is a line for ``sh``. The variables are those of the login. Raise ``InterruptedError``.
    """
    arguments = ("-c", *words) if len(words) == 1 else ("-c", 'exec "$@"', "sh", *words)

    def timeout() -> float:
        """Return the seconds to wait for output; raise once the run is interrupted, which kills the program."""
        if interrupted():
            raise InterruptedError
        return _TICK

    stdout, stderr = _End(), _End()
    with Process(Invocation(_SHELL, arguments, dict(os.environ), os.getcwd())) as process:
        for stream, chunk in process.chunks(timeout):
            (stdout if stream == STDOUT else stderr).add(chunk)
    code = process.exit_code or 0
    return {"exit_code": code if code >= 0 else _SIGNALLED - code, "stdout": stdout.text(), "stderr": stderr.text()}
