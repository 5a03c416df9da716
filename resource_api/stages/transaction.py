"""Carries out a plan, segment by segment: late and fresh reads, one ``set``, one verifying ``get``.

A segment is a run of consecutive resources of one type. Failures are contained: a failed resource skips its dependents
and nothing else. What must be done with a resource is decided by the same rule as in the plan (``decision``).
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from resource_api.nouns import expression
from resource_api.nouns.change import Action, Difference, exists
from resource_api.nouns.event import Outputs, StepEnd
from resource_api.nouns.reference import Reference
from resource_api.nouns.step import COUNTED, Report, Step, StepReport, Summary
from resource_api.nouns.values import UNKNOWN, is_unknown
from resource_api.stages import plan as planning
from resource_api.stages.decision import decide
from resource_api.stages.relationships import descendants
from resource_api.stages.segment import Segment, Stopped, Work
from resource_api.stages.selection import reverse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.contract.providers import Providers
    from resource_api.nouns.event import Event
    from resource_api.nouns.expression import Path
    from resource_api.stages.plan import Plan
    from resource_api.stages.snapshot import Snapshot


class Transaction:
    """One run of a plan; ``tell`` is told every event as it happens."""

    def __init__(self, plan: Plan, snapshot: Snapshot, providers: Providers, tell: Callable[[Event], None]) -> None:
        """Prepare to carry out ``plan``; ``snapshot`` holds what was read for it."""
        self.plan = plan
        self.snapshot = snapshot
        self.providers = providers
        self.tell = tell
        self.log = providers.run.log
        self.reports: list[StepReport] = []
        self.works: dict[int, Work] = {}
        #: Indexes of what failed or was skipped, with the reference of the failure that caused it.
        self.bad: dict[int, str] = {}
        #: Indexes of what has changed in this run, and of all that depends on it.
        self.changed: set[int] = set()
        self.stirred: set[int] = set()
        self.unchanged = 0
        self.stopped: BaseException | None = None
        self._after = reverse(plan.catalog.requires)
        self._by_reference: dict[Reference, int] = {}
        self._resolve = plan.catalog.scope.resolver(self._of_resource)

    def run(self) -> Report:
        """Carry out every step; gives what happened. An interrupt is kept in ``stopped``, never raised."""
        started = time.monotonic()
        for steps in self._segments():
            self._segment(steps)
        outputs = self._outputs()
        if outputs:
            self.tell(Outputs(outputs))
        summary = self._summary()
        code = 1 if summary.failed or summary.skipped or self.stopped else 0
        return Report(self.reports, summary, code, time.monotonic() - started, outputs)

    def _segments(self) -> Iterator[list[Step]]:
        """Cut the sequence of steps where the type changes, or a resource wants a call of its own."""
        for _, same_type in groupby(self.plan.steps, key=lambda step: step.entry.type):
            segment: list[Step] = []
            members: set[int] = set()
            for step in same_type:
                if segment and self._cuts(step, members, segment[-1]):
                    yield segment
                    segment, members = [], set()
                segment.append(step)
                members.add(step.entry.index)
            yield segment

    def _cuts(self, step: Step, members: set[int], last: Step) -> bool:
        """Whether a step cannot share a call with those before it: it needs what they yield, or has its own deadline."""
        alone = "imperative" in step.definition.features or step.entry.meta.timeout or last.entry.meta.timeout
        if alone:
            return True
        return bool(step.unknown) and any(i in members for i in self.plan.catalog.requires.get(step.entry.index, ()))

    def _segment(self, steps: Sequence[Step]) -> None:
        """Carry out the steps of one segment that have anything to do."""
        works = [work for step in steps if (work := self._prepare(step)) is not None]
        if not works:
            return
        try:
            self._decide(works)
            Segment(self, works).carry_out()
        except Stopped as error:
            self.stopped = error.cause
            self.providers.run.cancelled = True
        for work in works:
            if not work.finished:
                self.skip(work, "the run was interrupted")

    def _prepare(self, step: Step) -> Work | None:
        """Give the work of a step, or None when it is done with: same, failed in the plan, or skipped."""
        index = step.entry.index
        work = Work(step)
        self.works[index] = work
        if self.stopped or self.providers.run.cancelled:
            self.skip(work, "the run was interrupted")
        elif self.plan.options.fail_fast and self.bad:
            self.skip(work, "an earlier resource failed (--fail-fast)")
        elif cause := next((self.bad[i] for i in self.plan.catalog.requires.get(index, ()) if i in self.bad), None):
            self.skip(work, f"skipped because {cause} failed", cause)
        elif step.decision.error:
            self.fail(work, step.decision.error)
        elif step.action is Action.SAME and index not in self.stirred:
            self.same(work)
        else:
            return work
        return None

    # Fresh reads and the second decision

    def _decide(self, works: Sequence[Work]) -> None:
        """Read again what may have moved since it was planned, and decide with what is known now."""
        definition = works[0].step.definition
        for work in works:
            self._make_known(work)
        live = [work for work in works if not work.finished]
        if "imperative" in definition.features:
            for work in live:
                self._due(work)
            return
        self.snapshot.read(definition, [work.name for work in live], fresh=True)
        tools = self.providers.tools(definition.name)
        for work in live:
            row, failure = self.snapshot.seen(definition.name, work.name)
            if failure:
                self.fail(work, failure)
                continue
            work.is_ = row
            work.decision = decide(work.step.entry, row, work.should, tools)
            if work.decision.error:
                self.fail(work, work.decision.error)
            elif work.decision.action is Action.SAME and not self._refreshers(work):
                self.same(work)

    def _make_known(self, work: Work) -> None:
        """Replace unknowns by what earlier steps have yielded."""
        entry = work.step.entry
        if not entry.pending:
            return
        values = {}
        for name, value in entry.pending.items():
            try:
                values[name] = expression.evaluate(value, self._resolve)
            except ValueError as error:
                self.fail(work, str(error))
                return
            if is_unknown(values[name]):
                if not work.step.noop:
                    self.fail(work, f"'{name}' is still not known: {value}")
                    return
                values[name] = UNKNOWN
        work.should, problem = planning.complete(entry, values, self.providers.tools(entry.type))
        if problem:
            self.fail(work, problem)

    def _of_resource(self, path: Path) -> Any:
        assert isinstance(path.root, Reference)
        entry = self.plan.catalog.find(path.root)
        assert entry is not None
        work = self.works.get(entry.index)
        if work is None:
            row, _ = self.snapshot.seen(entry.type, entry.name)
            return planning.yielded(path, entry.should, row)
        if work.step.noop and not exists(work.is_):
            return planning.foreseen(path, work.step)
        return planning.yielded(path, work.should, work.is_)

    def _due(self, work: Work) -> None:
        """Ask an imperative resource, right before its turn, whether it is to be run."""
        if work.finished:
            return
        work.step.entry.should.update(work.should)
        run, why, failure = self.snapshot.due(work.step.entry)
        if failure:
            self.fail(work, failure)
        elif run:
            work.decision = work.decision._replace(action=Action.RUN, reasons=(why,) if why else ())
        elif self._refreshers(work):
            work.decision = work.decision._replace(action=Action.SAME)
        else:
            self.same(work)

    def _refreshers(self, work: Work) -> list[str]:
        """Give the references of those that have changed and notify this resource, which can be refreshed."""
        if "refreshable" not in work.step.definition.features:
            return []
        sources = self.plan.catalog.subscribes.get(work.step.entry.index, ())
        if work.step.noop:
            return list(work.step.refreshed_by)
        return [str(self.works[i].step.reference) for i in sources if i in self.changed and i in self.works]

    refreshers = _refreshers

    # How a work ends

    def same(self, work: Work) -> None:
        """Nothing was to be done."""
        work.finished = True
        self.unchanged += 1

    def succeed(self, work: Work, action: Action, changes: Sequence[Difference]) -> None:
        """A step has been carried out (or, under noop, would be)."""
        noop = work.step.noop
        work.finished = True
        self._report(work, action, "noop" if noop else "success", changes)
        if not noop:
            self.changed.add(work.step.entry.index)
            self.stirred |= descendants([work.step.entry.index], self._after)

    def fail(self, work: Work, why: str, *, told: bool = False) -> None:
        """A step has failed; ``told`` when the provider has logged why already."""
        work.finished = True
        self.bad[work.step.entry.index] = str(work.step.reference)
        if not told:
            self.log.write("err", str(work.step.reference), why)
        self._report(work, work.action, "failed", work.decision.differences, why)

    def skip(self, work: Work, why: str, cause: str = "") -> None:
        """A step is not carried out; who depends on it is skipped too."""
        work.finished = True
        self.bad[work.step.entry.index] = cause or str(work.step.reference)
        self.log.write("warning", str(work.step.reference), why)
        self._report(work, work.action, "skipped", (), why)

    def _report(self, work: Work, action: Action, status: str, changes: Iterable[Difference], error: str = "") -> None:
        seconds = time.monotonic() - work.started if work.started else 0.0
        report = StepReport(
            str(work.step.reference),
            self.plan.urn(work.step.entry),
            action,
            status,
            tuple(changes),
            error,
            False,
            seconds,
        )
        self.reports.append(report)
        self.tell(StepEnd(report))

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
        totals["unchanged"] = self.unchanged
        for report in self.reports:
            if report.status in {"failed", "skipped"}:
                totals[report.status] += 1
            else:
                totals[COUNTED[report.action]] += 1
        return Summary(**totals, noop=self.plan.options.noop)
