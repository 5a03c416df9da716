"""What a plan has to do with other stacks of the same state: shared things, outputs that they read, a misspelt name.

Nothing is decided here. What of another stack cannot be read, because it is encrypted with another key, is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, exists
from resource_api.model.provider_instance import PROVIDER_TYPE
from resource_api.model.sealed_secrets import map_sealed
from resource_api.model.step import SAME
from resource_api.model.values.errors import StateError, UsageError, nearest
from resource_api.model.values.values import is_secret
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import Record, StackState
    from resource_api.model.step import Step
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StateStore
    from resource_api.system.log import Log

#: How many shared things are named.
_NAMED: Final = 20
#: The stack of a command that names none.
_DEFAULT: Final = "default"


def report(plan: Plan, store: StateStore, log: Log) -> None:
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
    if own.stack in described or (path and not Path(path).exists()):
        return
    known = sorted(described | {name.stack for name in others if name.project == own.project})
    if known:
        advice = nearest(own.stack, known) or f"known are {', '.join(known[:_NAMED])}"
        text = f"nothing is recorded of the stack '{own.stack}', and no stacks/{own.stack}.yaml describes it; {advice}"
        log.write("notice", "", text)


def _described(manifest: str) -> set[str]:
    """Return the stacks that a file beside a manifest describes."""
    files = Path(manifest).parent.glob("stacks/*.yaml*") if manifest else ()
    return {each.name.partition(".yaml")[0] for each in files if each.name.endswith((".yaml", ".yaml.age"))}
