"""The objects that the stages of one transaction share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import NamedTuple
from resource_api.transaction.results import HALTED, INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import RunContext
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.events import Events
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.provider_call import StepPositions
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.refreshes import Refreshes
    from resource_api.transaction.results import Results


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
