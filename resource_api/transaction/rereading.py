"""Reading again what was in sync: which resources, when their turn comes, and together with which later ones.

In order, a resource is read again if anything was changed since it was read, as people from Puppet and Ansible expect;
side by side, if something that it depends on was. Nothing is read or decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.step import SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import Plan
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.results import Results


class Rereading:
    """Which resources in sync are read again in one run."""

    def __init__(self, plan: Plan, snapshot: Snapshot, results: Results) -> None:
        """Take the plan, and the reads and results of its run, which grow."""
        self._plan = plan
        self._snapshot = snapshot
        self._results = results
        self._in_order = plan.options.parallel <= 1

    def is_due(self, run: OperationRun) -> bool:
        """Return whether a resource that was in sync is read again, or an imperative one is asked again.

        An imperative resource cannot be read back: any change may concern it.
        """
        if self._in_order or "imperative" in run.definition.features:
            return self._snapshot.epoch > 0
        return self._results.affected(run.number)

    def names_ahead(self, segment: Sequence[OperationRun]) -> list[Name]:
        """Return the names of later resources that one ``get`` reads together with those of a segment.

        They were in sync, are of the same type, and nothing is planned to change before them. Those of a segment that
        is read already were read with it.
        """
        definition, names = segment[0].definition, [run.name for run in segment]
        planned = any(run.step.acts for run in segment)
        if not self._in_order or planned or self._snapshot.is_fresh(definition, names):
            return []
        ahead, failures = [], set(self._results.failures)
        for number in range(segment[-1].number + 1, len(self._plan.operations)):
            operation = self._plan.operations[number]
            step = operation.step
            if step.acts:
                break
            if step.entry.index in self._results.blocked or not failures.isdisjoint(self._plan.waits.get(number, ())):
                failures.add(number)
            elif step.decision is SAME and operation.definition.instance == definition.instance:
                ahead.append(step.name)
        return ahead
