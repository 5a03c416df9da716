"""The events of a run, as values; the listener decides how they are shown.

They are sent in the order in which they happen. Log lines are not events (``system.log``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import Report, StepReport
    from resource_api.model.step import Step
    from resource_api.model.values.errors import Problem


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

    report: Report


Event = PlannedChange | Drifted | StepStart | StepEnd | Diagnosed | Outputs | Finished
