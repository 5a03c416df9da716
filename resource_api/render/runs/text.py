"""A recorded run as text: its failures first, then what was skipped, what changed, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, is_text_change
from resource_api.model.values.text import escape
from resource_api.render import text
from resource_api.render.changes import Style
from resource_api.render.text_diff import count_lines, text_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: The statuses of steps in the order of their sections.
SECTIONS: Final = {"failed": "Failed", "skipped": "Skipped", "success": "Changed", "noop": "Would change"}
#: What is said of a run of which only the line in the history is left.
NOT_KEPT: Final = "Nothing more is kept of this run: it changed and failed nothing, or it is too old."
_PLAIN: Final = Style()
#: Calls that are named of the critical path, the longest ones.
_CALLS: Final = 10


def run(found: Mapping[str, Any], style: Style = _PLAIN) -> Iterator[str]:
    """Yield the lines of the document of a run."""
    yield text.run(found)
    if found.get("kept") is False:
        yield NOT_KEPT
    for status, title in SECTIONS.items():
        steps = [each for each in found["steps"] if each["status"] == status]
        if steps:
            yield ""
            yield style.paint(f"{title}: {len(steps)}", "1")
            for step in steps:
                yield from _step(step, style)
    if found["drift"]:
        yield ""
        yield style.paint(f"Drifted before this run: {len(found['drift'])}", "1")
        for each in found["drift"]:
            words = (
                f"{c['attribute']} was {style.value(c['was'])}, is {style.value(c['is'])}" for c in each["changes"]
            )
            yield f"  {escape(each['reference'])}: {'; '.join(words)}"
    yield from _critical_path(found, style)


def _step(step: Mapping[str, Any], style: Style) -> Iterator[str]:
    symbol = Action[step["action"].upper()].symbol
    code = "31" if step["status"] == "failed" else ""
    end = f": {escape(step['error'])}" if step["error"] else ""
    place = f" ({escape(step['file'])}:{step['line']})" if step["file"] else ""
    yield style.paint(f"  {symbol} {escape(step['reference'])}{end}{place}", code)
    if step["status"] != "skipped":
        yield from (f"      {line}" for line in change_lines(step["changes"], style))


def change_lines(changes: Iterable[Mapping[str, Any]], style: Style = _PLAIN) -> Iterator[str]:
    """Yield the lines of the changes of a step's document: both values on one line, or a diff below the name."""
    for each in changes:
        difference = Difference(each["attribute"], each["is"], each["should"], each["message"] or "")
        name, end = escape(difference.attribute), f" ({escape(difference.message)})" if difference.message else ""
        if is_text_change(difference):
            yield f"{name} changed {count_lines(difference)}{end}"
            yield from (f"  {line}" for line in text_diff(difference, style))
        else:
            yield f"{name}: {style.pair(difference.is_, difference.should)}{end}"


def _critical_path(found: Mapping[str, Any], style: Style) -> Iterator[str]:
    calls: Sequence[Mapping[str, Any]] = [found["calls"][index] for index in found["critical_path"]]
    if not calls:
        return
    seconds = sum(call["seconds"] for call in calls)
    yield ""
    yield style.paint(f"Longest chain of calls: {duration(seconds)} of {duration(found['seconds'])}", "1")
    longest = sorted(calls, key=lambda call: -call["seconds"])[:_CALLS]
    for call in calls:
        if call in longest:
            yield f"  {duration(call['seconds']):>8}  {call_text(call)}"
    if len(calls) > _CALLS:
        yield f"  and {len(calls) - _CALLS} shorter ones"


def call_text(call: Mapping[str, Any]) -> str:
    """Return a call on one line: ``set File[/a] and 2 more``."""
    more = f" and {call['resources'] - 1} more" if call["resources"] > 1 else ""
    return f"{escape(call['method'])} {escape(call['first'])}{more}"


def duration(seconds: float) -> str:
    """Return seconds as text: ``12 ms``, ``3.4 s``, ``2 min 5 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
