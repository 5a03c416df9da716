"""Make the events of a run's log and send them to its sinks, such as the console.

An event below the threshold is not built, nor are its fields if no sink prints them. ``log_renderers`` renders events;
the sinks that need structlog are in ``structured_log``. Foreign output is split into lines, which are logged or masked.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TextIO

from resource_api.model.report import LogEvent
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference

LEVELS: Final = {"debug": 10, "info": 20, "notice": 25, "warning": 30, "err": 40, "off": 100}
#: A buffered log is flushed after this many lines.
_BUFFER: Final = 500
#: Longest line in bytes that ``line_stream`` collects before it is logged without its line end.
_LONGEST: Final = 64 * 1024


#: The fields of all events of this thread, see ``Log.bind``.
_bound: ContextVar[Mapping[str, Any]] = ContextVar("resource_api_log", default={})  # noqa: B039 - it is never changed


def bound() -> Mapping[str, Any]:
    """Return the bound fields of this thread."""
    return _bound.get()


class Log:
    """Make events of log lines at or above a threshold, mask their secrets, and send them to the sinks.

    A sink is called with one or more events. A sink with a method ``accepts`` selects events by level and type; others
    get all events that reach the threshold. A sink whose ``shows_fields`` is false gets events without fields.
    """

    def __init__(self, threshold: str = "notice", *sinks: Callable[[LogEvent], None]) -> None:
        """Log lines of level ``threshold`` (debug, info, notice, warning, err, off) and above."""
        self._threshold = LEVELS[threshold]
        self.sinks = list(sinks)
        #: The sinks of the last line, whether any of them has ``accepts``, and whether any prints fields.
        self._examined: list[Callable[[LogEvent], None]] = []
        self._choosing = self._shows_fields = False
        self.mask = Mask()
        #: Reentrant: lines come from several threads, and from a signal handler that has interrupted one of them.
        self._lock = RLock()
        #: Pending events of ``buffered``, or None if each event is sent at once.
        self._pending: list[LogEvent] | None = None

    def enabled(self, level: str, resource_type: str = "") -> bool:
        """Return whether a line of this level about resources of this type would be logged."""
        return bool(self._takers(level, resource_type))

    @property
    def is_brief(self) -> bool:
        """Whether it has only terse readers, for whom equal lines may be counted instead of repeated."""
        return not self.enabled("info") and not any(getattr(sink, "shows_fields", True) for sink in self.sinks)

    def lowest_level(self, resource_type: str) -> str:
        """Return the lowest level that is logged for this type, or ``off``."""
        return next((level for level in LEVELS if level != "off" and self.enabled(level, resource_type)), "off")

    def _takers(self, level: str, resource_type: str) -> Sequence[Callable[..., None]]:
        """Return the sinks of events of this level about this type."""
        if self.sinks != self._examined:
            self._examined = list(self.sinks)
            self._choosing = any(hasattr(sink, "accepts") for sink in self._examined)
            self._shows_fields = any(getattr(sink, "shows_fields", True) for sink in self._examined)
        reached = LEVELS[level] >= self._threshold
        if self._choosing:
            return [
                sink
                for sink in self._examined
                if (reached if (accepts := getattr(sink, "accepts", None)) is None else accepts(level, resource_type))
            ]
        return self._examined if reached else ()

    @property
    def bound(self) -> Mapping[str, Any]:
        """The bound fields of this thread."""
        return _bound.get()

    @contextmanager
    def bind(self, **fields: Any) -> Iterator[None]:
        """Add these fields to every event of the ``with`` block.

        If structlog is loaded, they are added to its context variables, so that lines which the embedding program or a
        provider logs with structlog have them too.
        """
        bound = {**_bound.get(), **fields}
        token = _bound.set(bound)
        structlog = sys.modules.get("structlog.contextvars")
        try:
            with structlog.bound_contextvars(**_masked_data(bound, self.mask)) if structlog else nullcontext():
                yield
        finally:
            _bound.reset(token)

    def event(self, level: str, subject: str, text: str, **fields: Any) -> LogEvent:
        """Return an event with ``fields`` and the bound fields, its secrets masked."""
        return _masked(LogEvent(level, subject, text, {**_bound.get(), **fields}), self.mask)

    def write(
        self,
        level: str,
        subject: str,
        text: str,
        resource_type: str = "",
        make_fields: Callable[[], Mapping[str, Any]] | None = None,
        *,
        change: Difference | None = None,
        **fields: Any,
    ) -> None:
        """Log one line about ``subject``, with its ``resource_type`` if it is a resource or a type.

        The event has ``fields``, those that ``make_fields`` returns, and the bound ones; ``change`` as in ``LogEvent``.
        """
        takers = self._takers(level, resource_type)
        if not takers:
            return
        if self._shows_fields:
            of_type = {"resource_type": resource_type} if resource_type else {}
            more = make_fields() if make_fields is not None else {}
            event = self.event(level, subject, text, **{**of_type, **more, **fields})
        else:
            event = LogEvent(level, subject, text)
        if change is not None:
            event = event._replace(change=change)
        with self._lock:
            if self._pending is None:
                if self.mask and not self._shows_fields:
                    event = _masked(event, self.mask)
                for sink in takers:
                    sink(event)
                return
            self._pending.append(event)
            if len(self._pending) >= _BUFFER:
                # A signal handler may log while these are being sent.
                events, self._pending = self._pending, []
                self._send(events)

    def _send(self, events: Sequence[LogEvent]) -> None:
        if self.mask:
            # Together, because that is faster; events with fields are masked already.
            secret = self.mask.search([f"{event.subject}\n{event.text}" for event in events])
            events = [_masked(event, self.mask) if index in secret else event for index, event in enumerate(events)]
        for sink in self.sinks:
            sink(*events)

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Write the lines of the ``with`` block in large groups: one system call for hundreds of lines.

        Other threads wait until the block ends. A log with a sink that takes single lines is not buffered.
        """
        if self._pending is not None or not all(isinstance(sink, StreamSink) for sink in self.sinks):
            yield
            return
        with self._lock:
            self._pending = []
            try:
                yield
            finally:
                events, self._pending = self._pending, None
                self._send(events)


def _masked(event: LogEvent, mask: Mask) -> LogEvent:
    """Return an event with plain data as its fields, and its secrets masked.

    Subject and text are searched together, because secrets are rare.
    """
    level, subject, text, fields, change = event
    if not fields and (both := f"{subject}\n{text}") is mask(both):
        return event
    if fields:
        from resource_api.model.codec import plain

        data = {key: plain(value) for key, value in fields.items()}
        fields = _masked_data(data, mask) if mask else data
    return LogEvent(level, mask(subject), mask(text), fields, change)


def _masked_data(value: Any, mask: Mask) -> Any:
    """Return JSON data with every text, number and key masked."""

    def masked(leaf: Any) -> Any:
        if isinstance(leaf, str):
            return mask(leaf)
        return leaf if leaf is None or isinstance(leaf, bool) or mask(text := str(leaf)) is text else mask(text)

    return map_leaves(value, masked, mask)


def console(
    stream: TextIO,
    large: Callable[..., str] | None = None,
    select: Callable[[Sequence[LogEvent]], Sequence[LogEvent]] | None = None,
    *,
    color: bool = False,
) -> StreamSink:
    """Return a sink that writes lines of text. A closed stream does not stop the run.

    ``large``, called with an event and ``color``, returns the text of an event whose change is too large for a line.
    ``select`` returns the events of a group that are written.
    """

    def write(events: Sequence[LogEvent]) -> None:
        from resource_api.system.log_renderers import line

        lines = [
            line(event, color=color) if event.change is None or large is None else large(event, color=color)
            for event in (events if select is None else select(events))
        ]
        stream.write("".join([f"{text}\n" for text in lines]))
        stream.flush()

    return StreamSink(write, shows_fields=False)


class StreamSink:
    """A sink that writes to a stream, and drops lines after the stream is closed."""

    def __init__(self, write: Callable[[Sequence[LogEvent]], None], *, shows_fields: bool = True) -> None:
        """Call ``write`` with groups of events."""
        self._write = write
        self.shows_fields = shows_fields

    def __call__(self, *events: LogEvent) -> None:
        """Write events while the stream is open."""
        if events:
            try:
                self._write(events)
            except (OSError, ValueError):
                self._write = lambda _events: None


class LineSplitter:
    """Collects chunks and returns whole lines; ``size`` is the number of pending bytes without a line end.

    A line that is too long is cut outside the secrets of ``mask``, because its pieces are masked separately. With
    ``keep_ends`` the lines have their line ends.
    """

    def __init__(self, mask: Mask | None = None, *, keep_ends: bool = False) -> None:
        """Start at the beginning of a line."""
        self._end = "\n" if keep_ends else ""
        self.size = 0
        self._mask = mask or Mask()
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes, limit: int | None = None) -> list[str]:
        """Return the lines that ``chunk`` completes, and the incomplete line once it is longer than ``limit`` bytes."""
        head, newline, tail = chunk.rpartition(b"\n")
        lines = []
        if newline:
            lines = decode(b"".join((*self._pending, head))).split("\n")
            lines = [line + self._end for line in lines] if self._end else lines
            self._pending, self.size = [], 0
        self._pending.append(tail)
        self.size += len(tail)
        return lines + self._cut() if limit is not None and self.size > limit + self._mask.longest else lines

    def _cut(self) -> list[str]:
        """Cut off and return the beginning of the line; the rest is longer than any secret that may have begun."""
        text = decode(b"".join(self._pending))
        end = self._mask.boundary(text, max(0, len(text) - self._mask.longest))
        self._pending = [text[end:].encode("utf-8", "surrogateescape")]
        self.size = len(self._pending[0])
        return [text[:end]] if end else []

    def rest(self) -> list[str]:
        """Return the incomplete line at the end; an empty list when there is none."""
        last, self._pending, self.size = b"".join(self._pending), [], 0
        return [decode(last)] if last else []


def decode(data: bytes) -> str:
    """Return UTF-8 as text, with surrogate escapes for other bytes."""
    return data.decode("utf-8", "surrogateescape")


def line_stream(write: Callable[[str], None], descriptor: int, mask: Mask) -> TextIO:
    """Return a replacement for a standard stream that calls ``write`` with each line that foreign code prints.

    The lines can then be masked, escaped, and written in the log's format. ``descriptor`` is the result of ``fileno``:
    programs that the code starts write there. A very long line is cut outside the secrets of ``mask``.
    """
    return _UnclosableStream(_LineStream(write, descriptor, mask), "utf-8", "backslashreplace", write_through=True)


class _UnclosableStream(io.TextIOWrapper):
    """A stream whose ``close`` only flushes, so that later code can still print."""

    def close(self) -> None:
        self.buffer.flush()


class _LineStream(io.RawIOBase):
    def __init__(self, write: Callable[[str], None], descriptor: int, mask: Mask) -> None:
        self._write_line = write
        self._descriptor = descriptor
        self._lines = LineSplitter(mask)

    @property
    def name(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        for line in self._lines.feed(bytes(data), _LONGEST):
            self._emit(line)
        return len(data)

    def flush(self) -> None:
        for line in self._lines.rest():
            self._emit(line)

    def _emit(self, line: str) -> None:
        self._write_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
