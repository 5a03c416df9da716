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
from resource_api.model.step import COUNTED, SAME, Report, Summary
from resource_api.model.values.values import is_unknown
from resource_api.plan import unknowns as foresight
from resource_api.system import process_guard as guard
from resource_api.transaction.operation_run import Work
from resource_api.transaction.provider_call import Stopped
from resource_api.transaction.redecide import Turn
from resource_api.transaction.results import HALTED, Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.event import Event
    from resource_api.model.step import Operation, StepReport
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
        self._turn = Turn(self.ending)

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
            if step.is_ is not None and step.decision is not SAME and (shown := step.shown) is not step.is_:
                self.providers.run.log.mask.add(shown)

    def _one_by_one(self) -> None:
        from resource_api.transaction.scheduler import in_order  # noqa: PLC0415 - something is to be done

        for operations in in_order(self.plan):
            self._carry_out(self._begin(operations))

    def _side_by_side(self) -> None:
        """Carry out what waits for nothing, so many calls at once as are wanted, until nothing is left."""
        from resource_api.system.thread_pool import Abandoned, Crew  # noqa: PLC0415 - side by side
        from resource_api.transaction.scheduler import Schedule  # noqa: PLC0415 - something is to be done

        schedule, run = Schedule(self.plan), self.providers.run
        calls: deque[list[Work]] = deque()
        try:
            with guard.shared(), Crew(self.plan.options.parallel) as run.crew:
                while schedule.open:
                    # What is decided is done before more is decided: what is read shall be fresh.
                    while run.crew.idle and calls:
                        run.crew.start(partial(self._finish, calls.popleft()))
                    while run.crew.idle and (operations := schedule.take()):
                        run.crew.start(partial(self._divide, operations))
                    ended, more = run.crew.next()
                    schedule.end(ended)
                    calls += more
        except Abandoned:
            self._give_up(schedule)
        except BaseException:
            run.cancelled = True
            raise
        finally:
            run.crew = None

    def _divide(self, operations: Sequence[Operation]) -> tuple[Iterable[Operation], list[list[Work]]]:
        """Begin a segment; gives which operations have ended, and the works of each call that is to be made."""
        from resource_api.transaction.scheduler import pieces  # noqa: PLC0415 - side by side

        works = self._begin(operations)
        live = {work.operation.number for work in works}
        ended = [operation for operation in operations if operation.number not in live]
        several = "parallel" in operations[0].step.definition.features
        return ended, pieces(works, self.plan.waits, self.plan.options.parallel if several else 1)

    def _finish(self, works: Sequence[Work]) -> tuple[Iterable[Operation], list[list[Work]]]:
        """Make one call, unless nothing new is to begin by now."""
        if why := self._halted():
            for work in works:
                self.ending.skip(work, why)
        else:
            self._carry_out(works)
        return [work.operation for work in works], []

    def _give_up(self, schedule: Schedule) -> None:
        """Calls did not come back: what they have done is in doubt, and the next run looks at it."""
        for operation in self.plan.operations:
            if operation.number in schedule.running:
                self.ending.fail(Work(operation), f"its call did not end after the interrupt; {_IN_DOUBT}")
            elif operation.number not in schedule.ended:
                self.ending.skip(Work(operation), "the run was interrupted")

    def _begin(self, operations: Sequence[Operation]) -> list[Work]:
        """Decide about the operations of one segment; gives the works that have anything to do."""
        works = [work for operation in operations if (work := self._prepare(operation)) is not None]
        if moved := [w for w in works if w.step.action is not Action.SAME or self._may_have_moved(w.operation)]:
            with self._stopping(moved):
                self._turn.decide(moved)
        return self._let_rest([work for work in works if not (work.finished or self.ending.skip_for(work))])

    def _let_rest(self, works: list[Work]) -> list[Work]:
        """End what has nothing to do; after one that is left to be done it ends as soon as that has ended well."""
        if not any(work.decision.action is Action.SAME for work in works):
            return works
        left: dict[int, Work] = {}
        for work in works:
            nothing = work.decision.action is Action.SAME and not self.ending.refreshers(work)
            if nothing and left.keys().isdisjoint(self.plan.waits.get(work.operation.number, ())):
                self.ending.same(work)
            else:
                left[work.operation.number] = work
        return list(left.values())

    def _carry_out(self, works: Sequence[Work]) -> None:
        """Carry out works that share a call."""
        if works:
            from resource_api.transaction.segment import Segment  # noqa: PLC0415 - something is to be done

            with self._stopping(works):
                Segment(self.ending, works).carry_out()

    @contextmanager
    def _stopping(self, works: Sequence[Work]) -> Iterator[None]:
        """Let what is no ``Exception`` end the run, and leave nothing that was being done without an end."""
        try:
            yield
        except (Stopped, KeyboardInterrupt) as error:
            self.stopped = error.cause if isinstance(error, Stopped) else error
            self.providers.run.cancelled = True
            for work in works:
                if work.started and not work.finished:
                    self.ending.fail(work, f"its call was interrupted before its end was seen; {_IN_DOUBT}")
                elif not work.finished:
                    self.ending.skip(work, "the run was interrupted")

    def _prepare(self, operation: Operation) -> Work | None:
        """Give the work of an operation, or None when it is done with: failed in the plan, or skipped."""
        step, ending = operation.step, self.ending
        work = Work(operation)
        if not operation.removal:
            self._turn.works[step.entry.index] = work
        if why := self._halted():
            ending.skip(work, why)
        elif step.decision.error:
            ending.fail(work, step.decision.error)
        elif not ending.skip_for(work):
            return work
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
        found = foresight.outputs(self.plan.catalog, self._turn.resolve)
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
        told = report.status == "noop" and report.step.idle(telling=self.plan.options.noop)
        return "unchanged" if told else COUNTED[report.action]
