"""Which resources are refreshed because of which changes, in this run or in a later one. Nothing is called here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog.graph import reverse
from resource_api.model.change import exists
from resource_api.plan.planner import is_refreshable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from resource_api.model.record import RecordKey
    from resource_api.plan.planner import Plan
    from resource_api.transaction.operation_run import OperationRun


class Refreshes:
    """The notifications among the resources of one plan (``notify``, ``subscribe``)."""

    def __init__(self, plan: Plan, changed: Collection[int]) -> None:
        """Take the operations that have ``changed`` something, by number: it grows during the run."""
        self._plan = plan
        self._changed = changed
        subscribes = plan.catalog.subscribes
        self._listeners = reverse(subscribes)
        #: Entry's index → the operation that creates or changes it.
        self._operation = {o.step.entry.index: o.number for o in plan.operations if not o.removal} if subscribes else {}
        #: Entries that there will be something to refresh of.
        self._refreshable = {
            index
            for index, number in self._operation.items()
            if index in subscribes and is_refreshable(plan.operations[number].step)
        }
        if not plan.complete:
            # A listener that is not among the targets is refreshed by a later run.
            others = (e for e in plan.catalog.entries if e.index in subscribes and e.index not in self._operation)
            self._refreshable |= {entry.index for entry in others if exists(entry.should)}

    def sources(self, run: OperationRun) -> list[str]:
        """Return the references of the resources whose changes refresh this one, in this run or owed by one before."""
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
        """Return the refreshes that the changes of ``runs`` cause: key of the listener → references of the sources."""
        owed: dict[RecordKey, list[str]] = {}
        for run in runs if self._listeners else ():
            if run.number not in self._changed or run.step.noop or run.removal:
                continue
            for listener in self._listeners.get(run.step.entry.index, ()):
                entry = self._plan.catalog.entries[listener]
                if "refreshable" in entry.definition.features and listener in self._refreshable:
                    owed.setdefault(entry.key, []).append(str(run.step.reference))
        return owed
