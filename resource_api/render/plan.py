"""A plan as text for people: each step that acts, with its attributes, then the drift and the counts.

Text shows nothing that the JSON form does not show too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import conceal_difference, describe_side_effects, is_text_change, nested_parts
from resource_api.model.values.assets import Content
from resource_api.model.values.text import escape
from resource_api.model.values.values import Sensitive
from resource_api.render.changes import SCREEN, Style, count_lines, text_diff
from resource_api.render.text import plan_summary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.diff import Drift
    from resource_api.plan.planner import Plan

#: Colours that can be read on a dark and on a light ground; only the sign of a step has one.
_COLORS: Final = {"+": "32", "~": "33", "-": "31", "-/+": "35", "+/-": "35", "<=": "36", ">": "36", "!": "36"}
_BOLD: Final = "1"
_RED: Final = "31"
_MARGIN: Final = "    "
#: What a step with one of these actions does depends on its parameters.
_WITH_PARAMETERS: Final = CREATING | {Action.RUN, Action.DELETE}
_PLAIN: Final = Style()


def lines(planned: Plan, style: Style = _PLAIN, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a plan; steps with attributes have a blank line around them.

    ``verbose``: also of resources in sync that a step before them may change.
    """
    long = False
    for number, block in enumerate(_blocks(planned, style, planned.may_change() if verbose else {})):
        if number and (long or len(block) > 1):
            yield ""
        long = len(block) > 1
        yield from block
    if long:
        yield ""
    for stack, name in planned.catalog.scope.stack_outputs:
        yield f"Uses the output {name} of stack {stack}."
    yield style.paint(plan_summary(planned.summary), _BOLD)


def _blocks(planned: Plan, style: Style, may_change: Mapping[int, int]) -> Iterator[Sequence[str]]:
    """Yield the lines of each step that acts, or would be refreshed if it could, of each drift, and of the outputs.

    ``may_change``: the resources in sync that are shown too, see ``Plan.may_change``.
    """
    blocked, notified = planned.blocked, _notified(planned)
    for step in planned.steps:
        acts = step.action is not Action.SAME or step.deferred or step.previous
        if step.decision.error or acts or step.entry.index in notified:
            yield _block(planned, step, blocked.get(step.entry.index), style)
        elif (cause := may_change.get(step.entry.index)) is not None:
            after = escape(str(planned.catalog.entries[cause].reference))
            yield [f"  {style.paint(escape(str(step.reference)), _BOLD)} (read again after {after})"]
    for drift in planned.drift:
        yield list(_drift(drift, style))
    if planned.output_changes:
        yield list(_outputs(planned.output_changes, style))


def _outputs(changes: Sequence[Difference], style: Style) -> Iterator[str]:
    yield "Changes to outputs:"
    yield from _attributes([part for each in changes for part in nested_parts(each)], style)


def refresh_lines(
    resources: Sequence[Drift], outputs: Sequence[Difference], style: Style, *, noop: bool
) -> Iterator[str]:
    """Yield the lines of a refresh, with the number of resources."""
    yield from refreshed_lines(resources, outputs, style, noop=noop)
    yield f"{len(resources)} refreshed.{' (noop)' if noop else ''}"


def refreshed_lines(
    resources: Sequence[Drift], outputs: Sequence[Difference], style: Style, *, noop: bool
) -> Iterator[str]:
    """Yield the lines of what differs from what was recorded, under ``noop`` with the attributes of resources."""
    for each in resources:
        yield f"<= {escape(each.reference)}"
        if noop:
            yield from _attributes([part for change in each.changes for part in nested_parts(change)], style)
    if outputs:
        yield from _outputs(outputs, style)


def step_lines(planned: Plan, step: Step, style: Style) -> Sequence[str]:
    """Return the lines of one step, also of one that does nothing."""
    return _block(planned, step, planned.blocked.get(step.entry.index), style)


def _block(planned: Plan, step: Step, cause: str | None, style: Style) -> Sequence[str]:
    """Return the lines of one step; ``cause``: the reference of the failure because of which it is skipped."""
    if step.decision.error:
        return [style.paint(f"! {escape(str(step.reference))}: {escape(step.decision.error)}", _RED)]
    notes = []
    if cause is not None:
        notes.append(f"skipped because {escape(cause)} fails")
    if step.entry.index in planned.catalog.subscribes and "refreshable" not in step.definition.features:
        notes.append("cannot be refreshed: notify and subscribe only order")
    return [_head(step, notes, style), *_details(step, style)]


def _notified(planned: Plan) -> Collection[int]:
    """Return the entries' indices of resources that cannot be refreshed, although a step notifies them."""
    if not planned.catalog.subscribes:
        return ()
    steps = {step.entry.index: step for step in planned.steps}
    left_alone = {number for number, step in steps.items() if step.is_noop(noop_run=planned.options.noop)}
    acting = {number for number, step in steps.items() if step.action is not Action.SAME} - left_alone
    fixed = {number for number, step in steps.items() if "refreshable" not in step.definition.features}
    return {to for to, sources in planned.catalog.subscribes.items() if to in fixed and not acting.isdisjoint(sources)}


def _head(step: Step, more: Sequence[str], style: Style) -> str:
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
    return f"{style.paint(symbol, _COLORS.get(symbol, ''))} {style.paint(escape(str(step.reference)), _BOLD)}{end}"


def _details(step: Step, style: Style) -> Iterator[str]:
    if step.deferred:
        yield f"{_MARGIN}(decided at its turn: {escape(step.deferred)})"
        return
    runs = step.action in _WITH_PARAMETERS or (
        step.action is Action.REFRESH and "imperative" in step.definition.features
    )
    parameters = _parameters(step) if runs else {}
    differences = [part for each in (*step.changes, *step.predictions) for part in _parts(step.definition, each)]
    width = max(map(len, (*parameters, *(each.attribute for each in differences))), default=0)
    yield from _attributes(differences, style, width)
    for name, value in parameters.items():
        yield f"{_MARGIN}{escape(name):>{width}}: {style.value(value)}"
    for attribute in step.decision.replaces_because:
        yield f"{_MARGIN}# a change of {escape(attribute)} replaces it"
    if step.side_effects is None:
        yield f"{_MARGIN}(what else it does is known at its turn)"
    for line in describe_side_effects(step.side_effects or ()):
        yield f"{_MARGIN}{escape(line)}"


def _attributes(differences: Sequence[Difference], style: Style, width: int = 0) -> Iterator[str]:
    """Yield the lines of attributes, the names at least so wide; together they show one screen of changed texts."""
    width, left = max((width, *(len(each.attribute) for each in differences))), SCREEN
    for difference in differences:
        shown = list(_attribute(difference, width, style, left))
        left = max(0, left - (len(shown) - 1))
        yield from shown


def _parts(definition: TypeDefinition, difference: Difference) -> Sequence[Difference]:
    """Return the parts of a difference that are shown on lines of their own; too many are shown as one value."""
    concealed = conceal_difference(definition, difference)
    found = nested_parts(concealed)
    return found if len(found) <= SCREEN else [concealed]


def _parameters(step: Step) -> dict[str, Any]:
    """Return the parameters that are declared; secrets are wrapped."""
    declared, definition = step.entry.inputs, step.definition
    names = [name for name in definition.names_of_kind("parameter") if name in declared]
    return {name: definition.attributes[name].conceal(step.should.get(name)) for name in names}


def _attribute(difference: Difference, width: int, style: Style, most: int) -> Iterator[str]:
    """Yield the lines of one attribute; names end in the same column, so that ``name: is → should`` stays together."""
    name, is_, should, message, *_ = difference
    start, end = f"{_MARGIN}{escape(name):>{width}}", f" ({escape(message)})" if message else ""
    if isinstance(is_, Sensitive) or isinstance(should, Sensitive):
        yield f"{start}: <sensitive>"
    elif isinstance(should, Content):
        before = style.value(is_) if is_ is None or isinstance(is_, Content) else "other content"
        yield f"{start}: {escape(message) or f'{before} → {style.value(should)}'}"
    elif is_text_change(difference):
        yield f"{start} changed {count_lines(difference)}{end}"
        yield from (f"      {line}" for line in text_diff(difference, style, most=most))
    else:
        yield f"{start}: {style.pair(is_, should)}{end}"


def _drift(drift: Drift, style: Style) -> Iterator[str]:
    """Yield the lines about a resource that has drifted: what was recorded and what is there."""
    parts = [part for each in drift.changes for part in nested_parts(each)]
    changes = parts if len(parts) <= SCREEN else drift.changes
    words = [
        f"{each.attribute} changed {count_lines(each)}"
        if is_text_change(each)
        else f"{each.attribute} was {style.value(each.is_)}, is {style.value(each.should)}"
        for each in changes
    ]
    yield escape(f"# {drift.reference} has drifted: {'; '.join(words)}")
    for each in filter(is_text_change, changes):
        yield from (f"{_MARGIN}{line}" for line in text_diff(each, style, names=("was", "is")))
