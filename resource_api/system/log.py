"""The log of a run: a structlog logger behind a level, with bound fields, masked secrets, and a chain of processors.

structlog is imported, and the logger is made, with the first event that is shown; events below the level cost nothing.
The output of foreign code becomes lines of the log: it is split into lines, outside of secrets.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from resource_api.model.codec import plain
from resource_api.model.report import LogEvent
from resource_api.model.values.errors import ResourceAPIError, UsageError, hint
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import escape
from resource_api.model.values.values import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Literal

    from resource_api.model.change import Difference

    EventDict = MutableMapping[str, Any]
    #: A processor of structlog: called with the wrapped logger, the name of the method, and the event.
    Processor = Callable[[Any, str, Any], Any]
    #: The least severe events of a log.
    Level = Literal["debug", "info", "notice", "warning", "err", "off"]

LEVELS: Final = {"debug": 10, "info": 20, "notice": 25, "warning": 30, "err": 40, "off": 100}
#: Level → method of structlog's loggers.
_METHODS: Final = {"debug": "debug", "info": "info", "notice": "info", "warning": "warning", "err": "error"}
_LABELS: Final = {"debug": "Debug", "info": "Info", "notice": "Notice", "warning": "Warning", "err": "Error"}
_COLORS: Final = {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "err": "\x1b[31m"}
_RESET: Final = "\x1b[0m"
#: The keys of an event that are no fields.
_NO_FIELDS: Final = frozenset({"level", "subject", "event", "change"})
#: A buffered log is flushed after this many lines.
_BUFFER: Final = 500
#: The name of the loggers of an embedding program, and of the level between INFO and WARNING in standard ``logging``.
_LOGGER: Final = "resource_api"
_NOTICE: Final = "NOTICE"
#: Longest line in bytes that ``line_stream`` collects before it is logged without its line end.
_LONGEST_LINE: Final = 64 * 1024

#: The fields of all events of this thread, see ``Log.bind``.
bound_fields: ContextVar[Mapping[str, object]] = ContextVar("resource_api_log", default={})  # noqa: B039 - it is never changed


class LogBusyError(RuntimeError):
    """A signal handler interrupted the import of structlog or a write to the stream; another thread can wait for it."""


class Log:
    """A structlog logger for the events of a run at or above a level.

    Its processors get events with ``level``, ``subject`` (a reference, a type, or empty), ``event`` (the text), and the
    fields that ``docs/logging.md`` lists, bound ones included, as plain data without secrets:

    >>> from structlog.testing import LogCapture
    >>> capture = LogCapture()
    >>> log = Log("info", [capture])
    >>> with log.bind(run="1"):
    ...     log.write("notice", "Widget[a]", "created", status="success")
    >>> capture.entries[0]["event"], capture.entries[0]["run"], capture.entries[0]["status"]
    ('created', '1', 'success')
    """

    def __init__(
        self,
        level: Level = "notice",
        processors: Sequence[Processor] | Callable[[], Sequence[Processor]] = (),
        output: object = None,
        *,
        terse: bool = False,
        step_lines: bool = False,
    ) -> None:
        """Show events of ``level`` (debug, info, notice, warning, err; off: none) and above.

        ``processors`` of structlog, or a function that returns them at the first event, end in a renderer, whose result
        goes to the wrapped logger ``output``, such as ``structlog.WriteLogger()``. Without processors and output the
        events go to the log of the embedding program, see ``EmbeddedLog``. ``terse``: events have no further fields,
        for a renderer that shows none. ``step_lines``: at ``info``, the beginning and the end of each step are events
        too, as with ``-v``. Raise ``UsageError`` for an unknown level.
        """
        if level not in LEVELS:
            raise UsageError(f"unknown log level {level!r}; write {', '.join(LEVELS)}{hint(level, LEVELS)}")
        self.level = level
        self.terse = terse
        self._step_lines = step_lines
        self.mask = Mask()
        self.output = output
        self._processors = processors if processors or output is not None else [_to_program]
        #: Reentrant: lines come from several threads, and from a signal handler that has interrupted one of them.
        self._lock = RLock()
        #: Whether an exception of a processor was printed: the later ones are not.
        self._failed = False

    def enabled(self, level: str, resource_type: str = "") -> bool:  # noqa: ARG002 - of an embedding program's loggers
        """Return whether a line of this level about resources of this type would be shown."""
        return LEVELS[level] >= LEVELS[self.level]

    @property
    def is_brief(self) -> bool:
        """Whether it has only terse readers, for whom equal lines may be counted instead of repeated."""
        return self.terse and not self.enabled("info")

    @property
    def shows_step_lines(self) -> bool:
        """Whether steps have lines of their own: not at debug, where providers and programs have lines."""
        return self._step_lines and self.enabled("info") and not self.enabled("debug")

    def lowest_level(self, resource_type: str) -> str:
        """Return the lowest level that is shown for this type, or ``off``, for a process that sends its lines here."""
        return next((level for level in LEVELS if level != "off" and self.enabled(level, resource_type)), "off")

    @property
    def bound(self) -> Mapping[str, object]:
        """The bound fields of this thread."""
        return bound_fields.get()

    @contextmanager
    def bind(self, **fields: object) -> Iterator[None]:
        """Add these fields to every event of the ``with`` block, such as the run or the resource that it is about.

        If structlog is loaded, they are added to its context variables, so that lines which the embedding program or a
        provider logs with structlog have them too.
        """
        bound = {**bound_fields.get(), **fields}
        token = bound_fields.set(bound)
        structlog = sys.modules.get("structlog.contextvars")
        try:
            with structlog.bound_contextvars(**_masked_data(bound, self.mask)) if structlog else nullcontext():
                yield
        finally:
            bound_fields.reset(token)

    def write(
        self,
        level: str,
        subject: str,
        text: str,
        resource_type: str = "",
        make_fields: Callable[[], Mapping[str, object]] | None = None,
        *,
        change: Difference | None = None,
        **fields: object,
    ) -> None:
        """Log one line about ``subject``, with its ``resource_type`` if it is a resource or a type.

        ``make_fields`` returns further fields, and is called only if the line is shown, as most are not. ``change``:
        the reported change of an attribute, which a renderer may show in another form.
        """
        if not self.enabled(level, resource_type):
            return
        if self.terse:
            fields = {}
        else:
            of_type = {"resource_type": resource_type} if resource_type else {}
            fields = {**of_type, **(make_fields() if make_fields is not None else {}), **fields}
        if change is not None:
            fields["change"] = change
        self.show(level, subject, text, **fields)

    def show(self, level: str, subject: str, text: str, **fields: object) -> None:
        """Show a line of any level; ``write`` has compared the level already.

        An exception of a processor is printed only once, and not raised, as a full disk of the log must not stop a run.
        Raise ``LogBusyError``, and the error of a time limit of the caller that is exceeded meanwhile.
        """
        try:
            with self._lock:
                self._methods[level](text, level=level, subject=subject, **fields)
        except (LogBusyError, ResourceAPIError):  # the latter is ``process_guard.time_limit``'s
            raise
        except Exception:  # noqa: BLE001 - a full log never stops a run
            if not self._failed:
                import traceback

                self._failed = True
                with suppress(OSError, ValueError):
                    traceback.print_exc()

    @cached_property
    def _methods(self) -> Mapping[str, Callable[..., object]]:
        """Level → method of the logger, which is made with the first event, as the import of structlog is slow.

        Raise ``LogBusyError`` in a signal handler that has interrupted the import of structlog.
        """
        import structlog

        try:
            wrap, bound_logger, no_output = structlog.wrap_logger, structlog.BoundLogger, structlog.ReturnLogger
        except AttributeError as error:  # a signal handler has interrupted its import, which sets these last
            raise LogBusyError from error
        first = (self.mask_secrets,) if self.terse else (self.add_context, self.mask_secrets)
        processors = self._processors() if callable(self._processors) else self._processors
        output = no_output() if self.output is None else self.output
        logger = wrap(output, [*first, *processors], bound_logger, dict).bind()
        return {level: getattr(logger, method) for level, method in _METHODS.items()}

    def add_context(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Add the bound fields; those of the event win."""
        return {**bound_fields.get(), **event}

    def mask_secrets(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Return an event with masked secrets, and with its further fields as plain data; a processor of structlog.

        Later processors, such as the renderer of JSON, and the output then get no secret.
        """
        if not self.terse:
            data = {key: plain(value) for key, value in event.items() if key not in _NO_FIELDS}
            event.update(_masked_data(data, self.mask) if self.mask else data)
        # Subject and text are searched in one call, because secrets are rare: ``mask`` returns the same object if the
        # text contains none. ``longest`` is 0 without any secrets.
        if self.mask.longest and (both := f"{event['subject']}\n{event['event']}") is not self.mask(both):
            event["subject"], event["event"] = self.mask(event["subject"]), self.mask(event["event"])
        return event

    def buffered(self) -> AbstractContextManager[None]:
        """Write the lines of a ``with`` block in large groups, if they go to a stream."""
        return self.output.buffered() if isinstance(self.output, StreamLogger) else nullcontext()


class ForwardedLog(Log):
    """A log whose events another process shows, or a test reads; it needs no structlog."""

    def __init__(self, level: str, send: Callable[[LogEvent], object]) -> None:
        """Call ``send`` with the events of ``level`` and above."""
        super().__init__(cast("Level", level), step_lines=True)  # checked there
        self._send = send

    def show(self, level: str, subject: str, text: str, **fields: object) -> None:
        """Send an event with the bound fields and masked secrets to the process that shows it.

        These are the first processors of a ``Log``; the others render the event, and run in that process.
        """
        event: EventDict = {"level": level, "subject": subject, "event": text, **fields}
        for processor in (self.add_context, self.mask_secrets):
            event = processor(None, level, event)
        self._send(log_event(event))


class EmbeddedLog(Log):
    """The log of an embedding program: its structlog if it has configured that, otherwise standard ``logging``.

    The logger is ``resource_api.<type>``, or ``resource_api`` for events without a type.
    """

    def __init__(self) -> None:
        """Import nothing yet, and let all levels pass: the loggers of the program choose among them."""
        super().__init__("debug")
        #: Type → its logger of standard ``logging``.
        self._loggers: dict[str, Any] = {}

    def enabled(self, level: str, resource_type: str = "") -> bool:
        """Return whether the logger of the embedding program, structlog's or Python's, shows a level for a type.

        Lines that are not shown are not built at all.
        """
        if self.level == "off":
            return False
        if structlog := _configured_structlog():
            # Only a filtering logger of structlog has this method; others show all levels. None has the level notice.
            enabled = getattr(structlog.get_logger(_name(resource_type)).bind(), "is_enabled_for", None)
            return enabled is None or bool(enabled(LEVELS["info" if level == "notice" else level]))
        if (logger := self._loggers.get(resource_type)) is None:
            import logging

            logger = self._loggers[resource_type] = logging.getLogger(_name(resource_type))
        return bool(logger.isEnabledFor(LEVELS[level]))


def _configured_structlog() -> Any:
    """Return structlog if the embedding program has configured it, for our events to go there; else None."""
    structlog = sys.modules.get("structlog")
    # Another thread may be importing it.
    is_configured = getattr(structlog, "is_configured", None)
    return structlog if is_configured is not None and is_configured() else None


def _name(resource_type: str) -> str:
    """Return the name of the logger for events about resources of a type, or about none."""
    return f"{_LOGGER}.{resource_type}" if resource_type else _LOGGER


def _to_program(_logger: object, method: str, event: EventDict) -> object:
    """Give an event to the logger of the embedding program; the last processor of structlog.

    Return an empty event, which our own logger, without an output, shows nowhere.
    """
    import logging

    from structlog.contextvars import merge_contextvars

    name = _name(event.get("resource_type", ""))
    event.pop("change", None)  # a value for our own renderers
    if structlog := _configured_structlog():
        text, level = event.pop("event"), event.pop("level")
        getattr(structlog.get_logger(name).bind(level_name=level, **event), method)(text)
    else:
        if logging.getLevelName(LEVELS["notice"]) != _NOTICE:
            logging.addLevelName(LEVELS["notice"], _NOTICE)
        fields = as_document(None, "", dict(merge_contextvars(None, method, event)))
        text = message(log_event(event))
        # An argument, because the text may contain ``%``.
        logging.getLogger(name).log(LEVELS[event["level"]], "%s", text, extra={"resource_api": fields})
    return {}


class StreamLogger:
    """The output of a log on a stream: it writes lines, and drops them after the stream is closed."""

    def __init__(self, stream: TextIO, most: int = _BUFFER) -> None:
        """Write each line to ``stream`` at once; within a ``buffered`` block write groups of up to ``most`` lines."""
        self._stream: TextIO | None = stream
        self._most = most
        self._lines: list[str] = []
        #: The number of lines until the next write, and the size of the groups of lines that are written together.
        self._room = self._group = 1

    def msg(self, line: str) -> None:
        """Write a line at once, or within ``buffered`` when enough lines have come."""
        self._lines.append(line)
        self._room -= 1
        if self._room <= 0:
            self._flush()
            self._room = self._group

    debug = info = warning = error = msg

    def _flush(self) -> None:
        """Write the queued lines; a stream that fails is not tried again, as no log may end a run.

        Raise ``LogBusyError`` in a signal handler that has interrupted a write: the stream is not reentrant.
        """
        # A signal handler may log while these are being written.
        lines, self._lines = self._lines, []
        if lines and self._stream is not None:
            try:
                self._stream.write("".join([f"{line}\n" for line in lines]))
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None
            except RuntimeError as error:  # the write was interrupted by the handler that writes now
                raise LogBusyError from error

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Write the lines of the ``with`` block in large groups: a system call for each line would be slow."""
        self._room = self._group = self._most
        try:
            yield
        finally:
            self._room = self._group = 1
            self._flush()


def json_processors() -> list[Processor]:
    """Return the processors that render an event as a JSON object on one line, with the time in UTC."""
    import structlog

    return [as_document, structlog.processors.TimeStamper("iso", utc=True), structlog.processors.JSONRenderer()]


def as_document(_logger: object, _method: str, event: EventDict) -> dict[str, object]:
    """Return an event as JSON data, see ``document``."""
    return document(log_event(event))


def render_line(_logger: object, _method: str, event: EventDict, *, color: bool = False) -> str:
    """Render an event as a line of text on the console: ``Notice: Widget[a]: created``; a processor of structlog."""
    level, subject, text = event["level"], event["subject"], event["event"]
    text = f"{_LABELS[level]}: {subject}: {text}" if subject else f"{_LABELS[level]}: {text}"
    text = text if text.isprintable() else escape(text)
    start = _COLORS.get(level) if color else None
    return f"{start}{text}{_RESET}" if start else text


def log_event(event: Mapping[str, Any]) -> LogEvent:
    """Return an event of structlog as a value."""
    fields = {key: value for key, value in event.items() if key not in _NO_FIELDS}
    return LogEvent(event["level"], event["subject"], event["event"], fields, event.get("change"))


def document(event: LogEvent) -> dict[str, object]:
    """Return an event as JSON data: level, subject, message, and its fields."""
    return {"level": event.level, "subject": event.subject, "message": event.text, **event.fields}


def line(event: LogEvent, *, color: bool = False) -> str:
    """Return ``Notice: Widget[a]: created``."""
    return render_line(None, "", {"level": event.level, "subject": event.subject, "event": event.text}, color=color)


def message(event: LogEvent) -> str:
    """Return ``Widget[a]: created`` as one line; control characters are escaped."""
    return escape(f"{event.subject}: {event.text}" if event.subject else event.text)


def _masked_data(value: object, mask: Mask) -> Any:
    """Return JSON data with secrets masked in every text, number and key."""

    def masked(leaf: object) -> object:
        """Return a text or number masked, anything else as it is."""
        if isinstance(leaf, str):
            return mask(leaf)
        if leaf is None or isinstance(leaf, bool):
            return leaf
        # A number becomes text only if a secret is in it: ``mask`` returns the same object otherwise.
        text = str(leaf)
        masked_text = mask(text)
        return leaf if masked_text is text else masked_text

    return map_leaves(value, masked, mask)


class LineSplitter:
    """Collects chunks and returns whole lines; ``size`` is the number of pending bytes without a line end.

    A line that is too long is cut outside the secrets of ``mask``, because its pieces are masked separately. With
    ``keep_ends`` the lines have their line ends.
    """

    def __init__(self, mask: Mask | None = None, *, keep_ends: bool = False) -> None:
        """Start at the beginning of a line.

        ``mask``: a line that is too long is not cut within its secrets, which would then not be masked.
        ``keep_ends``: lines are returned with their ends, which show whether a line is complete.
        """
        self._end = "\n" if keep_ends else ""
        self.size = 0
        self._mask = mask or Mask()
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes, limit: int | None = None) -> list[str]:
        """Return the lines that ``chunk`` completes; the unfinished line at its end is continued by the next chunk.

        Once an unfinished line is longer than ``limit`` bytes, its beginning is returned too, to bound the memory.
        """
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
        """Cut off and return the beginning of a line that is too long, so that pending text does not fill the memory.

        A rest as long as the longest secret stays pending, as the next chunk may complete a secret that begins in it:
        cut into two, the secret would not be masked.
        """
        text = decode(b"".join(self._pending))
        end = self._mask.boundary(text, max(0, len(text) - self._mask.longest))
        self._pending = [text[end:].encode("utf-8", "surrogateescape")]
        self.size = len(self._pending[0])
        return [text[:end]] if end else []

    def rest(self) -> list[str]:
        """Return and forget the incomplete line at the end; an empty list when there is none."""
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
    """The stream below the text of ``line_stream``: it takes bytes and passes whole lines on."""

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
        for line in self._lines.feed(bytes(data), _LONGEST_LINE):
            self._emit(line)
        return len(data)

    def flush(self) -> None:
        for line in self._lines.rest():
            self._emit(line)

    def _emit(self, line: str) -> None:
        """Pass a line on, with backslash escapes for bytes that are not UTF-8."""
        self._write_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
