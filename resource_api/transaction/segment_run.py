"""Carries out one segment: intents, one ``set``, a verifying ``get``, one commit, then refreshes.

When ``set`` raises, the resources without a reported status are read again, and those that are not as they should be
are tried once more, one by one, so that a bad resource fails alone; a single one is not, and after an interrupt none
is. Which operations share a segment is decided by ``segments``, what is to be done with each by ``reevaluate``.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import CREATING, Action, Change, Difference, exists
from resource_api.model.values.columnar import batches
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show
from resource_api.model.values.values import is_secret, is_unknown
from resource_api.transaction.call_prerequisites import Prerequisites
from resource_api.transaction.events import end_fields
from resource_api.transaction.operation_run import NO_RESULT
from resource_api.transaction.provider_call import CallStopped, ProviderCaller
from resource_api.transaction.results import HALTED, INTERRUPTED
from resource_api.transaction.verify import missing, verified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.planner_queries import Observation
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.transaction import Parts

#: Actions that change nothing and need no call.
_WITHOUT_CALL: Final = frozenset({Action.SAME, Action.READ})


class SegmentRun:
    """The run of the operations of one call: all of one provider instance."""

    def __init__(self, parts: Parts, runs: Sequence[OperationRun]) -> None:
        """Take operations that have not ended."""
        self._definition = runs[0].definition
        self._imperative = "imperative" in self._definition.features
        self._runs = runs
        self._snapshot = parts.snapshot
        self._run = parts.snapshot.providers.run
        self._results = parts.results
        self._refreshes = parts.refreshes
        self._events = parts.events
        self._recorder = parts.recorder
        self._options = parts.plan.options
        self._orphans = parts.plan.prior.orphans
        self._caller = ProviderCaller(self._definition, parts.snapshot.providers, parts.places, parts.results.calls)
        self._blocked = Prerequisites(self._runs, parts.plan.waits, parts.results.failures).blocked
        #: By number, the rows that were read after the call and of which certainly nothing is missing.
        self._verified: Mapping[int, Mapping[str, Any]] = {}

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
        called, now = [], time.monotonic()
        for run in runs:
            # A creation always needs a call; asking first costs much with ten thousand of them.
            if run.decision.action is Action.CREATE or not self._ended_without_call(run):
                run.started = now
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
        error = self._caller.set(called, {run.name: run.change() for run in called}, self._left_out, noop=True)
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

    # Calling set

    def _set(self, runs: Sequence[OperationRun]) -> None:
        """Call ``set``; when it raises, try again what has no status and is not as it should be, one by one."""
        error = self._caller.set(runs, {run.name: run.change() for run in runs}, self._left_out, noop=False)
        self._snapshot.changed()
        if error is None:
            return
        undecided = [run for run in runs if run.result.reported is None]
        if self._imperative:
            for run in undecided:
                _set_error(run, error)
            return
        self._read_again(undecided)
        for run in undecided:
            if not self._blocked(run.name) and (self._missing(run) or run.sets_write_only):
                self._retry(run, error, alone=len(runs) == 1)
        if not any(run.result.error for run in undecided):
            name = self._definition.name
            self._run.log.write("warning", name, f"set raised: {reason(error)}", name)

    def _retry(self, run: OperationRun, error: Exception, *, alone: bool) -> None:
        """Call ``set`` for one operation of a call that raised ``error``; ``alone``: it was a call for this one."""
        if self._interrupted(run):
            self._results.skip(run, INTERRUPTED)
            return
        if self._run.cancelled or self._run.stopping:
            _set_error(run, error)
            return
        run.result = NO_RESULT
        if self._halted():
            self._results.skip(run, HALTED)
            return
        if alone:
            _set_error(run, error)
            return
        again = self._caller.set([run], {run.name: self._change_from_now(run)}, self._left_out, noop=False)
        self._snapshot.changed()
        if again is not None and run.result.reported is None:
            _set_error(run, again)

    def _change_from_now(self, run: OperationRun) -> Change:
        """Return the change of an operation from what was read last; from what was planned, where that failed."""
        row, failure = self._observed(run)
        change = run.change()
        return change if failure else change._replace(is_=deepcopy(dict(row)) if row is not None else None)

    def _left_out(self, name: Name, context: Context) -> bool:
        """Return whether a name is left out of a call: it is blocked, or something has failed with ``--fail-fast``."""
        return self._blocked(name, context) or (self._options.fail_fast and context.outcomes.any_failed)

    def _halted(self) -> bool:
        """Return whether nothing more is begun in this segment, because something has failed with ``--fail-fast``."""
        return self._options.fail_fast and any(run.failing for run in self._runs)

    def _interrupted(self, run: OperationRun) -> bool:
        """Return whether the run was interrupted before anything began with an operation."""
        return self._run.cancelled and run.name not in self._caller.begun

    def _end_stopped(self, runs: Sequence[OperationRun], stopped: CallStopped) -> None:
        """End the operations of a call that was interrupted, by what is there now, and write their outcome."""
        self._snapshot.changed()
        if not self._imperative:
            self._read_again(runs)
        # Where the provider has reported a failure, the interrupt is not the reason of the others.
        why = "" if any(run.result.reported == "failed" for run in runs) else reason(stopped.cause)
        for run in runs:
            self._take_observation(run)
            if run.result.reported == "failed":
                self._results.fail(run, run.result.error, logged=True)
            elif self._is_done(run):
                self._results.complete(run)
            elif why and not self._interrupted(run):
                self._results.fail(run, why)
            else:
                self._results.skip(run, INTERRUPTED)
        self._commit(runs)

    # Verifying

    def _read_again(self, runs: Sequence[OperationRun]) -> None:
        with self._run.log.bind(phase="verify"):
            self._snapshot.read(self._definition, [run.name for run in runs], fresh=True)
        self._compare(runs)

    def _compare(self, runs: Iterable[OperationRun]) -> None:
        """Note of which operations nothing is missing; of imperative ones that cannot be read."""
        instance = self._definition.instance
        unreadable = self._imperative or self._snapshot.failure(instance)
        self._verified = {} if unreadable else verified(runs, self._snapshot.rows(instance), self._functions)

    @property
    def _functions(self) -> ProviderFunctions:
        return self._snapshot.providers.functions(self._definition.instance)

    def _observed(self, run: OperationRun) -> Observation:
        return self._snapshot.observation(self._definition.instance, run.name)

    def _take_observation(self, run: OperationRun) -> None:
        if not self._imperative:
            run.is_, unread = self._observed(run)
            run.result = run.result._replace(unread=unread)

    def _missing(self, run: OperationRun) -> list[Difference]:
        """Return what of a change is not there, by what was read last."""
        return [] if run.number in self._verified else missing(run, self._observed(run), self._functions)

    def _is_done(self, run: OperationRun) -> bool:
        """Return whether what was requested is there and can be read back."""
        return not (self._imperative or run.sets_write_only or self._missing(run))

    def _verify(self, called: Sequence[OperationRun]) -> None:
        """Read again, and end each operation: succeeded, failed, or skipped because a prerequisite failed."""
        if not self._imperative:
            with self._run.log.bind(phase="verify"):
                self._snapshot.read(self._definition, [run.name for run in called], fresh=True)
        for runs in batches(self._runs):
            # Outside of the buffered log: a provider that compares may wait for another thread that logs.
            self._compare(run for run in runs if run.started and not run.finished)
            with self._events.buffered_log():
                for run in runs:
                    if not run.acts:
                        self._failed_or_blocked(run)
                    elif not run.finished:
                        self._end_called(run)

    def _end_called(self, run: OperationRun) -> None:
        """End one operation after its call."""
        row = self._verified.get(run.number)
        unreported = run.result.reported is None and not run.result.error
        if row is not None and unreported and not run.sets_write_only:
            # Nearly every operation.
            run.is_ = row
            self._results.complete(run)
            return
        self._take_observation(run)
        if unreported and self._blocked(run.name) and not self._is_done(run):
            self._results.skip_if_blocked(run)
        elif unreported and self._interrupted(run) and not self._is_done(run):
            self._results.skip(run, INTERRUPTED)
        elif unreported and not self._imperative and self._halted() and not self._is_done(run):
            self._results.skip(run, HALTED)
        elif (failure := self._failure(run)) or run.result.reported == "failed":
            self._results.fail(run, failure or "failed", logged=run.result.reported == "failed")
        else:
            self._results.complete(run)

    def _failure(self, run: OperationRun) -> str:
        """Return why an operation has failed; empty: what was requested is there, or cannot be read back."""
        error = run.result.error
        if self._imperative or run.result.reported == "failed":
            return error
        differences = self._missing(run)
        if not differences and not (error and run.sets_write_only):
            return ""
        return error or run.result.unread or self._not_converged(run, differences)

    def _not_converged(self, run: OperationRun, differences: Sequence[Difference]) -> str:
        """Return why a change that the provider did not report as failed has failed, as far as ``--strict`` wants."""
        unknown = [d.message for d in differences if d.message and d.is_ is None and d.should is None]
        text = unknown[0] if unknown else "; ".join(_not_as_requested(run, differences))
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
        if self._run.cancelled:
            # What is not refreshed now is owed to the next run.
            for run in notified:
                if not run.finished:
                    self._results.skip(run, INTERRUPTED)
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


def _set_error(run: OperationRun, error: Exception) -> None:
    run.result = run.result._replace(error=reason(error))


def _not_as_requested(run: OperationRun, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield what is not as it should be, then each value that an update should have kept."""
    stable = () if run.decision.action in CREATING else run.definition.stable
    if named := "; ".join(_unequal(each) for each in differences if each.attribute not in stable):
        yield f"did not converge: {named}"
    for each in differences:
        if each.attribute in stable:
            yield f"did not keep {each.attribute}, which is stable: it was {show(each.should)} and is {show(each.is_)}"


def _unequal(difference: Difference) -> str:
    """Return a difference as text; only the provider's own comparison finds one between values that look the same."""
    is_, should = show(difference.is_), show(difference.should)
    hint = ", which insync does not call equal" if is_ == should and not is_secret(difference.should) else ""
    return f"{difference.attribute} is {is_}, should be {should}{hint}"
