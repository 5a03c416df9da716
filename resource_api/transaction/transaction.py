"""Carries out a plan, segment by segment: late and fresh reads, one ``set``, one verifying ``get``.

A segment is what one call is about (``schedule``). What serves to do something is loaded when there is something to do:
most runs find nothing. Failures are contained: a failed resource skips its dependents
and nothing else. What must be done with a resource is decided by the same rule as in the plan (``decision``).
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action
from resource_api.model.event import Outputs
from resource_api.model.report import SUMMARY_FIELDS, Report, Summary
from resource_api.model.step import SAME
from resource_api.model.values.values import is_unknown
from resource_api.plan import unknowns
from resource_api.system import process_guard
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.provider_call import CallStopped
from resource_api.transaction.reevaluate import Reevaluation
from resource_api.transaction.results import HALTED, Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.event import Event
    from resource_api.model.report import StepReport
    from resource_api.model.step import Operation
    from resource_api.plan.planner import Plan
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.scheduler import Schedule

_IN_DOUBT: Final = "the next run looks at what it has done"


class Transaction:
    """One run of a plan; ``follow`` is told every event as it happens, None: nobody wants to know."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, recorder: Recorder | None, follow: Callable[[Event], None] | None
    ) -> None:
        """Prepare to carry out ``plan``; ``snapshot`` holds what was read for it."""
        self.plan = plan
        self.snapshot = snapshot
        self.providers = snapshot.providers
        self.ending = Ending(plan, snapshot, recorder, follow)
        #: What let something through that is no ``Exception``, and so ended the run.
        self.stopped: BaseException | None = None
        self._recorder = recorder
        self._follow = follow
        self._turn = Reevaluation(self.ending)

    def run(self) -> Report:
        """Carry out every operation; gives what happened. An interrupt is kept in ``stopped``, never raised."""
        started = time.monotonic()
        if self._recorder is not None:
            self._recorder.begin()
        if self._idle():
            self.ending.rest()
        else:
            self._veil()
            (self._side_by_side if self.plan.options.parallel > 1 else self._one_by_one)()
        outputs = self._outputs()
        summary = self._summary()
        code = 1 if summary.failed or summary.skipped or self.stopped else 0
        whole = self.plan.complete and not code
        self.ending.finish(outputs if whole else None)
        if not whole:
            # They keep what they had, and that is what is told.
            outputs = self.plan.prior.state.outputs
        if outputs and self._follow is not None:
            self._follow(Outputs(outputs))
        return Report(self.ending.reports, summary, code, time.monotonic() - started, outputs)

    def _idle(self) -> bool:
        """Whether nothing is to be done at all: then nothing will change, and nothing has to be looked at again."""
        steps = self.plan.steps
        nothing = all(step.decision is SAME and not step.refreshed_by and not step.deferred for step in steps)
        return nothing and not self.providers.run.cancelled

    def _veil(self) -> None:
        """Mask what a secret takes the place of: it is one too, and providers speak of what they change."""
        for step in self.plan.steps:
            if step.is_ is not None and step.decision is not SAME and (shown := step.masked_is) is not step.is_:
                self.providers.run.log.mask.add(shown)

    def _one_by_one(self) -> None:
        from resource_api.transaction.scheduler import in_order  # noqa: PLC0415 - something is to be done

        for operations in in_order(self.plan):
            self._carry_out(self._begin(operations))

    def _side_by_side(self) -> None:
        """Carry out what waits for nothing, so many calls at once as are wanted, until nothing is left."""
        from resource_api.system.thread_pool import Abandoned, ThreadPool  # noqa: PLC0415 - side by side
        from resource_api.transaction.scheduler import Schedule  # noqa: PLC0415 - something is to be done

        schedule, run = Schedule(self.plan), self.providers.run
        calls: deque[list[OperationRun]] = deque()
        try:
            with process_guard.shared(), ThreadPool(self.plan.options.parallel) as run.threads:
                while schedule.open:
                    # What is decided is done before more is decided: what is read shall be fresh.
                    while run.threads.has_free_thread and calls:
                        run.threads.start(partial(self._finish, calls.popleft()))
                    while run.threads.has_free_thread and (operations := schedule.take()):
                        run.threads.start(partial(self._divide, operations))
                    ended, more = run.threads.next()
                    schedule.end(ended)
                    calls += more
        except Abandoned:
            self._give_up(schedule)
        except BaseException:
            run.cancelled = True
            raise
        finally:
            run.threads = None

    def _divide(self, operations: Sequence[Operation]) -> tuple[Iterable[Operation], list[list[OperationRun]]]:
        """Begin a segment; gives which operations have ended, and the runs of each call that is to be made."""
        from resource_api.transaction.scheduler import split_calls  # noqa: PLC0415 - side by side

        runs = self._begin(operations)
        live = {run.operation.number for run in runs}
        ended = [operation for operation in operations if operation.number not in live]
        several = "parallel" in operations[0].step.definition.features
        return ended, split_calls(runs, self.plan.waits, self.plan.options.parallel if several else 1)

    def _finish(self, runs: Sequence[OperationRun]) -> tuple[Iterable[Operation], list[list[OperationRun]]]:
        """Make one call, unless nothing new is to begin by now."""
        if why := self._halted():
            for run in runs:
                self.ending.skip(run, why)
        else:
            self._carry_out(runs)
        return [run.operation for run in runs], []

    def _give_up(self, schedule: Schedule) -> None:
        """Calls did not come back: what they have done is in doubt, and the next run looks at it."""
        for operation in self.plan.operations:
            if operation.number in schedule.running:
                self.ending.fail(OperationRun(operation), f"its call did not end after the interrupt; {_IN_DOUBT}")
            elif operation.number not in schedule.ended:
                self.ending.skip(OperationRun(operation), "the run was interrupted")

    def _begin(self, operations: Sequence[Operation]) -> list[OperationRun]:
        """Decide about the operations of one segment; gives the runs that have anything to do."""
        runs = [run for operation in operations if (run := self._prepare(operation)) is not None]
        if moved := [w for w in runs if w.step.action is not Action.SAME or self._may_have_moved(w.operation)]:
            with self._stopping(moved):
                self._turn.decide(moved)
        return self._let_rest([run for run in runs if not (run.finished or self.ending.skip_for(run))])

    def _let_rest(self, runs: list[OperationRun]) -> list[OperationRun]:
        """End what has nothing to do; after one that is left to be done it ends as soon as that has ended well."""
        if not any(run.decision.action is Action.SAME for run in runs):
            return runs
        left: dict[int, OperationRun] = {}
        for run in runs:
            nothing = run.decision.action is Action.SAME and not self.ending.refreshers(run)
            if nothing and left.keys().isdisjoint(self.plan.waits.get(run.operation.number, ())):
                self.ending.same(run)
            else:
                left[run.operation.number] = run
        return list(left.values())

    def _carry_out(self, runs: Sequence[OperationRun]) -> None:
        """Carry out runs that share a call."""
        if runs:
            from resource_api.transaction.segment import Segment  # noqa: PLC0415 - something is to be done

            with self._stopping(runs):
                Segment(self.ending, runs).carry_out()

    @contextmanager
    def _stopping(self, runs: Sequence[OperationRun]) -> Iterator[None]:
        """Let what is no ``Exception`` end the run, and leave nothing that was being done without an end."""
        try:
            yield
        except (CallStopped, KeyboardInterrupt) as error:
            self.stopped = error.cause if isinstance(error, CallStopped) else error
            self.providers.run.cancelled = True
            for run in runs:
                if run.started and not run.finished:
                    self.ending.fail(run, f"its call was interrupted before its end was seen; {_IN_DOUBT}")
                elif not run.finished:
                    self.ending.skip(run, "the run was interrupted")

    def _prepare(self, operation: Operation) -> OperationRun | None:
        """Give the run of an operation, or None when it is done with: failed in the plan, or skipped."""
        step, ending = operation.step, self.ending
        run = OperationRun(operation)
        if not operation.removal:
            self._turn.runs[step.entry.index] = run
        if why := self._halted():
            ending.skip(run, why)
        elif step.decision.error:
            ending.fail(run, step.decision.error)
        elif not ending.skip_for(run):
            return run
        return None

    def _halted(self) -> str:
        """Give why nothing new begins; empty while it does."""
        if self.stopped or self.providers.run.cancelled:
            return "the run was interrupted"
        return HALTED if self.plan.options.fail_fast and self.ending.bad else ""

    def _may_have_moved(self, operation: Operation) -> bool:
        """Whether what was in order may not be now; of what cannot be read back, after any change."""
        if "imperative" in operation.step.definition.features:
            return self.ending.touched
        return self.ending.stirred(operation.number)

    def _outputs(self) -> Mapping[str, Any]:
        found = unknowns.outputs(self.plan.catalog, self._turn.resolve)
        return {name: value for name, value in found if not is_unknown(value)}

    def _summary(self) -> Summary:
        totals = dict.fromkeys(Summary._fields[:-1], 0)
        totals["unchanged"] = self.ending.unchanged
        for report in self.ending.reports:
            totals[self._counted(report)] += 1
        return Summary(**totals, noop=self.plan.options.noop)

    def _counted(self, report: StepReport) -> str:
        """Give what a step counts as: of what would be done, only a run that touches nothing at all counts anything."""
        if report.status in {"failed", "skipped"}:
            return report.status
        told = report.status == "noop" and report.step.is_noop(noop_run=self.plan.options.noop)
        return "unchanged" if told else SUMMARY_FIELDS[report.action]
