"""What is recorded, as text for people; secrets never in it.

Nothing is read or decided here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import Summary
from resource_api.model.values.text import escape, escape_lines, show
from resource_api.state import export as state_export

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.record import Record, StackState

_VALUES: Final = ("inputs", "should", "is_")
_COUNTS: Final = frozenset(Summary._fields) - {"unchanged", "noop"}


def record(state: StackState, found: Record) -> Iterator[str]:
    """Give the lines of one resource: what is worth telling of it, then its values."""
    yield f"{escape(str(found.reference))}:"
    yield f"  urn: {escape(state_export.record_urn(state, found))}"
    yield f"  name: {show(found.name)}"
    for field, default in found._field_defaults.items():
        value = getattr(found, field)
        if value != default and value not in ({}, []):
            yield f"  {field}: {show(value)}"
    for field in _VALUES:
        values = getattr(found, field)
        word = field.rstrip("_")
        if not values:
            absent = "not to be read back" if found.last_run else "absent"
            yield f"  {word}: {absent if values is None else '{}'}"
            continue
        yield f"  {word}:"
        yield from (f"    {escape(name)}: {show(value)}" for name, value in sorted(values.items()))


def run(found: Mapping[str, Any]) -> str:
    """Give a finished run on one line: when, which command, what it did."""
    when = _time(found.get("started"))
    line = f"{when}  {escape(str(found.get('run', '')))}  {escape(str(found.get('command', '')))}"
    counts = found.get("summary")
    if not counts:
        return line
    did = ", ".join(f"{number} {word}" for word, number in counts.items() if number and word in _COUNTS)
    code = counts.get("exit_code")
    return f"{line}: {did or 'nothing changed'}{f' (exit code {code})' if code else ''}"


def output(value: Any, *, terminal: bool) -> str:
    """Give one output as a script wants it: text as it is, unless a terminal would obey it; anything else as JSON."""
    if isinstance(value, str):
        return escape_lines(value) if terminal else value
    return json.dumps(value, ensure_ascii=False, default=str)


def _time(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return str(seconds or "")
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
