"""What a listener and the log get while a plan is carried out, in the order of what happens.

Nothing is decided here: which operations succeed or fail is the table of ``results``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.change import Action, describe_difference
from resource_api.model.event import StepEnd, StepStart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.event import Event
    from resource_api.model.report import StepReport
    from resource_api.model.step import Step
    from resource_api.system.log import Log
    from resource_api.transaction.operation_run import OperationRun

_VERBS: Final = {Action.CREATE: "created", Action.DELETE: "deleted", Action.REPLACE: "replaced", Action.RUN: "executed"}


class Events:
    """Sends the events of one run to a listener and writes its log lines."""

    def __init__(self, log: Log, listener: Callable[[Event], None] | None) -> None:
        """Write to ``log``; ``listener`` gets each event as it happens, None: there is none."""
        self.log = log
        self._listener = listener
        self._started: set[int] = set()

    def send(self, event: Event) -> None:
        """Send an event to the listener."""
        if self._listener is not None:
            self._listener(event)

    def step_started(self, step: Step) -> None:
        """Send that a provider is about to be called for a step; of a replacement only before its first call."""
        if self._listener is not None and step.entry.index not in self._started:
            self._started.add(step.entry.index)
            self._listener(StepStart(step))

    def step_ended(self, report: StepReport) -> None:
        """Send what became of a step."""
        if self._listener is not None:
            self._listener(StepEnd(report))

    def log_change(self, run: OperationRun) -> None:
        """Log the changes that were made, or under noop would be, and that the provider has not logged itself."""
        step, level = run.step, run.step.entry.meta.loglevel
        if self.log.enabled(level) and not first_half(run):
            self.log.write(level, step.entry.reference_text, *change_lines(run))


def first_half(run: OperationRun) -> bool:
    """Whether an operation is the first of the two of a replacement, whose end is reported with the second."""
    return run.decision.action is Action.REPLACE and run.removal != run.step.create_first


def change_lines(run: OperationRun) -> Sequence[str]:
    """Return the change lines of an operation that its provider has not logged."""
    end = " (noop)" if run.step.noop else ""
    verb = _VERBS.get(run.decision.action)
    if verb is not None:
        return [f"{verb}{end}"] if run.result.reported is None else []
    logged = {difference.attribute for difference in run.result.attributes}
    left = [difference for difference in run.decision.differences if difference.attribute not in logged]
    return [describe_difference(run.step.definition, difference) + end for difference in left]
