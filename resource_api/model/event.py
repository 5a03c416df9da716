"""What a run tells while it goes on, as values; whoever listens decides how to show them.

The order of these is the order of what happens. Log lines travel on their own road (``system.log``).
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
    """A step that would do something is about to be carried out, or is shown under noop."""

    step: Step


class Drifted(NamedTuple):
    """A resource is not as it was when it was last recorded."""

    reference: str
    changes: Sequence[Difference]


class StepStart(NamedTuple):
    """A provider is about to be asked to carry out a step."""

    step: Step


class StepEnd(NamedTuple):
    """A step acted, failed, was skipped, or was noop."""

    report: StepReport


class Diagnosed(NamedTuple):
    """Something is wrong, or worth a warning."""

    problem: Problem


class Outputs(NamedTuple):
    """The stack's outputs after the run."""

    values: Mapping[str, Any]


class Finished(NamedTuple):
    """The run is over."""

    report: Report


Event = PlannedChange | Drifted | StepStart | StepEnd | Diagnosed | Outputs | Finished
Listener = "Callable[[Event], None]"
