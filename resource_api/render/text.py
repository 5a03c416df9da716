"""Plans and reports as text for people: the only place that lays out, escapes and redacts them.

Nothing is computed here that JSON output would not know too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference
from resource_api.model.values.assets import Content
from resource_api.model.values.text import escape, escape_lines, show
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.report import Report, Summary
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.planner import Plan

_COLORS: Final = {"+": "32", "~": "33", "-": "31", "-/+": "35", "+/-": "35", "<=": "36", ".": "2", ">": "36", "!": "36"}
#: Longer texts are compared by their number of lines only: difflib has quadratic cases.
_LONGEST: Final = 5_000


def plan(planned: Plan, *, color: bool = False) -> Iterator[str]:
    """Give the lines of a plan: each step that does something, its attributes, and the summary."""
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
        moved = [f"{each.attribute} was {show(each.is_)}, is {show(each.should)}" for each in drift.changes]
        yield escape(f"# {drift.reference} has drifted: {'; '.join(moved)}")
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
    """Spell ``Plan: 1 to create, 2 to update, 0 to replace, 1 to delete; 12 unchanged.``."""
    parts = [
        f"{summary.created} to create",
        f"{summary.updated} to update",
        f"{summary.replaced} to replace",
        f"{summary.deleted} to delete",
    ]
    more = (
        ("imported", "to import"),
        ("forgotten", "to forget"),
        ("refreshed", "to refresh"),
        ("failed", "failed"),
        ("skipped", "skipped"),
    )
    parts += [f"{getattr(summary, field)} {words}" for field, words in more if getattr(summary, field)]
    return f"Plan: {', '.join(parts)}; {summary.unchanged} unchanged."


def report(done: Report) -> str:
    """Spell ``Applied in 1.2 s: 1 created, ..., 0 skipped.``."""
    summary = done.summary
    parts = [f"{summary.created} created", f"{summary.updated} updated", f"{summary.replaced} replaced"]
    parts.append(f"{summary.deleted} deleted")
    more = [(getattr(summary, field), field) for field in ("imported", "forgotten", "refreshed")]
    parts += [f"{count} {field}" for count, field in more if count]
    parts += [f"{summary.unchanged} unchanged", f"{summary.failed} failed", f"{summary.skipped} skipped"]
    return f"Applied in {done.seconds:.1f} s: {', '.join(parts)}.{' (noop)' if summary.noop else ''}"


def outputs(values: dict[str, Any]) -> Iterator[str]:
    """Give the lines of a stack's outputs."""
    for name, value in sorted(values.items()):
        yield f"{name}: {show(value)}"


def _paint(text: str, code: str, *, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text
