"""Sends events to a listener and writes log lines while a plan is carried out, in the order of the operations' ends.

Nothing is decided here: ``results`` ends the operations.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import describe_difference, difference_fields, large_change
from resource_api.model.report import StepEnd, StepStart
from resource_api.model.step import ADOPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import Event, StepReport
    from resource_api.model.step import Step
    from resource_api.system.log import Log
    from resource_api.transaction.operation_run import OperationRun

#: The statuses that the plan of a noop run has shown already.
_SHOWN: Final = frozenset({"noop", "skipped"})
#: The number of adopted resources that are named.
_ADOPTED: Final = 10
#: The number of resources that are named as failed or skipped for one reason.
_NAMED: Final = 20
_VERBS: Final = {Action.CREATE: "created", Action.DELETE: "deleted", Action.REPLACE: "replaced", Action.RUN: "executed"}


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
        """Send the start of a step before its provider is called; of a replacement only before the first call."""
        if self._listener is not None and step.entry.index not in self._started:
            self._started.add(step.entry.index)
            self._listener(StepStart(step))

    def step_ended(self, report: StepReport, tries: int = 0) -> None:
        """Send the report of a step; ``tries``: the number of its calls, counted where ``retry`` is declared."""
        if self._listener is not None:
            self._listener(StepEnd(report, tries))

    def log_start(self, runs: Sequence[OperationRun], action: Action | None = None) -> None:
        """Log with ``-v`` that operations begin; ``action`` defaults to the decided one of each."""
        for run in runs if self.shows_steps else ():
            self.log("info", run, f"{run.definition.verb([action or run.decision.action])}{run.number_of_try}")

    def log_end(self, run: OperationRun, status: str) -> None:
        """Log the duration of an operation that a call was made for."""
        if run.started:
            word = "done in" if status == "success" else f"{status} after"
            self.log("info", run, f"{word} {run.seconds:.1f} s", **end_fields(run, status))

    def log(self, level: str, run: OperationRun, text: str, change: Difference | None = None, **fields: object) -> None:
        """Log a line about the resource of an operation; ``change`` as in ``LogEvent``."""
        if self._is_shown and fields.get("status") in _SHOWN:
            return
        entry = run.step.entry
        self._log.write(
            *(level, entry.reference_text, text, entry.definition.name),
            lambda: {**run.log_fields(), **fields},
            change=change,
        )

    def log_reason(self, level: str, run: OperationRun, reason: str, **fields: Any) -> None:
        """Log the reason for which an operation was not done; a brief log has at most 20 lines of one."""
        self._reasons[level, reason] += 1
        if self._reasons[level, reason] <= _NAMED or not self._log.is_brief:
            text = run.step.entry.declaration.located(reason) if level == "err" else reason
            self.log(level, run, text, **fields)

    def log_more(self) -> None:
        """Log the count of operations beyond those that are named for a reason."""
        for (level, reason), count in self._reasons.items():
            if count > _NAMED and self._log.is_brief:
                self._log.write(level, f"{count - _NAMED} more", reason)

    def log_adopted(self, runs: Sequence[OperationRun]) -> None:
        """Log the resources that existed before us and are managed from now on; of more than ten only their count."""
        if len(runs) > _ADOPTED:
            self._log.write(
                "notice", "", f"{len(runs)} resources {ADOPTED.replace('exists', 'exist', 1)}", action="adopt"
            )
        else:
            for run in runs:
                self.log("notice", run, ADOPTED, action="adopt")

    def log_change(self, run: OperationRun) -> None:
        """Log the changes that were made, or under noop would be, and that the provider did not log itself."""
        step, level = run.step, run.step.entry.meta.loglevel
        action = run.decision.action
        if self._is_shown or (action is Action.REPLACE and first_half(run)):
            return
        end, status = (" (noop)", "noop") if step.noop else ("", "success")
        if action is Action.UPDATE and not run.decision.differences and run.result.reported is None:
            # No difference is visible: an earlier run left it partial.
            text = f"completed: {'; '.join(run.decision.reasons)}{end}"
            self.log(level, run, text, **end_fields(run, status))
        elif action not in _VERBS and self._log.enabled(level, step.definition.name):
            logged = {difference.attribute for difference in run.result.attributes}
            for difference in run.decision.differences:
                if difference.attribute in logged:
                    continue
                text = describe_difference(step.definition, difference) + end
                fields = difference_fields(step.definition, difference)
                large = large_change(step.definition, difference)
                self.log(level, run, text, large, **end_fields(run, status), **fields)
        elif action in _VERBS and run.result.reported is None:
            entry = step.entry
            self._log.write(
                *(level, entry.reference_text, _VERBS[action] + end, entry.definition.name),
                lambda: {**run.log_fields(), **end_fields(run, status)},
            )

    def log_forgotten(self, run: OperationRun) -> None:
        """Log that the record of a resource is removed, and the reason for which the resource stays, or is gone."""
        forgets = run.decision.action is Action.FORGET
        reason = "; ".join(run.decision.reasons) if forgets else "it is gone already"
        end, status = (" (noop)", "noop") if run.step.noop else ("", "success")
        text = f"forgotten: {reason}{end}"
        unconfirmed = run.step.record is not None and run.step.record.status == "unconfirmed"
        level = "warning" if unconfirmed else run.step.entry.meta.loglevel
        self.log(level, run, text, action=Action.FORGET, **end_fields(run, status))


def end_fields(run: OperationRun, status: str) -> Mapping[str, Any]:
    """Return the fields of a log event about the end of an operation."""
    return {"status": status, "seconds": round(run.seconds, 6)} if run.started else {"status": status}


def first_half(run: OperationRun) -> bool:
    """Whether an operation of a replacement is the first of its two; the second reports the end."""
    return run.removal != run.step.create_first
