"""The events of a run and of its log, as values; the listener and the sinks decide how they are shown.

They are sent in the order in which they happen. A line of the log is a ``LogEvent``; ``system.log`` makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import RunReport, StepReport
    from resource_api.model.step import Step
    from resource_api.model.values.errors import Problem


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


class Diagnosed(NamedTuple):
    """There is an error or a warning."""

    problem: Problem


class Outputs(NamedTuple):
    """The outputs of the stack after the run."""

    values: Mapping[str, Any]


class Finished(NamedTuple):
    """The run is over."""

    report: RunReport


Event = PlannedChange | Drifted | StepStart | StepEnd | Diagnosed | Outputs | Finished
