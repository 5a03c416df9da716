"""Repeats failed calls of one segment: one by one after a ``set`` that raised, and as ``retry`` declares.

A repeated call is for one resource, which is read before it; ``segment_run`` ends the operations (contract §4, §10.8).
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING

from resource_api.model.action import Action
from resource_api.model.values.errors import reason
from resource_api.transaction.operation_run import NO_RESULT
from resource_api.transaction.provider_call import CallStopped
from resource_api.transaction.results import HALTED, INTERRUPTED
from resource_api.transaction.verify import not_converged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from resource_api.model.change import Change
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.provider_call import Prerequisites, ProviderCaller
    from resource_api.transaction.transaction_context import TransactionContext
    from resource_api.transaction.verify import Verification


class Retry:
    """The repeated calls of one segment. Every method that calls the provider raises ``CallStopped``."""

    def __init__(
        self,
        transaction: TransactionContext,
        caller: ProviderCaller,
        prerequisites: Prerequisites,
        verification: Verification,
    ) -> None:
        """Take the caller and the verification of the segment."""
        self._transaction = transaction
        self._results = transaction.results
        self._events = transaction.events
        self._caller = caller
        self._prerequisites = prerequisites
        self._verification = verification
        #: Failed operations → the time of their next call, in seconds of ``time.monotonic``.
        self._due: dict[OperationRun, float] = {}

    def one_by_one(self, runs: Sequence[OperationRun], error: Exception) -> None:
        """Repeat a ``set`` that raised ``error``, with one call for each resource that is not as declared by now.

        So a resource that cannot be changed does not make the others of its call fail. The call is not repeated for an
        imperative resource, which could run twice, for the only resource of a call, after an interrupt, or for a
        resource with ``retry`` that the call has reached. The ``result`` of each operation has its error or report.
        """
        definition = runs[0].definition
        undecided = [run for run in runs if run.result.reported is None and not run.finished]
        if "imperative" in definition.features:
            for run in undecided:
                set_error(run, error)
            return
        self._verification.read(undecided)
        self._verification.settle(undecided, self._caller.begun)
        self._verification.compare(undecided)
        for run in undecided:
            if not self._prerequisites.blocked(run.name) and (self._verification.missing(run) or run.sets_write_only):
                self._try_again(run, error, alone=len(runs) == 1)
        if not any(run.result.error for run in undecided):
            self._transaction.run.log.write("warning", definition.name, f"set raised: {reason(error)}", definition.name)

    def _try_again(self, run: OperationRun, error: Exception, *, alone: bool) -> None:
        """Call ``set`` for one operation of a call that raised ``error``.

        It is skipped if the run was interrupted before the call reached it, or by ``--fail-fast``. It fails with
        ``error`` if the run ends, if it was ``alone`` in that call, or if ``retry`` will repeat it.
        """
        if self._caller.interrupted(run):
            self._results.skip(run, INTERRUPTED)
            return
        if self._transaction.run.cancelled or self._transaction.run.stopping:
            set_error(run, error)
            return
        run.result = NO_RESULT
        if self._prerequisites.halted():
            self._results.skip(run, HALTED)
            return
        if alone or run.tries:  # a call that counts as a try is repeated as ``retry`` declares
            set_error(run, error)
            return
        self._set(run)

    def _set(self, run: OperationRun) -> None:
        """Call ``set`` for one operation; its exception goes into ``result`` unless the provider reported a status."""
        error = self._caller.set([run], {run.name: self._change_from_now(run)})
        self._transaction.snapshot.changed()
        set_error(run, error)

    def _change_from_now(self, run: OperationRun) -> Change:
        """Return the change for a repeated call: from the last row, as the failed call may have done part of it."""
        change = run.change()
        if "imperative" in run.definition.features:
            return change
        row, failure = self._verification.observed(run)
        return change if failure else change._replace(is_=deepcopy(dict(row)) if row is not None else None)

    def repeat(self, runs: Sequence[OperationRun]) -> None:
        """Repeat the failed changes of operations with ``retry``, which were read after their calls."""
        self._schedule_failed(runs)
        self._call_due(self._repeat)

    def repeat_refresh(self, runs: Sequence[OperationRun]) -> None:
        """Repeat the failed refreshes of operations with ``retry``."""
        for run in runs:
            if run.is_to_repeat:
                self._schedule(run, f"refresh failed: {run.result.error or 'failed'}")
        self._call_due(self._repeat_refresh)

    def _schedule_failed(self, runs: Iterable[OperationRun]) -> None:
        """Schedule the next call of each operation whose last call failed."""
        for run in runs:
            if run.tries and run.tries_left > 0 and (problem := self._problem(run)):
                self._schedule(run, problem)

    def _problem(self, run: OperationRun) -> str:
        """Return the reason to repeat a change: its error or the remaining differences; "" without one.

        An error counts only if the resource differs from the request, or if reading cannot show that. Differences
        without an error count only with ``--strict=error``, which makes them a failure. A failed read is no reason, nor
        is a creation that cannot be seen: a second call could create the resource twice (contract §10.2).
        """
        result, verification = run.result, self._verification
        if run.finished or result.tainted:
            return ""
        if result.reported == "failed" or "imperative" in run.definition.features:
            return (result.error or "failed") if result.failed else ""
        differences = verification.missing(run)
        if result.error:
            return result.error if differences or run.sets_write_only else ""
        unread = bool(verification.observed(run).failure)
        tolerated = self._transaction.plan.options.strict != "error"
        if not differences or unread or tolerated or verification.is_unseen_creation(run):
            return ""
        return not_converged(run, differences)

    def _schedule(self, run: OperationRun, problem: str) -> None:
        """Note the time of an operation's next call, after the declared delay, and log the problem of the last."""
        policy = run.step.entry.meta.retry
        assert policy is not None
        self._due[run] = time.monotonic() + policy.delay
        pause = f"; again in {policy.delay:g} s" if policy.delay else ""
        self._events.log("warning", run, f"try {run.tries} of {policy.tries}: {problem}{pause}")

    def _call_due(self, call: Callable[[OperationRun], None]) -> None:
        """Make the scheduled calls, each when its time has come, until none is left or the run is halted."""
        while self._due and not self._is_halted([*self._due]):
            run = min(self._due, key=self._due.__getitem__)
            if self._wait(run, self._due.pop(run)) and not self._prerequisites.blocked(run.name):
                call(run)
        self._due.clear()

    def _is_halted(self, runs: Sequence[OperationRun]) -> bool:
        """Return whether no further call begins for these operations: interrupted, stopping, or ``--fail-fast``."""
        context = self._transaction
        return bool(context.halted(runs) or context.run.stopping or self._prerequisites.halted())

    def _wait(self, run: OperationRun, until: float) -> bool:
        """Wait until the time of an operation's next call (``time.monotonic``); return False after an interrupt."""
        context, seconds = self._transaction.run, until - time.monotonic()
        if seconds <= 0:
            return True
        with context.shown(_Wait(run, self._transaction)):
            return context.pause(seconds)

    def _repeat(self, run: OperationRun) -> None:
        """Read one resource again and, unless it is as declared by now, call ``set``; then those that waited for it."""
        verification = self._verification
        verification.read_again(run)
        run.result = NO_RESULT
        if run.sets_write_only or "imperative" in run.definition.features or verification.missing(run):
            self._events.log_start([run])
            self._set(run)
            self._read_results([run])
        if (freed := self._prerequisites.take_freed()) and not self._is_halted(freed):
            self._call_freed(freed)

    def _call_freed(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set`` for operations that were left out, because their prerequisite succeeded in a repeated call."""
        error = self._caller.set(runs, {run.name: self._change_from_now(run) for run in runs})
        self._transaction.snapshot.changed()
        if error is not None:
            self.one_by_one(runs, error)
        self._read_results(runs)

    def _read_results(self, runs: Sequence[OperationRun]) -> None:
        """Read resources after a call, and schedule the next call of those that failed and may be repeated."""
        self._verification.read(runs)
        self._verification.settle(runs, self._caller.begun)
        self._schedule_failed(runs)

    def _repeat_refresh(self, run: OperationRun) -> None:
        """Refresh once more, and schedule the next try if that fails too."""
        self._events.log_start([run], Action.REFRESH)
        try:
            error = self._caller.refresh([run])
        except CallStopped as stopped:  # the run ends here, and the refresh is reported as failed for that reason
            run.result = run.result._replace(error=reason(RuntimeError(str(stopped))))
            raise
        self._transaction.snapshot.changed()
        set_error(run, error)
        if run.is_to_repeat:
            self._schedule(run, f"refresh failed: {run.result.error or 'failed'}")


def set_error(run: OperationRun, error: Exception | None) -> None:
    """Set the call's exception, if any, as the error of an unreported operation; verification may still refute it."""
    if error is not None and run.result.reported is None:
        run.result = run.result._replace(error=reason(error))


class _Wait:
    """The progress of the wait for a repeated call, as it is shown."""

    place = detail = ""

    def __init__(self, run: OperationRun, transaction: TransactionContext) -> None:
        """Begin now to wait for the next call of an operation."""
        self.started = time.monotonic()
        self.subject, self.verb = run.step.entry.reference_text, f"waiting{run.number_of_try}"
        self._run = run
        self._events = transaction.events

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        self._events.log("notice", self._run, f"still {self.verb} ({seconds} s)")
