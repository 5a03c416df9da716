"""Log lines and events about a plan before it is applied: drift, unfinished changes, undeclared records, other stacks.

Nothing is decided here. The state of a stack that is encrypted with another key is skipped.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.report import Event, PlannedChange
from resource_api.model.sealed_secrets import map_sealed
from resource_api.model.step import SAME, Step
from resource_api.model.values.errors import StateError, UsageError, suggestion
from resource_api.model.values.reference import PROVIDER_TYPE
from resource_api.model.values.values import is_secret
from resource_api.state.store import StackName, StateStore, Store
from resource_api.system.facts import machine_id
from resource_api.transaction import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import Record, StackState
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.prior.provider_instances import ProviderInstances
    from resource_api.system.log import Log


#: The number of names in one list of the log: pairs without a relationship, undeclared resources, shared resources.
_NAMED: Final = 20
#: The actions that change nothing of a resource.
_READING_ACTIONS: Final = frozenset({Action.SAME, Action.READ, Action.FORGET})


def report_findings(
    plan: ExecutionPlan, log: Log, store: Store, notify: Callable[[Event], None] | None = None, *, recorded: bool = True
) -> None:
    """Log changes in doubt, undeclared records and effects on other stacks in ``store`` before a run acts.

    Send drift and planned changes to ``notify``, unless None. ``recorded``: False for a change by the command
    ``resource``, which belongs to no stack. To read the other stacks takes time, so they are read only if this run may
    write something, or if lines of the level info are shown.
    """
    if notify is not None:
        for drift in plan.drift:
            notify(drift)
    state = plan.prior.state
    with log.bind(project=state.project, stack=state.stack, phase="plan"):
        _log_changes_without_outcome(plan, log, partial(store.holder, StackName.of(state)))
        _log_undeclared(plan, log)
        _log_tolerated(plan, log)
        # A run that records nothing, because everything is as recorded, concerns no other stack.
        may_record = plan.output_changes or len(plan.in_sync) < len(plan.steps) or not state.serial
        if recorded and (may_record or log.enabled("info")):
            _report_other_stacks(plan, store, log)
    if notify is not None:
        for step in plan.steps:
            if step.decision is not SAME or step.refreshed_by:
                notify(PlannedChange(step))


def _log_changes_without_outcome(plan: ExecutionPlan, log: Log, holder: Callable[[], str]) -> None:
    """Log the changes that a run has begun and not recorded as finished (open intents), before they are planned again.

    If ``holder`` returns the description of a run that holds the lock, they are under way; otherwise an interrupted run
    has left them in doubt.
    """
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


def _log_tolerated(plan: ExecutionPlan, log: Log) -> None:
    """Log at debug the rules of plans that legacy Terraform providers break, for the providers' authors.

    Such plans are accepted nevertheless.
    """
    for step in plan.steps if log.enabled("debug") else ():
        if step.decision.tolerated:
            log.write("debug", str(step.reference), f"planned: {'; '.join(step.decision.tolerated)}")


def _log_undeclared(plan: ExecutionPlan, log: Log) -> None:
    """Log the recorded resources that are no longer declared, with the effect of ``--prune`` on them.

    Without ``--prune`` they stay, and the user may have overlooked them. Many of them are logged in one line.
    """
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


def log_lost_order(plan: ExecutionPlan, runs: Iterable[Mapping[str, Any]], log: Log) -> None:
    """Log, in the first parallel run of a stack, neighbouring resources that no relationship orders.

    Earlier runs kept the order of the manifest, on which the user may have relied. ``runs``: the finished runs of the
    stack by the store's history.
    """
    if any(run.get("parallel", 1) > 1 for run in runs):
        return
    pairs = parallel.unrelated_neighbours(plan)
    for first, then in islice(pairs, _NAMED):
        text = f"stands after {first.step.reference} without a relationship; with --parallel either may come first"
        reference, name = str(then.step.reference), then.step.definition.name
        log.write("info", reference, text, name, then.step.log_fields)
    if more := sum(1 for _ in pairs):
        log.write("info", "", f"{more} more resources stand after one of another type without a relationship")


def _report_other_stacks(plan: ExecutionPlan, store: Store, log: Log) -> None:
    """Log the effects of a run on other stacks: resources that they record, too, and outputs that they read.

    Also log that the run's stack is new, since its name may be mistyped.
    """
    state = plan.prior.state
    if not (stacks := store.stacks()):
        return
    own_stack = StackName.of(state)
    other_stacks = [name for name in stacks if name != own_stack]
    if _is_new(state):
        _log_new(plan, own_stack, other_stacks, log)
    if not other_stacks:
        return
    if removed_outputs := [difference.attribute for difference in plan.output_changes if difference.should is None]:
        _log_readers(removed_outputs, own_stack, store.history(), log)
    if steps := list(_shareable_steps(plan, log)):
        _log_shared(plan, steps, _readable_states(store, other_stacks), log)


def _shareable_steps(plan: ExecutionPlan, log: Log) -> Iterator[Step]:
    """Yield the steps whose resource another stack may record too, to log it.

    Only steps that change a resource or first record it may conflict with another stack, and are warned of. The others
    are logged at info, so they are yielded only if that level is shown.
    """
    every = log.enabled("info")
    for step in plan.steps:
        is_resource = "imperative" not in step.definition.features and (exists(step.is_) or exists(step.should))
        if is_resource and (every or _changes_or_records(step)):
            yield step


def _changes_or_records(step: Step) -> bool:
    """Return whether this run changes a resource or first records it: only then another stack is affected."""
    if step.entry.meta.noop:  # such a resource is only simulated
        return False
    return step.action not in _READING_ACTIONS or bool(step.refreshed_by) or step.record is None


def _readable_states(store: StateStore, names: Sequence[StackName]) -> Iterator[tuple[StackName, StackState]]:
    """Yield the states of stacks, except those that are damaged or encrypted with another key.

    They are read only for notices, so an unreadable stack must not prevent the run.
    """
    for name in names:
        try:
            yield name, store.load(name)
        except (UsageError, StateError):
            continue


def log_recorded_elsewhere(plan: ExecutionPlan, store: Store, log: Log) -> None:
    """Log a warning for each resource in ``plan`` that a stack records, since its next apply may undo the change.

    ``plan``: a change by the command ``resource``, which is recorded in no stack.
    """
    for stack, state in _readable_states(store, store.stacks()):
        for step in plan.steps:
            if (record := state.records.get(step.entry.key)) is not None:
                reference = str(step.reference)
                message = f"is recorded in stack '{stack.stack}' of '{stack.project}'{_effect_on_change(step, record)}"
                log.write("warning", reference, message, step.entry.type, reference=reference)


def _effect_on_change(step: Step, record: Record) -> str:
    """Return the end of the warning about a change by ``step``: the effect of the next apply of the recording stack.

    ``record``: the record of the resource in that stack. "" for a step that changes nothing.
    """
    if step.action is Action.SAME:
        return ""
    attributes = [difference.attribute for difference in step.changes]
    if step.action is Action.UPDATE and record.should.keys().isdisjoint(attributes):
        return f", which does not declare {', '.join(attributes)}; the next apply of that stack leaves this change"
    return "; the next apply of that stack will undo this change"


def _log_shared(
    plan: ExecutionPlan, steps: Sequence[Step], states: Iterator[tuple[StackName, StackState]], log: Log
) -> None:
    """Log the resources that other stacks record as well, since each stack may undo the changes of the other.

    It is a warning if this run changes or first records them, and otherwise a line at info.
    """
    stacks = _recording_stacks(plan, steps, states)
    shared = [step for step in steps if step.entry.index in stacks]
    changed = {step.entry.index for step in shared if _changes_or_records(step)}
    if len(changed) > _NAMED and log.is_brief:
        names = "; ".join(dict.fromkeys(name for index in changed for name in stacks[index]))
        log.write("warning", "", f"{len(changed)} resources are recorded elsewhere too (-v names them): {names}")
        return
    for step in shared:
        index = step.entry.index
        level = "warning" if index in changed else "info"
        text = f"is recorded by {'; '.join(stacks[index])} too; what one run changes, the other may change back"
        log.write(level, step.entry.reference_text, text, step.definition.name, step.log_fields)


def _recording_stacks(
    plan: ExecutionPlan, steps: Sequence[Step], states: Iterator[tuple[StackName, StackState]]
) -> dict[int, list[str]]:
    """Return entry's index → the names of the other stacks that record the resource of a step, for ``_log_shared``.

    A record counts if it has the same type and name, and may be about the same system.
    """
    by_name: dict[tuple[str, Name], list[Step]] = {}
    for step in steps:
        by_name.setdefault((step.definition.name, step.name), []).append(step)
    stacks: dict[int, list[str]] = {}
    for name, state in states:
        for record in state.records.values():
            for step in by_name.get((record.type, record.name), ()):
                if is_same_place(step.definition, plan.prior.instances, state, record):
                    stacks.setdefault(step.entry.index, []).append(str(name))
    return stacks


def is_same_place(definition: TypeDefinition, instances: ProviderInstances, state: StackState, record: Record) -> bool:
    """Return whether a record of another stack may be about the same system as a resource of this stack.

    Only then a change of one affects the other. The systems are compared by the configurations of their providers. A
    type without a configuration manages its machine: the record's machine is the one that wrote its stack last.
    ``state``: of the other stack; ``definition``: of the provider instance here, one of ``instances``.
    """
    if not definition.config.attributes:
        return state.machine in {"", machine_id()}
    ours = instances.recorded.get(definition.instance)
    own_config = ours.should if ours is not None else instances.configs.get(definition.instance)
    theirs = state.records.get((PROVIDER_TYPE, record.instance))
    return own_config is not None and theirs is not None and _comparable(own_config) == _comparable(theirs.should)


def _comparable(config: Mapping[str, object]) -> Any:
    """Return a configuration without its secrets, whose digests differ from stack to stack by their salt."""
    opened = map_sealed(config, lambda _sealed, _path: None)
    return {name: None if is_secret(value) else value for name, value in opened.items()}


def _log_readers(
    removed_outputs: Sequence[str], own_stack: StackName, runs: Sequence[Mapping[str, Any]], log: Log
) -> None:
    """Log a warning for each stack that has read one of the removed outputs, since its next run may fail.

    ``runs``: the history of all stacks, in which each run has the outputs that it has read.
    """
    own_name = "/".join(own_stack)
    readers: dict[str, dict[StackName, None]] = {name: {} for name in removed_outputs}
    for run in runs:
        for stack, output in run.get("outputs_read", ()):
            if stack == own_name and output in readers:
                readers[output][StackName(run["project"], run["stack"])] = None
    for output, stacks in readers.items():
        for reader in stacks:
            log.write("warning", "", f"the output '{output}' goes, and {reader} has read it")


def _is_new(state: StackState) -> bool:
    """Return whether nothing is recorded of a stack that was named explicitly."""
    return not state.serial and state.stack != "default"


def _log_new(plan: ExecutionPlan, own_stack: StackName, other_stacks: Sequence[StackName], log: Log) -> None:
    """Log that a stack is new, with similar names, because its name may be mistyped.

    Nothing is logged if a file ``stacks/NAME.yaml`` beside the manifest shows that the name is intended.
    """
    path = plan.catalog.manifest.path
    described = _described_stacks(path)
    # A manifest that was sent has its path on the other machine, as its files of inputs have.
    if own_stack.stack in described or (path and not os.path.exists(path)):
        return
    stacks = sorted(described | {name.stack for name in other_stacks if name.project == own_stack.project})
    if stacks:
        advice = suggestion(own_stack.stack, stacks) or f"known are {', '.join(stacks[:_NAMED])}"
        file = f"stacks/{own_stack.stack}.yaml"
        text = f"nothing is recorded of the stack '{own_stack.stack}', and no {file} describes it; {advice}"
        log.write("notice", "", text)


def _described_stacks(manifest: str) -> set[str]:
    """Return the names of the stacks that have a file of inputs (``stacks/NAME.yaml``) beside a manifest.

    Such a stack is not misspelt, although nothing is recorded of it.
    """
    if not manifest:
        return set()
    try:
        names = os.listdir(os.path.join(os.path.dirname(manifest), "stacks"))
    except OSError:
        return set()
    return {name.partition(".yaml")[0] for name in names if name.endswith((".yaml", ".yaml.age"))}
