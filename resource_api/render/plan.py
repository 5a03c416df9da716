"""Render a plan as text: the steps that act, with their attributes, then drift and counts; and explanations of steps.

Text is rendered from documents, made of a plan or of its saved JSON: it shows only information that JSON has too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import conceal_difference, describe_side_effects, is_text_change, nested_parts
from resource_api.model.sealed_secrets import Sealed
from resource_api.model.values.assets import Content
from resource_api.model.values.expression import find_paths
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape, show_first
from resource_api.model.values.values import Sensitive, is_secret, is_unknown, same_value
from resource_api.plan.targets import matching
from resource_api.render.changes import BOLD, PLAIN, RED, SCREEN, Style, count_lines, text_diff
from resource_api.render.text import plan_summary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record
    from resource_api.model.report import Drifted, Summary
    from resource_api.model.step import Step
    from resource_api.plan.planner import ExecutionPlan


#: Colours that can be read on a dark and on a light ground; only the sign of a step has one.
_COLORS: Final = {"+": "32", "~": "33", "-": "31", "-/+": "35", "+/-": "35", "<=": "36", ">": "36", "!": "36"}
#: The sign of a step that cannot be planned; ``!`` is a refresh.
FAILED: Final = "✗"
_MARGIN: Final = "    "
#: The actions after which nothing of a drifted resource is as it was.
_WHOLE: Final = CREATING | {Action.DELETE}
#: The actions that depend on the parameters of a resource.
_WITH_PARAMETERS: Final = CREATING | {Action.RUN, Action.DELETE}


class StepDocument(NamedTuple):
    """One step as text shows it, made from a plan's step or from its JSON document."""

    reference: str
    action: Action
    error: str = ""
    #: The reasons of the decision, besides its changes.
    reasons: Sequence[str] = ()
    #: The reason that the step is decided at its turn, or "".
    deferred: str = ""
    #: The failing resource because of which the step is skipped, or "".
    skipped: str = ""
    noop: bool = False
    #: The former reference of a renamed resource, or "".
    previous: str = ""
    refreshed_by: Sequence[str] = ()
    #: Whether notifications only order the resource, because its type cannot be refreshed.
    only_ordered: bool = False
    #: Whether a replacement creates the new resource first.
    create_first: bool = False
    #: The changes and predictions, with secrets wrapped.
    changes: Sequence[Difference] = ()
    #: The declared parameters of an action that depends on them.
    parameters: Mapping[str, object] = {}
    replaces_because: Sequence[str] = ()
    #: None: known at the step's turn.
    side_effects: Sequence[SideEffect] | None = ()
    #: The step after which a resource in sync is read again, or "".
    read_after: str = ""
    #: The element of ``for_each`` that it is made for, or "".
    origin: str = ""
    #: Whether the step corrects drift.
    drifted: bool = False


class PlanDocument(NamedTuple):
    """A plan as text shows it: the steps that act or need attention, drift, outputs and counts."""

    steps: Iterable[StepDocument]
    summary: Summary
    drift: Sequence[Drifted] = ()
    output_changes: Sequence[Difference] = ()
    #: The outputs of other stacks in use, as ``(stack, output)``.
    stack_outputs: Iterable[tuple[str, str]] = ()
    #: The resources that are carried out only if others fail, each with those.
    failure_handlers: Iterable[tuple[str, Sequence[str]]] = ()
    #: The parts of the manifest whose conditions do not hold, each with the reason.
    left_out: Sequence[tuple[str, str]] = ()


def lines(plan: ExecutionPlan, style: Style = PLAIN, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a plan: the steps that act or fail, drift, changed outputs, and counts.

    With ``verbose`` the user also sees the resources in sync that an earlier step may change, and the declarations that
    are left out because their conditions do not hold.
    """
    steps = _step_documents(plan, plan.may_change() if verbose else {})
    document = PlanDocument(steps, plan.summary, plan.drift, plan.output_changes)
    outputs, handlers = plan.catalog.scope.stack_outputs, plan.failure_sources()
    left_out = [(part.name, part.located_reason) for part in plan.catalog.left_out.all] if verbose else ()
    return document_lines(document._replace(stack_outputs=outputs, failure_handlers=handlers, left_out=left_out), style)


def document_lines(document: PlanDocument, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a plan's document, with a blank line around each block of more than one line.

    So the attributes of a step are visibly its own, while steps of one line stand close together.
    """
    is_long = False
    for index, block in enumerate(_blocks(document, style)):
        if index and (is_long or len(block) > 1):
            yield ""
        is_long = len(block) > 1
        yield from block
    if is_long:
        yield ""
    yield from left_out_lines(document.left_out)
    for stack, name in document.stack_outputs:
        yield f"Uses the output {name} of stack {stack}."
    yield style.paint(plan_summary(document.summary), BOLD)


def left_out_lines(left_out: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each part of a manifest whose condition does not hold, with the reason (contract §10.6)."""
    for name, reason in left_out:
        yield f"Left out: {escape(name)}: {escape(reason)}"


def _blocks(document: PlanDocument, style: Style) -> Iterator[Sequence[str]]:
    """Yield the lines of a plan in blocks: steps, handlers of failures, drift that no step corrects, changed outputs.

    A step that corrects drift has the note ``drift``; the corrected part of the drift has no block of its own.
    """
    #: Reference → the part of its drift that no step so far corrects, or None.
    drifts: dict[str, Drifted | None] = {drift.reference: drift for drift in document.drift}
    for step in document.steps:
        drift = drifts.get(step.reference)
        remaining = _uncorrected(drift, step) if drift is not None else None
        if remaining is drift:  # there is no drift, or the step corrects nothing of it
            yield _step_lines(step, style)
        else:
            drifts[step.reference] = remaining
            yield _step_lines(step._replace(drifted=True), style)
    for name, handled in document.failure_handlers:
        yield [f"? {style.paint(escape(name), BOLD)} (only if {' or '.join(map(escape, handled))} fails)"]
    yield from (list(_drift(drift, style)) for drift in drifts.values() if drift is not None)
    if document.output_changes:
        yield list(_outputs(document.output_changes, style))


def _uncorrected(drift: Drifted, step: StepDocument) -> Drifted | None:
    """Return the part of a resource's drift that its step does not correct, for a note of it; None if there is none.

    Return the same object ``drift`` if the step corrects nothing of it: the caller compares with ``is``.
    """
    if step.error or step.deferred:
        return drift
    if step.action in _WHOLE:
        return None
    corrected = {change.attribute for change in step.changes}
    changes = [change for change in drift.changes if change.attribute not in corrected]
    if len(changes) == len(drift.changes):
        return drift
    return drift._replace(changes=changes) if changes else None


def _step_documents(plan: ExecutionPlan, may_change: Mapping[int, int]) -> Iterator[StepDocument]:
    """Yield the documents of the steps that a plan shows: those that act or fail.

    Resources that are notified but cannot be refreshed are shown too, with a note. ``may_change`` adds resources in
    sync that an earlier step may put out of sync: index of the resource → index of the one with that step.
    """
    blocked, notified = plan.blocked, _only_notified(plan)
    for step in plan.steps:
        index = step.entry.index
        acts = step.action is not Action.SAME or step.deferred or step.previous
        cause = may_change.get(index)
        after = "" if cause is None else str(plan.catalog.entries[cause].reference)
        if step.decision.error or acts or index in notified:
            yield _step_document(plan, step, blocked.get(index), after)
        elif after:
            yield StepDocument(str(step.reference), Action.SAME, read_after=after)


def _step_document(plan: ExecutionPlan, step: Step, cause: str | None, read_after: str = "") -> StepDocument:
    """Return the document of one step: everything that its lines show, with secrets wrapped.

    A saved plan is shown by such documents too. ``cause``: the failing resource because of which the step will be
    skipped, or None. ``read_after``: the acting resource after which this one is read again, or "".
    """
    definition, entry, action = step.definition, step.entry, step.action
    changes = [conceal_difference(definition, change) for change in (*step.changes, *step.predictions)]
    names = definition.parameters if uses_parameters(action, definition.features) else ()
    attributes = definition.attributes
    return StepDocument(
        reference=entry.reference_text,
        action=action,
        error=step.decision.error,
        reasons=step.decision.reasons,
        deferred=step.deferred,
        skipped=cause or "",
        noop=step.noop,
        previous=step.previous,
        refreshed_by=step.refreshed_by,
        # It is notified, but of its type no resource can be refreshed.
        only_ordered=entry.index in plan.catalog.subscribes and "refreshable" not in definition.features,
        create_first=step.create_first,
        changes=changes,
        # Only declared ones: a default is no news for the author.
        parameters={n: attributes[n].conceal(step.should[n]) for n in names if n in entry.inputs and n in step.should},
        replaces_because=step.decision.replaces_because,
        side_effects=step.side_effects,
        origin=entry.declaration.element.origin if entry.declaration.element is not None else "",
        drifted=step.corrective,
        read_after=read_after,
    )


def uses_parameters(action: Action, features: Collection[str]) -> bool:
    """Return whether the plan shows an action's parameters: it uses them, a refresh only of imperative types."""
    return action in _WITH_PARAMETERS or (action is Action.REFRESH and "imperative" in features)


def _only_notified(plan: ExecutionPlan) -> Collection[int]:
    """Return the indices of the resources that an acting step notifies, but whose type cannot be refreshed.

    The plan shows them with a note: an author may expect the refresh.
    """
    if not plan.catalog.subscribes:
        return ()
    steps = {step.entry.index: step for step in plan.steps}
    # A step under noop notifies nothing.
    inactive = {index for index, step in steps.items() if step.is_noop(noop_run=plan.options.noop)}
    acting = {index for index, step in steps.items() if step.action is not Action.SAME} - inactive
    fixed = {index for index, step in steps.items() if "refreshable" not in step.definition.features}
    return {to for to, sources in plan.catalog.subscribes.items() if to in fixed and not acting.isdisjoint(sources)}


def _step_lines(step: StepDocument, style: Style) -> Sequence[str]:
    """Return the lines of a step: its symbol, reference and notes, then its values."""
    reference = escape(step.reference)
    if step.error:
        return [style.paint(f"{FAILED} {reference}: {escape(step.error)}", RED)]
    symbol = "+/-" if step.action is Action.REPLACE and step.create_first else step.action.symbol
    notes = "; ".join(_notes(step))
    head = f"{style.paint(symbol, _COLORS.get(symbol, ''))} {style.paint(reference, BOLD)}"
    return [f"{head} ({notes})" if notes else head, *_details(step, style)]


def _notes(step: StepDocument) -> Iterator[str]:
    """Yield the remarks in parentheses behind a step, on everything that its symbol and values do not show.

    They are reasons, the former name, noop, refreshes, and so on.
    """
    if step.drifted:
        yield "drift"
    yield from map(escape, step.reasons)
    if step.origin:
        yield escape(step.origin)
    if step.previous:
        yield f"was {escape(step.previous)}"
    if step.noop:
        yield "noop"
    if step.refreshed_by:
        yield "refreshed by " + ", ".join(map(escape, step.refreshed_by))
    if step.skipped:
        yield f"skipped because {escape(step.skipped)} fails"
    if step.only_ordered:
        yield "cannot be refreshed: notify and subscribe only order"
    if step.read_after:
        yield f"read again after {escape(step.read_after)}"


def _details(step: StepDocument, style: Style) -> Iterator[str]:
    """Yield the lines below a step: changed values with their names aligned, parameters, and side effects.

    A ``deferred`` step has only the reason why it is decided in the run.
    """
    if step.deferred:
        yield f"{_MARGIN}(decided at its turn: {escape(step.deferred)})"
        return
    parts = [part for change in step.changes for part in _parts(change)]
    width = max(map(len, [*step.parameters, *[part.attribute for part in parts]]), default=0)
    yield from _attributes(parts, style, width)
    for name, value in step.parameters.items():
        yield f"{_MARGIN}{escape(name):>{width}}: {style.value(value)}"
    for attribute in step.replaces_because:
        yield f"{_MARGIN}# a change of {escape(attribute)} replaces it"
    if step.side_effects is None:
        yield f"{_MARGIN}(what else it does is known at its turn)"
    for line in describe_side_effects(step.side_effects or ()):
        yield f"{_MARGIN}{escape(line)}"


def _parts(change: Difference) -> Sequence[Difference]:
    """Return the changed parts of a mapping or list, for a line each; the change as a whole if they fill a screen."""
    parts = nested_parts(change)
    return parts if len(parts) <= SCREEN else [change]


def _outputs(changes: Sequence[Difference], style: Style) -> Iterator[str]:
    """Yield the lines of changed outputs under a heading."""
    yield "Changes to outputs:"
    parts = [part for change in changes for part in nested_parts(change)]
    # An output with the value null that is new or gone has None on both sides: the line shows ``null`` in their place.
    nulls = [part._replace(message="null") if part.is_ is part.should is None else part for part in parts]
    yield from _attributes(nulls, style)


def refresh_lines(
    resources: Sequence[Drifted], outputs: Sequence[Difference], style: Style, *, noop: bool
) -> Iterator[str]:
    """Yield the lines of the command ``refresh``: the differences, and the number of resources."""
    yield from refreshed_lines(resources, outputs, style, noop=noop)
    yield f"{len(resources)} refreshed.{' (noop)' if noop else ''}"


def refreshed_lines(
    resources: Sequence[Drifted], outputs: Sequence[Difference], style: Style, *, noop: bool
) -> Iterator[str]:
    """Yield the lines of the resources and outputs whose record a refresh replaces.

    With ``noop`` nothing is recorded yet, so the user also sees the differences that would be accepted.
    """
    for drift in resources:
        yield f"<= {escape(drift.reference)}"
        if noop:
            yield from _attributes([part for change in drift.changes for part in nested_parts(change)], style)
    if outputs:
        yield from _outputs(outputs, style)


def _attributes(differences: Sequence[Difference], style: Style, width: int = 0) -> Iterator[str]:
    """Yield the lines of a resource's changed attributes, with their names in one column.

    The diffs of its texts get together at most ``SCREEN`` lines, so that no resource fills more than a screen.
    ``width``: the width of the column; 0: that of the longest name.
    """
    width = width or max([len(difference.attribute) for difference in differences], default=0)
    remaining = SCREEN
    for difference in differences:
        rendered = _attribute(difference, width, style, remaining)
        remaining = max(0, remaining - (len(rendered) - 1))  # the first line is no diff
        yield from rendered


def _attribute(difference: Difference, width: int, style: Style, most: int) -> Sequence[str]:
    """Return the lines of one changed attribute: ``name: is → should``, or a diff of at most ``most`` lines below it.

    A secret is only ``<sensitive>``; a ``Content``, an asset or archive, is one value without a diff. Names are padded
    at the left to ``width``, so that they end in the same column, beside the values.
    """
    name, is_, should, message, *_ = difference
    start, end = f"{_MARGIN}{escape(name):>{width}}", f" ({escape(message)})" if message else ""
    if isinstance(is_, Sensitive) or isinstance(should, Sensitive):
        return [f"{start}: <sensitive>"]
    if difference.only_explained:
        return [f"{start}: {escape(message)}"]
    if isinstance(should, Content):
        before = style.value(is_) if is_ is None or isinstance(is_, Content) else "other content"
        return [f"{start}: {escape(message) or f'{before} → {style.value(should)}'}"]
    if is_text_change(difference):
        unified_diff = (f"      {line}" for line in text_diff(difference, style, most=most))
        return [f"{start} changed {count_lines(difference)}{end}", *unified_diff]
    return [f"{start}: {style.pair(is_, should)}{end}"]


def _drift(drift: Drifted, style: Style) -> Iterator[str]:
    """Yield the lines of a drifted resource: each recorded value (``is_``), and the present one (``should``).

    The diffs of changed texts are below that line.
    """
    parts = [part for change in drift.changes for part in nested_parts(change)]
    # The members of a mapping or list one by one, unless these would fill the screen: then the whole value, cut.
    changes = parts if len(parts) <= SCREEN else drift.changes
    words = []
    for change in changes:
        if is_text_change(change):
            words.append(f"{change.attribute} changed {count_lines(change)}")
        else:
            was, is_ = style.parts(*change.values)
            words.append(f"{change.attribute} was {was}, is {is_}")
    yield escape(f"# {drift.reference} has drifted: {'; '.join(words)}")
    for change in filter(is_text_change, changes):
        yield from (f"{_MARGIN}{line}" for line in text_diff(change, style, names=("was", "is")))


#: The first word of an expression → its noun in an explanation.
_SCOPES: Final = {
    "inputs": "input",
    "values": "value",
    "facts": "fact",
    "host": "host",
    "each": "each",
    "stacks": "stack",
}
#: How many of the resources that come before one are named.
_NAMED: Final = 10


def explanation_lines(plan: ExecutionPlan, patterns: Sequence[str], style: Style) -> Iterator[str]:
    """Yield the lines of ``--explain``: each step that matches ``patterns``, with the reasons for it, then counts.

    Raise ``UsageError`` for a pattern that matches nothing.
    """
    chosen = matching(patterns, plan.catalog, "--explain", plan.prior.undeclared)
    for step in plan.steps:
        if step.entry.index in chosen:
            yield from _step_lines(_step_document(plan, step, plan.blocked.get(step.entry.index)), style)
            yield ""
            yield from _explain(plan, step, style)
            yield ""
    yield plan_summary(plan.summary)


def _explain(plan: ExecutionPlan, step: Step, style: Style) -> Iterator[str]:
    """Yield the lines of ``--explain`` for a step: declaration and cause of each value, and relationships."""
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
    """Yield the origin of an attribute's value in words, then the values from which an expression computes it.

    The origin is a line of the manifest, the title, or the type.
    """
    declaration = entry.declaration
    defaults = manifest.defaults.get(declaration.file, {}).get(declaration.type, {})
    attribute = entry.definition.attributes.get(name)
    if name in declaration.attributes or name in defaults:
        default = "" if name in declaration.attributes else "default of the manifest, "
        yield f"{default}{manifest.place(declaration, name)}"
        yield from _scope_words(declaration.attributes.get(name, defaults.get(name)))
    elif attribute is not None and attribute.kind == "namevar":
        yield "from the title"
    elif attribute is not None and attribute.has_default:
        yield "default of the type"
    elif name in entry.should:
        yield "set by the type"
    # ``_scope_words`` has the inputs and facts of the expression, ``entry.sources`` its resources.
    yield from (f"from {source.reference}" for source in entry.sources.get(name, ()))


def _scope_words(value: object) -> Iterator[str]:
    """Yield ``input 'port'`` for ``${inputs.port}`` in a declared value, and so for values, facts and the like."""
    for path in dict.fromkeys(find_paths(value)):
        if isinstance(path.root, str):
            keys = str(path).removeprefix(f"${{{path.root}.").removesuffix("}")
            yield f"{_SCOPES[path.root]} '{keys}'"


def _history(difference: Difference | None, record: Record | None, style: Style) -> Iterator[str]:
    """Yield the cause of a difference, for ``--explain``: since the last run the declaration or the system has changed.

    The declared or the read value then differs from the recorded one, which is shown unless any of them is a secret.
    """
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
    """Yield a line on the resources before a step, and one for each resource that refreshes it.

    The latter has the position of the ``notify`` or ``subscribe`` by which the manifest declares the refresh.
    """
    if before := step.depends_on:
        yield f"  comes after {show_first(before, _NAMED)}"
    entries = {entry.reference_text: entry for entry in plan.catalog.entries} if step.refreshed_by else {}
    for name in step.refreshed_by:
        source = entries.get(name)
        declared = _declared(source.declaration, "notify") if source is not None else ""
        yield f"  refreshed by {name}{declared or _declared(step.entry.declaration, 'subscribe')}"


def _declared(declaration: Declaration, word: str) -> str:
    """Return ``: notify at site.yaml:5`` if a declaration has the metaparameter ``word``, or ""."""
    position = declaration.place(word) if word in declaration.meta else None
    return f": {word} at {position}" if position is not None and position.line else ""


def _recorded(record: Record | None) -> str:
    """Return the record of a resource in words: ours (then destroy deletes it) or not, its status, its last run."""
    if record is None:
        return "not recorded"
    owner = "ours" if record.owned else "not ours"
    status = "" if record.status == "ready" else f", {record.status}"
    return f"recorded as {owner}{status}{f', last run {record.last_run}' if record.last_run else ''}"
