"""Queries about recorded stacks: the selected one, its outputs, its resources, its runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api.model.sealed_secrets import has_sealed, open_sealed
from resource_api.model.values import values
from resource_api.model.values.errors import ResourceAPIError, UsageError, hint, nearest
from resource_api.state import export as state_export
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.options import Settings
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import RunArchive, StateStore


def none_recorded(store: StateStore, settings: Settings) -> bool:
    """Whether the store is empty and no project is given: then an empty result is no error."""
    return not settings.get("project") and not store.stacks()


def selected(store: StateStore, settings: Settings) -> StackName:
    """Return the stack of ``--project``, or of the only recorded project. Raise ``UsageError``."""
    names = all_selected(store, settings)
    if len(names) > 1:
        msg = f"several projects are recorded: {_listed(names)}; --project names one"
        raise UsageError(msg)
    return names[0]


def all_selected(store: StateStore, settings: Settings) -> Sequence[StackName]:
    """Return the stack of ``--project``, or the stacks of that name of all projects. Raise ``UsageError`` for none."""
    stack, project = settings.get("stack") or "default", settings.get("project")
    recorded = store.stacks()
    if project is not None:
        name = StackName(project, stack)
        if name not in recorded:
            raise UsageError(_not_recorded(name, recorded))
        return [name]
    if names := [name for name in recorded if name.stack == stack]:
        return names
    msg = f"nothing is recorded in the stack '{stack}'; recorded are: {_listed(recorded)}; --stack names one"
    raise UsageError(msg if recorded else "nothing is recorded yet")


def of_project(store: StateStore, project: str | None) -> Sequence[StackName]:
    """Return the stacks of a project, None: of the only recorded one. Raise ``UsageError`` for none."""
    recorded = store.stacks()
    projects = sorted({name.project for name in recorded})
    if project is None and len(projects) > 1:
        msg = f"several projects are recorded: {', '.join(projects)}; name the one to rename"
        raise UsageError(msg)
    if names := [name for name in recorded if project in {None, name.project}]:
        return names
    raise UsageError(_not_recorded(StackName(project or "", "default"), recorded))


def _listed(names: Sequence[StackName]) -> str:
    return ", ".join(f"{name.project} (stack {name.stack})" for name in names)


def _not_recorded(name: StackName, recorded: Sequence[StackName]) -> str:
    """Return the message that nothing is recorded of a named project, or in its stack."""
    if not recorded:
        return "nothing is recorded yet"
    stacks = sorted(row.stack for row in recorded if row.project == name.project)
    if stacks:
        advice = nearest(name.stack, stacks) or f"recorded are: {', '.join(stacks)}"
        return f"nothing is recorded of project '{name.project}' in the stack '{name.stack}'; {advice}"
    projects = sorted({row.project for row in recorded})
    advice = nearest(name.project, projects) or f"recorded are: {', '.join(projects)}"
    return f"nothing is recorded of project '{name.project}'; {advice}"


def no_record(state: StackState, reference: Reference) -> str:
    """Return the message that a resource is not recorded in a stack."""
    near = hint(reference, (str(record.reference) for record in state.records.values()))
    return f"{reference} is not recorded in project {state.project}, stack {state.stack}{near}"


def find_output(outputs: Mapping[str, object], name: str, *, reveal: bool = False) -> Any:
    """Return one output. Raise ``ResourceAPIError`` for an unknown one, and as ``revealed`` does."""
    if name not in outputs:
        msg = f"there is no output '{name}'{hint(name, outputs)}"
        raise ResourceAPIError(msg)
    return revealed({name: outputs[name]})[name] if reveal else outputs[name]


def revealed(outputs: Mapping[str, object]) -> dict[str, Any]:
    """Return outputs without masking. Raise ``ResourceAPIError`` for those of which only a digest is recorded."""
    values_ = {name: values.reveal(open_sealed(value)) for name, value in outputs.items()}
    if hidden := [name for name, value in values_.items() if has_sealed(value)]:
        msg = (
            f"of sensitive outputs only a digest is recorded without a key, so that they cannot be revealed:"
            f" {', '.join(hidden)}"
        )
        raise ResourceAPIError(msg)
    return values_


def resource_summary(state: StackState, record: Record) -> dict[str, Any]:
    """Return a recorded resource as ``state list`` shows it."""
    return {
        "reference": str(record.reference),
        "urn": state_export.record_urn(state, record),
        "parent": record.parent or None,
        "type": record.type,
        "name": record.name,
        "owned": record.owned,
        "status": record.status,
    }


def finished_runs(store: RunArchive, names: Sequence[StackName]) -> list[dict[str, Any]]:
    """Return the finished runs of stacks in the order in which they ended; ``kept``: there is a document of it."""
    saved: Sequence[str] = ()
    with suppress(OSError):
        saved = store.saved_runs()
    finished = (run for run in store.history() if (run["project"], run["stack"]) in names)
    return [{**run, "kept": run.get("run") in saved} for run in finished]
