"""The objects that the stages of one transaction share: the context, and the positions of its steps."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model.action import Action
from resource_api.model.values.start_up import NamedTuple
from resource_api.transaction.results import HALTED, INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import RunContext
    from resource_api.snapshot.batched_get import Snapshot
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.refreshes import Refreshes
    from resource_api.transaction.results import Events, Results


class StepPositions:
    """The positions of the acting steps of a plan, in the order of execution."""

    def __init__(self, plan: ExecutionPlan) -> None:
        """Take the plan; positions are computed when a call is shown."""
        self._plan = plan

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        """Entry's index → its position among the acting steps, from 1, for the progress of a run, such as ``3/14``.

        Handlers of failures have none: most do not run, and would make the total too large.
        """
        steps = (operation.step for operation in self._plan.operations if not operation.step.entry.meta.on_failure)
        acting = (step for step in steps if step.decision.action is not Action.SAME or step.refreshed_by)
        indices = dict.fromkeys(step.entry.index for step in acting)
        return {index: position for position, index in enumerate(indices, 1)}

    def describe(self, indices: Collection[int]) -> str:
        """Return the positions of entries for the display: ``3/14``, ``3-5/14``; empty if an entry was not planned."""
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
        """Return the reason why ``runs`` may not begin any more, an interrupt or ``--fail-fast``; or an empty text.

        ``--fail-fast`` does not halt handlers of failures (``on_failure``).
        """
        if self.run.cancelled:
            return INTERRUPTED
        if not (self.plan.options.fail_fast and self.results.failures):
            return ""
        return "" if runs and runs[0].step.handles_failure else HALTED
