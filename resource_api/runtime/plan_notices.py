"""Log lines and events about a plan, before any of it is carried out: drift, doubts, undeclared records, lost order.

Nothing is decided here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.event import Drifted, PlannedChange
from resource_api.model.step import SAME
from resource_api.state.store import NoStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.model.event import Event
    from resource_api.model.record import Record
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StateStore
    from resource_api.system.log import Log

#: How many pairs without a relationship are named, which users fix first, and how many undeclared resources.
_NAMED: Final = 20


def report_findings(
    plan: Plan, log: Log, store: StateStore, notify: Callable[[Event], None] | None = None, *, recorded: bool = True
) -> None:
    """Log what is in doubt, what is undeclared, and what other stacks in ``store`` have to do with it.

    Send drift and planned changes to ``notify``, unless None. ``recorded``: whether the run is one of a stack.
    """
    if notify is not None:
        for drift in plan.drift:
            notify(Drifted(drift.reference, drift.changes))
    state = plan.prior.state
    with log.bind(project=state.project, stack=state.stack, phase="plan"):
        _log_changes_without_outcome(plan, log, store.holder)
        _log_undeclared(plan, log)
        speaks = recorded and not isinstance(store, NoStore) and (_does_something(plan) or log.enabled("info"))
        if speaks and store.stacks():
            from resource_api.runtime import other_stacks

            other_stacks.report(plan, store, log)
    if notify is not None:
        for step in plan.steps:
            if step.decision is not SAME or step.refreshed_by:
                notify(PlannedChange(step))


def _does_something(plan: Plan) -> bool:
    """Whether a run may record anything: some resource, or an output, is not as it is recorded."""
    return bool(plan.output_changes) or len(plan.in_sync) < len(plan.steps) or not plan.prior.state.serial


def _log_changes_without_outcome(plan: Plan, log: Log, holder: Callable[[], str]) -> None:
    """Log what is in doubt; what the ``holder`` of the lock does now is in none."""
    intents = plan.prior.state.intents.values()
    running = holder() if intents else ""
    for intent in intents:
        if running:
            text = f"its {intent.action} is under way: {running}"
        elif intent.action == "run":
            text = "in doubt: the last run did not see its outcome; it runs again if due"
        else:
            text = f"in doubt: the last run did not see the outcome of its {intent.action}; it is read again"
        log.write("notice", f"{intent.reference}", text, intent.type, reference=f"{intent.reference}")


def _log_undeclared(plan: Plan, log: Log) -> None:
    effects: dict[str, list[Record]] = {}
    for record in plan.prior.undeclared:
        effects.setdefault(record.prune_effect, []).append(record)
    for effect, records in effects.items():
        if len(records) > _NAMED and log.is_brief:
            text = f"resources are recorded but no longer declared; --prune {effect} them (-v names them)"
            log.write("notice", "", f"{len(records)} {text}")
            continue
        for record in records:
            text = f"is recorded but no longer declared; --prune {effect} it"
            log.write("notice", f"{record.reference}", text, record.type, reference=f"{record.reference}")


def log_lost_order(plan: Plan, runs: Iterable[Mapping[str, Any]], log: Log) -> None:
    """Log the neighbours that only the order of the manifest has separated, in the first parallel run of a stack.

    ``runs`` are the finished runs of the stack, as the store's history returns them.
    """
    from resource_api.transaction.scheduler import unrelated_neighbours

    if any(run.get("parallel", 1) > 1 for run in runs):
        return
    pairs = unrelated_neighbours(plan)
    for first, then in islice(pairs, _NAMED):
        text = f"stands after {first.step.reference} without a relationship; with --parallel either may come first"
        reference, name = str(then.step.reference), then.step.definition.name
        log.write("info", reference, text, name, then.step.log_fields)
    if more := sum(1 for _ in pairs):
        log.write("info", "", f"{more} more resources stand after one of another type without a relationship")
