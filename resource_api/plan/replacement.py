"""Replacements and deletions for the sake of another resource, and conflicts among them.

Another resource triggers a replacement, takes the resource with it, or is where one of its values comes from. Pure;
what one step does on its own is decided in ``decide``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import descendants
from resource_api.model.change import Action, exists
from resource_api.model.step import Decision, ReplacementReason
from resource_api.model.values import reference
from resource_api.model.values.errors import UsageError
from resource_api.prior.match import recorded_dependents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.step import Step
    from resource_api.prior.match import Prior

#: Reasons that the next run does not find again.
_TRANSIENT: Final = frozenset({ReplacementReason.TAINTED, ReplacementReason.TRIGGERED, ReplacementReason.HOST_REPLACED})


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
    fixed = entry.definition.attributes[attribute].kind == "init_only" or attribute in lifecycle.replace_on_changes
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
    return [_fail(step, dependents[step.entry.index]) if step.entry.index in dependents else step for step in steps]


def _fail(step: Step, dependent: str) -> Step:
    error = f"would take {dependent} along, which is not among the targets; --with-dependents adds it"
    if step.decision.conditional:
        reasons = (*step.decision.reasons, f"fails then: {error}")
        return step._replace(decision=step.decision._replace(reasons=reasons, forbidden=error))
    return step._replace(decision=step.decision._replace(error=error))
