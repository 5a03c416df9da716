"""Forbidden side effects of a change: those that undo a declaration, or remove resources of other owners.

The same rule holds for the plan and right before a change is made. Pure.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import is_unknown
from resource_api.plan.diff import ComparisonError, compare
from resource_api.plan.planner import would_change

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.change import SideEffect
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Step
    from resource_api.plan.diff import Resource
    from resource_api.plan.planner import ExecutionPlan


class SideEffectRule:
    """Decides about the side effects of the steps of one plan."""

    def __init__(self, plan: ExecutionPlan, functions: Callable[[str], ProviderFunctions]) -> None:
        """Take a plan, and a getter of the pure functions of a provider instance."""
        self._plan = plan
        self._functions = functions

    @cached_property
    def _entries(self) -> Mapping[RecordKey, Entry]:
        return {entry.key: entry for entry in self._plan.catalog.entries}

    @cached_property
    def _steps(self) -> Mapping[int, Step]:
        return {step.entry.index: step for step in self._plan.steps}

    def refusal(self, step: Step, effect: SideEffect) -> str:
        """Return the reason to refuse a step with this side effect, or "".

        No step may contradict a declaration. A deletion that nobody declared (``destroy``, ``--prune``) removes only
        resources that the same run deletes too.
        """
        entries = list(self._concerned(step, effect))
        orphans = self._plan.prior.orphans
        way_out = f"to leave {step.reference} as it is, take its declaration away and list it under 'removed:'"
        for entry in entries:
            if entry.index not in orphans and self._contradicts(step, entry, effect):
                position = self._plan.catalog.manifest.place(entry.declaration)
                location = f" ({position.file}:{position.line})" if position.file else ""
                declared = f"{entry.reference} declares {'as present' if effect.removes else 'otherwise'}{location}"
                if effect.asked:
                    return f"would {effect.action} {effect}, which {declared}"
                return f"would also {effect.action} {effect}, which {declared}; {way_out}"
        if not effect.removes or effect.asked or step.entry.index not in orphans or self._came_with(effect, entries):
            return ""
        recorded = not self.keys(step, effect).isdisjoint(self._plan.prior.state.records)
        reason = "which this run is not to delete" if recorded else "which is not ours"
        return f"would also {effect.action} {effect}, {reason}; {way_out}"

    def keys(self, step: Step, effect: SideEffect) -> set[RecordKey]:
        """Return the identities of the resource that a side effect concerns.

        It belongs to each provider of its type that leads to the same place as the step's provider.
        """
        instances = self._instances.get(effect.type or step.definition.name, ())
        reached = [instance for instance in instances if self._same_place(step.definition.instance, instance)]
        return {(instance, name) for instance in reached for name in (effect.name, *effect.aliases)}

    @cached_property
    def _instances(self) -> Mapping[str, Collection[str]]:
        """The providers of resources that are declared or recorded, by type."""
        instances: dict[str, set[str]] = {}
        for instance, _ in (*self._entries, *self._plan.prior.state.records):
            instances.setdefault(split_instance(instance)[0], set()).add(instance)
        return instances

    def _same_place(self, instance: str, candidate: str) -> bool:
        """Return whether two providers may lead to the same place, as the second one compares configurations."""
        if instance == candidate:
            return True
        config, candidate_config = self._config(instance), self._config(candidate)
        compare_configs = self._functions(candidate).diff_config if config and candidate_config else None
        return compare_configs is None or not compare_configs(config or {}, candidate_config or {})

    def _config(self, instance: str) -> Resource | None:
        """Return the configuration of a provider; None if it has none, or it is not known."""
        if (declared := self._plan.catalog.instances.get(instance)) is not None:
            return declared.config
        recorded = self._plan.prior.instances.recorded.get(instance)
        return None if recorded is None else recorded.should

    def goes_anyway(self, step: Step, effect: SideEffect) -> bool:
        """Return whether the run deletes the resource that a side effect removes anyway."""
        entries = (self._entries.get(key) for key in self.keys(step, effect) if effect.removes)
        return any(entry is not None and self._is_deleted(entry) for entry in entries)

    def _concerned(self, step: Step, effect: SideEffect) -> Iterator[Entry]:
        """Yield the resources that a side effect happens to."""
        keys = self.keys(step, effect)
        yield from (self._entries[key] for key in keys if key in self._entries)
        if effect.tree:
            types = self._instances.get(effect.type or step.definition.name, ())
            yield from (entry for entry in self._entries.values() if _is_below(entry, str(effect.name), types))

    def _came_with(self, effect: SideEffect, entries: Sequence[Entry]) -> bool:
        """Return whether a resource may be deleted together with one that is no longer declared.

        Resources created with it are recorded as existing before; so is a directory, with its content.
        """
        if effect.dependent and effect.tree:
            return True
        return all(map(self._may_go, entries)) if entries else effect.dependent

    def _may_go(self, entry: Entry) -> bool:
        """Return whether a resource is declared, and so has been judged, or is deleted by the run."""
        return entry.index not in self._plan.prior.orphans or self._is_deleted(entry)

    def _is_deleted(self, entry: Entry) -> bool:
        """Return whether the run deletes a resource for itself."""
        step = self._steps.get(entry.index)
        return step is not None and step.action is Action.DELETE and not step.error

    def _contradicts(self, step: Step, entry: Entry, effect: SideEffect) -> bool:
        """Return whether a resource would not be as it is declared after a side effect, and stay so."""
        planned = self._steps.get(entry.index)
        declared = (planned or entry).should
        should = {name: value for name, value in declared.items() if not is_unknown(value)}
        if entry.index == step.entry.index:
            return False
        if effect.removes:
            return exists(should)
        if planned is not None and would_change(planned) and entry.index > step.entry.index:
            return False  # its own turn comes later
        if not exists(should):
            return True
        row = {**((planned.is_ if planned is not None else None) or {}), **(effect.state or {})}
        try:
            differences = compare(entry, row, should, self._functions(entry.instance))
        except ComparisonError:
            return False
        return any(difference.attribute in row.keys() & (effect.state or {}).keys() for difference in differences)


def _is_below(entry: Entry, top: str, instances: Collection[str]) -> bool:
    """Return whether a resource is in a tree: where its names are paths, of any type; ``a/`` is all in ``a``."""
    parts = entry.name if isinstance(entry.name, tuple) else (entry.name,)
    definition, slash = entry.definition, "" if top.endswith("/") else "/"
    local = top[:1] == "/" and definition.ensurable and not definition.config.attributes
    within = any(f"{part}{slash}".startswith(f"{top}{slash}") for part in parts)
    return within and (local or entry.instance in instances)
