"""Log lines and events about a plan before it is applied: drift, unfinished changes, undeclared records, other stacks.

Nothing is decided here. The state of a stack that is encrypted with another key is skipped.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.event import Drifted, PlannedChange
from resource_api.model.provider_instance import PROVIDER_TYPE
from resource_api.model.sealed_secrets import map_sealed
from resource_api.model.step import SAME
from resource_api.model.values.errors import StateError, UsageError, nearest
from resource_api.model.values.values import is_secret
from resource_api.state.store import NoStore, StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.event import Event
    from resource_api.model.record import Record, StackState
    from resource_api.model.step import Step
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StateStore, Store
    from resource_api.system.log import Log


#: The number of names in one list of the log: pairs without a relationship, undeclared resources, shared resources.
_NAMED: Final = 20


def report_findings(
    plan: Plan, log: Log, store: Store, notify: Callable[[Event], None] | None = None, *, recorded: bool = True
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
            report_other_stacks(plan, store, log)
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
    from resource_api.transaction.parallel import unrelated_neighbours

    if any(run.get("parallel", 1) > 1 for run in runs):
        return
    pairs = unrelated_neighbours(plan)
    for first, then in islice(pairs, _NAMED):
        text = f"stands after {first.step.reference} without a relationship; with --parallel either may come first"
        reference, name = str(then.step.reference), then.step.definition.name
        log.write("info", reference, text, name, then.step.log_fields)
    if more := sum(1 for _ in pairs):
        log.write("info", "", f"{more} more resources stand after one of another type without a relationship")


#: The stack of a command that names none.
_DEFAULT: Final = "default"


def report_other_stacks(plan: Plan, store: Store, log: Log) -> None:
    """Log what other stacks record too, which of them have read an output that goes, and a stack that is new."""
    state = plan.prior.state
    own = StackName(state.project, state.stack)
    gone = [each.attribute for each in plan.output_changes if each.should is None]
    steps = list(_concerned(plan, log))
    if not (gone or steps or _is_new(state)):
        return
    others = [name for name in store.stacks() if name != own]
    if _is_new(state):
        _log_new(plan, own, others, log)
    if gone and others:
        _log_readers(gone, own, store.history(), log)
    if steps and others:
        _log_shared(plan, steps, _readable(store, others), log)


# Things that another stack records too


def _concerned(plan: Plan, log: Log) -> Iterator[Step]:
    """Yield the steps that change a thing or record it for the first time; where that is shown, all others too."""
    every = log.enabled("info")
    for step in plan.steps:
        changes = (step.decision is not SAME and step.action is not Action.FORGET) or step.record is None
        is_thing = "imperative" not in step.definition.features and (exists(step.is_) or exists(step.should))
        if is_thing and (every or changes):
            yield step


def _readable(store: StateStore, names: Sequence[StackName]) -> Iterator[tuple[StackName, StackState]]:
    for name in names:
        try:
            yield name, store.load(name)
        except (UsageError, StateError):
            continue


def _log_shared(plan: Plan, steps: Sequence[Step], others: Iterator[tuple[StackName, StackState]], log: Log) -> None:
    """Log which things other stacks record: as a warning where this run changes or first records them."""
    by_name = {(step.definition.name, step.name): step for step in steps}
    stacks: dict[int, list[str]] = {}
    for name, state in others:
        for record in state.records.values():
            step = by_name.get((record.type, record.name))
            if step is not None and _is_same_place(plan, step, state, record):
                stacks.setdefault(step.entry.index, []).append(str(name))
    shared = [step for step in steps if step.entry.index in stacks]
    loud = {step.entry.index for step in shared if step.decision is not SAME or step.record is None}
    if len(loud) > _NAMED and log.is_brief:
        names = "; ".join(dict.fromkeys(name for index in loud for name in stacks[index]))
        log.write("warning", "", f"{len(loud)} resources are recorded elsewhere too (-v names them): {names}")
        return
    for step in shared:
        index = step.entry.index
        level = "warning" if index in loud else "info"
        text = f"is recorded by {'; '.join(stacks[index])} too; what one run changes, the other may change back"
        log.write(level, step.entry.reference_text, text, step.definition.name, step.log_fields)


def _is_same_place(plan: Plan, step: Step, state: StackState, record: Record) -> bool:
    """Return whether a record of another stack is about the thing of a step, as far as their configurations tell."""
    if not step.definition.config.attributes:
        return True
    instances = plan.prior.instances
    ours = instances.recorded.get(step.entry.instance)
    own = ours.should if ours is not None else instances.configs.get(step.entry.instance)
    theirs = state.records.get((PROVIDER_TYPE, record.instance))
    return own is not None and theirs is not None and _comparable(own) == _comparable(theirs.should)


def _comparable(config: Mapping[str, Any]) -> Any:
    """Return a configuration without its secrets, whose digests differ from stack to stack."""
    opened = map_sealed(config, lambda _sealed, _path: None)
    return {name: None if is_secret(value) else value for name, value in opened.items()}


# Outputs


def _log_readers(gone: Sequence[str], own: StackName, runs: Sequence[Mapping[str, Any]], log: Log) -> None:
    """Log which stacks have read an output that is not declared any more."""
    names = {f"{own.project}/{own.stack}": set(gone)}
    readers: dict[str, dict[StackName, None]] = {name: {} for name in gone}
    for run in runs:
        for stack, output in run.get("outputs_read", ()):
            if output in names.get(stack, ()):
                readers[output][StackName(run["project"], run["stack"])] = None
    for output, stacks in readers.items():
        for reader in stacks:
            log.write("warning", "", f"the output '{output}' goes, and {reader} has read it")


# A stack that nothing is recorded of


def _is_new(state: StackState) -> bool:
    return not state.serial and state.stack != _DEFAULT


def _log_new(plan: Plan, own: StackName, others: Sequence[StackName], log: Log) -> None:
    """Log that a stack is new, which may be because its name is misspelt."""
    path = plan.catalog.manifest.path
    described = _described(path)
    if own.stack in described or (path and not os.path.exists(path)):
        return
    known = sorted(described | {name.stack for name in others if name.project == own.project})
    if known:
        advice = nearest(own.stack, known) or f"known are {', '.join(known[:_NAMED])}"
        text = f"nothing is recorded of the stack '{own.stack}', and no stacks/{own.stack}.yaml describes it; {advice}"
        log.write("notice", "", text)


def _described(manifest: str) -> set[str]:
    """Return the stacks that a file beside a manifest describes."""
    if not manifest:
        return set()
    try:
        names = os.listdir(os.path.join(os.path.dirname(manifest), "stacks"))
    except OSError:
        return set()
    return {name.partition(".yaml")[0] for name in names if name.endswith((".yaml", ".yaml.age"))}
