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
    from collections.abc import Callable, Mapping

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Key
    from resource_api.model.step import Step
    from resource_api.model.values.side_effect import SideEffect
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
        instance = effect.type or step.definition.instance
        keys = [(instance, name) for name in (effect.name, *effect.aliases)]
        entry = next((self._entries[key] for key in keys if key in self._entries), None)
        orphans = self._plan.prior.orphans
        way_out = f"to leave {step.reference} as it is, take its declaration away and list it under 'removed:'"
        if entry is not None and entry.index not in orphans:
            if not self._contradicts(step, entry, effect):
                return ""
            place = self._plan.catalog.manifest.place(entry.declaration)
            where = f" ({place.file}:{place.line})" if place.file else ""
            declared = "as present" if effect.removes else "otherwise"
            return f"would also {effect.action} {effect}, which {entry.reference} declares {declared}{where}; {way_out}"
        if not effect.removes or step.entry.index not in orphans or self._is_deleted(entry):
            return ""
        recorded = any(key in self._plan.prior.state.records for key in keys)
        why = "which this run is not to delete" if recorded else "which is not ours"
        return f"would also {effect.action} {effect}, {why}; {way_out}"

    def _is_deleted(self, orphan: Entry | None) -> bool:
        """Return whether the run deletes the resource of an orphan."""
        step = self._steps.get(orphan.index) if orphan is not None else None
        return step is not None and step.action is Action.DELETE and not step.error

    def _contradicts(self, step: Step, entry: Entry, effect: SideEffect) -> bool:
        """Return whether a resource would not be as it is declared after a side effect, and stay so."""
        planned = self._steps.get(entry.index)
        declared = (planned or entry).should
        should = {name: value for name, value in declared.items() if not is_unknown(value)}
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
