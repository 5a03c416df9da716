"""Carries out one segment: intents, one ``set``, a verifying ``get``, one commit, then refreshes.

Which operations share a segment is decided by ``segments``, what is to be done with each by ``reevaluate``; what is
tried again when ``set`` raises by ``retry``.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, exists
from resource_api.model.values.columnar import batches
from resource_api.model.values.errors import reason
from resource_api.model.values.values import is_unknown
from resource_api.transaction.events import end_fields
from resource_api.transaction.provider_call import CallStopped, ProviderCaller
from resource_api.transaction.retry import Retry
from resource_api.transaction.skipping import HALTED, INTERRUPTED, Prerequisites
from resource_api.transaction.verify import Verification, not_as_requested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.side_effects import SideEffectCheck
    from resource_api.transaction.transaction import Parts

#: What is added to the error of a creation that was reported and could not be seen in time.
UNCONFIRMED: Final = "; it was reported as created: it is ours, unconfirmed, and the next run reads it again"
#: Actions that change nothing and need no call.
_WITHOUT_CALL: Final = frozenset({Action.SAME, Action.READ})


class SegmentRun:
    """The run of the operations of one call: all of one provider instance."""

    def __init__(self, parts: Parts, runs: Sequence[OperationRun]) -> None:
        """Take operations that have not ended."""
        self._parts = parts
        self._definition = runs[0].definition
        self._runs = runs
        self._snapshot = parts.snapshot
        self._run = parts.snapshot.providers.run
        self._results = parts.results
        self._refreshes = parts.refreshes
        self._events = parts.events
        self._recorder = parts.recorder
        self._options = parts.plan.options
        self._orphans = parts.plan.prior.orphans
        check = partial(_side_effect_check, parts) if "side_effects" in self._definition.features else None
        providers, calls = parts.snapshot.providers, parts.results.calls
        self._caller = ProviderCaller(self._definition, providers, parts.places, calls, check)
        failures, fail_fast = parts.results.failures, parts.plan.options.fail_fast
        self._prerequisites = Prerequisites(runs, parts.plan.waits, failures, fail_fast=fail_fast)
        self._verification = Verification(parts.snapshot, self._definition)

    def carry_out(self) -> None:
        """Change what is not noop, report what is, then refresh what was notified."""
        if acting := [run for run in self._runs if run.acts]:
            self._act(acting)
        notified = "refreshable" in self._definition.features
        left = [run for run in self._runs if (notified or not run.finished) and not self._failed_or_blocked(run)]
        if noop := [run for run in left if run.step.noop]:
            self._call_noop_handler(noop)
            self._report_noop(noop)
        self._refresh([run for run in left if not run.step.noop])

    def _failed_or_blocked(self, run: OperationRun) -> bool:
        """Return whether an operation has failed or was skipped; one that waits for such an operation is skipped."""
        return run.number in self._results.failures or (not run.finished and self._results.skip_if_blocked(run))

    def _act(self, runs: Sequence[OperationRun]) -> None:
        """Carry out operations and write their outcome, in one commit."""
        called, now, changed_at = [], time.monotonic(), self._verification.time_of_change()
        for run in runs:
            # A creation always needs a call; asking first costs much with ten thousand of them.
            if run.decision.action is Action.CREATE or not self._ended_without_call(run):
                run.started, run.changed_at = now, changed_at
                self._events.step_started(run.step)
                called.append(run)
        if called:
            self._events.log_start(called)
            self._recorder.intend(called)
            try:
                self._set(called)
            except CallStopped as stopped:
                self._end_stopped(called, stopped)
                raise
            self._verify(called)
        self._commit([run for run in runs if run.decision.action is not Action.READ])

    def _set(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set``; when it raises, try again one by one what is not as it should be."""
        changes = {run.name: run.change() for run in runs}
        error = self._caller.set(runs, changes, self._prerequisites.left_out, noop=False)
        self._snapshot.changed()
        if error is not None:
            Retry(self._parts, self._caller, self._prerequisites, self._verification).run(runs, error)

    def _commit(self, runs: Sequence[OperationRun]) -> None:
        self._recorder.commit_results(runs, self._results, self._refreshes.owed(runs))

    def _ended_without_call(self, run: OperationRun) -> bool:
        """End an operation that needs no call: read, import or forget, or a removal of what is gone already."""
        action = run.decision.action
        if run.step.entry.index in self._orphans and not exists(run.is_):
            self._results.succeed(run, Action.FORGET)
        elif action is Action.READ or (run.removal and not exists(run.is_)):
            self._results.unchanged(run)
        elif action is Action.FORGET or run.retained or (action is Action.IMPORT and not run.decision.differences):
            self._results.succeed(run, action)
        else:
            return False
        return True

    # Noop

    def _call_noop_handler(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set`` with ``noop=True`` where the type has ``noop_handler``, for resources whose values are known."""
        if "noop_handler" not in self._definition.features:
            return
        known = [run for run in runs if not any(map(is_unknown, run.should.values()))]
        called = [run for run in known if run.decision.action not in _WITHOUT_CALL]
        if not called:
            return
        changes = {run.name: run.change() for run in called}
        try:
            error = self._caller.set(called, changes, self._prerequisites.left_out, noop=True)
        except CallStopped as stopped:
            self._fail_noop(called, stopped.cause)
            raise
        self._fail_noop(called, error)

    def _fail_noop(self, called: Sequence[OperationRun], error: BaseException | None) -> None:
        """End the operations whose call under noop has failed as a whole, or for them."""
        for run in called:
            logged = run.result.reported == "failed"
            if logged or (error is not None and run.result.reported is None):
                why = reason(error) if error is not None else "failed"
                self._results.fail(run, run.result.error or why, logged=logged)

    def _report_noop(self, runs: Sequence[OperationRun]) -> None:
        """Report what each operation that has not failed would do."""
        with self._events.buffered_log():
            for run in runs:
                if run.finished:
                    continue
                if run.decision.action not in _WITHOUT_CALL:
                    self._results.complete(run)
                elif run.step.refreshed_by:
                    text = f"would be refreshed by {', '.join(run.step.refreshed_by)} (noop)"
                    self._events.log("notice", run, text, action=Action.REFRESH, status="noop")
                    self._results.succeed(run, Action.REFRESH)
                else:
                    self._results.unchanged(run)

    # After the call

    def _end_stopped(self, runs: Sequence[OperationRun], stopped: CallStopped) -> None:
        """End the operations of a call that was interrupted, by what is there now, and write their outcome."""
        self._snapshot.changed()
        self._verification.read(runs)
        self._verification.compare(runs)
        self._caller.log_held({run.name for run in runs if self._verification.is_done(run)})
        # Where the provider has reported a failure, the interrupt is not the reason of the others.
        why = "" if any(run.result.reported == "failed" for run in runs) else reason(stopped.cause)
        for run in runs:
            self._verification.take_observation(run)
            if run.result.reported == "failed":
                self._results.fail(run, run.result.error, logged=True)
            elif self._verification.is_done(run):
                self._results.complete(run)
            elif why and not self._caller.interrupted(run):
                self._mark_unconfirmed(run, maybe=bool(run.changed_at) and run.name in self._caller.begun)
                self._results.fail(run, why)
            else:
                self._results.skip(run, INTERRUPTED)
        self._commit(runs)

    def _verify(self, called: Sequence[OperationRun]) -> None:
        """Read again, and end each operation: succeeded, failed, or skipped because a prerequisite failed."""
        self._verification.read(called)
        self._verification.settle(called, self._caller.begun)
        # Lines that are held are shown in the order in which they were reported, whichever batch they belong to.
        for runs in [self._runs] if self._caller.holds_lines else batches(self._runs):
            # Outside of the buffered log: a provider that compares may wait for another thread that logs.
            self._verification.compare(run for run in runs if run.started and not run.finished)
            confirmed = {run.name for run in runs if run.result.reported and self._is_confirmed(run)}
            with self._events.buffered_log():
                self._caller.log_held(confirmed)
                for run in runs:
                    if not run.acts:
                        self._failed_or_blocked(run)
                    elif not run.finished:
                        self._end_called(run)

    def _end_called(self, run: OperationRun) -> None:
        """End one operation after its call."""
        prerequisites, verification = self._prerequisites, self._verification
        row = verification.rows.get(run.number)
        unreported = run.result.reported is None and not run.result.error
        if row is not None and unreported and not run.sets_write_only:
            # Nearly every operation.
            run.is_ = row
            self._results.complete(run)
            return
        verification.take_observation(run)
        if unreported and prerequisites.blocked(run.name) and not verification.is_done(run):
            self._results.skip_if_blocked(run)
        elif unreported and self._caller.interrupted(run) and not verification.is_done(run):
            self._results.skip(run, INTERRUPTED)
        elif unreported and prerequisites.halted() and not verification.is_done(run):
            self._results.skip(run, HALTED)
        elif (failure := self._failure(run)) or run.result.reported == "failed":
            if self._mark_unconfirmed(run, maybe=run.result.reported != "failed"):
                failure += UNCONFIRMED if run.changed_at else ""
            self._results.fail(run, failure or "failed", logged=run.result.reported == "failed")
        else:
            self._results.complete(run)

    def _mark_unconfirmed(self, run: OperationRun, *, maybe: bool) -> bool:
        """Note of a creation whether it cannot be seen; ``maybe``: it may have succeeded although it is not reported.

        Return whether that is so.
        """
        success = run.result.reported not in (None, "failed")
        if unconfirmed := (success or maybe) and self._verification.is_unseen_creation(run):
            run.result = run.result._replace(unconfirmed=True)
        return unconfirmed

    def _is_confirmed(self, run: OperationRun) -> bool:
        """Return whether a reported success is one, by what was read and as ``--strict`` wants."""
        failing = self._options.strict == "error" or self._verification.observed(run).failure
        return not (failing and self._verification.missing(run))

    def _failure(self, run: OperationRun) -> str:
        """Return why an operation has failed; empty: what was requested is there, or cannot be read back."""
        error = run.result.error
        if "imperative" in self._definition.features or run.result.reported == "failed":
            return error
        differences = self._verification.missing(run)
        if not differences and not (error and run.sets_write_only):
            return ""
        return error or run.result.unread or self._not_converged(run, differences)

    def _not_converged(self, run: OperationRun, differences: Sequence[Difference]) -> str:
        """Return why a change that the provider did not report as failed has failed, as far as ``--strict`` wants."""
        unknown = [d.message for d in differences if d.message and d.is_ is None and d.should is None]
        text = unknown[0] if unknown else "; ".join(not_as_requested(run, differences))
        if self._options.strict == "warning":
            self._events.log("warning", run, text)
        return text if self._options.strict == "error" else ""

    # Refreshing

    def _refresh(self, runs: Sequence[OperationRun]) -> None:
        """Call ``refresh`` once for the resources that were notified by something that has changed."""
        notified = []
        for run in runs:
            if not run.removal and self._refreshes.sources(run):
                notified.append(run)
            elif not run.finished:
                self._results.unchanged(run)
        if why := self._parts.halted():
            # What is not refreshed now is owed to the next run.
            for run in notified:
                if not run.finished:
                    self._results.skip(run, why)
        elif notified:
            with self._run.log.bind(phase="refresh"):
                self._call_refresh(notified)

    def _call_refresh(self, notified: Sequence[OperationRun]) -> None:
        """Call ``refresh`` and end the operations."""
        for run in notified:
            run.started = run.started or time.monotonic()
        self._events.log_start(notified, Action.REFRESH)
        try:
            error = self._caller.refresh(notified)
        except CallStopped as stopped:
            for run in notified:
                self._end_refreshed(run, RuntimeError(reason(stopped.cause)))
            raise
        self._snapshot.changed()
        self._recorder.refreshed([run for run in notified if self._end_refreshed(run, error)])

    def _end_refreshed(self, run: OperationRun, error: Exception | None) -> bool:
        """End one refresh; return whether it has succeeded."""
        reported = run.result.reported
        if reported == "failed" or (error is not None and reported is None):
            why = run.result.error or (reason(error) if error is not None else "")
            self._results.fail(run, f"refresh failed: {why}", action=Action.REFRESH, logged=reported == "failed")
            return False
        if reported == "unchanged":
            if not run.finished:
                self._results.unchanged(run)
            return True
        text = f"refreshed by {', '.join(self._refreshes.sources(run))}"
        self._events.log("notice", run, text, action=Action.REFRESH, **end_fields(run, "success"))
        self._results.succeed(run, Action.REFRESH)
        return True


def _side_effect_check(parts: Parts) -> SideEffectCheck:
    """Return what asks the provider before each ``set`` of a segment."""
    from resource_api.transaction.side_effects import SideEffectCheck

    return SideEffectCheck(parts)
