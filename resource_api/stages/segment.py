"""One ``set`` for the resources of one type that stand together, and what follows from it.

After ``set`` the runtime reads again: what was asked must be there. When the call raises, what has no definite status
is read again, and what is not as it should be is tried once more, one by one, so that a bad resource fails alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping as MappingABC
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.hands import guard
from resource_api.hands.context import Context
from resource_api.hands.ledger import Outcome, Subject
from resource_api.nouns.change import Action, Change, Difference, describe, exists
from resource_api.nouns.errors import reason
from resource_api.nouns.event import StepStart
from resource_api.nouns.text import show
from resource_api.stages.decision import Incomparable, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.nouns.definition import Name
    from resource_api.nouns.step import Step
    from resource_api.stages.transaction import Transaction


class Stopped(Exception):  # noqa: N818 - a signal between the halves of a run
    """A provider let something through that is no ``Exception``: the run ends, with everything written."""

    def __init__(self, cause: BaseException) -> None:
        """Keep what came through."""
        super().__init__(reason(cause))
        self.cause = cause


class Work:
    """One step while it is being carried out."""

    __slots__ = ("decision", "finished", "is_", "outcome", "should", "started", "step", "why")

    def __init__(self, step: Step) -> None:
        """Begin with what was planned."""
        self.step = step
        self.decision = step.decision
        self.is_ = step.is_
        self.should: Mapping[str, Any] = step.should
        self.finished = False
        self.started = 0.0
        self.outcome = Outcome()
        self.why = ""

    @property
    def name(self) -> Name:
        """What identifies the resource within its type."""
        return self.step.name

    @property
    def action(self) -> Action:
        """What is being done."""
        if self.decision.action is Action.SAME and self.step.refreshed_by:
            return Action.REFRESH
        return self.decision.action


class Changes(MappingABC):  # type: ignore[type-arg] # a read-only view of mixed values
    """What ``set`` gets: name → ``Change``, in dependency order.

    Its iterator leaves out names whose prerequisite in the same call has failed by then.
    """

    def __init__(self, changes: Mapping[Name, Change], blocked: Callable[[Name], bool]) -> None:
        """Offer ``changes``; ``blocked`` tells, when its turn comes, whether a name must be left out."""
        self._changes = changes
        self._blocked = blocked

    def __getitem__(self, name: Name) -> Change:
        """Give one change."""
        return self._changes[name]

    def __iter__(self) -> Iterator[Name]:
        """Give the names, in dependency order."""
        return (name for name in self._changes if not self._blocked(name))

    def __len__(self) -> int:
        """Give how many changes were asked for."""
        return len(self._changes)


class Segment:
    """Carries out the works of one segment."""

    def __init__(self, transaction: Transaction, works: Sequence[Work]) -> None:
        """Take the works that are still to be done."""
        self.transaction = transaction
        self.definition = works[0].step.definition
        self.works = [work for work in works if not work.finished]
        self._index = {work.step.entry.index: work for work in self.works}

    def carry_out(self) -> None:
        """Do what is not noop, tell what is, then refresh what was notified."""
        noop = [work for work in self.works if work.step.noop]
        real = [work for work in self.works if not work.step.noop]
        if noop:
            self._pretend(noop)
        acting = [work for work in real if work.decision.action is not Action.SAME]
        if acting:
            self._act(acting)
        self._refresh([work for work in real if work not in self._failed()])

    def _failed(self) -> list[Work]:
        return [work for work in self.works if work.step.entry.index in self.transaction.bad]

    # Acting

    def _act(self, works: Sequence[Work]) -> None:
        reads = [work for work in works if work.decision.action is Action.READ]
        for work in reads:
            self.transaction.same(work)
        forgets = [work for work in works if work.decision.action is Action.FORGET]
        for work in forgets:
            self.transaction.succeed(work, Action.FORGET, ())
        works = [work for work in works if not work.finished]
        if not works:
            return
        for work in works:
            work.started = time.monotonic()
            self.transaction.tell(StepStart(work.step))
        replaced = [work for work in works if work.decision.action is Action.REPLACE]
        if replaced:
            self._set(replaced, {work.name: _removal(work) for work in replaced})
            self._verify_gone(replaced)
        alive = [work for work in works if not work.finished]
        if alive:
            self._set(alive, {work.name: _change(work) for work in alive})
            self._conclude(alive)

    def _set(self, works: Sequence[Work], changes: Mapping[Name, Change]) -> None:
        """Call ``set``; when it raises, try what is left once more, one by one."""
        error = self._call(works, changes)
        if error is None:
            return
        undecided = [work for work in works if work.outcome.status is None]
        if "imperative" in self.definition.features:
            for work in undecided:
                work.why = reason(error)
            return
        self._read(undecided)
        for work in undecided:
            if self._blocked(work.name) or not self._missing(work, changes[work.name]):
                continue
            work.outcome = Outcome()
            again = self._call([work], {work.name: self._renewed(work, changes[work.name])})
            if again is not None and work.outcome.status is None:
                work.why = reason(again)

    def _renewed(self, work: Work, change: Change) -> Change:
        """Give the change from what is there now."""
        row, failure = self.transaction.snapshot.seen(self.definition.name, work.name)
        return change if failure else Change(deepcopy(dict(row)) if row is not None else None, change.should)

    def _call(self, works: Sequence[Work], changes: Mapping[Name, Change], *, noop: bool = False) -> Exception | None:
        """Call the provider's ``set`` and take over what it reports; gives what it raised.

        What is no ``Exception`` ends the run: the resources that were being changed fail, everything else is skipped.
        """
        context = self._context(works, noop=noop)
        extra = {"noop": noop} if "noop_handler" in self.definition.features else {}
        error: Exception | None = None
        try:
            provider = self.transaction.providers.instance(self.definition.name)
            with guard.protected(), context.lend(provider):
                provider.set(context, Changes(changes, lambda name: self._blocked(name, context)), **extra)
        except Exception as caught:  # noqa: BLE001 - contained in the resources of this call
            error = caught
        except BaseException as caught:
            self._take(works, context)
            self.transaction.snapshot.changed()
            self._interrupted(works, caught)
            raise Stopped(caught) from caught
        self._take(works, context)
        if not noop:
            self.transaction.snapshot.changed()
        return error

    def _interrupted(self, works: Sequence[Work], error: BaseException) -> None:
        for work in works:
            if work.outcome.status in {None, "failed"}:
                told = work.outcome.status == "failed"
                self.transaction.fail(work, work.outcome.reason or reason(error), told=told)

    def _context(self, works: Sequence[Work], *, noop: bool = False) -> Context:
        subjects = {work.name: Subject(work.step.entry.title, work.step.entry.meta.loglevel) for work in works}
        return Context(
            self.definition, self.transaction.providers.run, subjects=subjects, noop=noop, deadline=_deadline(works)
        )

    def _take(self, works: Sequence[Work], context: Context) -> None:
        for work in works:
            if outcome := context.outcomes.get(work.name):
                work.outcome = outcome

    def _blocked(self, name: Name, context: Context | None = None) -> bool:
        """Whether a prerequisite of a name has failed by now, in this call or before."""
        work = next((work for work in self.works if work.name == name), None)
        if work is None:
            return False
        for index in self.transaction.plan.catalog.requires.get(work.step.entry.index, ()):
            other = self._index.get(index)
            if index in self.transaction.bad:
                return True
            if other is None:
                continue
            outcome = context.outcomes.get(other.name, other.outcome) if context else other.outcome
            if outcome.status == "failed" or other.why or (other is not work and self._blocked(other.name, context)):
                return True
        return False

    # Verifying

    def _read(self, works: Sequence[Work]) -> None:
        self.transaction.snapshot.read(self.definition, [work.name for work in works], fresh=True)

    def _missing(self, work: Work, change: Change) -> list[Difference]:
        """Give what of a change is not there yet, after a fresh read."""
        row, failure = self.transaction.snapshot.seen(self.definition.name, work.name)
        if failure:
            return [Difference("ensure", None, None, failure)]
        if not exists(change.should):
            return [Difference("ensure", (row or {}).get("ensure", "present"), "absent")] if exists(row) else []
        if not exists(row):
            return [Difference("ensure", "absent", change.should.get("ensure", "present"))]
        assert row is not None
        tools = self.transaction.providers.tools(self.definition.name)
        try:
            return compare(work.step.entry, row, change.should, tools)
        except Incomparable as error:
            return [Difference("ensure", None, None, str(error))]

    def _verify_gone(self, works: Sequence[Work]) -> None:
        """The old ones must be gone before the new ones are made."""
        self._read(works)
        for work in works:
            if failed := self._failure(work, _removal(work)):
                self.transaction.fail(work, failed, told=work.outcome.status == "failed")
            work.outcome = Outcome()

    def _conclude(self, works: Sequence[Work]) -> None:
        """Read again, and settle each work: succeeded, failed, or skipped because its prerequisite failed."""
        imperative = "imperative" in self.definition.features
        if not imperative:
            self._read(works)
        for work in works:
            if work.outcome.status is None and not work.why and self._blocked(work.name):
                cause = self._cause(work)
                self.transaction.skip(work, f"skipped because {cause} failed", cause)
                continue
            change = _change(work)
            failed = work.why or work.outcome.reason if imperative else self._failure(work, change)
            if failed or work.outcome.status == "failed":
                self.transaction.fail(work, failed or "failed", told=work.outcome.status == "failed")
                continue
            if not imperative:
                work.is_ = self.transaction.snapshot.seen(self.definition.name, work.name).row
            self._tell(work)
            self.transaction.succeed(work, work.decision.action, work.decision.differences)

    def _cause(self, work: Work) -> str:
        for index in self.transaction.plan.catalog.requires.get(work.step.entry.index, ()):
            if index in self.transaction.bad:
                return self.transaction.bad[index]
        return str(work.step.reference)

    def _failure(self, work: Work, change: Change) -> str:
        """Give why a work failed; empty when what was asked is there."""
        if work.outcome.status == "failed":
            return work.outcome.reason
        missing = self._missing(work, change)
        if not missing:
            return ""
        if work.why:
            return work.why
        _, failure = self.transaction.snapshot.seen(self.definition.name, work.name)
        if failure:
            return failure
        text = "did not converge: " + "; ".join(
            f"{d.attribute} is {show(d.is_)}, should be {show(d.should)}" for d in missing
        )
        strict = self.transaction.plan.options.strict
        if strict == "error":
            return text
        if strict == "warning":
            self.transaction.log.write("warning", str(work.step.reference), text)
        return ""

    def _tell(self, work: Work) -> None:
        """Say what the provider did not report."""
        log, level = self.transaction.log, work.step.entry.meta.loglevel
        if not log.enabled(level):
            return
        for line in _lines(work, noop=work.step.noop):
            log.write(level, str(work.step.reference), line)

    # Noop and refresh

    def _pretend(self, works: Sequence[Work]) -> None:
        """Tell what would be done; a provider that handles noop is asked to tell more."""
        acting = [work for work in works if work.decision.action not in {Action.SAME, Action.READ}]
        if acting and "noop_handler" in self.definition.features:
            error = self._call(acting, {work.name: _change(work) for work in acting}, noop=True)
            for work in acting:
                if work.outcome.status == "failed" or (error is not None and work.outcome.status is None):
                    why = work.outcome.reason or reason(error) if error else work.outcome.reason
                    self.transaction.fail(work, why, told=work.outcome.status == "failed")
        for work in works:
            if work.finished:
                continue
            if work in acting:
                self._tell(work)
                self.transaction.succeed(work, work.decision.action, work.decision.differences)
            elif work.step.refreshed_by:
                text = f"would be refreshed by {', '.join(work.step.refreshed_by)} (noop)"
                self.transaction.log.write("notice", str(work.step.reference), text)
                self.transaction.succeed(work, Action.REFRESH, ())
            else:
                self.transaction.same(work)

    def _refresh(self, works: Sequence[Work]) -> None:
        """Call ``refresh`` once for those that were notified by something that has changed."""
        notified = {work.name: (work, who) for work in works if (who := self.transaction.refreshers(work))}
        if not notified:
            for work in works:
                if not work.finished:
                    self.transaction.same(work)
            return
        targets = [work for work, _ in notified.values()]
        for work in targets:
            work.started = work.started or time.monotonic()
            work.outcome = Outcome()
        context = self._context(targets)
        error = ""
        try:
            provider = self.transaction.providers.instance(self.definition.name)
            with guard.protected(), context.lend(provider):
                provider.refresh(context, list(notified))
        except Exception as caught:  # noqa: BLE001 - contained in the resources of this call
            error = reason(caught)
        self._take(targets, context)
        self.transaction.snapshot.changed()
        for work, who in notified.values():
            failed = work.outcome.status == "failed"
            if failed or (error and work.outcome.status is None):
                work.decision = work.decision._replace(action=Action.REFRESH)
                self.transaction.fail(work, f"refresh failed: {work.outcome.reason or error}", told=failed)
                continue
            self.transaction.log.write("notice", str(work.step.reference), f"refreshed by {', '.join(who)}")
            self.transaction.succeed(work, Action.REFRESH, ())
        for work in works:
            if not work.finished:
                self.transaction.same(work)


def _change(work: Work) -> Change:
    """Give what ``set`` gets, as copies: a provider cannot change what the runtime compares with (P-04)."""
    is_ = None if work.decision.action in {Action.REPLACE, Action.CREATE} else work.is_
    return Change(_frozen(is_), MappingProxyType(deepcopy(dict(work.should))))


def _removal(work: Work) -> Change:
    return Change(_frozen(work.is_), MappingProxyType({**deepcopy(dict(work.should)), "ensure": "absent"}))


def _frozen(is_: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if is_ is None else MappingProxyType(deepcopy(dict(is_)))


def _deadline(works: Sequence[Work]) -> float | None:
    """Give when a call must have ended; a resource with a ``timeout`` has a call of its own."""
    timeout = works[0].step.entry.meta.timeout if len(works) == 1 else None
    if isinstance(timeout, dict):
        timeout = timeout.get(str(works[0].decision.action))
    return time.monotonic() + timeout if isinstance(timeout, (int, float)) else None


def _lines(work: Work, *, noop: bool) -> Iterator[str]:
    """Give the change lines that the provider has not written itself."""
    end = " (noop)" if noop else ""
    words = {Action.CREATE: "created", Action.DELETE: "deleted", Action.REPLACE: "replaced", Action.RUN: "executed"}
    if work.decision.action in words:
        if work.outcome.status is None:
            yield f"{words[work.decision.action]}{end}"
        return
    told = {difference.attribute for difference in work.outcome.attributes}
    for difference in work.decision.differences:
        if difference.attribute not in told:
            yield describe(work.step.definition, difference) + end
