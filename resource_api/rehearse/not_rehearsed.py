"""What a rehearsal leaves out because it acts outside of the machine's files, and what a run would change of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import describe_difference
from resource_api.model.values.errors import ResourceAPIError
from resource_api.rehearse.result import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.step import Step
    from resource_api.plan.planner import Plan

#: What an action does to a resource as a whole.
_DONE: Final[Mapping[Action, str]] = {
    Action.CREATE: "created",
    Action.REPLACE: "replaced",
    Action.DELETE: "deleted",
    Action.REFRESH: "refreshed",
    Action.RUN: "run",
}


def findings(left_out: Sequence[str], plan: Callable[[], Plan]) -> list[Finding]:
    """Return what is left out, each with what ``plan`` says of it; without any it is not called."""
    try:
        steps = {str(step.reference): step for step in plan().steps} if left_out else {}
    except ResourceAPIError as error:
        return [Finding(each, _unplanned(str(error))) for each in left_out]
    return [Finding(each, _text(steps[each]) if each in steps else "is not planned") for each in left_out]


def _text(step: Step) -> str:
    """Return what a step would do."""
    if step.error:
        return _unplanned(step.error)
    if step.action is Action.SAME:
        return "would not change"
    if step.action in CREATING or not step.changes:
        return f"would be {_DONE.get(step.action, 'updated')}"
    return "would change: " + ", ".join(describe_difference(step.definition, each) for each in step.changes)


def _unplanned(error: str) -> str:
    return f"cannot be planned: {error}"
