"""The results of a transaction: how each operation ended, which ones that blocks; its events and log lines.

The only module that ends an operation. Events are sent to a listener, and lines logged, in the order of the ends;
``recorder`` writes the results to state.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import reverse
from resource_api.model.action import Action
from resource_api.model.change import conceal_difference, describe_difference, difference_fields, large_change
from resource_api.model.report import SUMMARY_FIELDS, StepEnd, StepReport, StepStart, Summary
from resource_api.model.sealed_secrets import conceal_like
from resource_api.model.step import ADOPTED
from resource_api.model.values.values import same_value
from resource_api.plan.set_segments import PRUNE_STAGE, PURGE_STAGE, numbers_by_entry
from resource_api.transaction.operation_run import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import Event, ProviderCall
    from resource_api.model.step import Step
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.system.log import Log
    from resource_api.transaction.operation_run import OperationRun

#: The reason for which operations are skipped after a failure.
HALTED: Final = "skipped because an earlier resource failed (--fail-fast)"
#: The reason for which operations are skipped after an interrupt.
INTERRUPTED: Final = "skipped because the run was interrupted"
#: The end of the error of an operation whose call was interrupted or did not end.
IN_DOUBT: Final = "its outcome is in doubt until the next run"
#: The statuses that the plan of a noop run has shown already.
_SHOWN: Final = frozenset({"noop", "skipped"})
#: The number of adopted resources that are named.
_ADOPTED: Final = 10
#: The number of resources that are named as failed or skipped for one reason.
_NAMED: Final = 20
#: The end of a line about a change, and its status.
_END: Final = ("", "success")
_NOOP_END: Final = (" (noop)", "noop")
_VERBS: Final = {Action.CREATE: "created", Action.DELETE: "deleted", Action.REPLACE: "replaced", Action.RUN: "executed"}


class Results:
    """The table of results of one transaction, by the operation's number."""

    def __init__(self, plan: ExecutionPlan, events: Events) -> None:
        """Begin with no operation ended; ``events`` logs and sends each end."""
        self._plan = plan
        self._events = events
        #: The steps that acted, failed, were skipped or were noop, in the order in which they ended.
        self.reports: list[StepReport] = []
        #: The calls of providers, in the order in which they ended; ``started`` is in seconds of ``time.monotonic``.
        self.calls: list[ProviderCall] = []
        #: Failed and skipped operations → the reference of the failure that caused it; empty after an interrupt.
        self.failures: dict[int, str] = {}
        #: The indexes of entries whose operation failed after it had been planned.
        self.failed_entries: set[int] = set()
        #: Entry's index → the failure of planning that blocks it.
        self.blocked = plan.blocked
        #: Operations that changed their resource.
        self.changed: set[int] = set()
        #: Operations that had nothing to do, and those that were refreshed and had nothing else to do.
        self.unchanged_runs: list[OperationRun] = []
        self.refreshed_runs: list[OperationRun] = []
        #: Whether the plan had nothing to do; operations were not visited then.
        self.nothing_to_do = False
        #: Operations whose call ``affected`` has not followed yet, and those that a call may have affected.
        self._called_unseen: list[int] = []
        self._affected: set[int] = set()
        #: Entry's index → the status that was reported last for it: the first one, or a refresh's after it.
        self._reported: dict[int, str] = {}
        #: The references of the failures of declared resources, in their order.
        self._declared_failures: dict[str, None] = {}

    @cached_property
    def _late(self) -> Mapping[int, int]:
        """Entry's index → the stage of an orphan that is left alone if anything before it fails."""
        return self._plan.late

    @cached_property
    def _dependents(self) -> Mapping[int, Sequence[int]]:
        """Operation → the operations that wait for it."""
        return reverse(self._plan.waits)

    @cached_property
    def operations_of(self) -> Mapping[int, Sequence[int]]:
        """Entry's index → its operations: one, or the two of a replacement."""
        return numbers_by_entry(self._plan.operations)

    def affected(self, number: int) -> bool:
        """Return whether a call for an operation, or for one that it waits for, may have made its row obsolete.

        Then the resource is read again before it counts as unchanged.
        """
        # Only calls since the last question are followed to their dependents: each relationship is visited once.
        waiting, self._called_unseen = self._called_unseen, []
        while waiting:
            changed = waiting.pop()
            if changed not in self._affected:
                self._affected.add(changed)
                waiting += self._dependents.get(changed, ())
        return number in self._affected

    def has_changed(self, index: int) -> bool:
        """Return whether an operation changed the resource of an entry."""
        return not self.changed.isdisjoint(self.operations_of.get(index, ()))

    def failed_to_remove(self, index: int) -> bool:
        """Return whether the removal of an entry's resource failed or was skipped."""
        operations = (self._plan.operations[number] for number in self.operations_of.get(index, ()))
        return any(operation.removal and operation.number in self.failures for operation in operations)

    def succeeded(self, index: int) -> bool:
        """Return whether the step of an entry ended in success, with its refresh if it had one."""
        return self._reported.get(index) == "success"

    def _end(self, run: OperationRun, status: Status) -> None:
        """End an operation; if its provider was called, its resource may have changed, whatever the status."""
        run.status = status
        if run.started:
            self._called_unseen.append(run.number)

    def unchanged(self, run: OperationRun) -> None:
        """End an operation that had nothing to do."""
        self._end(run, Status.UNCHANGED)
        self.unchanged_runs.append(run)

    def not_needed(self, run: OperationRun) -> None:
        """End an operation that does not count at all, such as a handler (``on_failure``) when nothing failed."""
        self._end(run, Status.UNCHANGED)

    def complete(self, run: OperationRun) -> None:
        """End an operation: log and report that the decided action was done, or under noop would be."""
        self._events.log_change(run)
        self.succeed(run, run.decision.action)

    def succeed(self, run: OperationRun, action: Action) -> None:
        """End an operation and report that ``action`` was done, or under noop would be.

        A replacement, which has two operations, is reported with the second one only. ``action`` may be another one
        than decided: a resource to delete that is gone is forgotten.
        """
        noop = run.step.noop
        self._end(run, Status.SUCCEEDED)
        if action is Action.FORGET:
            self._events.log_forgotten(run)
        if action is not Action.REPLACE or not _first_half(run):
            differences = () if action is Action.REFRESH else run.decision.differences
            self._report(run, action, "noop" if noop else "success", differences)
        if not noop:
            if action is Action.REFRESH and run.decision.action is Action.SAME:
                self.refreshed_runs.append(run)
            self.changed.add(run.number)

    def fail(self, run: OperationRun, error: str, *, action: Action | None = None, logged: bool = False) -> None:
        """End an operation as failed, which blocks those that wait for it; ``logged``: the error was logged before."""
        self._end(run, Status.FAILED)
        if not (run.step.noop or run.operation.step.error):  # handlers follow failures of the run, not of the plan
            self.failed_entries.add(run.step.entry.index)
        self._add_failure(run, str(run.step.reference))
        # The other half of a replacement may have failed before; a refresh may fail after a success.
        if not logged and self._reported.get(run.step.entry.index, "success") == "success":
            self._events.log_reason("err", run, error, action=action or run.action, **end_fields(run, "failed"))
        changes = () if action is Action.REFRESH else run.decision.differences
        self._report(run, action or run.action, "failed", changes, error)

    def skip(self, run: OperationRun, reason: str, cause: str = "") -> None:
        """End an operation that is not carried out; ``cause``: the reference of the failed resource, "" if none is."""
        self._end(run, Status.SKIPPED)
        if reason == HALTED:  # the failed operation itself may end only after this one
            cause = cause or next(iter(self.failures.values()), str(run.step.reference))
        self._add_failure(run, cause)
        if run.step.entry.index not in self._reported:
            self._events.log_reason("warning", run, reason, status="skipped")
        self._report(run, run.action, "skipped", (), reason, cause=cause)

    def skip_if_blocked(self, run: OperationRun) -> bool:
        """Skip an operation if one of its prerequisites failed or was skipped; return whether it was skipped."""
        if not (self.failures or self.blocked):
            return False
        blocking = self._reason_to_skip(run)
        if blocking is not None:
            self.skip(run, *blocking)
        return blocking is not None

    def _add_failure(self, run: OperationRun, cause: str) -> None:
        """Note a failed or skipped operation, which blocks others; ``cause``: the reference of the first failure."""
        self.failures[run.number] = cause
        if run.step.entry.index not in self._plan.prior.orphans:  # only these failures stop all pruning
            self._declared_failures[cause] = None

    def _reason_to_skip(self, run: OperationRun) -> tuple[str, str] | None:
        """Return the reason to skip an operation and the reference of the failure that causes it; None: it may begin.

        Late deletions (``--prune``, ``purge``) are blocked by any failure before them, not only by those they wait for:
        the failed resource may be the successor of the one to delete.
        """
        index, hint = run.step.entry.index, ""
        failed = [number for number in self._plan.waits.get(run.number, ()) if number in self.failures]
        cause = self.failures[failed[0]] if failed else self.blocked.get(index)
        if cause is None and run.removal and run.decision.action is Action.REPLACE:
            cause = self._failure_before_replacement(run)
        stage = self._late.get(index)
        if stage == PURGE_STAGE and self.failures:
            cause = cause or next(iter(self.failures.values()))
        elif stage == PRUNE_STAGE and self._declared_failures:
            cause = cause or next(iter(self._declared_failures))
            verb = "forgets" if run.action is Action.FORGET else "deletes"
            hint = f"; --prune-always {verb} it all the same" if cause in self._declared_failures else ""
        if cause is None:
            return None
        return (f"skipped because {cause} failed{hint}" if cause else INTERRUPTED), cause

    def _failure_before_replacement(self, removal: OperationRun) -> str | None:
        """Return the failure that will block the second half of a replacement, the creation, or None.

        The old resource is then not removed, because it could not be created again.
        """
        waiting, visited = list(self.operations_of[removal.step.entry.index]), {removal.number}
        while waiting:
            number = waiting.pop()
            if number in self.failures:
                return self.failures[number]
            if number not in visited:
                visited.add(number)
                waiting += self._plan.waits.get(number, ())
        return None

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
        """Report the end of a step, once for both operations of a replacement, and its refresh besides.

        Where the first operation of a replacement failed, the second is skipped without a report. ``half_done`` marks a
        replacement that failed after its first operation had changed the resource. ``cause``: the reference of the
        failure that blocked the step, or "".
        """
        index = run.step.entry.index
        if index in self._reported and (status == "skipped" or action is not Action.REFRESH):
            return
        self._reported[index] = status
        if action is Action.REPLACE and status != "skipped":
            changes = _replaced_differences(run)
        report = StepReport(
            run.step,
            action,
            status,
            _with_reported(run, changes),
            error,
            seconds=run.seconds,
            cause=cause,
            half_done=status in {"failed", "skipped"} and self.has_changed(index),
            side_effects=run.step.side_effects if run.side_effects is None else run.side_effects,
            unconfirmed=status == "failed" and run.result.unconfirmed,
        )
        self.reports.append(report)
        self._events.send(StepEnd(report, run.tries))
        if self._events.shows_steps:
            self._events.log_end(run, status)

    def summary(self) -> Summary:
        """Return the number of steps by outcome; each step counts once, its refresh besides.

        In a noop run a planned change counts as if it were made, unless the resource itself is declared as noop: such a
        step counts as unchanged in every run.
        """
        totals, noop = dict.fromkeys(Summary._fields[:-1], 0), self._plan.options.noop
        # One whose other operation is reported does not count as unchanged.
        unreported = {run.step.entry.index for run in self.unchanged_runs} - self._reported.keys()
        unchanged = len(self._plan.steps) if self.nothing_to_do else len(unreported)
        totals["unchanged"] = unchanged + self._plan.cached_unchanged
        for report in self.reports:
            if report.status in {"failed", "skipped"}:
                totals[report.status] += 1
            elif not (report.status == "noop" and report.step.is_noop(noop_run=noop)):
                totals[SUMMARY_FIELDS[report.action]] += 1
            # a noop step with a change and a refresh has two reports, and counts with the first
            elif report.action is not Action.REFRESH or report.step.action is Action.REFRESH:
                totals["unchanged"] += 1
        return Summary(**totals, noop=noop)


class Events:
    """Sends the events of one run to a listener and writes its log lines."""

    def __init__(self, log: Log, listener: Callable[[Event], None] | None, *, is_shown: bool = False) -> None:
        """Write to ``log``; ``listener`` gets each event as it happens, or is None.

        ``is_shown``: the planned changes were shown already, and are not logged.
        """
        self._is_shown = is_shown
        self._log = log
        self._listener = listener
        #: The indexes of entries whose start was sent.
        self._started: set[int] = set()
        #: Level and reason → the count of operations that failed or were skipped for it.
        self._reasons: Counter[tuple[str, str]] = Counter()
        #: Whether it is logged when a step begins and ends.
        self.shows_steps = log.shows_step_lines

    def send(self, event: Event) -> None:
        """Send an event to the listener."""
        if self._listener is not None:
            self._listener(event)

    def step_started(self, step: Step) -> None:
        """Send the start of a step, once, before its provider is called: a replacement has two calls."""
        if self._listener is not None and step.entry.index not in self._started:
            self._started.add(step.entry.index)
            self._listener(StepStart(step))

    def log_start(self, runs: Sequence[OperationRun], action: Action | None = None) -> None:
        """Log, if steps are shown (``-v``), that operations begin; ``action`` defaults to the decided one of each."""
        for run in runs if self.shows_steps else ():
            self.log("info", run, f"{run.definition.verb([action or run.decision.action])}{run.number_of_try}")

    def log_end(self, run: OperationRun, status: str) -> None:
        """Log the duration of an operation that a call was made for."""
        if run.started:
            word = "done in" if status == "success" else f"{status} after"
            self.log("info", run, f"{word} {run.seconds:.1f} s", **end_fields(run, status))

    def log(self, level: str, run: OperationRun, text: str, change: Difference | None = None, **fields: object) -> None:
        """Log a line about the resource of an operation; ``change``: the difference, if it is too large for a line."""
        if self._is_shown and fields.get("status") in _SHOWN:
            return
        entry = run.step.entry
        self._log.write(
            level,
            entry.reference_text,
            text,
            entry.definition.name,
            lambda: {**run.log_fields(), **fields},
            change=change,
        )

    def log_reason(self, level: str, run: OperationRun, reason: str, **fields: Any) -> None:
        """Log the reason for a failed or skipped operation; a log for people has at most 20 lines of the same one."""
        self._reasons[level, reason] += 1
        if self._reasons[level, reason] <= _NAMED or not self._log.is_brief:
            text = run.step.entry.declaration.located(reason) if level == "err" else reason
            self.log(level, run, text, **fields)

    def log_more(self) -> None:
        """Log, for each reason with more than 20 operations, the count of those that ``log_reason`` left out."""
        for (level, reason), count in self._reasons.items():
            if count > _NAMED and self._log.is_brief:
                self._log.write(level, f"{count - _NAMED} more", reason)

    def log_adopted(self, runs: Sequence[OperationRun]) -> None:
        """Log the resources that existed before us and are managed from now on; of more than ten only their count."""
        if len(runs) > _ADOPTED:  # the plural: "12 resources exist already; ..."
            self._log.write(
                "notice", "", f"{len(runs)} resources {ADOPTED.replace('exists', 'exist', 1)}", action="adopt"
            )
        else:
            for run in runs:
                self.log("notice", run, ADOPTED, action="adopt")

    def log_change(self, run: OperationRun) -> None:
        """Log the changes that were made, or under noop would be, and that the provider did not log itself.

        A creation, deletion, replacement or run is one line; an update has a line for each difference.
        """
        step, level = run.step, run.step.entry.meta.loglevel
        action = run.decision.action
        if self._is_shown or (action is Action.REPLACE and _first_half(run)):
            return
        end, status = _NOOP_END if step.noop else _END
        if action in _VERBS and run.result.reported is None:
            entry = step.entry
            self._log.write(
                level,
                entry.reference_text,
                _VERBS[action] + end,
                entry.definition.name,
                lambda: {**run.log_fields(), **end_fields(run, status)},
            )
        elif action is Action.UPDATE and not run.decision.differences and run.result.reported is None:
            # No difference is visible: an earlier run left it partial.
            text = f"completed: {'; '.join(run.decision.reasons)}{end}"
            self.log(level, run, text, **end_fields(run, status))
        elif action not in _VERBS and self._log.enabled(level, step.definition.name):
            logged = {difference.attribute for difference in run.result.attributes}
            for difference in run.decision.differences:
                if difference.attribute not in logged:
                    text = describe_difference(step.definition, difference) + end
                    fields = difference_fields(step.definition, difference)
                    large = large_change(step.definition, difference)
                    self.log(level, run, text, large, **end_fields(run, status), **fields)

    def log_forgotten(self, run: OperationRun) -> None:
        """Log that the record of a resource is removed, and the reason for which the resource stays, or is gone.

        A creation that was never confirmed is a warning, as the resource may exist.
        """
        reason = "; ".join(run.decision.reasons) if run.decision.action is Action.FORGET else "it is gone already"
        end, status = _NOOP_END if run.step.noop else _END
        unconfirmed = run.step.record is not None and run.step.record.status == "unconfirmed"
        level = "warning" if unconfirmed else run.step.entry.meta.loglevel
        self.log(level, run, f"forgotten: {reason}{end}", action=Action.FORGET, **end_fields(run, status))


def end_fields(run: OperationRun, status: str) -> Mapping[str, Any]:
    """Return the fields of a log event about the end of an operation: its status, and its duration if it had a call."""
    return {"status": status, "seconds": round(run.seconds, 6)} if run.started else {"status": status}


def _first_half(run: OperationRun) -> bool:
    """Whether an operation of a replacement is the first of its two; the second reports the end."""
    return run.removal != run.step.create_first


def _replaced_differences(run: OperationRun) -> Sequence[Difference]:
    """Return, for the report, the differences between the old and the new resource of a replacement.

    Its operations were decided as a deletion and a creation, without differences: these are those of the plan, with the
    values that were unknown then.
    """
    differences = []
    for difference in run.step.decision.differences:
        attribute, should = difference.attribute, difference.should
        value = run.should.get(attribute) if attribute in run.step.unknown else should
        if value is should:
            differences.append(difference)
        elif not same_value(difference.is_, value):
            differences.append(conceal_difference(run.definition, difference._replace(should=value)))
    return differences


def _with_reported(run: OperationRun, changes: Sequence[Difference]) -> Sequence[Difference]:
    """Return the changes for a report, with the messages that the provider gave, and changes that only it reported."""
    if not run.result.attributes:
        return tuple(changes)
    reported = {}
    for difference in run.result.attributes:
        declared = run.should.get(difference.attribute)  # shows which of its values are secret
        is_, should = conceal_like(difference.is_, declared), conceal_like(difference.should, declared)
        reported[difference.attribute] = conceal_difference(run.definition, difference._replace(is_=is_, should=should))
    merged = [change._replace(message=reported.pop(change.attribute, change).message) for change in changes]
    return (*merged, *reported.values())
