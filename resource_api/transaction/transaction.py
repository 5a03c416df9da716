"""Begins and ends the run of a plan: its events, its records, its outputs and the report of its results.

The results are written whatever ends the run. The modules that carry out operations are loaded when there are any
(``segment_run``).
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from resource_api.model.report import Outputs, RunReport
from resource_api.model.step import SAME
from resource_api.model.values.values import is_unknown
from resource_api.plan import unknowns
from resource_api.transaction import segment_run
from resource_api.transaction.results import Events, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.report import Event
    from resource_api.model.values.errors import Problem
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.snapshot.batched_get import Snapshot
    from resource_api.transaction.recorder import Recorder


class Transaction:
    """One run of a plan."""

    def __init__(
        self, plan: ExecutionPlan, snapshot: Snapshot, recorder: Recorder, listener: Callable[[Event], None] | None
    ) -> None:
        """Prepare to carry out ``plan``, which was made from the reads in ``snapshot``.

        ``listener`` gets each event as it happens, or is None.
        """
        self._plan = plan
        self._snapshot = snapshot
        self._context = snapshot.providers.run
        #: Whether the planned changes were shown already.
        self._is_shown = plan.options.noop and self._context.plan_is_shown
        self._events = Events(self._context.log, listener, is_shown=self._is_shown)
        self._results = Results(plan, self._events)
        self._recorder = recorder
        #: The exception that ended the run and is no ``Exception``: an interrupt, or one that a provider let through.
        self.stopped: BaseException | None = None

    @cached_property
    def _execution(self) -> segment_run.Execution:
        """The execution, whose modules are loaded with it."""
        plan, snapshot, is_shown = self._plan, self._snapshot, self._is_shown
        return segment_run.Execution(plan, snapshot, self._results, self._events, self._recorder, is_shown=is_shown)

    def run(self) -> RunReport:
        """Carry out every operation and return the report. An interrupt is kept in ``stopped``, for the caller."""
        started = time.monotonic()
        self._recorder.begin()
        steps = self._plan.steps
        in_sync = all(step.decision is SAME and not step.refreshed_by and not step.deferred for step in steps)
        if in_sync and not self._context.cancelled:
            self._results.nothing_to_do = True
        else:
            # The present values of attributes that get a secret are secret too, and providers log changes.
            for step in steps:
                if step.is_ is not None and step.decision is not SAME and (masked := step.masked_is) is not step.is_:
                    self._context.log.mask.add(masked)
            try:
                self._execution.run()
            finally:
                self.stopped = self._execution.stopped
        return self._finish(started)

    def _finish(self, started: float) -> RunReport:
        """Write unchanged resources and, after a whole successful run, the outputs; return the report.

        After a partial or failed run the recorded outputs stay, because outputs are recorded only all together.
        """
        self._events.log_more()
        summary = self._results.summary()
        failed = bool(summary.failed or summary.skipped or self.stopped)
        outputs, problems = self._outputs(failed=failed)
        exit_code = 1 if failed or problems else 0
        is_whole = self._plan.complete and not exit_code
        changed_outputs = self._recorder.finish(self._results, outputs if is_whole else None)
        self._events.log_adopted(self._recorder.adopted)
        if self._plan.options.noop:
            changed_outputs = self._plan.summary.outputs_changed
        summary = summary._replace(outputs_changed=changed_outputs)
        if not is_whole:
            outputs = self._plan.prior.state.outputs
        if outputs:
            self._events.send(Outputs(outputs))
        seconds = time.monotonic() - started
        calls = [call._replace(started=call.started - started) for call in self._results.calls]
        return RunReport(self._results.reports, summary, exit_code, seconds, outputs, problems=problems, calls=calls)

    def _outputs(self, *, failed: bool) -> tuple[Mapping[str, Any], Sequence[Problem]]:
        """Return the outputs that have a value, and the problems of those that have none.

        Under noop nothing was applied: the problems are the plan's. After a ``failed`` run there are none, because a
        missing value may be a consequence.
        """
        if not self._plan.catalog.manifest.outputs:
            return {}, ()
        values, problems = unknowns.outputs(self._plan.catalog, self._execution.reevaluation.resolve)
        reported: Sequence[Problem] = self._plan.problems if self._plan.options.noop else problems
        return {name: value for name, value in values.items() if not is_unknown(value)}, () if failed else reported
