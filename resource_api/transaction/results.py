"""How each operation has ended, and what follows from it for the operations that wait for it.

The only module that ends an operation. What a listener, the log and state get of it: ``events`` and ``recorder``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import reverse
from resource_api.model.action import Action
from resource_api.model.change import conceal_difference
from resource_api.model.implied_secrets import conceal_like
from resource_api.model.report import SUMMARY_FIELDS, StepReport, Summary
from resource_api.model.values.values import same_value
from resource_api.plan.operation_order import numbers_by_entry
from resource_api.transaction.events import end_fields, first_half
from resource_api.transaction.operation_run import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import ProviderCall
    from resource_api.plan.planner import Plan
    from resource_api.transaction.events import Events
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.skipping import Skipping

#: What is added to the error of an operation whose call was interrupted or did not end.
IN_DOUBT: Final = "its outcome is in doubt until the next run"


def _replaced_differences(run: OperationRun) -> Sequence[Difference]:
    """Return how the new resource of a replacement differs, whichever half ends it.

    Its halves are decided as a deletion and a creation. What the plan did not know is taken from what was set.
    """
    differences = []
    for each in run.step.decision.differences:
        value = run.should.get(each.attribute) if each.attribute in run.step.unknown else each.should
        if value is each.should:
            differences.append(each)
        elif not same_value(each.is_, value):
            differences.append(conceal_difference(run.definition, each._replace(should=value)))
    return differences


def _with_reported(run: OperationRun, changes: Sequence[Difference]) -> Sequence[Difference]:
    """Return changes with what the provider reported of attributes: its messages, and what it changed beside them."""
    if not run.result.attributes:
        return tuple(changes)
    reported = {each.attribute: _concealed(run, each) for each in run.result.attributes}
    merged = [each._replace(message=reported.pop(each.attribute, each).message) for each in changes]
    return (*merged, *reported.values())


def _concealed(run: OperationRun, reported: Difference) -> Difference:
    declared = run.should.get(reported.attribute)
    is_, should = (conceal_like(value, declared) for value in reported[1:3])
    return conceal_difference(run.definition, reported._replace(is_=is_, should=should))


class Results:
    """The table of results of one transaction, by the operation's number."""

    def __init__(self, plan: Plan, events: Events) -> None:
        """Begin with no operation ended; ``events`` gets what is to be logged and sent."""
        self._plan = plan
        self._events = events
        #: The steps that acted, failed, were skipped or were noop, in the order in which they ended.
        self.reports: list[StepReport] = []
        #: The calls of providers, in the order in which they ended; ``started`` is in seconds of ``time.monotonic``.
        self.calls: list[ProviderCall] = []
        #: Failed and skipped operations, each with the reference of the failure that caused it; empty: an interrupt.
        self.failures: dict[int, str] = {}
        #: Entry's index → the failure of planning that keeps it from being done.
        self.blocked = plan.blocked
        #: Operations that have changed something.
        self.changed: set[int] = set()
        #: Operations that had nothing to do, and those that were refreshed and had nothing else to do.
        self.unchanged_runs: list[OperationRun] = []
        self.refreshed_runs: list[OperationRun] = []
        #: Whether the plan had nothing to do: then no operation was looked at.
        self.nothing_to_do = False
        self._called_unseen: list[int] = []
        self._affected: set[int] = set()
        #: Entry's index → the status that was reported first for it.
        self._reported: dict[int, str] = {}

    @cached_property
    def _skipping(self) -> Skipping:
        """What the failures keep from being done."""
        from resource_api.transaction.skipping import Skipping

        return Skipping(self._plan, self.blocked, self.failures)

    @cached_property
    def _dependents(self) -> Mapping[int, Sequence[int]]:
        """Operation → the operations that wait for it."""
        return reverse(self._plan.waits)

    @cached_property
    def operations_of(self) -> Mapping[int, Sequence[int]]:
        """Entry's index → its operations: one, or the two of a replacement."""
        return numbers_by_entry(self._plan.operations)

    def affected(self, number: int) -> bool:
        """Return whether a call was made for an operation, or for one that it waits for at any distance."""
        waiting, self._called_unseen = self._called_unseen, []
        while waiting:
            changed = waiting.pop()
            if changed not in self._affected:
                self._affected.add(changed)
                waiting += self._dependents.get(changed, ())
        return number in self._affected

    def has_changed(self, index: int) -> bool:
        """Return whether an operation on the resource of an entry has changed something."""
        return not self.changed.isdisjoint(self.operations_of.get(index, ()))

    def succeeded(self, index: int) -> bool:
        """Return whether the step of an entry was reported as a success."""
        return self._reported.get(index) == "success"

    # Ending an operation

    def _end(self, run: OperationRun, status: Status) -> None:
        """End an operation; one that its provider was called for may have changed something, whatever its status."""
        run.status = status
        if run.started:
            self._called_unseen.append(run.number)

    def unchanged(self, run: OperationRun) -> None:
        """End an operation that had nothing to do."""
        self._end(run, Status.UNCHANGED)
        self.unchanged_runs.append(run)

    def complete(self, run: OperationRun) -> None:
        """Log and report that what was decided was done, or under noop would be."""
        self._events.log_change(run)
        self.succeed(run, run.decision.action)

    def succeed(self, run: OperationRun, action: Action) -> None:
        """Report that ``action`` was done, or under noop would be; of a replacement only its second half."""
        noop = run.step.noop
        run.status = Status.SUCCEEDED
        if run.started:
            self._called_unseen.append(run.number)
        if action is Action.FORGET:
            self._events.log_forgotten(run)
        if action is not Action.REPLACE or not first_half(run):
            differences = () if action is Action.REFRESH else run.decision.differences
            self._report(run, action, "noop" if noop else "success", differences)
        if not noop:
            if action is Action.REFRESH and run.decision.action is Action.SAME:
                self.refreshed_runs.append(run)
            self.changed.add(run.number)

    def fail(self, run: OperationRun, why: str, *, action: Action | None = None, logged: bool = False) -> None:
        """End an operation as failed; ``action`` None: as decided; ``logged``: its provider has logged the reason."""
        self._end(run, Status.FAILED)
        self._skipping.add(run, str(run.step.reference))
        # The other half of a replacement may have failed before; a refresh may fail after a success.
        if not logged and self._reported.get(run.step.entry.index, "success") == "success":
            self._events.log_reason("err", run, why, action=action or run.action, **end_fields(run, "failed"))
        changes = () if action is Action.REFRESH else run.decision.differences
        self._report(run, action or run.action, "failed", changes, why)

    def skip(self, run: OperationRun, why: str, cause: str = "") -> None:
        """End an operation that is not carried out; ``cause``: the reference of the failure, empty: there is none."""
        self._end(run, Status.SKIPPED)
        cause = cause or self._skipping.cause(run, why)
        self._skipping.add(run, cause)
        if run.step.entry.index not in self._reported:
            self._events.log_reason("warning", run, why, status="skipped")
        self._report(run, run.action, "skipped", (), why, cause=cause)

    def skip_if_blocked(self, run: OperationRun) -> bool:
        """Skip an operation if one that it waits for has failed or was skipped; return whether it was skipped."""
        if not (self.failures or self.blocked):
            return False
        found = self._skipping.reason(run, self.operations_of)
        if found is not None:
            self.skip(run, *found)
        return found is not None

    def _report(
        self,
        run: OperationRun,
        action: Action,
        status: str,
        changes: Sequence[Difference],
        error: str = "",
        *,
        cause: str = "",
    ) -> None:
        """Add the report of a step, one for each; a refresh and its failure are reported beside the change."""
        index = run.step.entry.index
        if index in self._reported and (status == "skipped" or action is not Action.REFRESH):
            return
        self._reported[index] = status
        if action is Action.REPLACE and status != "skipped":
            changes = _replaced_differences(run)
        half_done = status in {"failed", "skipped"} and self.has_changed(index)
        report = StepReport(
            *(run.step, action, status, _with_reported(run, changes), error, run.seconds, cause, half_done),
            run.step.side_effects if run.side_effects is None else run.side_effects,
            unconfirmed=status == "failed" and run.result.unconfirmed,
        )
        self.reports.append(report)
        self._events.step_ended(report)
        if self._events.shows_steps:
            self._events.log_end(run, status)

    # Counting

    def summary(self) -> Summary:
        """Count the steps by how they ended."""
        totals = dict.fromkeys(Summary._fields[:-1], 0)
        totals["unchanged"] = self._count_unchanged()
        for report in self.reports:
            totals[self._counted_as(report)] += 1
        return Summary(**totals, noop=self._plan.options.noop)

    def _count_unchanged(self) -> int:
        if self.nothing_to_do:
            return len(self._plan.steps) + self._plan.cached_unchanged
        unreported = {run.step.entry.index for run in self.unchanged_runs} - self._reported.keys()
        return len(unreported) + self._plan.cached_unchanged

    def _counted_as(self, report: StepReport) -> str:
        """Return the count of a step; what would be done counts only where the whole run is noop."""
        if report.status in {"failed", "skipped"}:
            return report.status
        left_alone = report.status == "noop" and report.step.is_noop(noop_run=self._plan.options.noop)
        return "unchanged" if left_alone else SUMMARY_FIELDS[report.action]
