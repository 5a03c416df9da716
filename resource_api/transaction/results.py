"""How each run ends: succeeded, failed, skipped, or nothing to do; and what that means for the others.

The one place where reports are made, dependents are marked, and outcomes go to the recorder.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import reverse
from resource_api.model.change import Action, exists
from resource_api.model.event import StepEnd, StepStart
from resource_api.model.report import StepReport
from resource_api.plan.operations import numbers_by_entry
from resource_api.plan.planner import is_refreshable
from resource_api.plan.replacement import replacement_dependents
from resource_api.transaction.operation_run import OperationRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.event import Event
    from resource_api.model.record import Key, Record
    from resource_api.plan.planner import Plan
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.recorder import Recorder

#: Why nothing is begun any more.
HALTED: Final = "an earlier resource failed (--fail-fast)"

_WELL: Final = 1
_OTHERWISE: Final = 2


class Ending:
    """What has become of the operations of a plan so far, all by the operation's index."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, recorder: Recorder | None, follow: Callable[[Event], None] | None
    ) -> None:
        """Begin with nothing ended; ``recorder`` is None where nothing is to be written."""
        self.plan = plan
        self.snapshot = snapshot
        self.providers = snapshot.providers
        self.log = self.providers.run.log
        #: Is told each step as it begins and ends; None: nobody listens.
        self.follow = follow
        self.waits = plan.waits
        self.reports: list[StepReport] = []
        #: What failed or was skipped, with the reference of the failure that caused it.
        self.bad: dict[int, str] = {}
        #: Whether an operation has changed something: a byte for each, as there may be a hundred thousand.
        self.changed = bytearray(len(plan.operations))
        #: Whether any has.
        self.touched = False
        self._stirred = bytearray(len(plan.operations))
        #: What has changed, and of which nobody has asked yet what comes after it.
        self._moved: list[int] = []
        self.same_works: list[OperationRun] = []
        self._resting = False
        #: What was refreshed and nothing else: what it is may still be news.
        self.refreshed: list[OperationRun] = []
        #: How many of those that stayed the same are written already.
        self._recorded = 0
        self._recorder = recorder
        #: How each step has ended, as far as it is told.
        self._reported = bytearray(len(plan.catalog.entries))
        self._begun = bytearray(len(plan.catalog.entries))
        told = plan.catalog.subscribes
        self._place = {o.step.entry.index: o.number for o in plan.operations if not o.removal} if told else {}
        self._hearing = {i for i, n in self._place.items() if i in told and is_refreshable(plan.operations[n].step)}
        if not plan.complete:
            # What is not among the targets hears of it in a later run.
            others = (entry for entry in plan.catalog.entries if entry.index in told and entry.index not in self._place)
            self._hearing |= {entry.index for entry in others if exists(entry.should)}
        self._listeners = reverse(plan.catalog.subscribes)
        #: What waits for a step that cannot be carried out, by its entry: nothing of its chain is touched.
        self.blocked = plan.blocked

    @cached_property
    def after(self) -> Mapping[int, Sequence[int]]:
        """Operation → the operations that wait for it; most runs do not ask."""
        return reverse(self.waits)

    @cached_property
    def halves(self) -> Mapping[int, Sequence[int]]:
        """Entry → its operations; asked only of replacements."""
        return numbers_by_entry(self.plan.operations)

    @cached_property
    def _followers(self) -> Mapping[int, Sequence[Entry]]:
        return replacement_dependents(self.plan.catalog, self.plan.prior, self.plan.steps)

    @property
    def unchanged(self) -> int:
        """How many steps had nothing to do."""
        if self._resting:
            return len(self.plan.steps) + self.plan.cached_unchanged
        same = {id(w.step) for w in self.same_works if not self._reported[w.step.entry.index]}
        return len(same) + self.plan.cached_unchanged

    def rest(self) -> None:
        """Nothing was to be done at all; what that means for each is only of interest where it is recorded."""
        self._resting = True
        if self._recorder is not None:
            settled = self.plan.in_sync
            self.same_works = [
                OperationRun(each) for each in self.plan.operations if each.step.entry.index not in settled
            ]

    def begin(self, run: OperationRun, now: float) -> None:
        """A provider is about to be asked, for the first time in a step; ``now`` in seconds of ``time.monotonic``."""
        run.started = now
        if self.follow is not None and not self._begun[run.step.entry.index]:
            self._begun[run.step.entry.index] = True
            self.follow(StepStart(run.step))

    def same(self, run: OperationRun) -> None:
        """Nothing was to be done."""
        run.finished = True
        self.same_works.append(run)

    def carried_out(self, run: OperationRun) -> None:
        """What was decided has been done, or under noop would be; what its provider did not report is said."""
        step, action = run.step, run.decision.action
        level = step.entry.meta.loglevel
        if self.log.enabled(level) and (action is not Action.REPLACE or run.removal == step.create_first):
            self.log.write(level, step.entry.reference_text, *run.lines())
        self.succeed(run, action)

    def succeed(self, run: OperationRun, action: Action) -> None:
        """An operation has been carried out, or under noop would be; the last one of a step reports it."""
        noop = run.step.noop
        run.finished = True
        if action is not Action.REPLACE or run.removal == run.step.create_first:
            differences = run.decision.differences if action is not Action.REFRESH else ()
            self._report(run, action, "noop" if noop else "success", differences)
        if not noop:
            if action is Action.REFRESH and run.decision.action is Action.SAME:
                self.refreshed.append(run)
            number = run.operation.number
            self.changed[number] = self.touched = True
            self._moved.append(number)

    def stirred(self, number: int) -> bool:
        """Whether an operation, or something that it comes after, has changed something: it may have been moved."""
        waiting, self._moved = self._moved, []
        while waiting:
            moved = waiting.pop()
            if not self._stirred[moved]:
                self._stirred[moved] = True
                waiting += self.after.get(moved, ())
        return bool(self._stirred[number])

    def fail(self, run: OperationRun, why: str, *, told: bool = False) -> None:
        """An operation has failed; ``told`` when the provider has logged why already."""
        run.finished = True
        self.bad[run.operation.number] = str(run.step.reference)
        if not (told or self._reported[run.step.entry.index]):
            self.log.write("err", str(run.step.reference), why)
        self._report(run, run.action, "failed", run.decision.differences, why)

    def skip(self, run: OperationRun, why: str, cause: str = "") -> None:
        """An operation is not carried out; what waits for it is skipped too."""
        run.finished = run.skipped = True
        self.bad[run.operation.number] = cause or str(run.step.reference)
        if not self._reported[run.step.entry.index]:
            self.log.write("warning", str(run.step.reference), why)
        self._report(run, run.action, "skipped", (), why)

    def skip_for(self, run: OperationRun) -> bool:
        """Skip a run that waits for something that has failed; gives whether there is such a thing."""
        if not (self.bad or self.blocked):
            return False
        number = run.operation.number
        cause = next(
            (self.bad[i] for i in self.waits.get(number, ()) if i in self.bad), self.blocked.get(run.step.entry.index)
        )
        if cause is None and run.removal and run.decision.action is Action.REPLACE:
            cause = self._lost(run)
        if cause is not None:
            self.skip(run, f"skipped because {cause} failed", cause)
        return cause is not None

    def _lost(self, removal: OperationRun) -> str | None:
        """Give what has failed and keeps the second half of a replacement from being done, at whatever distance."""
        waiting, seen = list(self.halves[removal.step.entry.index]), {removal.operation.number}
        while waiting:
            number = waiting.pop()
            if number in self.bad:
                return self.bad[number]
            if number not in seen:
                seen.add(number)
                waiting += self.waits.get(number, ())
        return None

    def _report(self, run: OperationRun, action: Action, status: str, changes: Iterable, error: str = "") -> None:  # type: ignore[type-arg] # of differences
        index = run.step.entry.index
        if self._reported[index] and (status == "skipped" or action is not Action.REFRESH):
            return
        self._reported[index] = _WELL if status == "success" else _OTHERWISE
        seconds = time.monotonic() - run.started if run.started else 0.0
        report = StepReport(run.step, action, status, tuple(changes), error, seconds)
        self.reports.append(report)
        if self.follow is not None:
            self.follow(StepEnd(report))

    def refreshers(self, run: OperationRun) -> list[str]:
        """Give the references of those that have changed and notify this resource, now or in a run before."""
        features = run.step.definition.features
        if "refreshable" not in features or run.step.entry.meta.lifecycle.external:
            return []
        if not (exists(run.is_) or "imperative" in features or run.step.noop):
            return []
        if run.step.noop:
            return list(run.step.refreshed_by)
        names = []
        for source in self.plan.catalog.subscribes.get(run.step.entry.index, ()):
            place = self._place.get(source)
            if place is not None and self.changed[place]:
                names.append(str(self.plan.catalog.entries[source].reference))
        owed = self.plan.prior.state.owed.get(run.step.entry.key, ())
        return list(dict.fromkeys((*names, *owed)))

    # Writing

    def intend(self, runs: Iterable[OperationRun]) -> None:
        """Note what is about to be changed, before it is."""
        if self._recorder is not None:
            self._recorder.intend(runs)

    def configured(self, record: Record) -> None:
        """Write what a provider is configured with, before anything is made with it."""
        if self._recorder is not None:
            self._recorder.configured(record)

    def settle(self, runs: Sequence[OperationRun]) -> None:
        """Write the outcome of runs, and the refreshes that they cause."""
        ended = [run for run in runs if run.finished and not self._unbegun(run)]
        if self._recorder is None or not ended:
            return
        owed: dict[Key, list[str]] = {}
        for run in ended:
            if not self.changed[run.operation.number] or run.step.noop or run.removal:
                continue
            for listener in self._listeners.get(run.step.entry.index, ()):
                entry = self.plan.catalog.entries[listener]
                if "refreshable" in entry.definition.features and listener in self._hearing:
                    owed.setdefault(entry.key, []).append(str(run.step.reference))
        same, self._recorded = self.same_works[self._recorded :], len(self.same_works)
        self._recorder.settle(ended, same, owed, self._condemned(ended))

    def _condemned(self, ended: Iterable[OperationRun]) -> list[Entry]:
        """Give what has to be replaced because of what has just changed, and has not come to its end."""
        dependents = self._followers
        indexes = [w.step.entry.index for w in ended if self.changed[w.operation.number]] if dependents else ()
        found = (entry for index in indexes for entry in dependents.get(index, ()))
        return [entry for entry in found if self._reported[entry.index] != _WELL]

    def _unbegun(self, run: OperationRun) -> bool:
        """Whether a run was skipped or left as it was: then nothing of it is new."""
        return not (run.started or self.changed[run.operation.number] or run.why)

    def pay(self, runs: Sequence[OperationRun]) -> None:
        """Write that refreshes have succeeded."""
        if self._recorder is not None and runs:
            self._recorder.pay(runs)

    def finish(self, outputs: Mapping[str, Any] | None) -> None:
        """Write what was only read or refreshed, and the outputs."""
        if self._recorder is not None:
            self._recorder.finish([*self.same_works[self._recorded :], *self.refreshed], outputs)
