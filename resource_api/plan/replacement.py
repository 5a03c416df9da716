"""Replacements: whether a resource is replaced, and what that means for others; deletions that follow from others.

A resource is replaced where what can only be set at creation differs, where its manifest or provider demands it, and
for the sake of another resource, which triggers it, takes it with it, or is where one of its values comes from. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants
from resource_api.model.action import Action
from resource_api.model.change import Difference, exists
from resource_api.model.provider_functions import Planned
from resource_api.model.step import Decision, Replacement, ReplacementReason
from resource_api.model.values import reference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UsageError
from resource_api.model.values.text import show_attribute
from resource_api.model.values.values import UNKNOWN, is_unknown, same_value
from resource_api.plan.diff import compare
from resource_api.plan.provider_plan import predict
from resource_api.prior.match import recorded_dependents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.plan.decision_inputs import DecisionInputs
    from resource_api.prior.match import Prior

    Resource = Mapping[str, Any]

#: The values of ``lifecycle.replace`` that allow it.
_ALLOWING: Final = frozenset({"delete_first", "create_first"})
#: Reasons that the next run does not find again.
_TRANSIENT: Final = frozenset({ReplacementReason.TAINTED, ReplacementReason.TRIGGERED, ReplacementReason.HOST_REPLACED})


def decide_replacement(
    entry: Entry,
    is_: Resource,
    wanted: Resource,
    functions: ProviderFunctions,
    inputs: DecisionInputs,
    *,
    found: Sequence[Difference],
    planned: Planned,
) -> Decision | None:
    """Return the decision to replace a resource that exists; None: it is not replaced.

    ``found`` are its differences from what is ``wanted``, and ``planned`` what its provider plans for them.
    """
    replacing = _replacing_attributes(entry, found, planned, inputs)
    if inputs.lost_sources and not replacing.certain:
        replacing = _replacing_without_sources(entry, is_, wanted, functions, inputs)
    if not (replacing.all or inputs.replacement):
        return None
    decision = _checked_replacement(entry, found, replacing, inputs)
    if planned.delete_first and entry.meta.lifecycle.replace == "create_first":
        decision = decision._replace(error="cannot be replaced create_first: its provider must delete first")
    if not (replacing.certain or (inputs.replacement and not inputs.conditional)):
        decision = _conditional(decision, found, replacing, inputs)
    return decision


def replace_predecessor(entry: Entry, predecessor: Record, replacement: Replacement | None) -> Decision:
    """Return the decision to replace the resource that had the same title, and other namevars."""
    from resource_api.plan.protection import replacement_refusal

    differences = _namevar_differences(entry, predecessor)
    decision = _replace(differences, tuple(difference.attribute for difference in differences), replacement)
    if error := replacement_refusal(entry, predecessor):
        return decision._replace(error=error)
    if entry.meta.lifecycle.replace == "never":
        return decision._replace(error="would be replaced, and lifecycle.replace is never")
    return decision


def _namevar_differences(entry: Entry, record: Record) -> tuple[Difference, ...]:
    old, new = (each if isinstance(each, tuple) else (each,) for each in (record.name, entry.name))
    pairs = zip(entry.definition.namevars, old, new, strict=True)
    return tuple(Difference(name, before, after) for name, before, after in pairs if before != after)


class _ReplacingAttributes(NamedTuple):
    """The attributes whose change replaces the resource, by the origin of that rule."""

    #: The type: they can only be set at creation. With the text of the error if replacing is not allowed.
    fixed: Mapping[str, str] = {}
    #: The manifest (``replace_on_changes``), which also allows it.
    declared: Sequence[str] = ()
    #: The provider's ``plan``.
    provided: Sequence[str] = ()
    #: Whether one of them differs for certain, or certainly has to be set anew.
    certain: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.fixed, *self.provided, *self.declared)))


def _replacing_attributes(
    entry: Entry, found: Sequence[Difference], planned: Planned, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return which of the differences replace the resource.

    A value that is not yet known counts only if replacing is allowed or its source is deleted first.
    """
    from resource_api.model.values.nested import attribute_of

    attributes, lifecycle, fixed = entry.definition.attributes, entry.meta.lifecycle, {}

    def counts(attribute: str, difference: Difference) -> bool:
        allowed = lifecycle.replace in _ALLOWING or attribute in inputs.lost_sources
        return allowed or not difference.undecided

    for each in found:
        attribute = each.attribute
        source = inputs.lost_sources.get(attribute) if is_unknown(each.should) else None
        if attributes[attribute].kind != "init_only" or not counts(attribute, each):
            continue
        if source is not None:
            fixed[attribute] = f"'{attribute}' comes from {source}, which is replaced"
        else:
            fixed[attribute] = _fixed(each)
    declared = _changed_places(found, lifecycle.replace_on_changes)
    provided = [
        each
        for each in _changed_places(found, planned.replace)
        if attributes[name := attribute_of(each.attribute)].kind != "init_only" and counts(name, each)
    ]
    lost = inputs.lost_sources.keys() - set(inputs.conditional_sources)
    certain = any(
        not each.undecided or attribute_of(each.attribute) in lost
        for each in (*(each for each in found if each.attribute in fixed), *declared, *provided)
    )
    return _ReplacingAttributes(
        fixed, [each.attribute for each in declared], [each.attribute for each in provided], certain
    )


def _fixed(difference: Difference) -> str:
    is_, should = show_attribute(difference.is_), show_attribute(difference.should)
    return f"'{difference.attribute}' can only be set at creation: it is {is_} and should be {should}"


def _refusal(entry: Entry, why: Iterable[str]) -> str:
    """Return the error of a resource that would have to be replaced, with what allows it."""
    never = entry.meta.lifecycle.replace == "never"
    return f"{'; '.join(why)}; lifecycle.replace{' is never' if never else ': delete_first would replace it'}"


def possible_failure(entry: Entry, found: Sequence[Difference], planned: Planned) -> Sequence[str]:
    """Return that an update fails if a value that is not known yet is not that of the creation; empty: it cannot.

    ``found`` are its differences, and ``planned`` what its provider plans for them.
    """
    if entry.meta.lifecycle.replace in _ALLOWING or not any(each.undecided for each in found):
        return ()
    attributes = entry.definition.attributes
    fixed = [each for each in found if attributes[each.attribute].kind == "init_only"]
    provided = [each for each in _changed_places(found, planned.replace) if each.attribute not in attributes]
    provided += [each for each in found if each.attribute in planned.replace and each not in fixed]
    undecided = [each for each in (*fixed, *provided) if each.undecided]
    if not undecided:
        return ()
    names = ", ".join(dict.fromkeys(each.attribute for each in undecided))
    why = [_fixed(each) if each in fixed else f"the provider replaces for {each.attribute}" for each in undecided]
    condition = "only if" if len(undecided) == len(found) else "if"
    return f"{condition} {names} changes", f"fails then: {_refusal(entry, why)}"


def _changed_places(found: Sequence[Difference], places: Iterable[str]) -> list[Difference]:
    """Return the differences at those of the ``places`` where one is, named by the place."""
    from resource_api.model.values.nested import at_place, parse_place

    by_attribute = {difference.attribute: difference for difference in found}
    changed = []
    for text in dict.fromkeys(places):
        attribute, path = parse_place(text)
        if (difference := by_attribute.get(attribute)) is not None:
            pairs = at_place(difference.is_, difference.should, path) if path else ()
            differing = [Difference(text, *pair) for pair in pairs if not same_value(*pair)]
            # One that is certain decides.
            differing.sort(key=lambda each: each.undecided)
            changed += differing[:1] if path else [difference._replace(attribute=text)]
    return changed


def _replacing_without_sources(
    entry: Entry, is_: Resource, wanted: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return what replaces a resource if values from deleted sources are taken as unknown.

    While its source does not exist, a resource that was created from it cannot stay; one that can be updated stays.
    """
    unknown = {**wanted, **dict.fromkeys(inputs.lost_sources.keys() & wanted.keys(), UNKNOWN)}
    ignored = entry.meta.lifecycle.ignore_changes
    found = [each for each in compare(entry, is_, unknown, functions, inputs) if each.attribute not in ignored]
    planned = predict(entry, is_, unknown, functions) if found else Planned()
    return _replacing_attributes(entry, found, planned, inputs)


def _checked_replacement(
    entry: Entry, found: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Replace if the manifest allows it, with ``lifecycle.replace`` or by requesting it; otherwise fail."""
    from resource_api.plan.protection import (
        replacement_refusal,
        untaint_hint,
    )

    lifecycle, order = entry.meta.lifecycle, entry.meta.lifecycle.replace
    lost = [name for name in replacing.all if name in inputs.lost_sources]
    requested = order is None and bool(inputs.replacement or replacing.declared)
    if replacing.fixed and order not in _ALLOWING and not requested:
        # With a lost source this step would be a replacement, so that the replacement of the source is not begun.
        action = Action.REPLACE if lost else Action.UPDATE
        return Decision(action, found, error=_refusal(entry, replacing.fixed.values()))
    replacement = inputs.replacement or _implied_replacement(replacing, inputs, lost)
    decision = _replace(found, replacing.all, replacement)
    if order == "never":
        why = f"would be replaced ({replacement or ''}), and lifecycle.replace is never"
        return decision._replace(error=why + untaint_hint(entry, inputs.record))
    if not entry.definition.ensurable:
        return decision._replace(error="cannot be replaced: its type cannot delete and create it")
    if order == "create_first" and inputs.predecessor is None:
        why = "cannot be replaced create_first: the new one would have the same name as the old one"
        return decision._replace(error=why)
    if error := replacement_refusal(entry, inputs.record):
        return decision._replace(error=error)
    if lifecycle.retain:
        return decision._replace(error="is retained, and replacing it under its own name would delete it")
    return decision


def _conditional(
    decision: Decision, found: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Return a replacement that is carried out only if it turns out to be needed; what forbids it counts only then."""
    conditions = []
    if inputs.replacement is not None:
        verb = "changes" if inputs.replacement.reason is ReplacementReason.TRIGGERED else "is replaced"
        conditions.append(f"{inputs.replacement.names[0]} {verb}")
    lost = {inputs.lost_sources[name]: None for name in replacing.all if name in inputs.lost_sources}
    conditions += [f"{source} is replaced" for source in lost]
    if unknown := [name for name in replacing.all if name not in inputs.lost_sources]:
        conditions.append(f"{', '.join(unknown)} changes")
    reasons = [f"only if {' or '.join(conditions)}"]
    if decision.error:
        reasons.append(f"fails then: {decision.error}")
    return _replace(found, replacing.all, inputs.replacement)._replace(
        reasons=tuple(reasons), conditional=True, forbidden=decision.error
    )


def _replace(found: Sequence[Difference], attributes: tuple[str, ...], replacement: Replacement | None) -> Decision:
    reasons = (str(replacement),) if replacement is not None else ()
    return Decision(Action.REPLACE, found, reasons, replaces_because=attributes, replacement=replacement)


def _implied_replacement(
    replacing: _ReplacingAttributes, inputs: DecisionInputs, lost: Sequence[str]
) -> Replacement | None:
    """Return the reason that the differences alone do not show."""
    if lost:
        return Replacement(ReplacementReason.SOURCE_REPLACED, (lost[0], inputs.lost_sources[lost[0]]))
    if replacing.provided:
        return Replacement(ReplacementReason.PROVIDER_PLAN, (", ".join(replacing.provided),))
    if replacing.declared:
        return Replacement(ReplacementReason.ATTRIBUTE_CHANGED, (", ".join(replacing.declared),))
    return None


def trigger_entries(catalog: Catalog, entry: Entry) -> Iterator[Entry]:
    """Return the entries in ``replace_triggered_by``; for a component, all that it has made."""
    for text in entry.meta.lifecycle.replace_triggered_by:
        wanted = reference.parse(text)
        component, target = catalog.components.get(wanted), catalog.find(wanted)
        yield from component.members if component is not None else [] if target is None else [target]


def host_of(catalog: Catalog, entry: Entry) -> Entry | None:
    """Return the entry in ``deleted_with``."""
    name = entry.meta.lifecycle.deleted_with
    return catalog.find(reference.parse(name)) if name else None


def cannot_outlive_source(entry: Entry, attribute: str) -> bool:
    """Return whether a resource cannot stay while the source of an attribute does not exist.

    The answer of type and manifest; a provider with the feature ``plan`` may add more.
    """
    lifecycle = entry.meta.lifecycle
    if lifecycle.external or not entry.definition.ensurable:
        return False
    fixed = entry.definition.attributes[attribute].kind == "init_only" or attribute in lifecycle.replacing_attributes
    return fixed and attribute not in lifecycle.ignore_changes


def is_triggered(step: Step) -> bool:
    """Return whether a resource is replaced only because another one changes."""
    replacement = step.decision.replacement
    return replacement is not None and replacement.reason is ReplacementReason.TRIGGERED


def has_transient_reason(step: Step) -> bool:
    """Return whether the next run cannot find the reason of a replacement again, unless it is recorded as tainted."""
    replacement = step.decision.replacement
    return replacement is not None and replacement.reason in _TRANSIENT


def replacement_dependents(catalog: Catalog, prior: Prior, steps: Iterable[Step]) -> Mapping[int, Sequence[Entry]]:
    """Return entry's index → recorded entries that have to be replaced once that one has changed."""
    if not prior.records:
        return {}
    failed = {step.entry.index for step in steps if step.decision.error or step.decision.forbidden}
    found: dict[int, list[Entry]] = {}
    for index in prior.records.keys() - failed:
        entry = catalog.entries[index]
        for other in trigger_entries(catalog, entry) if _is_replaceable(entry) else ():
            found.setdefault(other.index, []).append(entry)
    for step in steps:
        recorded = step.entry.index in prior.records
        if recorded and has_transient_reason(step) and (host := host_of(catalog, step.entry)) is not None:
            found.setdefault(host.index, []).append(step.entry)
    return found


def _is_replaceable(entry: Entry) -> bool:
    lifecycle = entry.meta.lifecycle
    return (
        bool(lifecycle.replace_triggered_by)
        and entry.definition.ensurable
        and exists(entry.should)
        and not lifecycle.external
        and lifecycle.replace != "never"
    )


def conditional_groups(steps: Iterable[Step]) -> Mapping[int, Mapping[int, Collection[int]]]:
    """Return entry → its group, the conditional replacements of which all are carried out that are needed, or none.

    A group is entry → its sources, which are removed after it: it was created from them, or it is ``deleted_with`` them
    and must not be deleted.
    """
    conditional = {step.entry.index: step for step in steps if step.decision.conditional}
    by_reference = {str(step.reference): index for index, step in conditional.items()}
    sources: dict[int, Collection[int]] = {}
    groups: dict[int, dict[int, Collection[int]]] = {}
    for index, step in conditional.items():
        names = step.decision.replaces_because
        found = {source.index for name in names for source in step.entry.sources.get(name, ())}
        if step.decision.forbidden:
            found.add(by_reference.get(step.entry.meta.lifecycle.deleted_with or "", index))
        sources[index] = found & conditional.keys() - {index}
        groups[index] = {index: sources[index]}
    for index, before in sources.items():
        for source in before:
            if groups[index] is not groups[source]:
                groups[index].update(groups[source])
                groups.update(dict.fromkeys(groups[source], groups[index]))
    return groups


def conditional_requirements(members: Iterable[int], after: Mapping[int, Iterable[int]]) -> Mapping[int, Sequence[int]]:
    """Return entry → the conditional replacements, among ``members``, that it requires, directly or not.

    ``after`` is entry → the entries that require it. Where one of them turns out to be forbidden, a resource that
    requires it could be deleted but not be created again.
    """
    found: dict[int, list[int]] = {}
    for member in members:
        for index in descendants([member], after) - {member}:
            found.setdefault(index, []).append(member)
    return found


def forget_hosted(steps: Mapping[int, Step], *, noop: bool) -> Mapping[int, Step]:
    """Turn deletions into forgetting where ``deleted_with`` names a resource that is deleted, through a chain too.

    ``noop``: whether the whole run is noop; steps that are noop in a real run are not deleted.
    """
    deleted = {
        str(step.reference): index
        for index, step in steps.items()
        if step.decision.action is Action.DELETE and not (step.decision.error or step.is_noop(noop_run=noop))
    }
    hosts = {
        index: deleted[name]
        for index in deleted.values()
        if (name := steps[index].entry.meta.lifecycle.deleted_with) in deleted
    }
    if not hosts:
        return steps
    found = dict(steps)
    for index in hosts:
        host, seen = index, {index}
        while host in hosts and hosts[host] not in seen:
            host = hosts[host]
            seen.add(host)
        if host not in hosts:  # otherwise the chain is a circle
            why = f"deleted with {steps[index].entry.meta.lifecycle.deleted_with}"
            found[index] = steps[index]._replace(decision=Decision(Action.FORGET, reasons=(why,)))
    return found


def check_untargeted_dependents(
    catalog: Catalog, prior: Prior, steps: Mapping[int, Step], selected: Collection[int]
) -> None:
    """Refuse to delete what is no longer declared under recorded dependents that are not ``selected``.

    Raises ``UsageError``, which names all that depend on it, through others too.
    """
    deleted = [
        index
        for index in steps.keys() & prior.orphans.keys()
        if steps[index].decision.action is Action.DELETE and not steps[index].decision.error
    ]
    dependents = recorded_dependents(catalog, prior) if deleted else {}
    for index in sorted(deleted):
        if left := sorted(descendants([index], dependents) - set(selected)):
            name, names = catalog.entries[index].reference, [str(catalog.entries[each].reference) for each in left]
            msg = (
                f"deleting {name} would leave {', '.join(names)} without what they need;"
                f" add them with --with-dependents, or leave out {name} too"
            )
            raise UsageError(msg)


def fail_with_untargeted_dependents(steps: Iterable[Step], dependents: Mapping[int, str]) -> list[Step]:
    """Fail the steps of ``dependents``: entry's index → a resource outside of the targets that cannot stay then."""
    errors = {
        index: f"would take {dependent} along, which is not among the targets; --with-dependents adds it"
        for index, dependent in dependents.items()
    }
    return [fail(step, errors[step.entry.index]) if step.entry.index in errors else step for step in steps]


def fail(step: Step, error: str) -> Step:
    """Return a step that fails; a conditional replacement fails only if it turns out to be needed."""
    if step.decision.conditional:
        reasons = (*step.decision.reasons, f"fails then: {error}")
        return step._replace(decision=step.decision._replace(reasons=reasons, forbidden=error))
    return step._replace(decision=step.decision._replace(error=error))
