"""Explain the steps of a plan: the origin of each attribute's value, the relationships, and the recorded state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.targets import matching
from resource_api.model.sealed_secrets import Sealed
from resource_api.model.values.expression import find_paths
from resource_api.model.values.text import escape
from resource_api.model.values.values import is_secret, is_unknown, same_value
from resource_api.render.plan import step_lines
from resource_api.render.text import plan_summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.render.changes import Style

_SCOPES: Final = {"inputs": "input", "values": "value", "facts": "fact", "stacks": "stack"}
#: How many of the resources that come before one are named.
_NAMED: Final = 10


def lines(plan: ExecutionPlan, patterns: Sequence[str], style: Style) -> Iterator[str]:
    """Yield the steps of the matching resources, with their explanations, and the counts of the whole plan.

    Raise ``UsageError`` for a pattern that matches nothing.
    """
    chosen = matching(patterns, plan.catalog, "--explain", plan.prior.undeclared)
    for step in plan.steps:
        if step.entry.index in chosen:
            yield from step_lines(plan, step, style)
            yield ""
            yield from _explain(plan, step, style)
            yield ""
    yield plan_summary(plan.summary)


def _explain(plan: ExecutionPlan, step: Step, style: Style) -> Iterator[str]:
    entry, record = step.entry, plan.decision_inputs(step).record
    position = entry.declaration.place()
    inside = f" by {entry.parent}" if entry.parent else ""
    yield escape(f"  declared{inside} at {position}" if position.line else f"  declared{inside} in no file")
    differences = {difference.attribute: difference for difference in step.changes}
    names = [name for name, value in step.should.items() if value is not None]
    names += [name for name in differences if name not in names]
    width = max(map(len, names), default=0)
    for name in sorted(names, key=lambda name: name not in differences):
        words = [*_origin(plan.catalog.manifest, entry, name), *_history(differences.get(name), record, style)]
        yield escape(f"    {name:>{width}}: {'; '.join(words)}")
    yield from map(escape, _relationships(plan, step))
    yield escape(f"  {_recorded(record)}")


def _origin(manifest: Manifest, entry: Entry, name: str) -> Iterator[str]:
    """Yield the origin of an attribute's value, and the sources that it is computed from."""
    declaration = entry.declaration
    defaults = manifest.defaults.get(declaration.file, {}).get(declaration.type, {})
    attribute = entry.definition.attributes.get(name)
    if name in declaration.attributes or name in defaults:
        default = "" if name in declaration.attributes else "default of the manifest, "
        yield f"{default}{manifest.place(declaration, name)}"
        yield from _sources(declaration.attributes.get(name, defaults.get(name)))
    elif attribute is not None and attribute.kind == "namevar":
        yield "from the title"
    elif attribute is not None and attribute.has_default:
        yield "default of the type"
    elif name in entry.should:
        yield "set by the type"
    yield from (f"from {source.reference}" for source in entry.sources.get(name, ()))


def _sources(value: Any) -> Iterator[str]:
    """Yield the inputs, values and facts that a value refers to; the entry has the resources."""
    for path in dict.fromkeys(find_paths(value)):
        if isinstance(path.root, str):
            keys = str(path).removeprefix(f"${{{path.root}.").removesuffix("}")
            yield f"{_SCOPES[path.root]} '{keys}'"


def _history(difference: Difference | None, record: Record | None, style: Style) -> Iterator[str]:
    """Yield the cause of a difference: the declaration changed, or the system did."""
    if difference is None or record is None or is_unknown(difference.should):
        return
    name, is_, should, *_ = difference
    recorded, was = record.should.get(name), (record.is_ or {}).get(name)
    hidden = any(isinstance(value, Sealed) or is_secret(value) for value in (recorded, was, is_, should))
    if not same_value(recorded, should):
        yield "the declaration has changed" + ("" if hidden else f": it was {style.value(recorded)}")
    elif not same_value(was, is_):
        yield "the system has changed" + ("" if hidden else f": it was {style.value(was)}")


def _relationships(plan: ExecutionPlan, step: Step) -> Iterator[str]:
    if before := step.depends_on:
        more = f" and {len(before) - _NAMED} more" if len(before) > _NAMED else ""
        yield f"  comes after {', '.join(map(str, before[:_NAMED]))}{more}"
    entries = {entry.reference_text: entry for entry in plan.catalog.entries} if step.refreshed_by else {}
    for name in step.refreshed_by:
        source = entries.get(name)
        declared = _declared(source.declaration, "notify") if source is not None else ""
        yield f"  refreshed by {name}{declared or _declared(step.entry.declaration, 'subscribe')}"


def _declared(declaration: Declaration, word: str) -> str:
    """Return a metaparameter with its position, to append to a line, or an empty string."""
    position = declaration.place(word) if word in declaration.meta else None
    return f": {word} at {position}" if position is not None and position.line else ""


def _recorded(record: Record | None) -> str:
    """Return the recorded ownership and status of a resource."""
    if record is None:
        return "not recorded"
    owner = "ours" if record.owned else "not ours"
    status = "" if record.status == "ready" else f", {record.status}"
    return f"recorded as {owner}{status}{f', last run {record.last_run}' if record.last_run else ''}"
