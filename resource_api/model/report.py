"""The report of a run, the outcome of each step and the counts; and the events of a run and its log, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.step import Operation, Step
    from resource_api.model.values.errors import Problem
    from resource_api.model.values.values import Values


#: The fields of log events, documented in ``docs/logging.md``; an event has those that apply to it.
LOG_FIELDS: Final = (
    *("run", "project", "stack", "reference", "urn", "resource_type", "action", "phase"),
    *("attribute", "is", "should", "command", "exit_code", "seconds", "status"),
)


class LogEvent(NamedTuple):
    """One line of the log: its level, its subject (a reference, a type, or empty), the text, and its fields.

    ``fields`` are plain JSON data, without secrets; they are empty where no sink shows them. ``change`` is the change
    that the text is about if its values are too large for a line; its secrets are not masked.
    """

    level: str
    subject: str
    text: str
    fields: Mapping[str, Any] = {}
    change: Difference | None = None


class PlannedChange(NamedTuple):
    """A step is about to be applied, or is shown under noop."""

    step: Step


class Drifted(NamedTuple):
    """A resource differs from its record."""

    reference: str
    changes: Sequence[Difference]


class StepStart(NamedTuple):
    """A provider is about to be called for a step."""

    step: Step


class StepEnd(NamedTuple):
    """A step has acted, failed, was skipped, or was noop."""

    report: StepReport
    #: The number of its calls, counted where ``retry`` is declared.
    tries: int = 0


class Diagnosed(NamedTuple):
    """There is an error or a warning."""

    problem: Problem


class Outputs(NamedTuple):
    """The outputs of the stack after the run."""

    values: Values


class Finished(NamedTuple):
    """The run is over."""

    report: RunReport


Event = PlannedChange | Drifted | StepStart | StepEnd | Diagnosed | Outputs | Finished


class StepReport(NamedTuple):
    """The outcome of a step that acted, failed, was skipped, or was noop."""

    step: Step
    action: Action
    status: str
    changes: Sequence[Difference] = ()
    error: str = ""
    seconds: float = 0.0
    #: Of a skipped step: the reference of the failed resource, or "".
    cause: str = ""
    #: Whether it changed the system although it failed or was skipped: one half of a replacement was done.
    half_done: bool = False
    #: The side effects that its provider named last; None if it was not asked.
    side_effects: Sequence[SideEffect] | None = ()
    #: Whether its provider reported a creation that is not visible yet: the resource is ours, and the next run reads
    #: it.
    unconfirmed: bool = False

    def __repr__(self) -> str:
        """Show the outcome, the action and the reference."""
        return f"<StepReport {self.status}: {self.action} {self.reference}>"

    @property
    def reference(self) -> str:
        """The user's name of the resource."""
        return str(self.step.reference)

    @property
    def urn(self) -> str:
        """The resource's name across stacks."""
        return self.step.urn

    @property
    def corrective(self) -> bool:
        """Whether the step corrected drift: the declaration is unchanged since the last run."""
        return self.step.corrective

    @property
    def late(self) -> bool:
        """Whether the resource was in sync in the plan, and an earlier change of the run put it out of sync."""
        return self.step.late


#: The field of ``Summary`` that counts an action; under noop, one that would be done.
SUMMARY_FIELDS: Final[Mapping[Action, str]] = {action: action.outcome for action in Action if action.outcome}
#: Count → its word after a run, where that is not its name.
DONE: Final[Mapping[str, str]] = {"ran": "run", "outputs_changed": "outputs changed"}


def count_words(counts: Mapping[str, object], words: Mapping[str, str], *, always: str = "") -> list[str]:
    """Return the phrases of a summary, such as ``2 created``, for the counts (name → number) that are not 0.

    The count named ``always`` is also returned if it is 0, as ``0 unchanged`` for a run without any resource.
    ``words``: name → word, where the word is not the name. Changed outputs are left out if any resource is counted,
    since a run is about resources.
    """
    phrases = []
    for name, count in counts.items():
        hidden = name == "outputs_changed" and any(counts.get(field) for field in SUMMARY_FIELDS.values())
        if (count or name == always) and not hidden:
            word = words.get(name, name)
            phrases.append(f"{count} {word.replace('outputs', 'output') if count == 1 else word}")
    return phrases


class Summary(NamedTuple):
    """The number of resources by outcome; under noop, by the outcome of a real run."""

    created: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    imported: int = 0
    forgotten: int = 0
    refreshed: int = 0
    #: Imperative resources.
    ran: int = 0
    #: Outputs of the stack, which are no resources.
    outputs_changed: int = 0
    unchanged: int = 0
    failed: int = 0
    skipped: int = 0
    noop: bool = False

    def __str__(self) -> str:
        """Return the counts that are not 0: ``1 created, 12 unchanged``."""
        return ", ".join(count_words(self._replace(noop=False)._asdict(), DONE)) or "no resources"

    def __repr__(self) -> str:
        """Show the counts that are not 0."""
        return f"<Summary: {self}>"

    @property
    def changed(self) -> int:
        """The number of resources that were changed, or would be."""
        return sum(getattr(self, field) for field in SUMMARY_FIELDS.values())


class ProviderCall(NamedTuple):
    """One call of a provider's ``set`` or ``refresh``, and the operations that it was for.

    ``started`` is in seconds since the run began, ``thread`` the identifier of the thread that made it.
    """

    instance: str
    method: str
    operations: Sequence[Operation]
    started: float
    seconds: float
    thread: int

    def __repr__(self) -> str:
        """Show the method, the provider instance and the number of resources."""
        return f"<ProviderCall {self.method} of {self.instance}: {len(self.operations)} resources>"


class RunReport(NamedTuple):
    """The result of one run; ``seconds`` is its duration, ``run`` its id in the journal."""

    steps: Sequence[StepReport]
    summary: Summary
    exit_code: int = 0
    seconds: float = 0.0
    outputs: Mapping[str, Any] = {}
    run: str = ""
    #: The problems of outputs: a function that failed, a missing key.
    problems: Sequence[Problem] = ()
    #: The calls of providers, in the order in which they ended.
    calls: Sequence[ProviderCall] = ()

    def __repr__(self) -> str:
        """Show the counts that are not 0."""
        return f"<Report: {self.summary}>"

    @property
    def changed(self) -> bool:
        """Whether anything was changed, or would be: also an output, or one half of a replacement."""
        counts = self.summary
        return bool(counts.changed or counts.outputs_changed) or any(step.half_done for step in self.steps)
