"""Render log events as text and as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from resource_api.model.report import LogEvent

_LABELS: Final = {"debug": "Debug", "info": "Info", "notice": "Notice", "warning": "Warning", "err": "Error"}
_COLORS: Final = {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "err": "\x1b[31m"}
_RESET: Final = "\x1b[0m"


def line(event: LogEvent, *, color: bool = False) -> str:
    """Return ``Notice: Widget[a]: created``."""
    level, subject, text = event.level, event.subject, event.text
    text = escape(f"{_LABELS[level]}: {subject}: {text}" if subject else f"{_LABELS[level]}: {text}")
    start = _COLORS.get(level) if color else None
    return f"{start}{text}{_RESET}" if start else text


def message(event: LogEvent) -> str:
    """Return ``Widget[a]: created`` as one line; control characters are escaped."""
    return escape(f"{event.subject}: {event.text}" if event.subject else event.text)


def document(event: LogEvent) -> dict[str, Any]:
    """Return an event as JSON data: level, subject, message, and its fields."""
    return {"level": event.level, "subject": event.subject, "message": event.text, **event.fields}
