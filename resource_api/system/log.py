"""Where log lines go: the one module that owns structlog.

A line below the threshold is never built, and structlog is imported with the first line that is shown: a run
that has nothing to say does not pay for it. What the lines say is decided by the context and the stages.
Importing this module configures nothing.
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
    from collections.abc import Callable, Iterator, MutableMapping, Sequence

LEVELS: Final = {"debug": 10, "info": 20, "notice": 25, "warning": 30, "err": 40, "off": 100}
_WORDS: Final = {"debug": "Debug", "info": "Info", "notice": "Notice", "warning": "Warning", "err": "Error"}
_COLORS: Final = {"debug": "\x1b[2m", "info": "\x1b[32m", "notice": "", "warning": "\x1b[33m", "err": "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_TOGETHER: Final = 500  # lines
_LONGEST: Final = 64 * 1024  # bytes that wait for their line end


class Line(NamedTuple):
    """One thing said: its level, whom it is about (a reference, a type, or nobody) and the text."""

    level: str
    subject: str
    text: str

    def __str__(self) -> str:
        """Spell ``Notice: Widget[a]: created``, on one line whatever the text holds."""
        level, subject, text = self
        return escape(f"{_WORDS[level]}: {subject}: {text}" if subject else f"{_WORDS[level]}: {text}")


class Log:
    """Takes lines, drops those below the threshold, masks secrets, hands the rest to every sink."""

    def __init__(self, threshold: str = "notice", *sinks: Callable[[Line], None]) -> None:
        """Show lines from ``threshold`` (debug, info, notice, warning, err, off) on."""
        self._level = threshold
        self._threshold = LEVELS[threshold]
        self.sinks = list(sinks)
        self.mask = Mask()
        #: Lines come from several threads, and from a signal that has interrupted one of them.
        self._writing = RLock()
        #: What is said together and not shown yet; None: each line is shown at once.
        self._held: list[Line] | None = None

    @property
    def level(self) -> str:
        """The lowest level that is shown anywhere."""
        return self._level if self.sinks else "off"

    def enabled(self, level: str) -> bool:
        """Whether a line of this level would be shown anywhere."""
        return bool(self.sinks) and LEVELS[level] >= self._threshold

    def write(self, level: str, subject: str, *texts: str) -> None:
        """Say one line for each text."""
        if not self.enabled(level):
            return
        with self._writing:
            mask = self.mask
            lines = [Line(level, mask(subject), mask(text)) if mask else Line(level, subject, text) for text in texts]
            if self._held is None:
                for line in lines:
                    self._show([line])
                return
            self._held += lines
            if len(self._held) >= _TOGETHER:
                # A signal may have something to say while they are being shown.
                lines, self._held = self._held, []
                self._show(lines)

    def _show(self, lines: Sequence[Line]) -> None:
        for sink in self.sinks:
            sink(*lines)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Show what is said in here some hundred lines at once: of ten thousand each would be a system call.

        Other threads wait with what they have to say. Who listens line by line goes on doing so.
        """
        if self._held is not None or not all(isinstance(sink, _Sink) for sink in self.sinks):
            yield
            return
        with self._writing:
            self._held = []
            try:
                yield
            finally:
                lines, self._held = self._held, None
                self._show(lines)


def console(stream: TextIO, *, color: bool = False) -> Callable[[Line], None]:
    """Give a sink that writes lines for people; a stream that has gone away never stops a run."""

    # Without structlog: a line for people has nothing to be processed, and there may be ten thousand of them.
    def write(lines: Sequence[Line]) -> None:
        tints = _COLORS if color else {}
        spelt = [f"{tint}{line}{_PLAIN}\n" if (tint := tints.get(line.level)) else f"{line}\n" for line in lines]
        stream.write("".join(spelt))
        stream.flush()

    return _Sink(lambda: write)


def json_lines(stream: TextIO) -> Callable[[Line], None]:
    """Give a sink that writes one JSON object per line."""

    def render(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        import structlog.processors as p  # noqa: PLC0415 - with the first line

        event = p.TimeStamper(fmt="iso", utc=True)(logger, method, event)
        event["message"] = event.pop("event")
        return str(p.JSONRenderer(sort_keys=True)(logger, method, event))

    return _Sink(lambda: _logger(stream, render))


def structured() -> Callable[[Line], None]:
    """Give a sink into the embedding program's own structlog configuration; silent while it has none."""

    def sink(line: Line) -> None:
        import structlog  # noqa: PLC0415 - with the first line

        if structlog.is_configured():
            method = {"notice": "info", "err": "error"}.get(line.level, line.level)
            getattr(structlog.get_logger("resource_api"), method)(
                line.text, subject=line.subject, level_name=line.level
            )

    return sink


class _Sink:
    """What writes to one stream, made with its first line; silent once the stream is gone."""

    def __init__(self, make: Callable[[], Callable[[Sequence[Line]], None]]) -> None:
        self._make = make
        self._write: Callable[[Sequence[Line]], None] | None = None

    def __call__(self, *lines: Line) -> None:
        if not lines:
            return
        if self._write is None:
            self._write = self._make()
        try:
            self._write(lines)
        except (OSError, ValueError):
            self._write = _drop


def _logger(stream: TextIO, render: Callable[..., str]) -> Callable[[Sequence[Line]], None]:
    """Give a structlog logger of one stream."""
    import structlog  # noqa: PLC0415 - with the first line

    class Lines(structlog.BoundLoggerBase):
        def __call__(self, lines: Sequence[Line]) -> None:
            for line in lines:
                self._proxy_to_logger("msg", line.text, level=line.level, subject=line.subject)

    return Lines(structlog.WriteLogger(stream), processors=[render], context={})


def spoken(say: Callable[[str], None], descriptor: int) -> TextIO:
    """Give a stream to stand in for a standard one: what foreign code prints there is said line by line.

    ``descriptor`` is what children of that code write to.
    """
    return _Open(_Spoken(say, descriptor), "utf-8", "backslashreplace", write_through=True)


class _Open(io.TextIOWrapper):
    """A stream that whoever closes it only flushes: the next one to print shall not fail."""

    def close(self) -> None:
        self.buffer.flush()


class _Spoken(io.RawIOBase):
    """Takes bytes and says them line by line, so that they can be masked, escaped and in the log's own format."""

    def __init__(self, say: Callable[[str], None], descriptor: int) -> None:
        self._tell = say
        self._descriptor = descriptor
        self._rest = b""

    @property
    def name(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._say(line)
        return len(data)

    def flush(self) -> None:
        if self._rest:
            self._say(self._rest)
            self._rest = b""

    def _say(self, line: bytes) -> None:
        self._tell(line.decode("utf-8", "backslashreplace"))


def _drop(_lines: Sequence[Line]) -> None:
    """Say nothing: the stream is gone."""
