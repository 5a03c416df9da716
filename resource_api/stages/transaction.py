"""Carries out a plan, segment by segment: late and fresh reads, one ``set``, one verifying ``get``.

A segment is a run of consecutive operations of one type. Failures are contained: a failed resource skips its dependents
and nothing else. What must be done with a resource is decided by the same rule as in the plan (``decision``).
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from resource_api.nouns import expression
from resource_api.nouns.change import MADE_ANEW, Action, exists
from resource_api.nouns.event import Outputs
from resource_api.nouns.reference import Reference
from resource_api.nouns.step import COUNTED, SAME, Report, Summary
from resource_api.nouns.values import UNKNOWN, is_unknown, same
from resource_api.stages import foresight
from resource_api.stages.calling import Stopped
from resource_api.stages.decision import decide, heeded
from resource_api.stages.ending import Ending
from resource_api.stages.segment import Segment
from resource_api.stages.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.nouns.event import Event
    from resource_api.nouns.expression import Path
    from resource_api.nouns.step import Decision, Operation
    from resource_api.stages.plan import Plan
    from resource_api.stages.recorder import Recorder
    from resource_api.stages.snapshot import Snapshot

_PLANNED_ONLY = frozenset({Action.REPLACE, Action.DELETE, Action.FORGET})


class Transaction:
    """One run of a plan; ``tell`` is told every event as it happens."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, recorder: Recorder | None, tell: Callable[[Event], None]
    ) -> None:
        """Prepare to carry out ``plan``; ``snapshot`` holds what was read for it."""
        self.plan = plan
        self.snapshot = snapshot
        self.providers = snapshot.providers
        self.ending = Ending(plan, snapshot, recorder, tell)
        #: What let something through that is no ``Exception``, and so ended the run.
        self.stopped: BaseException | None = None
        self._recorder = recorder
        self._tell = tell
        self._works: dict[int, Work] = {}
        self._resolve = plan.catalog.scope.resolver(self._of_resource)

    def run(self) -> Report:
        """Carry out every operation; gives what happened. An interrupt is kept in ``stopped``, never raised."""
        started = time.monotonic()
        if self._recorder is not None:
            self._recorder.begin()
        if self._idle():
            self.ending.rest()
        else:
            for operations in self._segments():
                self._segment(operations)
        outputs = self._outputs()
        summary = self._summary()
        code = 1 if summary.failed or summary.skipped or self.stopped else 0
        self.ending.finish(outputs if self.plan.complete and not code else None)
        if self.stopped is not None:
            # The next run of the same program is not cancelled.
            self.providers.run.cancelled = False
        if outputs:
            self._tell(Outputs(outputs))
        return Report(self.ending.reports, summary, code, time.monotonic() - started, outputs)

    def _idle(self) -> bool:
        """Whether nothing is to be done at all: then nothing will change, and nothing has to be looked at again."""
        steps = self.plan.steps
        nothing = all(step.decision is SAME and not step.refreshed_by and not step.deferred for step in steps)
        return nothing and not self.providers.run.cancelled

    def _segments(self) -> Iterator[list[Operation]]:
        """Cut the sequence of operations where the type changes, or one wants a call of its own."""
        for _, same_type in groupby(self.plan.operations, key=lambda operation: operation.definition.instance):
            segment: list[Operation] = []
            members: set[int] = set()
            names: set[Any] = set()
            for operation in same_type:
                if segment and self._cuts(operation, segment[-1], members, names):
                    yield segment
                    segment, members, names = [], set(), set()
                segment.append(operation)
                members.add(operation.number)
                names.add(operation.step.old_name if operation.removal else operation.step.name)
            yield segment

    def _cuts(self, operation: Operation, last: Operation, members: set[int], names: set[Any]) -> bool:
        """Whether an operation cannot share a call with those before it."""
        step = operation.step
        if "imperative" in step.definition.features or step.entry.meta.timeout or last.step.entry.meta.timeout:
            return True
        name = step.old_name if operation.removal else step.name
        inside = members.intersection(self.plan.waits.get(operation.number, ()))
        if name in names or (inside and (step.unknown or step.action is Action.FORGET)):
            return True
        # What is foreseen of another must have come true before it is used.
        if step.entry.pending and any(self.plan.operations[index].step.decision.foreseen for index in inside):
            return True
        # What is refreshed notifies in turn: whom it notifies comes after that.
        return bool(step.refreshed_by) and any(self.plan.operations[index].step.refreshed_by for index in inside)

    def _segment(self, operations: Sequence[Operation]) -> None:
        """Carry out the operations of one segment that have anything to do."""
        works = [work for operation in operations if (work := self._prepare(operation)) is not None]
        if not works:
            return
        try:
            self._decide(works)
            if any(not work.finished for work in works):
                Segment(self.ending, works).carry_out()
        except Stopped as error:
            self.stopped = error.cause
            self.providers.run.cancelled = True
        for work in works:
            if not work.finished:
                self.ending.skip(work, "the run was interrupted")

    def _prepare(self, operation: Operation) -> Work | None:
        """Give the work of an operation, or None when it is done with: same, failed in the plan, or skipped."""
        step, ending = operation.step, self.ending
        work = Work(operation)
        if not operation.removal:
            self._works[step.entry.index] = work
        if self.stopped or self.providers.run.cancelled:
            ending.skip(work, "the run was interrupted")
        elif self.plan.options.fail_fast and ending.bad:
            ending.skip(work, "an earlier resource failed (--fail-fast)")
        elif step.decision.error:
            ending.fail(work, step.decision.error)
        elif ending.skip_for(work):
            return None
        elif step.action is Action.SAME and not self._may_have_moved(operation):
            ending.same(work)
        else:
            return work
        return None

    def _may_have_moved(self, operation: Operation) -> bool:
        """Whether what was in order may not be now; of what cannot be read back, after any change."""
        if "imperative" in operation.step.definition.features:
            return bool(self.ending.changed)
        return operation.number in self.ending.stirred

    # Fresh reads and the second decision

    def _decide(self, works: Sequence[Work]) -> None:
        """Read again what may have moved since it was planned, and decide with what is known now."""
        definition = works[0].definition
        for work in works:
            self._make_known(work)
        live = [work for work in works if not work.finished]
        if "imperative" in definition.features:
            for work in live:
                if not work.removal:
                    self._due(work)
            return
        self.snapshot.read(definition, [work.name for work in live], fresh=True)
        for work in live:
            row, failure = self.snapshot.seen(definition.instance, work.name)
            if failure and work.decision.action is not Action.FORGET:
                self.ending.fail(work, failure)
                continue
            work.is_ = row
            if not work.removal:
                self._decide_one(work)

    def _decide_one(self, work: Work) -> None:
        """Decide anew; what the plan did not show as a removal never becomes one."""
        step = work.step
        known = self.plan.known(step)
        decision = decide(step.entry, work.is_, work.should, self.providers.tools(step.entry.instance), known)
        if step.action is Action.REPLACE and decision.action is Action.CREATE:
            decision = step.decision._replace(differences=decision.differences, foreseen=decision.foreseen)
        if self._unplanned(work, decision):
            work.decision = step.decision
            verb = "updated" if decision.action is Action.UPDATE else f"{decision.action}d"
            self.ending.fail(work, f"would have to be {verb}, which was not planned; run again")
            return
        if turned := _turned(step.decision, decision):
            self.ending.fail(work, f"its provider plans {turned} otherwise than before; run again")
            return
        work.decision = decision
        if step.entry.meta.lifecycle.ignore_changes and decision.action not in MADE_ANEW:
            work.should = heeded(step.entry, work.is_, work.should)
        if decision.error:
            self.ending.fail(work, decision.error)
        elif decision.action is Action.SAME and not self.ending.refreshers(work):
            self.ending.same(work)

    def _unplanned(self, work: Work, decision: Decision) -> bool:
        """Whether the plan did not show what is to be done now; a saved plan does nothing that it does not show."""
        step = work.step
        if decision.action is step.action or decision.action is Action.SAME or decision.error:
            return False
        if self.plan.options.saved and not step.deferred:
            return step.action is Action.SAME or decision.action in _PLANNED_ONLY
        if decision.action is Action.DELETE:
            return self.plan.options.saved or not (step.deferred or step.action is Action.SAME)
        return decision.action in _PLANNED_ONLY

    def _make_known(self, work: Work) -> None:
        """Replace unknowns by what earlier steps have yielded."""
        entry = work.step.entry
        if not entry.pending or work.removal:
            return
        values: dict[str, Any] = {}
        for name, value in entry.pending.items():
            try:
                found = expression.evaluate(value, self._resolve)
            except ValueError as error:
                self.ending.fail(work, str(error))
                return
            if is_unknown(found) and not work.step.noop:
                self.ending.fail(work, f"'{name}' is still not known: {value}")
                return
            values[name] = UNKNOWN if is_unknown(found) else found
        work.should, problem = foresight.complete(entry, values, self.providers.tools(entry.instance))
        if problem:
            self.ending.fail(work, problem)

    def _of_resource(self, path: Path) -> Any:
        assert isinstance(path.root, Reference)
        entry = self.plan.catalog.find(path.root)
        assert entry is not None
        work = self._works.get(entry.index)
        if work is None:
            return foresight.yielded(path, entry.should, self.snapshot.seen(entry.instance, entry.name).row)
        if work.step.noop and not exists(work.is_):
            return foresight.foreseen(path, work.step)
        return foresight.yielded(path, work.should, work.is_)

    def _due(self, work: Work) -> None:
        """Ask an imperative resource, right before its turn, whether it is to be run."""
        entry = work.step.entry
        entry.should.update(work.should)
        run, why, failure = self.snapshot.due(entry)
        if failure:
            self.ending.fail(work, failure)
        elif run:
            work.decision = work.decision._replace(action=Action.RUN, reasons=(why,) if why else ())
        elif self.ending.refreshers(work):
            work.decision = work.decision._replace(action=Action.SAME)
        else:
            self.ending.same(work)

    def _outputs(self) -> Mapping[str, Any]:
        found = {}
        for name, value in self.plan.catalog.manifest.outputs.items():
            try:
                result = expression.evaluate(value, self._resolve)
            except ValueError:
                continue
            if not is_unknown(result):
                found[name] = result
        return found

    def _summary(self) -> Summary:
        totals = dict.fromkeys(Summary._fields[:-1], 0)
        totals["unchanged"] = self.ending.unchanged
        for report in self.ending.reports:
            totals[report.status if report.status in {"failed", "skipped"} else COUNTED[report.action]] += 1
        return Summary(**totals, noop=self.plan.options.noop)


def _turned(before: Decision, now: Decision) -> str:
    """Give the attributes of which a provider foresees something else than it did in the plan."""
    if not before.foreseen:
        return ""
    changed = [k for k, v in now.foreseen.items() if k in before.foreseen and not same(before.foreseen[k], v)]
    return ", ".join(changed)
