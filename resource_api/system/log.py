"""The log of a run: makes its events and sends them to the sinks, of which the console's is here.

An event below the threshold is not built; nor are its fields where no sink shows them. Importing this module configures
nothing. How events are rendered is in ``log_renderers``; the sinks that need structlog are in ``structured_log``.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TextIO

from resource_api.model.event import LogEvent
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.system.process.line_splitter import LineSplitter

LEVELS: Final = {"debug": 10, "info": 20, "notice": 25, "warning": 30, "err": 40, "off": 100}
#: A buffered log is flushed after this many lines.
_BUFFER: Final = 500
#: Longest line in bytes that ``line_stream`` collects before it is logged without its line end.
_LONGEST: Final = 64 * 1024


#: The fields that all events of this thread share, see ``Log.bind``.
_bound: ContextVar[Mapping[str, Any]] = ContextVar("resource_api_log", default={})  # noqa: B039 - it is never changed


def bound() -> Mapping[str, Any]:
    """Return the fields that are bound in this thread."""
    return _bound.get()


class Log:
    """Make events of what is logged, unless they are below the threshold, mask secrets, and send them to every sink.

    A sink is called with one or more events. One with a method ``accepts`` decides by level and type what it takes; the
    others take what reaches the threshold. One whose ``shows_fields`` is false gets events without fields.
    """

    def __init__(self, threshold: str = "notice", *sinks: Callable[[LogEvent], None]) -> None:
        """Show lines of level ``threshold`` (debug, info, notice, warning, err, off) and above."""
        self._threshold = LEVELS[threshold]
        self.sinks = list(sinks)
        #: The sinks of the last line, whether any of them has ``accepts``, and whether any shows fields.
        self._known: list[Callable[[LogEvent], None]] = []
        self._choosing = self._shows_fields = False
        self.mask = Mask()
        #: Reentrant: lines come from several threads, and from a signal handler that has interrupted one of them.
        self._lock = RLock()
        #: Events of ``buffered`` that are not shown yet; None: each event is shown at once.
        self._pending: list[LogEvent] | None = None

    def enabled(self, level: str, resource_type: str = "") -> bool:
        """Whether a line of this level about resources of this type would be shown."""
        return bool(self._takers(level, resource_type))

    @property
    def is_brief(self) -> bool:
        """Whether it is for people who have not asked for more: many lines that say the same may be counted instead."""
        return not self.enabled("info") and not any(getattr(sink, "shows_fields", True) for sink in self.sinks)

    def lowest_level(self, resource_type: str) -> str:
        """Return the lowest level that is shown of this type; ``off`` if none is."""
        return next((level for level in LEVELS if level != "off" and self.enabled(level, resource_type)), "off")

    def _takers(self, level: str, resource_type: str) -> Sequence[Callable[..., None]]:
        """Return the sinks that take events of this level about this type."""
        if self.sinks != self._known:
            self._known = list(self.sinks)
            self._choosing = any(hasattr(sink, "accepts") for sink in self._known)
            self._shows_fields = any(getattr(sink, "shows_fields", True) for sink in self._known)
        reached = LEVELS[level] >= self._threshold
        if self._choosing:
            return [
                sink
                for sink in self._known
                if (reached if (accepts := getattr(sink, "accepts", None)) is None else accepts(level, resource_type))
            ]
        return self._known if reached else ()

    @property
    def bound(self) -> Mapping[str, Any]:
        """The fields that are bound in this thread."""
        return _bound.get()

    @contextmanager
    def bind(self, **fields: Any) -> Iterator[None]:
        """Give every event of the ``with`` block these fields too.

        Where structlog is in use, its context variables get them, so that lines which the embedding program or a
        provider logs with structlog have them as well.
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
        """Return an event with ``fields`` and those that are bound, its secrets masked."""
        return _masked(LogEvent(level, subject, text, {**_bound.get(), **fields}), self.mask)

    def write(
        self,
        level: str,
        subject: str,
        text: str,
        resource_type: str = "",
        about: Callable[[], Mapping[str, Any]] | None = None,
        *,
        change: Difference | None = None,
        **fields: Any,
    ) -> None:
        """Log one line about ``subject``, which is of ``resource_type`` where it is a resource or a type.

        The event has ``fields``, those that ``about`` returns, and those that are bound; ``change`` as in ``LogEvent``.
        """
        takers = self._takers(level, resource_type)
        if not takers:
            return
        if self._shows_fields:
            own = {"resource_type": resource_type} if resource_type else {}
            event = self.event(level, subject, text, **{**own, **(about() if about is not None else {}), **fields})
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
                # A signal handler may log while these are being shown.
                events, self._pending = self._pending, []
                self._show(events)

    def _show(self, events: Sequence[LogEvent]) -> None:
        if self.mask:
            # Together, because that is faster; those with fields are masked already.
            found = self.mask.search([f"{event.subject}\n{event.text}" for event in events])
            events = [_masked(event, self.mask) if index in found else event for index, event in enumerate(events)]
        for sink in self.sinks:
            sink(*events)

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Show the lines of the ``with`` block in large groups: one system call for hundreds of lines.

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
                self._show(events)


def _masked(event: LogEvent, mask: Mask) -> LogEvent:
    """Return an event with plain data as its fields, and its secrets masked.

    Subject and text are searched together, because nearly none has any.
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
    """Return a sink that writes lines for people. A closed stream does not stop the run.

    ``large``, called with an event and ``color``, returns the text of an event whose change is too large for a line.
    ``select`` returns those of several events that are shown.
    """

    def write(events: Sequence[LogEvent]) -> None:
        from resource_api.system.log_renderers import line

        lines = [
            line(event, color=color) if event.change is None or large is None else large(event, color=color)
            for event in (events if select is None else select(events))
        ]
        stream.write("".join([f"{each}\n" for each in lines]))
        stream.flush()

    return StreamSink(write, shows_fields=False)


class StreamSink:
    """A sink that writes to a stream, and drops lines once the stream is closed."""

    def __init__(self, write: Callable[[Sequence[LogEvent]], None], *, shows_fields: bool = True) -> None:
        """Call ``write`` with groups of events."""
        self._write = write
        self.shows_fields = shows_fields

    def __call__(self, *events: LogEvent) -> None:
        """Write events, as long as the stream is open."""
        if events:
            try:
                self._write(events)
            except (OSError, ValueError):
                self._write = lambda _events: None


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
            from resource_api.system.process.line_splitter import LineSplitter

            self._lines = LineSplitter(self._mask)
        for line in self._lines.feed(bytes(data), _LONGEST):
            self._emit(line)
        return len(data)

    def flush(self) -> None:
        for line in self._lines.rest() if self._lines else ():
            self._emit(line)

    def _emit(self, line: str) -> None:
        self._write_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
