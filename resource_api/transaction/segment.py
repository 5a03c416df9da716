"""One ``set`` for the resources of one type that stand together, and what follows from it.

After ``set`` the runtime reads again: what was asked must be there. When the call raises, what has no definite status
is read again, and what is not as it should be is tried once more, one by one, so that a bad resource fails alone.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING

from resource_api.model.change import Action, Change, Difference, exists
from resource_api.model.values.columns import portions
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show
from resource_api.provider.outcomes import Outcome
from resource_api.transaction.blocked import Prerequisites
from resource_api.transaction.noop import pretend
from resource_api.transaction.operation_run import Asked
from resource_api.transaction.provider_call import Caller, Stopped
from resource_api.transaction.results import HALTED
from resource_api.transaction.verify import arrive, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.snapshot.snapshot import Seen
    from resource_api.transaction.operation_run import Work
    from resource_api.transaction.results import Ending


class Segment:
    """Carries out the works of one segment; ``ending`` takes how each of them ends."""

    def __init__(self, ending: Ending, works: Sequence[Work]) -> None:
        """Take the works that are still to be done."""
        self.ending = ending
        self.definition = works[0].definition
        self.imperative = "imperative" in self.definition.features
        self.works = [work for work in works if not work.finished]
        self.snapshot = ending.snapshot
        self.caller = Caller(self.definition, ending.providers)
        self._blocked = Prerequisites(self.works, ending.waits, ending.bad).blocked
        self._fail_fast = ending.plan.options.fail_fast

    def carry_out(self) -> None:
        """Do what is not noop, tell what is, then refresh what was notified."""
        if acting := [work for work in self.works if work.acts]:
            self._act(acting)
        notified = "refreshable" in self.definition.features
        left = [work for work in self.works if (notified or not work.finished) and not self._spoilt(work)]
        if noop := [work for work in left if work.step.noop]:
            pretend(self.ending, self.caller, noop, self._left_out)
        self._refresh([work for work in left if not work.step.noop])

    def _spoilt(self, work: Work) -> bool:
        """Whether a work has failed, or what it waits for has: then it is skipped."""
        return work.operation.number in self.ending.bad or (not work.finished and self.ending.skip_for(work))

    def _act(self, works: Sequence[Work]) -> None:
        called, now = [], time.monotonic()
        for work in works:
            # What is made was neither recorded and undeclared, nor is it removed: it always needs a call.
            if work.decision.action is Action.CREATE or not self._ends_uncalled(work):
                self.ending.begin(work, now)
                called.append(work)
        if called:
            self.ending.intend(called)
            try:
                self._set(called)
            except Stopped as stopped:
                self._stop(called, stopped)
                raise
            self._conclude(called)
        self.ending.settle([work for work in works if work.decision.action is not Action.READ])

    def _ends_uncalled(self, work: Work) -> bool:
        """End what needs no call: it is only read, taken over or forgotten, or has gone already."""
        action = work.decision.action
        if work.step.entry.index in self.ending.plan.prior.ghosts and not exists(work.is_):
            self.ending.succeed(work, Action.FORGET)
        elif action is Action.READ or (work.removal and not exists(work.is_)):
            self.ending.same(work)
        elif action is Action.FORGET or work.spared or (action is Action.IMPORT and not work.decision.differences):
            self.ending.succeed(work, action)
        else:
            return False
        return True

    def _set(self, works: list[Work]) -> None:
        """Call ``set``; when it raises, try what is left once more, one by one."""
        changes = Asked(works)
        error = self.caller.set(works, changes, self._left_out, noop=False)
        self.snapshot.changed()
        if error is None:
            return
        undecided = [work for work in works if work.outcome.status is None]
        if self.imperative:
            for work in undecided:
                work.why = reason(error)
            return
        self._read(undecided)
        for work in undecided:
            change = changes[work.name]
            if self._blocked(work.name) or not (self._missing(work) or work.unproven):
                continue
            if self.ending.providers.run.stopping:
                work.why = reason(error)
                continue
            work.outcome = Outcome()
            if self._halted():
                self.ending.skip(work, HALTED)
                continue
            again = self.caller.set([work], {work.name: self._renewed(work, change)}, self._left_out, noop=False)
            self.snapshot.changed()
            if again is not None and work.outcome.status is None:
                work.why = reason(again)
        if not any(work.why for work in undecided):
            self.ending.log.write("warning", self.definition.name, f"set raised: {reason(error)}")

    def _left_out(self, name: Name, context: Context) -> bool:
        """Whether a name is not to be begun in a call: in vain, or something has failed and nothing more shall."""
        return self._blocked(name, context) or (self._fail_fast and context.ledger.failures)

    def _halted(self) -> bool:
        """Whether nothing more is to begin, since something has failed."""
        return self._fail_fast and any(work.why or work.outcome.status == "failed" for work in self.works)

    def _renewed(self, work: Work, change: Change) -> Change:
        """Give the change from what is there now."""
        row, failure = self._seen(work)
        return change if failure else Change(deepcopy(dict(row)) if row is not None else None, change.should)

    def _stop(self, works: Sequence[Work], stopped: Stopped) -> None:
        """What is no ``Exception`` ends the run: the resources that were being changed fail, read as they are now."""
        self.snapshot.changed()
        if not self.imperative:
            self._read(works)
        guilty = any(work.outcome.status == "failed" for work in works)
        for work in works:
            self._stopped(work, "" if guilty else reason(stopped.cause))
        self.ending.settle(works)

    def _stopped(self, work: Work, why: str) -> None:
        """Settle a work whose call was cut: what is as it should be has succeeded; ``why`` when nobody was named."""
        if not self.imperative:
            work.is_, work.unread = self._seen(work)
        if work.outcome.status == "failed":
            work.why = work.outcome.reason
            self.ending.fail(work, work.why, told=True)
        elif self._done(work):
            self.ending.carried_out(work)
        elif why:
            work.why = why
            self.ending.fail(work, why)
        else:
            self.ending.skip(work, "the run was interrupted")

    def _read(self, works: Sequence[Work]) -> None:
        """Read again, and note of which works nothing is missing."""
        self.snapshot.read(self.definition, [work.name for work in works], fresh=True)
        self._compare(works)

    def _compare(self, works: Iterable[Work]) -> None:
        """Note of which works nothing is missing by what was read last; imperative ones cannot be read."""
        instance = self.definition.instance
        rows = {} if self.imperative or self.snapshot.failure(instance) else self.snapshot.rows(instance)
        arrive(works, rows, self.ending.providers.tools(instance))

    def _seen(self, work: Work) -> Seen:
        return self.snapshot.seen(self.definition.instance, work.name)

    def _missing(self, work: Work) -> list[Difference]:
        """Give what of a change is not there yet, after a fresh read."""
        if work.arrived is not None:
            return []
        return missing(work, self._seen(work), self.ending.providers.tools(self.definition.instance))

    def _conclude(self, called: Sequence[Work]) -> None:
        """Read again, and settle each work: succeeded, failed, or skipped because its prerequisite failed."""
        if not self.imperative:
            self.snapshot.read(self.definition, [work.name for work in called], fresh=True)
        for works in portions(self.works):
            # Not while the log is held: a provider that compares may wait for one that has something to say.
            self._compare(work for work in works if work.started and not work.finished)
            with self.ending.log.together():
                for work in works:
                    if not work.acts:
                        self._spoilt(work)
                    elif not work.finished:
                        self._conclude_one(work)

    def _conclude_one(self, work: Work) -> None:
        row = work.arrived
        if row is not None and not (work.outcome.status or work.why or work.unproven):
            # Nearly always: it is there as asked, and nobody has said anything of it.
            work.is_ = row
            self.ending.carried_out(work)
            return
        if not self.imperative:
            work.is_, work.unread = self._seen(work)
        unsaid = work.outcome.status is None and not work.why
        if unsaid and self._blocked(work.name) and not self._done(work):
            self.ending.skip_for(work)
            return
        if unsaid and not self.imperative and self._halted() and not self._done(work):
            self.ending.skip(work, HALTED)
            return
        failed = work.why or work.outcome.reason if self.imperative else self._failure(work)
        if failed or work.outcome.status == "failed":
            self.ending.fail(work, failed or "failed", told=work.outcome.status == "failed")
            return
        self.ending.carried_out(work)

    def _done(self, work: Work) -> bool:
        """Whether what was asked is there, and can be seen to be."""
        return not (self.imperative or work.unproven or self._missing(work))

    def _failure(self, work: Work) -> str:
        """Give why a work failed; empty when what was asked is there."""
        if work.outcome.status == "failed":
            return work.outcome.reason
        missing = self._missing(work)
        if not missing and not (work.why and work.unproven):
            work.why = ""
            return ""
        if work.why:
            return work.why
        if failure := self._seen(work).failure:
            work.why = failure
            return failure
        return self._unconverged(work, missing)

    def _unconverged(self, work: Work, missing: Sequence[Difference]) -> str:
        """A provider said that all went well, and it did not: an error unless ``--strict`` says otherwise."""
        named = "; ".join(f"{d.attribute} is {show(d.is_)}, should be {show(d.should)}" for d in missing)
        text = f"did not converge: {named}"
        strict = self.ending.plan.options.strict
        if strict == "warning":
            self.ending.log.write("warning", str(work.step.reference), text)
        if strict == "error":
            work.why = text
            return text
        return ""

    def _refresh(self, works: Sequence[Work]) -> None:
        """Call ``refresh`` once for those that were notified by something that has changed."""
        notified = []
        for work in works:
            if not work.removal and self.ending.refreshers(work):
                notified.append(work)
            elif not work.finished:
                self.ending.same(work)
        if not notified:
            return
        for work in notified:
            work.started = work.started or time.monotonic()
        try:
            error = self.caller.refresh(notified)
        except Stopped as stopped:
            for work in notified:
                self._refreshed(work, RuntimeError(reason(stopped.cause)))
            raise
        self.snapshot.changed()
        paid = [work for work in notified if self._refreshed(work, error)]
        self.ending.pay(paid)

    def _refreshed(self, work: Work, error: Exception | None) -> bool:
        """Settle one refresh; gives whether it was paid."""
        told = work.outcome.status == "failed"
        if told or (error is not None and work.outcome.status is None):
            why = work.outcome.reason or (reason(error) if error is not None else "")
            work.decision = work.decision._replace(action=Action.REFRESH)
            self.ending.fail(work, f"refresh failed: {why}", told=told)
            return False
        if work.outcome.status == "unchanged":
            if not work.finished:
                self.ending.same(work)
            return True
        text = f"refreshed by {', '.join(self.ending.refreshers(work))}"
        self.ending.log.write("notice", str(work.step.reference), text)
        self.ending.succeed(work, Action.REFRESH)
        return True
