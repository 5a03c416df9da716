"""The log: levels, lines, and the sinks that print them; the only module that uses structlog.

A line below the threshold is not built, and structlog is imported with the first line for an embedding program.
Importing this module configures nothing. The wording of lines must not enter here.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TextIO

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.system.process.line_splitter import LineSplitter

LEVELS: Final = {"debug": 10, "info": 20, "notice": 25, "warning": 30, "err": 40, "off": 100}
_LABELS: Final = {"debug": "Debug", "info": "Info", "notice": "Notice", "warning": "Warning", "err": "Error"}
_COLORS: Final = {"debug": "\x1b[2m", "info": "\x1b[32m", "notice": "", "warning": "\x1b[33m", "err": "\x1b[31m"}
_RESET: Final = "\x1b[0m"
#: A buffered log is flushed after this many lines.
_BUFFER: Final = 500
#: Longest line in bytes that ``line_stream`` collects before it is logged without its line end.
_LONGEST: Final = 64 * 1024


class Line(NamedTuple):
    """One line: its level, its subject (a reference, a type, or empty) and the text."""

    level: str
    subject: str
    text: str

    def __str__(self) -> str:
        """Return ``Notice: Widget[a]: created`` as one line; control characters in the text are escaped."""
        level, subject, text = self
        return escape(f"{_LABELS[level]}: {subject}: {text}" if subject else f"{_LABELS[level]}: {text}")


class Log:
    """Drop lines below the threshold, mask secrets, and send the rest to every sink."""

    def __init__(self, threshold: str = "notice", *sinks: Callable[[Line], None]) -> None:
        """Show lines of level ``threshold`` (debug, info, notice, warning, err, off) and above."""
        self._level = threshold
        self._threshold = LEVELS[threshold]
        self.sinks = list(sinks)
        self.mask = Mask()
        #: Reentrant: lines come from several threads, and from a signal handler that has interrupted one of them.
        self._lock = RLock()
        #: Lines of ``buffered`` that are not shown yet; None: each line is shown at once.
        self._pending: list[Line] | None = None

    @property
    def level(self) -> str:
        """The lowest level that is shown; ``off`` without a sink."""
        return self._level if self.sinks else "off"

    def enabled(self, level: str) -> bool:
        """Whether a line of this level would be shown."""
        return bool(self.sinks) and LEVELS[level] >= self._threshold

    def write(self, level: str, subject: str, *texts: str) -> None:
        """Log one line for each text."""
        if not self.enabled(level):
            return
        with self._lock:
            mask = self.mask
            lines = [Line(level, subject, text) for text in texts]
            lines = [_masked(line, mask) for line in lines] if mask else lines
            if self._pending is None:
                for line in lines:
                    self._show([line])
                return
            self._pending += lines
            if len(self._pending) >= _BUFFER:
                # A signal handler may log while these are being shown.
                lines, self._pending = self._pending, []
                self._show(lines)

    def _show(self, lines: Sequence[Line]) -> None:
        for sink in self.sinks:
            sink(*lines)

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Show the lines of the ``with`` block in large groups: one system call for hundreds of lines.

        Other threads wait until the block ends. A log with a sink that takes single lines is not buffered.
        """
        if self._pending is not None or not all(isinstance(sink, _StreamSink) for sink in self.sinks):
            yield
            return
        with self._lock:
            self._pending = []
            try:
                yield
            finally:
                lines, self._pending = self._pending, None
                self._show(lines)


def _masked(line: Line, mask: Mask) -> Line:
    """Return a line with its secrets masked; subject and text are searched together, because nearly none has any."""
    level, subject, text = line
    both = f"{subject}\n{text}"
    return line if mask(both) is both else Line(level, mask(subject), mask(text))


def console(stream: TextIO, *, color: bool = False) -> Callable[[Line], None]:
    """Return a sink that writes lines for people. A closed stream does not stop the run."""

    def write(lines: Sequence[Line]) -> None:
        colors = _COLORS if color else {}
        texts = [f"{code}{line}{_RESET}\n" if (code := colors.get(line.level)) else f"{line}\n" for line in lines]
        stream.write("".join(texts))
        stream.flush()

    return _StreamSink(write)


def json_lines(stream: TextIO) -> Callable[[Line], None]:
    """Return a sink that writes one JSON object per line, with the time in UTC; a closed stream stops no run."""

    def write(lines: Sequence[Line]) -> None:
        import json  # noqa: PLC0415 - with the first line
        from datetime import UTC, datetime  # noqa: PLC0415 - the same

        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        for level, subject, text in lines:
            event = {"level": level, "message": text, "subject": subject, "timestamp": time}
            stream.write(f"{json.dumps(event)}\n")
        stream.flush()

    return _StreamSink(write)


def structured() -> Callable[[Line], None]:
    """Return a sink that uses the embedding program's structlog configuration; it drops lines while there is none."""

    def sink(line: Line) -> None:
        import structlog  # noqa: PLC0415 - with the first line

        if structlog.is_configured():
            method = {"notice": "info", "err": "error"}.get(line.level, line.level)
            getattr(structlog.get_logger("resource_api"), method)(
                line.text, subject=line.subject, level_name=line.level
            )

    return sink


class _StreamSink:
    """A sink that writes to a stream, and drops lines once the stream is closed."""

    def __init__(self, write: Callable[[Sequence[Line]], None]) -> None:
        self._write = write

    def __call__(self, *lines: Line) -> None:
        if lines:
            try:
                self._write(lines)
            except (OSError, ValueError):
                self._write = lambda _lines: None


def line_stream(write: Callable[[str], None], descriptor: int, mask: Mask) -> TextIO:
    """Return a replacement for a standard stream that calls ``write`` with each line that foreign code prints.

    The lines can then be masked, escaped, and written in the log's format. ``descriptor`` is what ``fileno`` returns:
    programs that the code starts write there. A very long line is cut at no secret of ``mask``.
    """
    return _UnclosableStream(_LineStream(write, descriptor, mask), "utf-8", "backslashreplace", write_through=True)


class _UnclosableStream(io.TextIOWrapper):
    """A stream whose ``close`` only flushes: the next code that prints must not fail."""

    def close(self) -> None:
        self.buffer.flush()


class _LineStream(io.RawIOBase):
    def __init__(self, write: Callable[[str], None], descriptor: int, mask: Mask) -> None:
        self._write_line = write
        self._descriptor = descriptor
        self._mask = mask
        self._lines: LineSplitter | None = None

    @property
    def name(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        if self._lines is None:
            from resource_api.system.process.line_splitter import LineSplitter  # noqa: PLC0415 - few providers print

            self._lines = LineSplitter(self._mask)
        for line in self._lines.feed(bytes(data), _LONGEST):
            self._emit(line)
        return len(data)

    def flush(self) -> None:
        for line in self._lines.rest() if self._lines else ():
            self._emit(line)

    def _emit(self, line: str) -> None:
        self._write_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
