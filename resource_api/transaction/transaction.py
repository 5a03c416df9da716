"""Carries out a plan, segment by segment: re-evaluate, one ``set``, one verifying ``get``, one commit.

Segments run one after another in the order of the plan, or side by side (``--parallel``) as far as relationships allow.
A failed resource skips those that depend on it and nothing else; after the first interrupt nothing new begins, and
whatever ends the run, the results are written. Modules that only changes need are imported when there are any.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from resource_api.model.action import Action
from resource_api.model.event import Outputs
from resource_api.model.report import Report
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import reason
from resource_api.model.values.values import is_unknown
from resource_api.plan import unknowns
from resource_api.transaction.events import Events
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.results import IN_DOUBT, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.event import Event
    from resource_api.model.step import Operation
    from resource_api.model.values.errors import Problem
    from resource_api.plan.planner import Plan
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.call_progress import Places
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.reevaluate import Reevaluation
    from resource_api.transaction.refreshes import Refreshes
    from resource_api.transaction.rereading import Rereading


class Parts(NamedTuple):
    """What the stages of one transaction share."""

    plan: Plan
    #: What was read; its ``providers`` are those of this run.
    snapshot: Snapshot
    results: Results
    refreshes: Refreshes
    events: Events
    recorder: Recorder
    #: The places of the steps, to show a running call.
    places: Places

    def halted(self) -> str:
        """Return why no operation is begun any more; empty: operations are begun."""
        interrupted = self.snapshot.providers.run.cancelled
        if not (interrupted or (self.plan.options.fail_fast and self.results.failures)):
            return ""
        from resource_api.transaction.skipping import HALTED, INTERRUPTED

        return INTERRUPTED if interrupted else HALTED


class Transaction:
    """One run of a plan."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, recorder: Recorder, listener: Callable[[Event], None] | None
    ) -> None:
        """Prepare to carry out ``plan``; ``snapshot`` holds what was read for it.

        ``listener`` gets each event as it happens, None: there is none.
        """
        self._plan = plan
        self._snapshot = snapshot
        self._context = snapshot.providers.run
        #: Whether what would be done has been shown already.
        self._is_shown = plan.options.noop and self._context.plan_is_shown
        self._events = Events(self._context.log, listener, is_shown=self._is_shown)
        self._results = Results(plan, self._events)
        self._recorder = recorder
        #: What ended the run and is no ``Exception``: an interrupt, or what a provider let through.
        self.stopped: BaseException | None = None

    @cached_property
    def _parts(self) -> Parts:
        from resource_api.transaction.call_progress import Places
        from resource_api.transaction.refreshes import Refreshes

        refreshes, places = Refreshes(self._plan, self._results.changed), Places(self._plan)
        return Parts(self._plan, self._snapshot, self._results, refreshes, self._events, self._recorder, places)

    @cached_property
    def _reevaluation(self) -> Reevaluation:
        from resource_api.transaction.reevaluate import Reevaluation

        return Reevaluation(self._parts)

    @cached_property
    def _rereading(self) -> Rereading:
        from resource_api.transaction.rereading import Rereading

        return Rereading(self._plan, self._snapshot, self._results)

    def run(self) -> Report:
        """Carry out every operation and return what happened. An interrupt is kept in ``stopped``, not raised."""
        started = time.monotonic()
        self._recorder.begin()
        if self._nothing_to_do():
            self._results.nothing_to_do = True
        else:
            self._mask_former_values()
            if self._plan.options.parallel > 1:
                self._run_side_by_side()
            else:
                self._run_in_order()
        return self._finish(started)

    def _finish(self, started: float) -> Report:
        """Write what was only read, and the outputs; of a run that is partial or has failed those stay as recorded."""
        self._events.log_more()
        summary = self._results.summary()
        failed = bool(summary.failed or summary.skipped or self.stopped)
        outputs, problems = self._outputs(failed=failed)
        exit_code = 1 if failed or problems else 0
        whole = self._plan.complete and not exit_code
        changed = self._recorder.finish(self._results, outputs if whole else None)
        self._events.log_adopted(self._recorder.adopted)
        if self._plan.options.noop:
            changed = self._plan.summary.outputs_changed
        summary = summary._replace(outputs_changed=changed)
        if not whole:
            outputs = self._plan.prior.state.outputs
        if outputs:
            self._events.send(Outputs(outputs))
        seconds = time.monotonic() - started
        calls = [call._replace(started=call.started - started) for call in self._results.calls]
        return Report(self._results.reports, summary, exit_code, seconds, outputs, problems=problems, calls=calls)

    def _nothing_to_do(self) -> bool:
        steps = self._plan.steps
        nothing = all(step.decision is SAME and not step.refreshed_by and not step.deferred for step in steps)
        return nothing and not self._context.cancelled

    def _mask_former_values(self) -> None:
        """Mask the present values of attributes that get a secret: they are secret too, and providers log changes."""
        for step in self._plan.steps:
            if step.is_ is not None and step.decision is not SAME and (masked := step.masked_is) is not step.is_:
                self._context.log.mask.add(masked)

    def _outputs(self, *, failed: bool) -> tuple[Mapping[str, Any], Sequence[Problem]]:
        """Return the outputs that have a value, and what is wrong with the others.

        Under noop that is what the plan found; after a failure nothing, because a function may need what failed.
        """
        if not self._plan.catalog.manifest.outputs:
            return {}, ()
        found, problems = unknowns.outputs(self._plan.catalog, self._reevaluation.resolve)
        reported: Sequence[Problem] = self._plan.problems if self._plan.options.noop else problems
        return {name: value for name, value in found.items() if not is_unknown(value)}, () if failed else reported

    # One by one, or side by side

    def _run_in_order(self) -> None:
        from resource_api.transaction.segments import in_order

        for operations in in_order(self._plan):
            self._carry_out(self._begin(operations))

    def _run_side_by_side(self) -> None:
        from resource_api.transaction.parallel import ParallelRun

        ParallelRun(
            self._plan,
            self._context,
            self._results,
            begin=self._begin,
            carry_out=self._carry_out,
            halted=self._parts.halted,
        ).run()

    # One segment

    def _begin(self, operations: Sequence[Operation]) -> list[OperationRun]:
        """Re-evaluate the operations of a segment; return those that have something to do."""
        runs = [run for operation in operations if (run := self._begin_one(operation)) is not None]
        if changing := [run for run in runs if run.step.action is not Action.SAME or self._rereading.is_due(run)]:
            with self._cancel_when_stopped(changing):
                self._reevaluation.decide(changing, self._rereading.names_ahead(changing))
            self._remove_late(changing)
        return self._end_unchanged([run for run in runs if not (run.finished or self._results.skip_if_blocked(run))])

    def _remove_late(self, runs: Sequence[OperationRun]) -> None:
        """Remove resources of which only now is certain that they are replaced."""
        for run in runs:
            operation = self._reevaluation.late_removal(run)
            if operation is not None and not self._parts.halted():
                removal = OperationRun(operation)
                removal.is_, run.is_ = run.is_, None
                self._carry_out([removal])
            if operation is not None and (why := self._parts.halted()):
                self._results.skip(run, why)

    def _begin_one(self, operation: Operation) -> OperationRun | None:
        """Return an operation that is to be carried out; None: it has failed in the plan, or is skipped."""
        run = OperationRun(operation)
        self._reevaluation.add(run)
        if why := self._parts.halted():
            self._results.skip(run, why)
        elif run.decision.error:
            self._results.fail(run, run.decision.error, logged=self._is_shown)
        elif not self._results.skip_if_blocked(run):
            return run
        return None

    def _end_unchanged(self, runs: list[OperationRun]) -> list[OperationRun]:
        """End operations that have nothing to do and return the others.

        One that waits for an operation of this segment is returned too: it ends after that.
        """
        if not any(run.decision.action is Action.SAME for run in runs):
            return runs
        left: dict[int, OperationRun] = {}
        for run in runs:
            nothing = run.decision.action is Action.SAME and not self._parts.refreshes.sources(run)
            if nothing and left.keys().isdisjoint(self._plan.waits.get(run.number, ())):
                self._results.unchanged(run)
            else:
                left[run.number] = run
        return list(left.values())

    def _carry_out(self, runs: Sequence[OperationRun]) -> None:
        """Carry out operations that share a call."""
        if runs:
            from resource_api.transaction.segment_run import SegmentRun

            with self._cancel_when_stopped(runs):
                SegmentRun(self._parts, runs).carry_out()

    @contextmanager
    def _cancel_when_stopped(self, runs: Sequence[OperationRun]) -> Iterator[None]:
        """Let what is no ``Exception`` cancel the run, and end the operations that it interrupted."""
        from resource_api.transaction.provider_call import CallStopped

        try:
            yield
        except (CallStopped, KeyboardInterrupt) as error:
            self.stopped = error.cause if isinstance(error, CallStopped) else error
            self._context.cancelled = True
            # Without a signal it is the provider that has ended the run, while its resources were read.
            why = "" if self._context.signal or isinstance(error, CallStopped) else reason(error)
            for run in runs:
                if run.finished:
                    continue
                if run.started:
                    self._results.fail(run, f"its call was interrupted{why and f' by {why}'}; {IN_DOUBT}")
                elif why:
                    self._results.fail(run, why)
                else:
                    self._results.skip(run, self._parts.halted())
