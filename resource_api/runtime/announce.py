"""What is said of a plan before any of it is carried out: drift, doubts, what is undeclared, what loses its order.

Nothing is decided here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.event import Drifted, PlannedChange
from resource_api.model.step import SAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.model.event import Event
    from resource_api.plan.planner import Plan
    from resource_api.system.log import Log

#: So many pairs of neighbours are named: people mend the first ones and look again.
_NAMED: Final = 20


def announce(plan: Plan, log: Log, follow: Callable[[Event], None] | None = None) -> None:
    """Say what was found before anything is done: drift, what an earlier run left open, what is undeclared."""
    if follow is not None:
        for drift in plan.drift:
            follow(Drifted(drift.reference, drift.changes))
    for intent in plan.prior.state.intents.values():
        told = "whether it is due" if intent.action == "run" else "what is there now"
        text = f"in doubt: an earlier run was about to {intent.action} it and has not seen the outcome; {told} decides"
        log.write("notice", str(intent.reference), text)
    for record in plan.prior.undeclared:
        # What a run has done cannot be taken back.
        way = "deletes" if record.owned and not (record.lifecycle.retain or record.last_run) else "forgets"
        log.write("notice", str(record.reference), f"is recorded but no longer declared; --prune {way} it")
    if follow is not None:
        for step in plan.steps:
            if step.decision is not SAME or step.refreshed_by:
                follow(PlannedChange(step))


def reorder(plan: Plan, runs: Iterable[Mapping[str, Any]], log: Log) -> None:
    """Name neighbours that only the order of the manifest has kept apart, when a stack first runs side by side.

    ``runs`` are the finished runs of the stack.
    """
    from resource_api.transaction.scheduler import unrelated_neighbours  # noqa: PLC0415 - only a run side by side needs it

    if any(run.get("parallel", 1) > 1 for run in runs):
        return
    pairs = unrelated_neighbours(plan)
    for first, then in islice(pairs, _NAMED):
        text = f"stands after {first.step.reference} without a relationship; with --parallel either may come first"
        log.write("info", str(then.step.reference), text)
    if more := sum(1 for _ in pairs):
        log.write("info", "", f"{more} more resources stand after one of another type without a relationship")
