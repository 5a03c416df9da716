"""Carries out the operations of a plan, segment by segment: re-evaluates, calls ``set``, verifies and commits each.

Segments run one after another in the order of the plan, or in parallel (``parallel``) as far as relationships allow.
One has intents, one ``set``, a verifying ``get``, one commit, then refreshes. ``plan.set_segments`` decides which
operations share a segment, ``reevaluate`` the action of each, and ``retry`` repeats calls.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.step import SAME
from resource_api.model.values.errors import reason
from resource_api.model.values.values import batches, is_unknown
from resource_api.transaction import parallel
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.provider_call import CallStopped, Prerequisites, ProviderCaller
from resource_api.transaction.reevaluate import Reevaluation
from resource_api.transaction.refreshes import Refreshes
from resource_api.transaction.results import HALTED, IN_DOUBT, INTERRUPTED, end_fields
from resource_api.transaction.retry import Retry, set_error
from resource_api.transaction.transaction_context import StepPositions, TransactionContext
from resource_api.transaction.verify import Verification, describe_tolerated, not_converged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.step import Operation
    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.snapshot.batched_get import Snapshot
    from resource_api.transaction.recorder import Recorder
    from resource_api.transaction.results import Events, Results

#: The end of the error of a creation that was reported and could not be seen in time.
_UNCONFIRMED: Final = "; it was reported as created: it is ours, unconfirmed, and the next run reads it again"
#: Actions that change nothing and need no call.
_WITHOUT_CALL: Final = frozenset({Action.SAME, Action.READ})


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
        """Carry out every operation. An interrupt is kept in ``stopped``, not raised: the results are written first."""
        if self._plan.options.parallel > 1:
            parallel.ParallelRun(self._transaction, begin=self._begin, carry_out=self._carry_out).run()
        else:
            for operations in self._plan.segments:
                self._carry_out(self._begin(operations))

    def _begin(self, operations: Sequence[Operation]) -> list[OperationRun]:
        """Re-evaluate the operations of a segment; return those that have something to do.

        The plan may be old, so those that act are read again and decided again together; one that was in sync, only if
        something changed since. Resources whose replacement became certain only now are then removed.
        """
        runs = [run for operation in operations if (run := self._begin_one(operation)) is not None]
        if changing := [run for run in runs if run.step.action is not Action.SAME or self._is_read_again(run)]:
            with self._cancel_when_stopped(changing):
                self.reevaluation.decide(changing, self._names_ahead(changing))
            self._remove_late(changing)
        return self._end_unchanged([run for run in runs if not (run.finished or self._results.skip_if_blocked(run))])

    def _is_read_again(self, run: OperationRun) -> bool:
        """Return whether a resource that was in sync in the plan is read again before it counts as unchanged.

        In order, it is if anything changed since it was read, as Puppet and Ansible do; in parallel, if one of its
        prerequisites did. For an imperative resource, which is asked whether it is due, any change may matter.
        """
        if self._in_order or "imperative" in run.definition.features:
            return self._snapshot.epoch > 0
        return self._results.affected(run.number)

    def _names_ahead(self, segment: Sequence[OperationRun]) -> list[Name]:
        """Return the names of later resources to read together with those of a segment, to save calls of ``get``.

        These resources were in sync, are of the same type, and no change is planned before them, so that their rows
        stay true. There are none for a segment whose own rows were read ahead by an earlier segment.
        """
        definition, names = segment[0].definition, [run.name for run in segment]
        planned = any(run.step.acts for run in segment)
        if not self._in_order or planned or self._snapshot.is_fresh(definition, names):
            return []
        # Operations that wait for a failed one will be skipped and need no reading; others may wait for them in turn.
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
        """Remove the resources whose replacement became certain only now; their own operations then create them.

        Their removals, which come earlier in the plan, were ended as needless.
        """
        for run in runs:
            operation = self.reevaluation.late_removal(run)
            if operation is not None and not self._transaction.halted([run]):
                removal = OperationRun(operation)
                removal.is_, run.is_ = run.is_, None  # the creation begins without a resource
                self._carry_out([removal])
            # The removal may have been interrupted, or its failure may halt the run (``--fail-fast``).
            if operation is not None and (halted := self._transaction.halted([run])):
                self._results.skip(run, halted)

    def _begin_one(self, operation: Operation) -> OperationRun | None:
        """Return the run of an operation, or None after ending it: it failed in the plan, is skipped or not needed."""
        run = OperationRun(operation)
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
        """Return whether a handler (``on_failure``) is carried out: one of its resources failed in this run.

        It is not after an interrupt, or if only the plan of that resource failed: nothing was done (contract §10.8).
        """
        failed = self._results.failed_entries & set(self._plan.catalog.on_failure[run.step.entry.index])
        if not failed or self._transaction.run.cancelled:
            return False
        names = ", ".join(str(self._plan.catalog.entries[index].reference) for index in sorted(failed))
        self._transaction.events.log("info", run, f"carried out because {names} failed")
        return True

    def _end_unchanged(self, runs: list[OperationRun]) -> list[OperationRun]:
        """End the operations that have nothing to do and return the rest.

        One that waits for an operation of this segment is returned too: it ends after that one, or is skipped if that
        fails.
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
        """Carry out the operations of one segment; do nothing if none is left."""
        if runs:
            with self._cancel_when_stopped(runs):
                SegmentRun(self._transaction, runs).carry_out()

    @contextmanager
    def _cancel_when_stopped(self, runs: Sequence[OperationRun]) -> Iterator[None]:
        """Store an interrupt in ``stopped``, cancel the run and end its operations, so that the results are written.

        An operation whose call has begun fails with its outcome in doubt. Any other is skipped, or fails if its
        provider ended the run while resources were read.
        """
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


class SegmentRun:
    """The run of the operations of one call: all of one provider instance."""

    def __init__(self, transaction: TransactionContext, runs: Sequence[OperationRun]) -> None:
        """Take operations that have not ended; ``--fail-fast`` does not halt handlers of failures (``on_failure``)."""
        self._transaction = transaction
        self._definition = runs[0].definition
        self._runs = runs
        self._results = transaction.results
        self._events = transaction.events
        failures, options = transaction.results.failures, transaction.plan.options
        fail_fast = options.fail_fast and not runs[0].step.entry.meta.on_failure
        self._prerequisites = Prerequisites(runs, transaction.plan.waits, failures, fail_fast=fail_fast)
        self._caller = ProviderCaller(transaction, self._definition, self._prerequisites)
        self._verification = Verification(transaction.snapshot, self._definition)

    def carry_out(self) -> None:
        """Apply the changes, report the noop ones, then send refreshes, which must find the changed resources.

        Before the last two parts, operations are skipped whose prerequisite has failed in the first part.
        """
        if acting := [run for run in self._runs if run.acts]:
            self._act(acting)
        refreshable = "refreshable" in self._definition.features
        # A finished operation may still have to be refreshed.
        remaining = [run for run in self._runs if (refreshable or not run.finished) and not self._skip_if_blocked(run)]
        if noop := [run for run in remaining if run.step.noop]:
            self._call_noop_handler(noop)
            self._report_noop(noop)
        self._refresh([run for run in remaining if not run.step.noop])

    def _skip_if_blocked(self, run: OperationRun) -> bool:
        """Skip an operation if one that it waits for has failed; return whether it is failed or skipped by now."""
        return run.number in self._results.failures or (not run.finished and self._results.skip_if_blocked(run))

    def _act(self, runs: Sequence[OperationRun]) -> None:
        """Carry out operations: write their intents, call ``set``, verify, and write their outcome in one commit.

        If the run is killed between both writes, the intents show the next run which resources are in doubt.
        """
        called, started, changed_at = [], time.monotonic(), self._verification.time_of_change()
        for run in runs:
            # A creation always needs a call; asking first costs much with ten thousand of them.
            if run.decision.action is Action.CREATE or not self._end_without_call(run):
                run.started, run.changed_at = started, changed_at
                self._events.step_started(run.step)
                called.append(run)
        if called:
            self._events.log_start(called)
            self._transaction.recorder.write_intents(called)
            try:
                self._set(called)
                self._read_results(called)
            except CallStopped as stopped:
                self._end_stopped(called, stopped)
                self._commit(runs)
                raise
            self._end_all()
        self._commit(runs)

    def _set(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set``; if it raises, repeat it for each resource that is not as declared."""
        error = self._caller.set(runs, {run.name: run.change() for run in runs})
        self._transaction.snapshot.changed()
        if error is not None:
            self._retry.one_by_one(runs, error)

    def _read_results(self, runs: Sequence[OperationRun]) -> None:
        """Read the resources after the call; repeat it for failed ones with ``retry``."""
        self._verification.read(runs)
        self._verification.settle(runs, self._caller.begun)
        if self._caller.retries:
            self._retry.repeat(runs)

    @cached_property
    def _retry(self) -> Retry:
        """The repetition of failed calls, which most segments do not need."""
        return Retry(self._transaction, self._caller, self._prerequisites, self._verification)

    def _commit(self, runs: Sequence[OperationRun]) -> None:
        """Write the outcome of operations to state, with the refreshes that their changes cause."""
        # A resource that was only read is recorded with the unchanged ones.
        ended = [run for run in runs if run.decision.action is not Action.READ]
        self._transaction.recorder.commit_results(ended, self._results, self._transaction.refreshes.owed(ended))

    def _end_without_call(self, run: OperationRun) -> bool:
        """End an operation that needs no call of the provider; return whether it has ended.

        A resource that is gone needs no deletion, and one whose import finds no difference needs no change. A retained
        one is not deleted, an external one is only read, and a forgotten one loses only its record.
        """
        action, present = run.decision.action, exists(run.is_)
        if run.step.entry.index in self._transaction.plan.prior.orphans and not present:
            self._results.succeed(run, Action.FORGET)
        # A removal after its creation is the second half of a replacement, which has to be reported.
        elif (present and run.retained) or (not present and run.removal and run.step.create_first):
            self._results.complete(run)
        elif action is Action.READ or (run.removal and not present):
            self._results.unchanged(run)
        elif action is Action.FORGET or (action is Action.IMPORT and not run.decision.differences):
            self._results.succeed(run, action)
        else:
            return False
        return True

    def _call_noop_handler(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set`` with ``noop=True``, for resources whose values are known, if the type has ``noop_handler``.

        Its provider changes nothing then, but reports more of the planned changes than the plan shows.
        """
        if "noop_handler" not in self._definition.features:
            return
        known_runs = [run for run in runs if not any(map(is_unknown, run.should.values()))]
        called = [run for run in known_runs if run.decision.action not in _WITHOUT_CALL]
        if not called:
            return
        changes = {run.name: run.change() for run in called}
        try:
            error = self._caller.set(called, changes, noop=True)
        except CallStopped as stopped:
            self._fail_noop(called, stopped.cause)
            raise
        self._fail_noop(called, error)

    def _fail_noop(self, called: Sequence[OperationRun], error: BaseException | None) -> None:
        """End as failed the operations for which a ``set`` under noop failed; ``error``: its exception."""
        for run in called:
            logged = run.result.reported == "failed"
            if logged or (error is not None and run.result.reported is None):
                text = reason(error) if error is not None else "failed"
                self._results.fail(run, run.result.error or text, logged=logged)

    def _report_noop(self, runs: Sequence[OperationRun]) -> None:
        """End each noop operation that has not failed, and report its planned action and refresh.

        A removal has no refresh: the second operation of a replacement reports it.
        """
        with self._transaction.run.log.buffered():
            for run in runs:
                if run.finished:
                    continue
                acts = run.decision.action not in _WITHOUT_CALL
                if acts:
                    self._results.complete(run)
                if run.step.refreshed_by and not run.removal:
                    text = f"would be refreshed by {', '.join(run.step.refreshed_by)} (noop)"
                    self._events.log("notice", run, text, action=Action.REFRESH, status="noop")
                    self._results.succeed(run, Action.REFRESH)
                elif not acts:
                    self._results.unchanged(run)

    def _end_stopped(self, runs: Sequence[OperationRun], stopped: CallStopped) -> None:
        """End the operations of an interrupted call by reading their resources: some may have been changed already."""
        self._transaction.snapshot.changed()
        self._verification.read(runs)
        self._verification.compare(runs)
        self._caller.log_held({run.name for run in runs if self._verification.is_done(run)})
        # If the provider reported a failure, the interrupt is not the reason for which the rest was not done.
        text = "" if any(run.result.reported == "failed" for run in runs) else reason(stopped.cause)
        for run in runs:
            self._verification.take_observation(run)
            self._end_one_stopped(run, text)

    def _end_one_stopped(self, run: OperationRun, text: str) -> None:
        """End an operation of an interrupted call, by its report or by the resource as it was read after the call.

        An operation without a report is skipped if the call did not begin it, or if a reported failure ended the call.
        ``text``: the interrupt as the error of the others, or "" after a reported failure.
        """
        if run.result.reported == "failed":
            self._results.fail(run, run.result.error, logged=run.is_logged)
        elif self._verification.is_done(run):
            self._results.complete(run)
        elif not run.result.reported and (not text or self._caller.interrupted(run)):
            self._results.skip(run, INTERRUPTED)
        elif failure := text or self._failure(run):
            self._mark_unconfirmed(run, possible=bool(run.changed_at) and run.name in self._caller.begun)
            self._results.fail(run, failure)
        else:
            self._results.complete(run)

    def _end_all(self) -> None:
        """End each operation of the segment after its call: succeeded, failed, or skipped as a prerequisite failed."""
        # Held lines are shown in the order in which they were reported, across batches: then all are in one batch.
        for runs in [self._runs] if self._caller.held else batches(self._runs):
            # Outside of the buffered log: a provider that compares may wait for another thread that logs.
            self._verification.compare(run for run in runs if run.started and not run.finished)
            confirmed = {run.name for run in runs if run.result.reported and self._is_confirmed(run)}
            with self._transaction.run.log.buffered():
                self._caller.log_held(confirmed)
                for run in runs:
                    if not run.acts:
                        self._skip_if_blocked(run)
                    elif not run.finished:
                        self._end_called(run)

    def _end_called(self, run: OperationRun) -> None:
        """End one operation after its call, by its report and its last observation.

        The last read decides, except where it proves nothing: of a write-only value, or of an imperative resource.
        """
        row = self._verification.rows.get(run.number)
        unreported = run.result.reported is None and not run.result.error
        if row is not None and unreported and not run.sets_write_only:
            # Nearly every operation.
            run.is_ = row
            self._results.complete(run)
            return
        self._verification.take_observation(run)
        if unreported and self._skip_left_out(run):
            return
        failure = self._failure(run)
        if failure or run.result.reported == "failed":
            if self._mark_unconfirmed(run, possible=run.result.reported != "failed"):
                failure += _UNCONFIRMED if run.changed_at else ""
            self._results.fail(run, failure or "failed", logged=run.is_logged)
            return
        if tolerated := self._verification.tolerated(run):
            self._events.log("debug", run, describe_tolerated(tolerated))
        self._results.complete(run)

    def _skip_left_out(self, run: OperationRun) -> bool:
        """Skip an operation that its call left out, unless its resource is as requested; return whether it did."""
        blocked, interrupted = self._prerequisites.blocked(run.name), self._caller.interrupted(run)
        left_out = blocked or interrupted or self._prerequisites.halted()
        if not left_out or self._verification.is_done(run):
            return False
        if blocked:
            self._results.skip_if_blocked(run)
        else:
            self._results.skip(run, INTERRUPTED if interrupted else HALTED)
        return True

    def _mark_unconfirmed(self, run: OperationRun, *, possible: bool) -> bool:
        """Mark an operation that may have created a resource although reading does not show it; return whether it may.

        The next run reads it again instead of creating it twice. ``possible``: the creation may have succeeded without
        a report of success, as when the call was interrupted.
        """
        has_reported_success = run.result.reported not in (None, "failed")
        if unconfirmed := (has_reported_success or possible) and self._verification.is_unseen_creation(run):
            run.result = run.result._replace(unconfirmed=True)
        return unconfirmed

    def _is_confirmed(self, run: OperationRun) -> bool:
        """Return whether reading confirms a reported success; other values refute it with ``--strict error`` only."""
        failing = self._transaction.plan.options.strict == "error" or self._verification.observed(run).failure
        return not (failing and self._verification.missing(run))

    def _failure(self, run: OperationRun) -> str:
        """Return the error of an operation after its call, or an empty text.

        If the resource reads as requested, an error of the call does not count. If it does not, that is an error even
        where the provider reported none, as far as ``--strict`` requires it. Only the call's own error counts where
        reading proves nothing: for an imperative type, a reported failure, and a call that set write-only attributes.
        """
        error = run.result.error
        if "imperative" in self._definition.features or run.result.reported == "failed":
            return error
        differences = self._verification.missing(run)
        if not differences and not (error and run.sets_write_only):
            return ""
        if unread := error or run.result.read_error:
            return unread
        text, strict = not_converged(run, differences), self._transaction.plan.options.strict
        if strict == "warning":
            self._events.log("warning", run, text)
        return text if strict == "error" else ""

    def _refresh(self, runs: Sequence[OperationRun]) -> None:
        """Call ``refresh`` once for all resources that a change notified; end the other operations as unchanged.

        ``runs``: the operations of the segment, also those whose change has succeeded; those that failed are not among
        them.
        """
        notified = []
        for run in runs:
            if not run.removal and self._transaction.refreshes.sources(run):
                notified.append(run)
            elif not run.finished:
                self._results.unchanged(run)
        if halted := self._transaction.halted(self._runs):
            # A refresh that is not sent now is owed by the next run.
            for run in notified:
                if not run.finished:
                    self._results.skip(run, halted)
        elif notified:
            with self._transaction.run.log.bind(phase="refresh"):
                self._call_refresh(notified)

    def _call_refresh(self, notified: Sequence[OperationRun]) -> None:
        """Call ``refresh``, repeat it by ``retry``, end the operations, and record the successful ones.

        A refresh that is not recorded stays owed by the next run.
        """
        for run in notified:
            run.started, run.tries = run.started or time.monotonic(), 0  # ``retry`` counts the refreshes alone
        self._events.log_start(notified, Action.REFRESH)
        try:
            error = self._caller.refresh(notified)
        except CallStopped as stopped:
            for run in notified:
                set_error(run, RuntimeError(str(stopped)))
                self._report_refresh(run)
            raise
        self._transaction.snapshot.changed()
        for run in notified:
            set_error(run, error)
        try:
            if any(run.is_to_repeat for run in notified):
                self._retry.repeat_refresh(notified)
        finally:
            self._transaction.recorder.write_refreshes([run for run in notified if self._report_refresh(run)])

    def _report_refresh(self, run: OperationRun) -> bool:
        """Log and report the result of one refresh; return whether it succeeded, so that it is no longer owed.

        The operation may be finished: then it has changed its resource, which is reported already.
        """
        if run.result.failed:
            text = f"refresh failed: {run.result.error}"
            self._results.fail(run, text, action=Action.REFRESH, logged=run.is_logged)
            return False
        if run.result.reported == "unchanged":
            if not run.finished:
                self._results.unchanged(run)
            return True
        text = f"refreshed by {', '.join(self._transaction.refreshes.sources(run))}"
        self._events.log("notice", run, text, action=Action.REFRESH, **end_fields(run, "success"))
        self._results.succeed(run, Action.REFRESH)
        return True
