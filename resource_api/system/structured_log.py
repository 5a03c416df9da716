"""Send log events to structlog: as JSON lines, or to the embedding program's structlog or standard ``logging``.

Only this module imports structlog, with the first event.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, TextIO

from resource_api.system.log import LEVELS, StreamSink
from resource_api.system.log_renderers import document, message

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence

    from resource_api.model.report import LogEvent

_LOGGER: Final = "resource_api"
#: The name for standard ``logging`` of the level ``notice``, between INFO and WARNING.
_NOTICE: Final = "NOTICE"
#: Level → method of structlog's loggers, if the names differ.
_METHODS: Final = {"notice": "info", "err": "error"}


def json_lines(stream: TextIO) -> StreamSink:
    """Return a sink that writes one JSON object per line, with the time in UTC; a closed stream stops no run."""
    buffer = StringIO()
    logger: Any = None

    def write(events: Sequence[LogEvent]) -> None:
        nonlocal logger
        logger = _json_logger(buffer) if logger is None else logger
        for event in events:
            logger.bind(**document(event)).msg()
        written = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        stream.write(written)
        stream.flush()

    return StreamSink(write)


def _json_logger(buffer: TextIO) -> Any:
    """Return a structlog logger that writes JSON lines to ``buffer``."""
    import structlog

    processors: list[Any] = [
        structlog.processors.TimeStamper("iso", utc=True),
        structlog.processors.JSONRenderer(),
    ]
    return structlog.wrap_logger(structlog.WriteLogger(buffer), processors, structlog.BoundLogger, dict)


class EmbedderSink:
    """Sends events to structlog if the embedding program has configured it, otherwise to standard ``logging``.

    The logger is ``resource_api.<type>``, or ``resource_api`` for events without a type.
    """

    def __init__(self) -> None:
        """Import nothing yet."""
        self._broken = False
        #: Type → its logger of standard ``logging``.
        self._loggers: dict[str, logging.Logger] = {}

    def accepts(self, level: str, resource_type: str) -> bool:
        """Return whether the program's logger is enabled for a level."""
        if "structlog" not in sys.modules or not _structlog_is_configured():
            logger = self._loggers.get(resource_type) or self._logger(resource_type)
            return logger.isEnabledFor(LEVELS[level])
        import structlog

        enabled = getattr(structlog.get_logger(_name(resource_type)).bind(), "is_enabled_for", None)
        return enabled is None or bool(enabled(LEVELS["info" if level == "notice" else level]))

    def _logger(self, resource_type: str) -> logging.Logger:
        import logging

        return self._loggers.setdefault(resource_type, logging.getLogger(_name(resource_type)))

    def __call__(self, *events: LogEvent) -> None:
        """Log events. The first exception of a processor or handler is printed to stderr, and stops no run."""
        for event in events:
            try:
                _log_to_structlog(event) if _structlog_is_configured() else _log_to_logging(event)
            except Exception:  # noqa: BLE001 - a full log never stops a run
                if not self._broken:
                    self._broken = True
                    with suppress(OSError, ValueError):
                        traceback.print_exc()


def _structlog_is_configured() -> bool:
    structlog = sys.modules.get("structlog")
    return structlog is not None and bool(structlog.is_configured())


def _name(resource_type: str) -> str:
    return f"{_LOGGER}.{resource_type}" if resource_type else _LOGGER


def _log_to_structlog(event: LogEvent) -> None:
    import structlog

    logger = structlog.get_logger(_name(event.fields.get("resource_type", "")))
    bound = logger.bind(subject=event.subject, level_name=event.level, **event.fields)
    getattr(bound, _METHODS.get(event.level, event.level))(event.text)


def _log_to_logging(event: LogEvent) -> None:
    import logging

    import structlog

    if logging.getLevelName(LEVELS["notice"]) != _NOTICE:
        logging.addLevelName(LEVELS["notice"], _NOTICE)
    processors = [structlog.contextvars.merge_contextvars, _record_arguments]
    logger = logging.getLogger(_name(event.fields.get("resource_type", "")))
    bound = structlog.wrap_logger(logger, processors, structlog.BoundLogger, dict).bind(**document(event))
    bound.log(message(event))


def _record_arguments(_logger: Any, _method: str, event: Any) -> Any:
    """Return the arguments of ``logging.Logger.log``: the fields are one mapping, ``record.resource_api``."""
    return (LEVELS[event["level"]], event.pop("event")), {"extra": {"resource_api": event}}
