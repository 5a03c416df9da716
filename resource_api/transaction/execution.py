"""Carries out the operations of a plan that has something to do, segment by segment.

Segments run one after another in the order of the plan, or in parallel (``parallel``) as far as relationships allow.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from resource_api.model.action import Action
from resource_api.model.step import SAME
from resource_api.model.values.errors import reason
from resource_api.transaction import parallel
from resource_api.transaction.operation_run import OperationRun, RetriedRun
from resource_api.transaction.provider_call import CallStopped
from resource_api.transaction.reevaluate import Reevaluation
from resource_api.transaction.refreshes import Refreshes
from resource_api.transaction.results import IN_DOUBT
from resource_api.transaction.segment_run import SegmentRun
from resource_api.transaction.segments import in_order
from resource_api.transaction.transaction_context import StepPositions, TransactionContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.step import Operation
    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.snapshot.reading import Snapshot
    from resource_api.transaction.events import Events
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.results import Results


class Execution:
    """The execution of the operations of one plan."""

    def __init__(
        self,
        plan: ExecutionPlan,
        snapshot: Snapshot,
        results: Results,
        events: Events,
        recorder: Recorder,
        *,
        is_shown: bool,
    ) -> None:
        """Prepare the stages; ``is_shown``: errors of the plan are not logged, because they have been shown already."""
        refreshes, positions = Refreshes(plan, results.changed), StepPositions(plan)
        self._transaction = TransactionContext(plan, snapshot, results, refreshes, events, recorder, positions)
        self._plan = plan
        self._results = results
        self._is_shown = is_shown
        self._snapshot = snapshot
        self._in_order = plan.options.parallel <= 1
        self.reevaluation = Reevaluation(self._transaction)
        #: The exception that ended the run and is no ``Exception``: an interrupt, or one that a provider let through.
        self.stopped: BaseException | None = None

    def run(self) -> None:
        """Carry out every operation. An interrupt is kept in ``stopped``, not raised."""
        if self._plan.options.parallel > 1:
            parallel.ParallelRun(self._transaction, begin=self._begin, carry_out=self._carry_out).run()
        else:
            for operations in in_order(self._plan):
                self._carry_out(self._begin(operations))

    # One segment

    def _begin(self, operations: Sequence[Operation]) -> list[OperationRun]:
        """Re-evaluate the operations of a segment; return those that have something to do."""
        runs = [run for operation in operations if (run := self._begin_one(operation)) is not None]
        if changing := [run for run in runs if run.step.action is not Action.SAME or self._is_read_again(run)]:
            with self._cancel_when_stopped(changing):
                self.reevaluation.decide(changing, self._names_ahead(changing))
            self._remove_late(changing)
        return self._end_unchanged([run for run in runs if not (run.finished or self._results.skip_if_blocked(run))])

    def _is_read_again(self, run: OperationRun) -> bool:
        """Return whether a resource that was in sync is read again, or an imperative one checked again.

        In order, it is if anything changed since it was read, as Puppet and Ansible do; in parallel, if one of its
        prerequisites did. An imperative resource cannot be read back: any change may concern it.
        """
        if self._in_order or "imperative" in run.definition.features:
            return self._snapshot.epoch > 0
        return self._results.affected(run.number)

    def _names_ahead(self, segment: Sequence[OperationRun]) -> list[Name]:
        """Return the names of later resources that one ``get`` reads together with those of a segment.

        They were in sync, are of the same type, and no change is planned before them. For a segment that has been read
        ahead itself there are none.
        """
        definition, names = segment[0].definition, [run.name for run in segment]
        planned = any(run.step.acts for run in segment)
        if not self._in_order or planned or self._snapshot.is_fresh(definition, names):
            return []
        # Operations that wait for a failure, here by the growing set, will be skipped: they need no reading.
        ahead, failures = [], set(self._results.failures)
        for number in range(segment[-1].number + 1, len(self._plan.operations)):
            operation = self._plan.operations[number]
            step = operation.step
            if step.entry.meta.on_failure:
                continue
            if step.acts:
                break
            if step.entry.index in self._results.blocked or not failures.isdisjoint(self._plan.waits.get(number, ())):
                failures.add(number)
            elif step.decision is SAME and operation.definition.instance == definition.instance:
                ahead.append(step.name)
        return ahead

    def _remove_late(self, runs: Sequence[OperationRun]) -> None:
        """Remove the resources whose replacement became certain only now."""
        for run in runs:
            operation = self.reevaluation.late_removal(run)
            if operation is not None and not self._transaction.halted([run]):
                removal = type(run)(operation)
                removal.is_, run.is_ = run.is_, None  # the operation itself then creates the resource
                self._carry_out([removal])
            if operation is not None and (halted := self._transaction.halted([run])):
                self._results.skip(run, halted)

    def _begin_one(self, operation: Operation) -> OperationRun | None:
        """Return the run of an operation, or None after ending it: it failed in the plan, is skipped or not needed."""
        run = OperationRun(operation) if operation.step.entry.meta.retry is None else RetriedRun(operation)
        if run.step.entry.meta.on_failure and not self._is_needed(run):
            self._results.not_needed(run)
            return None
        self.reevaluation.add(run)
        if halted := self._transaction.halted([run]):
            self._results.skip(run, halted)
        elif run.decision.error:
            self._results.fail(run, run.decision.error, logged=self._is_shown)
        elif not self._results.skip_if_blocked(run):
            return run
        return None

    def _is_needed(self, run: OperationRun) -> bool:
        """Return whether a resource has failed whose failure an operation handles; none is handled after an interrupt.

        A failed plan is no such failure: nothing was done (contract §10.8).
        """
        failed = self._results.failed_entries & set(self._plan.catalog.on_failure[run.step.entry.index])
        if not failed or self._transaction.run.cancelled:
            return False
        names = ", ".join(str(self._plan.catalog.entries[index].reference) for index in sorted(failed))
        self._transaction.events.log("info", run, f"carried out because {names} failed")
        return True

    def _end_unchanged(self, runs: list[OperationRun]) -> list[OperationRun]:
        """End the operations that have nothing to do and return the rest.

        One that waits for an operation of this segment is returned too: it ends after that operation.
        """
        if not any(run.decision.action is Action.SAME for run in runs):
            return runs
        remaining: dict[int, OperationRun] = {}
        for run in runs:
            is_unchanged = run.decision.action is Action.SAME and not self._transaction.refreshes.sources(run)
            if is_unchanged and remaining.keys().isdisjoint(self._plan.waits.get(run.number, ())):
                self._results.unchanged(run)
            else:
                remaining[run.number] = run
        return list(remaining.values())

    def _carry_out(self, runs: Sequence[OperationRun]) -> None:
        """Carry out operations that share a call."""
        if runs:
            with self._cancel_when_stopped(runs):
                SegmentRun(self._transaction, runs).carry_out()

    @contextmanager
    def _cancel_when_stopped(self, runs: Sequence[OperationRun]) -> Iterator[None]:
        """Turn an interrupt or ``CallStopped`` into ``stopped``; cancel the run and end the interrupted operations."""
        try:
            yield
        except (CallStopped, KeyboardInterrupt) as error:
            context = self._transaction.run
            self.stopped = error.cause if isinstance(error, CallStopped) else error
            context.cancelled = True
            # Without a signal it is the provider that ended the run, while its resources were read.
            cause = "" if context.signal or isinstance(error, CallStopped) else reason(error)
            for run in runs:
                if run.finished:
                    continue
                if run.started:
                    self._results.fail(run, f"its call was interrupted{cause and f' by {cause}'}; {IN_DOUBT}")
                elif cause:
                    self._results.fail(run, cause)
                else:
                    self._results.skip(run, self._transaction.halted([run]))
