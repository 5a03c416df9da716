"""The objects that the stages of one transaction share: the context, the positions of steps, and the refreshes.

``execution`` ends the operations of refreshes, ``provider_call`` calls the provider.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.catalog.graph import reverse
from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values.start_up import NamedTuple
from resource_api.plan.planner import is_refreshable
from resource_api.transaction.results import HALTED, INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from resource_api.model.record import RecordKey
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import RunContext
    from resource_api.snapshot.reading import Snapshot
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.results import Events, Results


class StepPositions:
    """The positions of the acting steps of a plan, in the order of execution."""

    def __init__(self, plan: ExecutionPlan) -> None:
        """Take the plan; positions are computed when a call is shown."""
        self._plan = plan

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        """Entry's index → its position, from 1."""
        steps = (operation.step for operation in self._plan.operations if not operation.step.entry.meta.on_failure)
        acting = (step for step in steps if step.decision.action is not Action.SAME or step.refreshed_by)
        indices = dict.fromkeys(step.entry.index for step in acting)
        return {index: position for position, index in enumerate(indices, 1)}

    def describe(self, indices: Collection[int]) -> str:
        """Return the positions of entries: ``3/14``, ``3-5/14``; empty if an entry was not planned."""
        positions = sorted(self._positions.get(index, 0) for index in indices)
        if not positions or not positions[0]:
            return ""
        first, last, count = positions[0], positions[-1], len(self._positions)
        is_range = last - first == len(positions) - 1 > 0  # without gaps, and more than one
        return f"{first}-{last}/{count}" if is_range else f"{first}/{count}"


class TransactionContext(NamedTuple):
    """The plan of a transaction, its reads, and where its stages write."""

    plan: ExecutionPlan
    #: The resources as they were read; its ``providers`` are those of this run.
    snapshot: Snapshot
    results: Results
    refreshes: Refreshes
    events: Events
    recorder: Recorder
    #: The positions of the steps, shown while a call runs.
    positions: StepPositions

    @property
    def run(self) -> RunContext:
        """The context of the run that its providers get."""
        return self.snapshot.providers.run

    def halted(self, runs: Sequence[OperationRun] = ()) -> str:
        """Return the reason for which no further operation begins, or an empty text.

        ``--fail-fast`` does not halt ``runs`` that are carried out for a failure.
        """
        if self.run.cancelled:
            return INTERRUPTED
        if not (self.plan.options.fail_fast and self.results.failures):
            return ""
        return "" if runs and runs[0].step.handles_failure else HALTED


class Refreshes:
    """The notifications among the resources of one plan (``notify``, ``subscribe``)."""

    def __init__(self, plan: ExecutionPlan, changed: Collection[int]) -> None:
        """Take the numbers of the operations that ``changed`` their resource; they grow during the run."""
        self._plan = plan
        self._changed = changed
        subscribes = plan.catalog.subscribes
        #: Entry's index → the indices of the entries that its change refreshes.
        self._listeners = reverse(subscribes)
        #: Entry's index → the operation that creates or changes it.
        self._operation = {o.step.entry.index: o.number for o in plan.operations if not o.removal} if subscribes else {}
        handlers = plan.catalog.on_failure
        #: Indices of the entries whose resource will exist and can be refreshed; no later run owes a refresh to others.
        self._refreshable = {
            index
            for index, number in self._operation.items()
            if index in subscribes and is_refreshable(plan.operations[number].step) and index not in handlers
        }
        if not plan.complete:
            # A listener that is not among the targets is refreshed by a later run.
            listeners = (e for e in plan.catalog.entries if e.index in subscribes and e.index not in self._operation)
            self._refreshable |= {entry.index for entry in listeners if exists(entry.should)}

    def sources(self, run: OperationRun) -> list[str]:
        """Return the references of the resources whose changes refresh this one, in this run or owed by an earlier."""
        step, catalog = run.step, self._plan.catalog
        features = step.definition.features
        if "refreshable" not in features or step.entry.meta.lifecycle.external:
            return []
        if not (exists(run.is_) or "imperative" in features or step.noop):
            return []
        if step.noop:
            return list(step.refreshed_by)
        subscribed = catalog.subscribes.get(step.entry.index, ())
        changed = (source for source in subscribed if self._operation.get(source) in self._changed)
        names = [str(catalog.entries[source].reference) for source in changed]
        owed = self._plan.prior.state.owed.get(step.entry.key, ())
        return list(dict.fromkeys((*names, *owed)))

    def owed(self, runs: Iterable[OperationRun]) -> dict[RecordKey, list[str]]:
        """Return the refreshes that the changes of ``runs`` cause: listener's key → references of the sources.

        They are committed with the changes and owed until they have been carried out, also by a later run.
        """
        owed: dict[RecordKey, list[str]] = {}
        for run in runs if self._listeners else ():
            if run.number not in self._changed or run.step.noop or run.removal:
                continue
            for listener in self._listeners.get(run.step.entry.index, ()):
                entry = self._plan.catalog.entries[listener]
                if "refreshable" in entry.definition.features and listener in self._refreshable:
                    owed.setdefault(entry.key, []).append(str(run.step.reference))
        return owed
