"""One ``set`` for the resources of one type that stand together, and what follows from it.

After ``set`` the runtime reads again: what was asked must be there. When the call raises, what has no definite status
is read again, and what is not as it should be is tried once more, one by one, so that a bad resource fails alone.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING

from resource_api.model.change import Action, Change, Difference, exists
from resource_api.model.values.columnar import batches
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show
from resource_api.provider.outcomes import Outcome
from resource_api.transaction.noop import pretend
from resource_api.transaction.operation_run import LazyChanges
from resource_api.transaction.prerequisites import Prerequisites
from resource_api.transaction.provider_call import CallStopped, ProviderCaller
from resource_api.transaction.results import HALTED
from resource_api.transaction.verify import arrive, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resource_api.model.planner_queries import Observation
    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.results import Ending


class Segment:
    """Carries out the runs of one segment; ``ending`` takes how each of them ends."""

    def __init__(self, ending: Ending, runs: Sequence[OperationRun]) -> None:
        """Take the runs that are still to be done."""
        self.ending = ending
        self.definition = runs[0].definition
        self.imperative = "imperative" in self.definition.features
        self.runs = [run for run in runs if not run.finished]
        self.snapshot = ending.snapshot
        self.caller = ProviderCaller(self.definition, ending.providers)
        self._blocked = Prerequisites(self.runs, ending.waits, ending.bad).blocked
        self._fail_fast = ending.plan.options.fail_fast

    def carry_out(self) -> None:
        """Do what is not noop, tell what is, then refresh what was notified."""
        if acting := [run for run in self.runs if run.acts]:
            self._act(acting)
        notified = "refreshable" in self.definition.features
        left = [run for run in self.runs if (notified or not run.finished) and not self._spoilt(run)]
        if noop := [run for run in left if run.step.noop]:
            pretend(self.ending, self.caller, noop, self._left_out)
        self._refresh([run for run in left if not run.step.noop])

    def _spoilt(self, run: OperationRun) -> bool:
        """Whether a run has failed, or what it waits for has: then it is skipped."""
        return run.operation.number in self.ending.bad or (not run.finished and self.ending.skip_for(run))

    def _act(self, runs: Sequence[OperationRun]) -> None:
        called, now = [], time.monotonic()
        for run in runs:
            # What is made was neither recorded and undeclared, nor is it removed: it always needs a call.
            if run.decision.action is Action.CREATE or not self._ends_uncalled(run):
                self.ending.begin(run, now)
                called.append(run)
        if called:
            self.ending.intend(called)
            try:
                self._set(called)
            except CallStopped as stopped:
                self._stop(called, stopped)
                raise
            self._conclude(called)
        self.ending.settle([run for run in runs if run.decision.action is not Action.READ])

    def _ends_uncalled(self, run: OperationRun) -> bool:
        """End what needs no call: it is only read, taken over or forgotten, or has gone already."""
        action = run.decision.action
        if run.step.entry.index in self.ending.plan.prior.orphans and not exists(run.is_):
            self.ending.succeed(run, Action.FORGET)
        elif action is Action.READ or (run.removal and not exists(run.is_)):
            self.ending.same(run)
        elif action is Action.FORGET or run.spared or (action is Action.IMPORT and not run.decision.differences):
            self.ending.succeed(run, action)
        else:
            return False
        return True

    def _set(self, runs: list[OperationRun]) -> None:
        """Call ``set``; when it raises, try what is left once more, one by one."""
        changes = LazyChanges(runs)
        error = self.caller.set(runs, changes, self._left_out, noop=False)
        self.snapshot.changed()
        if error is None:
            return
        undecided = [run for run in runs if run.outcome.status is None]
        if self.imperative:
            for run in undecided:
                run.why = reason(error)
            return
        self._read(undecided)
        for run in undecided:
            change = changes[run.name]
            if self._blocked(run.name) or not (self._missing(run) or run.unproven):
                continue
            if self.ending.providers.run.stopping:
                run.why = reason(error)
                continue
            run.outcome = Outcome()
            if self._halted():
                self.ending.skip(run, HALTED)
                continue
            again = self.caller.set([run], {run.name: self._renewed(run, change)}, self._left_out, noop=False)
            self.snapshot.changed()
            if again is not None and run.outcome.status is None:
                run.why = reason(again)
        if not any(run.why for run in undecided):
            self.ending.log.write("warning", self.definition.name, f"set raised: {reason(error)}")

    def _left_out(self, name: Name, context: Context) -> bool:
        """Whether a name is not to be begun in a call: in vain, or something has failed and nothing more shall."""
        return self._blocked(name, context) or (self._fail_fast and context.outcomes.any_failed)

    def _halted(self) -> bool:
        """Whether nothing more is to begin, since something has failed."""
        return self._fail_fast and any(run.why or run.outcome.status == "failed" for run in self.runs)

    def _renewed(self, run: OperationRun, change: Change) -> Change:
        """Give the change from what is there now."""
        row, failure = self._seen(run)
        return change if failure else Change(deepcopy(dict(row)) if row is not None else None, change.should)

    def _stop(self, runs: Sequence[OperationRun], stopped: CallStopped) -> None:
        """What is no ``Exception`` ends the run: the resources that were being changed fail, read as they are now."""
        self.snapshot.changed()
        if not self.imperative:
            self._read(runs)
        guilty = any(run.outcome.status == "failed" for run in runs)
        for run in runs:
            self._stopped(run, "" if guilty else reason(stopped.cause))
        self.ending.settle(runs)

    def _stopped(self, run: OperationRun, why: str) -> None:
        """Settle a run whose call was cut: what is as it should be has succeeded; ``why`` when nobody was named."""
        if not self.imperative:
            run.is_, run.unread = self._seen(run)
        if run.outcome.status == "failed":
            run.why = run.outcome.reason
            self.ending.fail(run, run.why, told=True)
        elif self._done(run):
            self.ending.carried_out(run)
        elif why:
            run.why = why
            self.ending.fail(run, why)
        else:
            self.ending.skip(run, "the run was interrupted")

    def _read(self, runs: Sequence[OperationRun]) -> None:
        """Read again, and note of which runs nothing is missing."""
        self.snapshot.read(self.definition, [run.name for run in runs], fresh=True)
        self._compare(runs)

    def _compare(self, runs: Iterable[OperationRun]) -> None:
        """Note of which runs nothing is missing by what was read last; imperative ones cannot be read."""
        instance = self.definition.instance
        rows = {} if self.imperative or self.snapshot.failure(instance) else self.snapshot.rows(instance)
        arrive(runs, rows, self.ending.providers.functions(instance))

    def _seen(self, run: OperationRun) -> Observation:
        return self.snapshot.observation(self.definition.instance, run.name)

    def _missing(self, run: OperationRun) -> list[Difference]:
        """Give what of a change is not there yet, after a fresh read."""
        if run.arrived is not None:
            return []
        return missing(run, self._seen(run), self.ending.providers.functions(self.definition.instance))

    def _conclude(self, called: Sequence[OperationRun]) -> None:
        """Read again, and settle each run: succeeded, failed, or skipped because its prerequisite failed."""
        if not self.imperative:
            self.snapshot.read(self.definition, [run.name for run in called], fresh=True)
        for runs in batches(self.runs):
            # Not while the log is held: a provider that compares may wait for one that has something to say.
            self._compare(run for run in runs if run.started and not run.finished)
            with self.ending.log.buffered():
                for run in runs:
                    if not run.acts:
                        self._spoilt(run)
                    elif not run.finished:
                        self._conclude_one(run)

    def _conclude_one(self, run: OperationRun) -> None:
        row = run.arrived
        if row is not None and not (run.outcome.status or run.why or run.unproven):
            # Nearly always: it is there as asked, and nobody has said anything of it.
            run.is_ = row
            self.ending.carried_out(run)
            return
        if not self.imperative:
            run.is_, run.unread = self._seen(run)
        unsaid = run.outcome.status is None and not run.why
        if unsaid and self._blocked(run.name) and not self._done(run):
            self.ending.skip_for(run)
            return
        if unsaid and not self.imperative and self._halted() and not self._done(run):
            self.ending.skip(run, HALTED)
            return
        failed = run.why or run.outcome.reason if self.imperative else self._failure(run)
        if failed or run.outcome.status == "failed":
            self.ending.fail(run, failed or "failed", told=run.outcome.status == "failed")
            return
        self.ending.carried_out(run)

    def _done(self, run: OperationRun) -> bool:
        """Whether what was asked is there, and can be seen to be."""
        return not (self.imperative or run.unproven or self._missing(run))

    def _failure(self, run: OperationRun) -> str:
        """Give why a run failed; empty when what was asked is there."""
        if run.outcome.status == "failed":
            return run.outcome.reason
        missing = self._missing(run)
        if not missing and not (run.why and run.unproven):
            run.why = ""
            return ""
        if run.why:
            return run.why
        if failure := self._seen(run).failure:
            run.why = failure
            return failure
        return self._unconverged(run, missing)

    def _unconverged(self, run: OperationRun, missing: Sequence[Difference]) -> str:
        """A provider said that all went well, and it did not: an error unless ``--strict`` says otherwise."""
        named = "; ".join(f"{d.attribute} is {show(d.is_)}, should be {show(d.should)}" for d in missing)
        text = f"did not converge: {named}"
        strict = self.ending.plan.options.strict
        if strict == "warning":
            self.ending.log.write("warning", str(run.step.reference), text)
        if strict == "error":
            run.why = text
            return text
        return ""

    def _refresh(self, runs: Sequence[OperationRun]) -> None:
        """Call ``refresh`` once for those that were notified by something that has changed."""
        notified = []
        for run in runs:
            if not run.removal and self.ending.refreshers(run):
                notified.append(run)
            elif not run.finished:
                self.ending.same(run)
        if not notified:
            return
        for run in notified:
            run.started = run.started or time.monotonic()
        try:
            error = self.caller.refresh(notified)
        except CallStopped as stopped:
            for run in notified:
                self._refreshed(run, RuntimeError(reason(stopped.cause)))
            raise
        self.snapshot.changed()
        paid = [run for run in notified if self._refreshed(run, error)]
        self.ending.pay(paid)

    def _refreshed(self, run: OperationRun, error: Exception | None) -> bool:
        """Settle one refresh; gives whether it was paid."""
        told = run.outcome.status == "failed"
        if told or (error is not None and run.outcome.status is None):
            why = run.outcome.reason or (reason(error) if error is not None else "")
            run.decision = run.decision._replace(action=Action.REFRESH)
            self.ending.fail(run, f"refresh failed: {why}", told=told)
            return False
        if run.outcome.status == "unchanged":
            if not run.finished:
                self.ending.same(run)
            return True
        text = f"refreshed by {', '.join(self.ending.refreshers(run))}"
        self.ending.log.write("notice", str(run.step.reference), text)
        self.ending.succeed(run, Action.REFRESH)
        return True
