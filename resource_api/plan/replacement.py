"""Replacements: whether a resource is replaced, and the effects on other resources.

A resource is replaced where a value that can only be set at creation differs, where its manifest or provider demands
it, and for the sake of another resource, which triggers it, takes it with it, or is the source of one of its values.
It is not replaced while it is protected, nor where a provider would lose resources with its configuration. While its
reason is not certain, a replacement is conditional: it is decided at its turn. Pure.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import descendants
from resource_api.model.action import Action
from resource_api.model.change import Difference, exists
from resource_api.model.provider_functions import Planned, ProviderFunctions
from resource_api.model.step import Decision, Replacement, ReplacementReason, Step
from resource_api.model.values import reference
from resource_api.model.values.reference import Reference, split_instance
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import shell_word, show_attribute
from resource_api.model.values.values import UNKNOWN, at_place, attribute_of, is_unknown, parse_place, same_value
from resource_api.plan import unknowns
from resource_api.plan.diff import compare, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import ProviderInstance
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record, RecordKey
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.diff import DecisionInputs, Resource
    from resource_api.prior.match import Prior


#: Reasons that the next run does not find again.
_TRANSIENT: Final = frozenset({ReplacementReason.TAINTED, ReplacementReason.TRIGGERED, ReplacementReason.HOST_REPLACED})


def decide_replacement(
    entry: Entry,
    is_: Resource,
    expected: Resource,
    functions: ProviderFunctions,
    inputs: DecisionInputs,
    *,
    differences: Sequence[Difference],
    planned: Planned,
) -> Decision | None:
    """Return the decision to replace an existing resource, with an error if that is forbidden; None without a reason.

    ``differences`` are between its present and its ``expected`` values, ``planned`` is its provider's plan for them.
    The decision is conditional if its reason is not certain, such as a value that is not known yet and may turn out
    equal: it is decided again at its turn, and its error counts only then.
    """
    replacing = _replacing_attributes(entry, differences, planned, inputs)
    if inputs.lost_sources and not replacing.certain:  # a resource that it was made from is deleted first
        replacing = _replacing_without_sources(entry, is_, expected, functions, inputs)
    if not (replacing.all or inputs.replacement):
        return None
    decision = _checked_replacement(entry, differences, replacing, inputs)
    if planned.delete_first and entry.meta.lifecycle.replace == "create_first":
        decision = decision._replace(error="cannot be replaced create_first: its provider must delete first")
    if not (replacing.certain or (inputs.replacement and not inputs.conditional)):
        decision = _conditional_replacement(decision, differences, replacing, inputs)
    return decision


def replace_predecessor(entry: Entry, predecessor: Record, inputs: DecisionInputs) -> Decision:
    """Return the decision to replace a recorded resource by the declared one of the same title with other namevars.

    Namevars and the provider instance identify a resource and cannot be changed: the old resource is deleted and a new
    one is created.
    """
    old, new = (entry.definition.named_row(name) for name in (predecessor.name, entry.name))
    differences = tuple(Difference(name, old[name], new[name]) for name in new if old[name] != new[name])
    attributes = tuple(difference.attribute for difference in differences)
    decision = _replacement_decision(differences, attributes, inputs.replacement)
    if error := replacement_refusal(entry, predecessor, inputs.state_options):
        return decision._replace(error=error)
    if entry.meta.lifecycle.replace == "never":
        return decision._replace(error="would be replaced, and lifecycle.replace is never")
    return decision


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
        """The attributes, each once."""
        return tuple(dict.fromkeys((*self.fixed, *self.provided, *self.declared)))


def _replacing_attributes(
    entry: Entry, differences: Sequence[Difference], planned: Planned, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return the attributes whose differences replace the resource, grouped by the origin of that rule.

    The origin is the type (``init_only``), the manifest (``replace_on_changes``) or the provider's plan: each has its
    own conditions and messages. A value that is not known yet may turn out equal: as a difference by the type or the
    provider it counts only if replacing is allowed or the source of the value is deleted first.
    """
    definition = entry.definition
    fixed = [change for change in differences if _is_fixed(change, definition) and _counts(change, entry, inputs)]
    declared = _changes_at(differences, entry.meta.lifecycle.replace_on_changes)
    provided = [
        change
        for change in _changes_at(differences, planned.replace)
        if not _is_fixed(change, definition) and _counts(change, entry, inputs)
    ]
    lost = inputs.lost_sources.keys() - set(inputs.conditional_sources)
    return _ReplacingAttributes(
        fixed={change.attribute: _fixed_reason(change, inputs.lost_sources) for change in fixed},
        declared=[change.attribute for change in declared],
        provided=[change.attribute for change in provided],
        certain=any(
            not change.undecided or attribute_of(change.attribute) in lost for change in (*fixed, *declared, *provided)
        ),
    )


def _is_fixed(change: Difference, definition: TypeDefinition) -> bool:
    """Return whether the attribute of a difference, or of a key path in it, can only be set at creation."""
    return definition.attributes[attribute_of(change.attribute)].kind == "init_only"


def _counts(change: Difference, entry: Entry, inputs: DecisionInputs) -> bool:
    """Return whether a difference is certain, or may be a reason to replace once its value is known."""
    allowed = entry.meta.lifecycle.allows_replacement or attribute_of(change.attribute) in inputs.lost_sources
    return allowed or not change.undecided


def _fixed_reason(difference: Difference, lost_sources: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the reason to replace for an ``init_only`` attribute: its value differs, or its source is replaced."""
    if is_unknown(difference.should) and difference.attribute in lost_sources:
        return f"'{difference.attribute}' comes from {lost_sources[difference.attribute]}, which is replaced"
    is_, should = show_attribute(difference.is_), show_attribute(difference.should)
    return f"'{difference.attribute}' can only be set at creation: it is {is_} and should be {should}"


def _refusal(entry: Entry, reasons: Iterable[str]) -> str:
    """Return the error of a resource that would have to be replaced for ``reasons``, with the option to allow it."""
    never = entry.meta.lifecycle.replace == "never"
    return f"{'; '.join(reasons)}; lifecycle.replace{' is never' if never else ': delete_first would replace it'}"


def possible_failure(entry: Entry, differences: Sequence[Difference], planned: Planned) -> Sequence[str]:
    """Return the warning that an update fails if a value not known yet turns out to differ, or ().

    A change of the attribute would need a replacement, which the manifest does not allow. Since the value may also turn
    out equal, the plan is an update with this warning, in two texts such as "only if size changes" and "fails then:
    ...". ``planned``: the provider's plan for ``differences``.
    """
    if entry.meta.lifecycle.allows_replacement or not any(change.undecided for change in differences):
        return ()
    attributes = entry.definition.attributes
    fixed = [change for change in differences if attributes[change.attribute].kind == "init_only"]
    provided = [change for change in _changes_at(differences, planned.replace) if change.attribute not in attributes]
    provided += [change for change in differences if change.attribute in planned.replace and change not in fixed]
    undecided = [change for change in (*fixed, *provided) if change.undecided]
    if not undecided:
        return ()
    names = ", ".join(dict.fromkeys(change.attribute for change in undecided))
    reasons = [
        _fixed_reason(change) if change in fixed else f"its provider cannot change {change.attribute} in place"
        for change in undecided
    ]
    condition = "only if" if len(undecided) == len(differences) else "if"
    return f"{condition} {names} changes", f"fails then: {_refusal(entry, reasons)}"


def _changes_at(differences: Sequence[Difference], key_paths: Iterable[str]) -> list[Difference]:
    """Return the differences at ``key_paths`` such as ``body.region``, each with the path as its attribute.

    With such paths the manifest (``replace_on_changes``) and the provider's plan select parts of attributes:
    ``body.region`` replaces the resource for another region only, not for any other change of ``body``.
    """
    by_attribute = {change.attribute: change for change in differences}
    changed = []
    for text in dict.fromkeys(key_paths):
        attribute, path = parse_place(text)
        if (change := by_attribute.get(attribute)) is not None:
            pairs = at_place(change.is_, change.should, path) if path else ()
            differing = [Difference(text, *pair) for pair in pairs if not same_value(*pair)]
            # A path with a wildcard has several values: a difference that is certain decides.
            differing.sort(key=lambda change: change.undecided)
            changed += differing[:1] if path else [change._replace(attribute=text)]
    return changed


def _replacing_without_sources(
    entry: Entry, is_: Resource, expected: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return the attributes that force a replacement because their values come from resources that are deleted first.

    While such a source is missing, its value counts as unknown. If only a creation can set the attribute, the resource
    has to go too; if an update can set it, the resource stays.
    """
    unknown = {**expected, **dict.fromkeys(inputs.lost_sources.keys() & expected.keys(), UNKNOWN)}
    ignored = entry.meta.lifecycle.ignore_changes
    differences = [
        change for change in compare(entry, is_, unknown, functions, inputs) if change.attribute not in ignored
    ]
    planned = predict(entry, is_, unknown, functions) if differences else Planned()
    return _replacing_attributes(entry, differences, planned, inputs)


def _checked_replacement(
    entry: Entry, differences: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Return the decision to replace, with an error where that is not allowed or not possible.

    A change of a fixed attribute, which can only be set at creation, replaces the resource if ``lifecycle.replace``
    allows that. If the option is not set, a request such as ``--replace`` or ``replace_on_changes`` allows it, too;
    without permission the result is an update that fails. Protection and ``retain`` forbid any replacement.
    """
    lifecycle, order = entry.meta.lifecycle, entry.meta.lifecycle.replace
    lost = [name for name in replacing.all if name in inputs.lost_sources]
    requested = order is None and bool(inputs.replacement or replacing.declared)
    if replacing.fixed and not (lifecycle.allows_replacement or requested):
        # As a replacement it comes before the deletion of its source, so that its error blocks that too.
        action = Action.REPLACE if lost else Action.UPDATE
        return Decision(action, differences, error=_refusal(entry, replacing.fixed.values()))
    replacement = inputs.replacement or _implied_replacement(replacing, inputs, lost)
    tainted = replacement is not None and replacement.reason is ReplacementReason.TAINTED
    error, hint = "", untaint_hint(entry, inputs.record, inputs.state_options)
    if order == "never":
        error = f"would be replaced ({replacement or ''}), and lifecycle.replace is never{hint}"
    elif not entry.definition.ensurable:
        error = f"cannot be replaced: its type cannot delete and create it{hint}"
    elif order == "create_first" and inputs.predecessor is None and not tainted:
        error = "cannot be replaced create_first: the new one would have the same name as the old one"
    elif not (error := replacement_refusal(entry, inputs.record, inputs.state_options)) and lifecycle.retain:
        error = f"is retained, and replacing it under its own name would delete it{hint}"
    return _replacement_decision(differences, replacing.all, replacement)._replace(error=error)


def _conditional_replacement(
    decision: Decision, differences: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Return a replacement whose reason is not certain yet: it is decided again, and may fail, only in the run."""
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
    return _replacement_decision(differences, replacing.all, inputs.replacement)._replace(
        reasons=tuple(reasons), conditional=True, forbidden=decision.error
    )


def _replacement_decision(
    differences: Sequence[Difference], attributes: tuple[str, ...], replacement: Replacement | None
) -> Decision:
    """Return the decision to replace a resource, with its reasons for the plan.

    They are the changes of ``attributes``, the other reason ``replacement``, such as ``--replace``, or both.
    """
    reasons = (str(replacement),) if replacement is not None else ()
    return Decision(Action.REPLACE, differences, reasons, replaces_because=attributes, replacement=replacement)


def _implied_replacement(
    replacing: _ReplacingAttributes, inputs: DecisionInputs, lost: Sequence[str]
) -> Replacement | None:
    """Return the reason for a replacement by the first rule that applies, for messages; None for ``init_only`` changes.

    ``lost``: the attributes whose values come from resources that are deleted first. Their reason comes first, because
    the resource has to be replaced with its source whatever its own values are.
    """
    if lost:
        return Replacement(ReplacementReason.SOURCE_REPLACED, (lost[0], inputs.lost_sources[lost[0]]))
    if replacing.provided:
        return Replacement(ReplacementReason.PROVIDER_PLAN, (", ".join(replacing.provided),))
    if replacing.declared:
        return Replacement(ReplacementReason.ATTRIBUTE_CHANGED, (", ".join(replacing.declared),))
    return None


def trigger_entries(catalog: Catalog, entry: Entry) -> Iterator[Entry]:
    """Yield the entries whose change replaces this one (``replace_triggered_by``); for a component, all its members."""
    for text in entry.meta.lifecycle.replace_triggered_by:
        trigger = reference.parse(text)
        if (component := catalog.components.get(trigger)) is not None:
            yield from component.members
        elif (target := catalog.find(trigger)) is not None:
            yield target


def host_of(catalog: Catalog, entry: Entry) -> Entry | None:
    """Return the entry in ``deleted_with``, or None if none is declared or the catalog has none of that name."""
    name = entry.meta.lifecycle.deleted_with
    return catalog.find(reference.parse(name)) if name else None


def cannot_outlive_source(entry: Entry, attribute: str) -> bool:
    """Return whether a resource must be deleted while the source of an attribute's value is replaced.

    It must be deleted if only a new resource can have another value of the attribute, by its type (``init_only``) or by
    the manifest (``replace_on_changes``). Only resources outside of the targets are decided here: they are not read, so
    that no provider can plan further reasons.
    """
    lifecycle = entry.meta.lifecycle
    if lifecycle.external or not entry.definition.ensurable:
        return False
    fixed = entry.definition.attributes[attribute].kind == "init_only" or attribute in map(
        attribute_of, lifecycle.replace_on_changes
    )
    return fixed and attribute not in lifecycle.ignore_changes


def is_triggered(step: Step) -> bool:
    """Return whether a resource is replaced only because another one changes."""
    replacement = step.decision.replacement
    return replacement is not None and replacement.reason is ReplacementReason.TRIGGERED


def has_transient_reason(step: Step) -> bool:
    """Return whether the reason of a replacement exists in this run only, such as the change of another resource.

    The next run would not have that reason: if this run is interrupted before the replacement, only a record as tainted
    leads the next one to make it.
    """
    replacement = step.decision.replacement
    return replacement is not None and replacement.reason in _TRANSIENT


def replacement_dependents(catalog: Catalog, prior: Prior, steps: Iterable[Step]) -> Mapping[int, Sequence[Entry]]:
    """Return entry's index → the recorded entries that are replaced because that entry changes.

    They follow it by ``replace_triggered_by`` or ``deleted_with``. They are recorded as tainted together with the
    change: if the run is interrupted before it replaces them, the next run does. A replacement that fails in the plan
    is left out: the next run must not make up for it.
    """
    if not prior.records:
        return {}
    failed = {step.entry.index for step in steps if step.decision.error or step.decision.forbidden}
    dependents: dict[int, list[Entry]] = {}
    for index in prior.records.keys() - failed:
        entry = catalog.entries[index]
        for trigger in trigger_entries(catalog, entry) if _is_replaceable(entry) else ():
            dependents.setdefault(trigger.index, []).append(entry)
    for step in steps:
        recorded = step.entry.index in prior.records
        if recorded and has_transient_reason(step) and (host := host_of(catalog, step.entry)) is not None:
            dependents.setdefault(host.index, []).append(step.entry)
    return dependents


def _is_replaceable(entry: Entry) -> bool:
    """Return whether ``replace_triggered_by`` can replace this resource: it is declared present and may be replaced."""
    lifecycle = entry.meta.lifecycle
    return (
        bool(lifecycle.replace_triggered_by)
        and entry.definition.ensurable
        and exists(entry.should)
        and not lifecycle.external
        and lifecycle.replace != "never"
    )


def conditional_groups(steps: Iterable[Step]) -> Mapping[int, Mapping[int, Collection[int]]]:
    """Return entry → its group of conditional replacements: if one turns out to be forbidden, none is carried out.

    A replacement is conditional if its reason is not certain in the plan. Without groups a source could be deleted
    before it turns out that a resource made from its values must stay. A group is member → its sources, which are
    removed after it: the member was created from their values, or it must not be replaced but would disappear with them
    (``deleted_with``).
    """
    conditional = {step.entry.index: step for step in steps if step.decision.conditional}
    by_reference = {str(step.reference): index for index, step in conditional.items()}
    sources: dict[int, Collection[int]] = {}
    groups: dict[int, dict[int, Collection[int]]] = {}
    for index, step in conditional.items():
        names = step.decision.replaces_because
        indexes = {source.index for name in names for source in step.entry.sources.get(name, ())}
        if step.decision.forbidden:
            indexes.add(by_reference.get(step.entry.meta.lifecycle.deleted_with or "", index))
        sources[index] = indexes & conditional.keys() - {index}
        groups[index] = {index: sources[index]}
    for index, before in sources.items():
        for source in before:
            if groups[index] is not groups[source]:  # members share one mapping: the groups become one
                groups[index].update(groups[source])
                groups.update(dict.fromkeys(groups[source], groups[index]))
    return groups


def conditional_requirements(members: Iterable[int], after: Mapping[int, Iterable[int]]) -> Mapping[int, Sequence[int]]:
    """Return entry → the conditional replacements, among ``members``, that it requires, directly or not.

    An entry to be replaced is not deleted before they are decided: if one of them turns out to be forbidden, the entry
    could not be created again. ``after`` is entry → the entries that require it.
    """
    required: dict[int, list[int]] = {}
    for member in members:
        for index in descendants([member], after) - {member}:
            required.setdefault(index, []).append(member)
    return required


def forget_hosted(steps: Mapping[int, Step], *, noop: bool) -> Mapping[int, Step]:
    """Return the steps (entry's index → step), where a resource that disappears with its host is only forgotten.

    If its host (``deleted_with``) is deleted, also through a chain of hosts, the resource needs no deletion of its own.
    ``noop``: the whole run is noop; in a real run a noop step deletes nothing.
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
    result = dict(steps)
    for index in hosts:
        host, passed = index, {index}
        while host in hosts and hosts[host] not in passed:
            host = hosts[host]
            passed.add(host)
        if host not in hosts:  # the end of a chain; otherwise the chain is a circle, and none of it disappears
            reason = f"deleted with {steps[index].entry.meta.lifecycle.deleted_with}"
            result[index] = steps[index]._replace(decision=Decision(Action.FORGET, reasons=(reason,)))
    return result


def fail(step: Step, error: str) -> Step:
    """Return a step that fails by a check of the whole plan, with its ``error``.

    A conditional replacement fails only if it turns out to be needed.
    """
    if step.decision.conditional:
        reasons = (*step.decision.reasons, f"fails then: {error}")
        return step._replace(decision=step.decision._replace(reasons=reasons, forbidden=error))
    return step._replace(decision=step.decision._replace(error=error))


#: A protection that is recorded outlives the line that has declared it.
_HINT: Final = "set lifecycle.protect to false first"


def deletion_refusal(entry: Entry, record: Record | None, *, declared: bool = True) -> str:
    """Return the error for deleting a protected resource, or "" if it is not protected.

    ``record``: without a declared ``protect`` the recorded one counts. ``declared``: whether a manifest declares the
    resource; the protection of an orphan can be lifted only by a new declaration, which the error then advises.
    """
    if not entry.is_protected(record):
        return ""
    if declared:
        return f"is protected and would be deleted; {_HINT}"
    return "is protected and would be deleted; declare it with lifecycle.protect: false first"


def replacement_refusal(entry: Entry, record: Record | None, state_options: str) -> str:
    """Return the error for replacing a protected resource, or "". ``record`` is that of the old resource.

    A tainted resource is replaced until its taint is removed: the error names the command for that, too.
    """
    if not entry.is_protected(record):
        return ""
    return f"is protected and would be replaced; {_HINT}{untaint_hint(entry, record, state_options)}"


def untaint_hint(entry: Entry, record: Record | None, state_options: str) -> str:
    """Return, as the end of an error, the command that keeps a tainted resource; "" where it is not tainted."""
    tainted = record is not None and record.status == "tainted"
    return f"; to keep it as it is: state untaint {shell_word(entry.reference)}{state_options}" if tainted else ""


def fail_with_lost_providers(
    steps: Sequence[Step], catalog: Catalog, prior: Prior, functions: Callable[[str], ProviderFunctions], *, noop: bool
) -> list[Step]:
    """Return the steps, where a replacement fails if it would put resources out of the reach of their provider.

    The replaced resource, such as a server, is part of the provider's configuration, and a provider with the new
    configuration would not find the resources that it created on the old server. Resources ``deleted_with`` the server
    do not count, unless the provider compares configurations: then it would refuse the new one. ``functions`` returns
    the functions of a provider instance.
    """
    replaced = {
        step.entry.index: step
        for step in steps
        if step.action is Action.REPLACE and not (step.decision.error or step.is_noop(noop_run=noop))
    }
    pending = [instance for instance in catalog.instances.values() if instance.pending] if replaced else []
    lost = {}
    for instance in pending:
        recorded = [record for record in prior.state.records.values() if record.instance == instance.name]
        created = [record for record in recorded if record.owned and exists(record.is_)]
        for step in _replaced_sources(instance, catalog, replaced):
            compares = functions(instance.name).diff_config is not None
            hosted = set() if compares else _hosted_keys(step, catalog, prior)
            remaining = [record.reference for record in created if record.key not in hosted]
            if remaining:
                lost[step.entry.index] = _out_of_reach(instance, step, remaining[0], compares=compares)
    return [fail(step, lost[step.entry.index]) if step.entry.index in lost else step for step in steps]


def _hosted_keys(host: Step, catalog: Catalog, prior: Prior) -> set[RecordKey]:
    """Return the keys of the recorded resources that are declared ``deleted_with`` the resource of the step ``host``.

    They disappear when this host is deleted, and need no provider for their own deletion.
    """
    name = str(host.reference)
    records = prior.records.items()
    return {record.key for index, record in records if catalog.entries[index].meta.lifecycle.deleted_with == name}


def _replaced_sources(instance: ProviderInstance, catalog: Catalog, replaced: dict[int, Step]) -> Iterator[Step]:
    """Yield those of the ``replaced`` steps (by entry's index) that may change the configuration of a provider.

    Such a step may put the provider's resources out of reach. ``instance``: the provider, whose pending configuration
    refers to values of resources. A value that is known in spite of the replacement does not count.
    """
    for path in catalog.scope.paths(dict(instance.pending)):
        entry = catalog.find(path.root) if isinstance(path.root, Reference) else None
        step = replaced.get(entry.index) if entry is not None else None
        if step is None:
            continue
        with suppress(ValueError):
            if not is_unknown(unknowns.predicted_value(path, step)):
                continue  # known in spite of the replacement: the configured provider compares it itself
        yield step


def _out_of_reach(instance: ProviderInstance, source: Step, resource: Reference, *, compares: bool) -> str:
    """Return the error for replacing ``source``, whose values configure the provider that has created ``resource``.

    ``compares``: the provider compares configurations, so that ``deleted_with`` would not help.
    """
    name = split_instance(instance.name)[1] or instance.name
    advice = f"; if it is gone with that, declare 'lifecycle: {{deleted_with: \"{source.reference}\"}}' there"
    return (
        f"cannot be replaced: the provider '{name}' is configured with it, and {resource}, which that has made, would"
        f" be out of reach; delete {resource} before{'' if compares else advice}"
    )
