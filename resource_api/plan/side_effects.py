"""Which side effects of a change are forbidden: those that undo what is declared, or remove what is not ours.

The same rule holds for the plan and right before a change is made. Pure.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model.change import Action, exists
from resource_api.model.values.values import is_unknown
from resource_api.plan.diff import ComparisonError, compare
from resource_api.plan.planner import would_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.change import SideEffect
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Key
    from resource_api.model.step import Step
    from resource_api.plan.planner import Plan


class SideEffectRule:
    """Decides about the side effects of the steps of one plan."""

    def __init__(self, plan: Plan, functions: Callable[[str], ProviderFunctions]) -> None:
        """Take a plan, and what returns the pure functions of a provider instance."""
        self._plan = plan
        self._functions = functions

    @cached_property
    def _entries(self) -> Mapping[Key, Entry]:
        return {entry.key: entry for entry in self._plan.catalog.entries}

    @cached_property
    def _steps(self) -> Mapping[int, Step]:
        return {step.entry.index: step for step in self._plan.steps}

    def refusal(self, step: Step, effect: SideEffect) -> str:
        """Return why a step with this side effect must not be carried out; empty: it may be.

        What is declared otherwise is forbidden to every step. A deletion that nobody declared (``destroy``,
        ``--prune``) removes nothing but what the same run deletes too.
        """
        entries = list(self._concerned(step, effect))
        orphans = self._plan.prior.orphans
        way_out = f"to leave {step.reference} as it is, take its declaration away and list it under 'removed:'"
        for entry in entries:
            if entry.index not in orphans and self._contradicts(step, entry, effect):
                place = self._plan.catalog.manifest.place(entry.declaration)
                where = f" ({place.file}:{place.line})" if place.file else ""
                declared = f"{entry.reference} declares {'as present' if effect.removes else 'otherwise'}{where}"
                return f"would also {effect.action} {effect}, which {declared}; {way_out}"
        if not effect.removes or step.entry.index not in orphans or self._came_with(effect, entries):
            return ""
        recorded = not self._keys(step, effect).isdisjoint(self._plan.prior.state.records)
        why = "which this run is not to delete" if recorded else "which is not ours"
        return f"would also {effect.action} {effect}, {why}; {way_out}"

    def _keys(self, step: Step, effect: SideEffect) -> set[Key]:
        instance = effect.type or step.definition.instance
        return {(instance, name) for name in (effect.name, *effect.aliases)}

    def _concerned(self, step: Step, effect: SideEffect) -> Iterator[Entry]:
        """Yield the resources that a side effect happens to."""
        keys = self._keys(step, effect)
        yield from (self._entries[key] for key in keys if key in self._entries)
        if effect.tree:
            start = f"{effect.name}/"
            for (instance, name), entry in self._entries.items():
                if instance == (effect.type or step.definition.instance) and str(name).startswith(start):
                    yield entry

    def _came_with(self, effect: SideEffect, entries: Sequence[Entry]) -> bool:
        """Return whether a thing may go with a resource that nobody declares any more.

        What was made with the resource is recorded as if it had been there before; a directory is, with all in it.
        """
        if effect.dependent and effect.tree:
            return True
        return all(map(self._may_go, entries)) if entries else effect.dependent

    def _may_go(self, entry: Entry) -> bool:
        """Return whether a resource is declared, and so has been judged, or is deleted by the run."""
        return entry.index not in self._plan.prior.orphans or self._is_deleted(entry)

    def _is_deleted(self, orphan: Entry) -> bool:
        """Return whether the run deletes the resource of an orphan."""
        step = self._steps.get(orphan.index)
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
