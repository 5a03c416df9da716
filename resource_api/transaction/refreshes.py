"""The refreshes of one plan: the resources whose change notifies another one, and those owed by an earlier run.

``segment_run`` ends the operations of refreshes, ``provider_call`` calls the provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog.graph import reverse
from resource_api.model.change import exists
from resource_api.plan.planner import is_refreshable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from resource_api.model.record import RecordKey
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.transaction.operation_run import OperationRun


class Refreshes:
    """The notifications among the resources of one plan (``notify``, ``subscribe``)."""

    def __init__(self, plan: ExecutionPlan, changed: Collection[int]) -> None:
        """Take the numbers of the operations that ``changed`` their resource, a set that grows during the run."""
        self._plan = plan
        self._changed = changed
        subscribes = plan.catalog.subscribes
        #: Entry's index → the indices of the entries that its change refreshes.
        self._listeners = reverse(subscribes)
        #: Entry's index → the operation that creates or changes it.
        self._operation = (
            {operation.step.entry.index: operation.number for operation in plan.operations if not operation.removal}
            if subscribes
            else {}
        )
        handlers = plan.catalog.on_failure
        #: Indices of the entries whose resource will exist and can be refreshed: only to them a refresh can be owed.
        #: Handlers of failures are not among them, as they may not be carried out at all.
        self._refreshable = {
            index
            for index, number in self._operation.items()
            if index in subscribes and is_refreshable(plan.operations[number].step) and index not in handlers
        }
        if not plan.complete:
            # A listener that is not among the targets is refreshed by a later run.
            listeners = [plan.catalog.entries[index] for index in subscribes if index not in self._operation]
            self._refreshable |= {entry.index for entry in listeners if exists(entry.should)}

    def sources(self, run: OperationRun) -> list[str]:
        """Return the references of the resources whose change, in this run or an earlier one, refreshes this one.

        There are none if the resource is external or does not exist: then nothing of ours can be refreshed. Under noop
        nothing changes, and they are those of the plan.
        """
        step, catalog = run.step, self._plan.catalog
        features = step.definition.features
        if "refreshable" not in features or step.entry.meta.lifecycle.external:
            return []
        if step.noop:
            return list(step.refreshed_by)
        if not (exists(run.is_) or "imperative" in features):
            return []
        subscribed = catalog.subscribes.get(step.entry.index, ())
        changed = (source for source in subscribed if self._operation.get(source) in self._changed)
        names = [str(catalog.entries[source].reference) for source in changed]
        owed = self._plan.prior.state.owed.get(step.entry.key, ())
        return list(dict.fromkeys((*names, *owed)))

    def owed(self, runs: Iterable[OperationRun]) -> dict[RecordKey, list[str]]:
        """Return the refreshes that the changes of ``runs`` cause: listener's key → references of changed resources.

        They are committed with the changes, and owed until they are carried out, after an interruption by the next run.
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
