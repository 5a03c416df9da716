"""Why a step is in a plan: for each attribute whose value it is, the relationships, and what state has recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.targets import matching
from resource_api.model.sealed_secrets import Sealed
from resource_api.model.values.expression import ExpressionPath, find_paths
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
    from resource_api.plan.planner import Plan
    from resource_api.render.changes import Style

_SCOPES: Final = {"inputs": "input", "values": "value", "facts": "fact", "stacks": "stack"}
#: How many of the resources that come before one are named.
_NAMED: Final = 10


def lines(planned: Plan, patterns: Sequence[str], style: Style) -> Iterator[str]:
    """Yield the steps of the resources that match, each with its explanation, and the counts of the whole plan.

    Raise ``UsageError`` for a pattern that matches nothing.
    """
    chosen = matching(patterns, planned.catalog, "--explain", planned.prior.undeclared)
    for step in planned.steps:
        if step.entry.index in chosen:
            yield from step_lines(planned, step, style)
            yield ""
            yield from _explain(planned, step, style)
            yield ""
    yield plan_summary(planned.summary)


def _explain(planned: Plan, step: Step, style: Style) -> Iterator[str]:
    entry, record = step.entry, planned.decision_inputs(step).record
    place = entry.declaration.place()
    inside = f" by {entry.parent}" if entry.parent else ""
    yield escape(f"  declared{inside} at {place}" if place.line else f"  declared{inside} in no file")
    differences = {each.attribute: each for each in step.changes}
    shown = [name for name, value in step.should.items() if value is not None]
    shown += [name for name in differences if name not in shown]
    width = max(map(len, shown), default=0)
    for name in sorted(shown, key=lambda name: name not in differences):
        words = [*_origin(planned.catalog.manifest, entry, name), *_history(differences.get(name), record, style)]
        yield escape(f"    {name:>{width}}: {'; '.join(words)}")
    yield from map(escape, _relationships(planned, step))
    yield escape(f"  {_recorded(record)}")


def _origin(manifest: Manifest, entry: Entry, name: str) -> Iterator[str]:
    """Yield whose value an attribute has, and from what it is computed."""
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
    yield from (f"from {each.reference}" for each in entry.sources.get(name, ()))


def _sources(value: Any) -> Iterator[str]:
    """Yield the inputs, values and facts that a value refers to; the resources are known to the entry."""
    for path in dict.fromkeys(find_paths(value)):
        if isinstance(path.root, str):
            yield f"{_SCOPES[path.root]} '{_keys(path)}'"


def _keys(path: ExpressionPath) -> str:
    return str(path).removeprefix(f"${{{path.root}.").removesuffix("}")


def _history(difference: Difference | None, record: Record | None, style: Style) -> Iterator[str]:
    """Yield whether an attribute differs because the declaration has changed, or because the system has."""
    if difference is None or record is None or is_unknown(difference.should):
        return
    name, is_, should, *_ = difference
    asked, was = record.should.get(name), (record.is_ or {}).get(name)
    hidden = any(isinstance(each, Sealed) or is_secret(each) for each in (asked, was, is_, should))
    if not same_value(asked, should):
        yield "the declaration has changed" + ("" if hidden else f": it was {style.value(asked)}")
    elif not same_value(was, is_):
        yield "the system has changed" + ("" if hidden else f": it was {style.value(was)}")


def _relationships(planned: Plan, step: Step) -> Iterator[str]:
    if before := step.depends_on:
        more = f" and {len(before) - _NAMED} more" if len(before) > _NAMED else ""
        yield f"  comes after {', '.join(map(str, before[:_NAMED]))}{more}"
    entries = {entry.reference_text: entry for entry in planned.catalog.entries} if step.refreshed_by else {}
    for name in step.refreshed_by:
        source = entries.get(name)
        declared = _declared(source.declaration, "notify") if source is not None else ""
        yield f"  refreshed by {name}{declared or _declared(step.entry.declaration, 'subscribe')}"


def _declared(declaration: Declaration, word: str) -> str:
    """Return a metaparameter with its place, to append to a line; empty where the resource does not have it."""
    place = declaration.place(word) if word in declaration.meta else None
    return f": {word} at {place}" if place is not None and place.line else ""


def _recorded(record: Record | None) -> str:
    """Return what state says of a resource."""
    if record is None:
        return "not recorded"
    owner = "ours" if record.owned else "not ours"
    status = "" if record.status == "ready" else f", {record.status}"
    return f"recorded as {owner}{status}{f', last run {record.last_run}' if record.last_run else ''}"
