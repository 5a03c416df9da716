"""Plans, reports and state as text for people: the only module that lays out, escapes and redacts them.

Text shows nothing that the JSON form does not show too.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference
from resource_api.model.values.assets import Content
from resource_api.model.values.text import escape, escape_lines, show
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import Record, StackState
    from resource_api.model.report import Report, Summary
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.planner import Plan

_COLORS: Final = {"+": "32", "~": "33", "-": "31", "-/+": "35", "+/-": "35", "<=": "36", ".": "2", ">": "36", "!": "36"}
#: Texts of more lines are not compared line by line, because difflib has quadratic cases.
_LONGEST: Final = 5_000
#: Count of a summary → what it is called in a plan.
_PLANNED: Final[Mapping[str, str]] = {
    "created": "to create",
    "updated": "to update",
    "replaced": "to replace",
    "deleted": "to delete",
    "imported": "to import",
    "forgotten": "to forget",
    "refreshed": "to refresh",
}
#: The counts that the line of a finished run shows.
_CHANGES: Final = frozenset((*_PLANNED, "failed", "skipped"))


def plan(planned: Plan, *, color: bool = False) -> Iterator[str]:
    """Yield the lines of a plan: each step that acts, with its attributes, then the drift and the summary."""
    blocked = planned.blocked
    for step in planned.steps:
        if step.decision.error:
            yield _paint(f"! {escape(str(step.reference))}: {escape(step.decision.error)}", "31", color=color)
        elif step.action is not Action.SAME or step.deferred or step.previous:
            notes = []
            if (cause := blocked.get(step.entry.index)) is not None:
                notes.append(f"skipped because {escape(cause)} fails")
            if step.entry.index in planned.catalog.subscribes and "refreshable" not in step.definition.features:
                notes.append("cannot be refreshed: notify and subscribe only order")
            yield from _step(step, notes, color=color)
    for drift in planned.drift:
        changes = [f"{each.attribute} was {show(each.is_)}, is {show(each.should)}" for each in drift.changes]
        yield escape(f"# {drift.reference} has drifted: {'; '.join(changes)}")
    yield plan_summary(planned.summary)


def _step(step: Step, more: Sequence[str], *, color: bool) -> Iterator[str]:
    symbol = step.action.symbol
    if step.action is Action.REPLACE and step.entry.meta.lifecycle.replace == "create_first":
        symbol = "+/-"
    notes = [*map(escape, step.decision.reasons)]
    if step.previous:
        notes.append(f"was {escape(step.previous)}")
    if step.noop:
        notes.append("noop")
    if step.refreshed_by:
        notes.append("refreshed by " + ", ".join(map(escape, step.refreshed_by)))
    notes += more
    end = f" ({'; '.join(notes)})" if notes else ""
    yield _paint(f"{symbol} {escape(str(step.reference))}{end}", _COLORS.get(symbol, "0"), color=color)
    if step.deferred:
        yield f"    (decided at its turn: {escape(step.deferred)})"
        return
    for difference in step.changes:
        yield from _attribute(step.definition, difference)
    for attribute in step.decision.replaces_because:
        yield f"    # a change of {attribute} replaces it"


def _attribute(definition: TypeDefinition, difference: Difference) -> Iterator[str]:
    name, is_, should, message = difference
    if _secret(definition, difference):
        yield f"    {name}: <sensitive>"
    elif isinstance(should, Content):
        before = show(is_) if is_ is None or isinstance(is_, Content) else "other content"
        yield f"    {name}: {escape(message) or f'{before} → {show(should)}'}"
    elif _long(is_) or _long(should):
        yield f"    {name}:"
        yield from (f"      {line}" for line in _diff(is_, should))
    else:
        yield f"    {name}: {show(is_)} → {show(should)}{f' ({escape(message)})' if message else ''}"


def _secret(definition: TypeDefinition, difference: Difference) -> bool:
    attribute = definition.attributes.get(difference.attribute)
    declared = attribute is not None and (attribute.datatype.sensitive or attribute.write_only)
    return declared or isinstance(difference.is_, Sensitive) or isinstance(difference.should, Sensitive)


def _long(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n") + "\n" * (value.count("\n") > 1)


def _diff(is_: Any, should: Any) -> Iterator[str]:
    from difflib import unified_diff  # noqa: PLC0415 - only for a text of several lines

    before = is_.splitlines(keepends=True) if isinstance(is_, str) else []
    if should is UNKNOWN:
        yield str(UNKNOWN)
        return
    after = should.splitlines(keepends=True) if isinstance(should, str) else []
    if max(len(before), len(after)) > _LONGEST:
        yield f"{len(before)} lines → {len(after)} lines"
        return
    for line in unified_diff(before, after, "is", "should"):
        yield escape_lines(line.rstrip("\n"))
        if not line.endswith("\n"):
            yield "\\ No newline at end"


def plan_summary(summary: Summary) -> str:
    """Return ``Plan: 1 to create, 2 to update, 1 to delete; 12 unchanged.``; counts that are zero are left out."""
    return f"Plan: {planned_counts(summary)}."


def report(done: Report) -> str:
    """Return ``Applied in 1.2 s: 1 created, 12 unchanged.``; other counts that are zero are left out."""
    counts = done.summary._replace(noop=False)._asdict().items()
    shown = ", ".join(f"{count} {name}" for name, count in counts if count or name == "unchanged")
    return f"Applied in {done.seconds:.1f} s: {shown}.{' (noop)' if done.summary.noop else ''}"


def planned_counts(summary: Summary) -> str:
    """Return the counts of a plan: ``1 to create; 12 unchanged``, or ``nothing to do; 12 unchanged``."""
    counts = summary._replace(noop=False, unchanged=0)._asdict().items()
    shown = ", ".join(f"{count} {_PLANNED.get(name, name)}" for name, count in counts if count)
    return f"{shown or 'nothing to do'}; {summary.unchanged} unchanged"


def outputs(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a stack's outputs, sorted by name."""
    for name, value in sorted(values.items()):
        yield f"{name}: {show(value)}"


def output(value: Any, *, terminal: bool) -> str:
    """Return one output for scripts: text as it is, but escaped on a terminal; any other value as JSON."""
    if isinstance(value, str):
        return escape_lines(value) if terminal else value
    return json.dumps(value, ensure_ascii=False, default=str)


def record(state: StackState, found: Record) -> Iterator[str]:
    """Yield the lines of one recorded resource: the fields that differ from their defaults, then its values."""
    from resource_api.state import export as state_export  # noqa: PLC0415 - only for state show

    yield f"{escape(str(found.reference))}:"
    yield f"  urn: {escape(state_export.record_urn(state, found))}"
    yield f"  name: {show(found.name)}"
    defaults = {**found._field_defaults, **found.lifecycle._field_defaults}
    for field, value in found.to_dict().items():
        if field in defaults and value != defaults[field] and value not in ({}, [], ()):
            yield f"  {field}: {show(value)}"
    for word, values in (("inputs", found.inputs), ("should", found.should), ("is", found.is_)):
        if not values:
            absent = "not to be read back" if found.last_run else "absent"
            yield f"  {word}: {absent if values is None else '{}'}"
            continue
        yield f"  {word}:"
        yield from (f"    {escape(name)}: {show(value)}" for name, value in sorted(values.items()))


def run(found: Mapping[str, Any]) -> str:
    """Return a finished run of the history on one line: when it began, its number, its command, and its counts."""
    line = (
        f"{_time(found.get('started'))}  {escape(str(found.get('run', '')))}  {escape(str(found.get('command', '')))}"
    )
    counts = found.get("summary")
    if not counts:
        return line
    changes = ", ".join(f"{counts[name]} {name}" for name in counts if counts[name] and name in _CHANGES)
    code = counts.get("exit_code")
    return f"{line}: {changes or 'nothing changed'}{f' (exit code {code})' if code else ''}"


def _time(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return str(seconds or "")
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _paint(text: str, code: str, *, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text
