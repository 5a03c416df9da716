"""What one run did: the outcome of each step, and the counts.

The transaction makes these values; how they are shown is for the renderers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.step import Step


class StepReport(NamedTuple):
    """What became of one step: only those that acted, failed, were skipped or noop have one."""

    step: Step
    action: Action
    status: str
    changes: Sequence[Difference] = ()
    error: str = ""
    seconds: float = 0.0

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
        """Whether the system had moved away from what was declared before and is declared now."""
        return self.step.corrective


#: The counts of a summary, by the action that has succeeded (or, under noop, would be done).
SUMMARY_FIELDS: Final[Mapping[Action, str]] = {
    Action.CREATE: "created",
    Action.UPDATE: "updated",
    Action.REPLACE: "replaced",
    Action.DELETE: "deleted",
    Action.IMPORT: "imported",
    Action.FORGET: "forgotten",
    Action.REFRESH: "refreshed",
    Action.RUN: "updated",
}


class Summary(NamedTuple):
    """How many resources met which end; under noop the counts say what would happen."""

    created: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    imported: int = 0
    forgotten: int = 0
    refreshed: int = 0
    unchanged: int = 0
    failed: int = 0
    skipped: int = 0
    noop: bool = False

    @property
    def changed(self) -> int:
        """How many were changed, or would be."""
        return (
            self.created + self.updated + self.replaced + self.deleted
            + self.imported + self.forgotten + self.refreshed
        )  # fmt: skip


class Report(NamedTuple):
    """What happened in one run."""

    steps: Sequence[StepReport]
    summary: Summary
    exit_code: int = 0
    seconds: float = 0.0
    outputs: Mapping[str, Any] = {}
    run: str = ""
