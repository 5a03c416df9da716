"""Write messages of manifests into the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lib.imperative import ImperativeProvider
from lib.sensitive import has_secret
from resource_api import Sensitive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api import Change, Context


class Provider(ImperativeProvider):
    """The messages of one run."""

    unlisted = "messages that were written cannot be read"

    def __init__(self) -> None:
        """Start without a declared message: ``due`` keeps each one for ``refresh``, which gets only names."""
        self._declared: dict[str, Mapping[str, Any]] = {}

    def due(self, _context: Context, name: str, should: Mapping[str, Any]) -> bool:
        """Return whether the message is written without a notification."""
        self._declared[name] = should
        return not should["refreshonly"]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Write the messages."""
        for name, (_, should) in changes.items():
            _write(context, name, should)

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Write the messages that were notified."""
        for name in names:
            _write(context, name, self._declared[name])


def _write(context: Context, name: str, should: Mapping[str, Any]) -> None:
    """Write the lines of a message into the log.

    The event that reports the resource needs a message itself: this is the last line.
    """
    message = name if should.get("message") is None else should["message"]
    if has_secret(message):
        text = str(Sensitive(message))
    else:
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    *lines, last = text.splitlines() or [""]
    for line in lines:
        context.notice(name, message=line)
    context.updated(name, message=last)
