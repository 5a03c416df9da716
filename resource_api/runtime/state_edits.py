"""The commands that edit recorded resources: forget, rename, taint; here or on a host. No resource is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.record import Commit
from resource_api.model.values import document
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import split_component
from resource_api.prior.former_names import Renames
from resource_api.runtime import recorded_stack
from resource_api.runtime.recorded_stack import find_record, finishing, parse_reference
from resource_api.state.store import StackName, check_rename

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.record import StackState
    from resource_api.runtime.commands import Call

    Edit = Callable[[StackState], Commit]


def forget(call: Call) -> dict[str, Any]:
    """Forget the resources ``refs``; of a component all that it has made."""

    def edit(state: StackState) -> Commit:
        keys = dict.fromkeys(key for ref in call.options["refs"] for key in recorded_stack.recorded_keys(state, ref))
        return Commit(drop=list(keys), resolved=[key for key in keys if key in state.intents])

    return _edit(call, "state rm", edit)


def rename(call: Call) -> dict[str, Any]:
    """Record the resource ``source`` under the title ``target``, everywhere; without ``target`` rename a project."""
    source, target = call.options["source"], call.options["target"]
    if source is None or target is None:
        return _rename_project(call, source, call.options.get("project"))

    def edit(state: StackState) -> Commit:
        record, target_reference = find_record(state, source), parse_reference(target, state)
        if problem := document.character_problem(target_reference.title, key=True, noun="a title"):
            raise UsageError(problem)
        parent, member = split_component(target_reference, record.type)
        if member.type != record.type:
            msg = f"{record.reference} cannot become {target_reference}: a resource keeps its type"
            raise UsageError(msg)
        if any(recorded.reference == target_reference for recorded in state.records.values()):
            msg = f"{target_reference} is recorded already"
            raise UsageError(msg)
        old = str(record.reference)
        renames = Renames({old: str(target_reference)})
        renamed = [(recorded, renames.dependencies(recorded)) for recorded in state.records.values()]
        put = [after for before, after in renamed if after != before and before.key != record.key]
        owed = {key: [renames(name) for name in sources] for key, sources in state.owed.items() if old in sources}
        moved = renames.dependencies(record)._replace(title=member.title, parent=parent)
        return Commit([*put, moved], owed=owed, paid=list(owed))

    return _edit(call, "state mv", edit)


def taint(call: Call) -> dict[str, Any]:
    """Have the resource ``ref`` replaced by the next apply."""

    def edit(state: StackState) -> Commit:
        record = find_record(state, call.options["ref"])
        return Commit() if record.status == "tainted" else Commit([record._replace(status="tainted")])

    return _edit(call, "state taint", edit)


def untaint(call: Call) -> dict[str, Any]:
    """Take the resource ``ref`` as it is: one that is tainted, partial or unconfirmed is ready again."""

    def edit(state: StackState) -> Commit:
        record = find_record(state, call.options["ref"])
        if record.status not in {"tainted", "partial", "unconfirmed"}:
            msg = f"{record.reference} is not tainted, partial or unconfirmed: its status is {record.status}"
            raise UsageError(msg)
        return Commit([record._replace(status="ready", changed_at="")])

    return _edit(call, "state untaint", edit)


def _rename_project(call: Call, old: str | None, new: str | None) -> dict[str, Any]:
    """Record a project with its stacks under another name. Raise ``UsageError``."""
    if new is None or "[" in (old or ""):
        msg = "write 'state mv FROM TO' for a resource, 'state mv [PROJECT] --project NEW' for a project"
        raise UsageError(msg)
    runtime = call.runtime
    store = runtime.store
    with runtime.lock("state mv"):
        names = recorded_stack.of_project(store, old)
        for name in names:
            check_rename(name, StackName(new, name.stack), store.stacks())
            runtime.claim(name)
        for name in names:
            with finishing(store, StackName(new, name.stack), "state mv"):
                store.rename(name, StackName(new, name.stack))
    return {"project": new, "former": names[0].project, "stacks": [name.stack for name in names]}


def _edit(call: Call, command: str, edit: Edit) -> dict[str, Any]:
    """Commit the result of ``edit`` for the recorded state; return the new serial and the edited resources."""
    stack = recorded_stack.RecordedStack(call.runtime, call.options)
    with stack.changing(command):
        state = stack.state
        commit = edit(state)
        after = stack.store.commit(stack.name, commit)
    forgotten = [str((state.records.get(key) or state.intents[key]).reference) for key in commit.drop]
    written = [str(record.reference) for record in commit.put]
    return {"serial": after.serial, "forgotten": forgotten, "written": written}
