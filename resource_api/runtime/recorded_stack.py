"""Recorded stacks and runs that a command selects: lookups in them, edits under the lock, copies to another store.

Each edit leaves a line in the history. A copy that was cut is completed by the next one, which does not write the
stacks that are there already. No provider is called.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.sealed_secrets import has_sealed, open_sealed
from resource_api.model.values import reference, values
from resource_api.model.values.errors import (
    ManifestError,
    Problem,
    ResourceAPIError,
    StateError,
    UsageError,
    hint,
    suggestion,
)
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.render import run_document
from resource_api.state import export as state_export
from resource_api.state.store import RunArchive, StackName, StateStore, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.json_documents import RunJson
    from resource_api.model.options import Settings
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.runtime.environment import RunEnvironment


class RecordedStack:
    """One stack of a store."""

    def __init__(self, runtime: RunEnvironment, settings: Settings, name: StackName | None = None) -> None:
        """Open the store; use the stack ``name``, or else the one that the command's options select."""
        self.store: Store = runtime.store
        self._runtime = runtime
        self._settings = settings
        self._named = name

    @cached_property
    def name(self) -> StackName:
        """The name of the stack. Raise ``UsageError`` where the command's options select none."""
        return self._named or selected(self.store, self._settings)

    @property
    def state(self) -> StackState:
        """The recorded state of the stack."""
        return self.store.load(self.name)

    @contextmanager
    def changing(self, command: str) -> Iterator[None]:
        """Hold the lock, and add ``command`` to the history at the end."""
        try:
            name = self.name
        except UsageError:
            # The first run of another process may be about to record it: the lock waits for its end.
            if not self.store.holder():
                raise
        with self._runtime.lock(command):
            name = self.name
            self._runtime.claim(name)
            with finishing(self.store, name, command):
                yield


@contextmanager
def finishing(store: Store, name: StackName, command: str) -> Iterator[None]:
    """Add a command that succeeds to the history of a stack."""
    started = time.time()
    yield
    run = {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()}
    store.finish_run(name, run)


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
        msg = f"several projects are recorded: {', '.join(projects)}; write 'state mv PROJECT --project NEW'"
        raise UsageError(msg)
    if names := [name for name in recorded if project in {None, name.project}]:
        return names
    raise UsageError(_not_recorded(StackName(project or "", "default"), recorded))


def _listed(names: Sequence[StackName]) -> str:
    """Return the names of stacks for a message."""
    return ", ".join(f"{name.project} (stack {name.stack})" for name in names)


def _not_recorded(name: StackName, recorded: Sequence[StackName]) -> str:
    """Return the message that nothing is recorded of a named project, or in its stack."""
    if not recorded:
        return "nothing is recorded yet"
    stacks = sorted(row.stack for row in recorded if row.project == name.project)
    if stacks:
        advice = suggestion(name.stack, stacks) or f"recorded are: {', '.join(stacks)}"
        return f"nothing is recorded of project '{name.project}' in the stack '{name.stack}'; {advice}"
    projects = sorted({row.project for row in recorded})
    advice = suggestion(name.project, projects) or f"recorded are: {', '.join(projects)}"
    return f"nothing is recorded of project '{name.project}'; {advice}"


def no_record(state: StackState, target: Reference) -> str:
    """Return the message that a resource is not recorded in a stack."""
    near = hint(target, (str(record.reference) for record in state.records.values()))
    return f"{target} is not recorded in project {state.project}, stack {state.stack}{near}"


def find_output(outputs: Mapping[str, object], name: str, *, reveal: bool = False) -> object:
    """Return one output. Raise ``ResourceAPIError`` for an unknown one, and as ``revealed`` does."""
    if name not in outputs:
        msg = f"there is no output '{name}'{hint(name, outputs)}"
        raise ResourceAPIError(msg)
    return revealed({name: outputs[name]})[name] if reveal else outputs[name]


def revealed(outputs: Mapping[str, object]) -> dict[str, object]:
    """Return outputs without masking. Raise ``ResourceAPIError`` for those of which only a digest is recorded."""
    values_ = {name: values.reveal(open_sealed(value)) for name, value in outputs.items()}
    if hidden := [name for name, value in values_.items() if has_sealed(value)]:
        msg = (
            f"of sensitive outputs only a digest is recorded without a key, so that they cannot be revealed:"
            f" {', '.join(hidden)}"
        )
        raise ResourceAPIError(msg)
    return values_


def resource_summary(state: StackState, record: Record) -> dict[str, object]:
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
    history = store.history(names[0] if len(names) == 1 else None)
    finished = (run for run in history if (run["project"], run["stack"]) in names)
    return [{**run, "kept": run.get("run") in saved} for run in finished]


def find_record(state: StackState, text: str) -> Record:
    """Return the record of a ``Type[title]``, a ``Type[name]`` or a URN. Raise ``UsageError``."""
    return _find_named(state, parse_reference(text, state))[0]


def _find_named(state: StackState, target: Reference) -> list[Record]:
    """Return the record of a name, then those of replaced resources that are not deleted yet."""
    records = state.records.values()
    record = next((candidate for candidate in records if candidate.reference == target), None)
    record = record or state.records.get((target.type, target.title))
    if record is None:
        raise UsageError(no_record(state, target))
    return [record, *(candidate for candidate in records if candidate.successor == str(record.reference))]


def recorded_keys(state: StackState, text: str) -> list[RecordKey]:
    """Return the keys of a resource, or of a component's resources, with replaced ones. Raise ``UsageError``.

    A resource without a record may have been created by an interrupted run: then it has the key of that intent.
    """
    target = parse_reference(text, state)
    name = str(target)
    members = [record for record in state.records.values() if name in reference.enclosing_components(record.parent)]
    if members or not (begun := [key for key, intent in state.intents.items() if intent.reference == target]):
        return [record.key for record in members or _find_named(state, target)]
    return list(dict.fromkeys((*begun, *(key for key, record in state.records.items() if record.reference == target))))


def parse_reference(text: str, state: StackState) -> Reference:
    """Return the reference that a reference, or a URN of a stack, means on the command line. Raise ``UsageError``."""
    try:
        reference.check_stack(text, state.project, state.stack)
        return reference.parse_name(text)
    except ValueError as error:
        raise UsageError(str(error)) from error


_LAST: Final = regex(r"last(?:-(\d{1,3}))?")


class Runs:
    """The finished runs of the stacks that the command's options select, the oldest first."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """Read the history. Raise ``UsageError`` where no stack is recorded."""
        self._store = store
        names = all_selected(store, settings)
        self._whose = f" of {names[0]}" if len(names) == 1 else ""
        self.all = finished_runs(self._store, names)

    def document(self, prefix: str | None) -> RunJson:
        """Return the document of the run whose id begins with ``prefix``.

        ``last``, or None, is the last one that did something, ``last-1`` the one before. Raise ``UsageError`` where
        there is none, or several.
        """
        position = _LAST.fullmatch(prefix or "last")
        return self.load(self._last(int(position[1] or 0)) if position else self._find(str(prefix)))

    def load(self, run: Mapping[str, Any]) -> RunJson:
        """Return the document of a run of ``all``; without steps where it is not kept."""
        with suppress(OSError, ValueError, LookupError, TypeError):
            if run["kept"] and (content := self._store.load_run(run["run"])) is not None:
                return run_document.document(content)
        return run_document.history_document({**run, "kept": False})

    def _last(self, before: int) -> Mapping[str, Any]:
        """Return the newest kept run, or the one ``before`` runs earlier."""
        runs = [run for run in self.all if run["kept"]] or self.all
        if len(runs) <= before:
            msg = f"{len(runs) or 'no'} runs are recorded{self._whose}"
            raise UsageError(msg)
        return runs[-1 - before]

    def _find(self, prefix: str) -> Mapping[str, Any]:
        """Return the only run whose id begins with ``prefix``. Raise ``UsageError``."""
        runs = [run for run in self.all if str(run.get("run", "")).startswith(prefix)]
        if len(runs) != 1:
            which = f"{len(runs)} runs begin with" if runs else "there is no run"
            msg = f"{which} '{prefix}' in the history{self._whose}; 'resource-api history' lists the runs"
            raise UsageError(msg)
        return runs[0]


class CopiedStack(NamedTuple):
    """A stack in the target after the copy; ``status`` is ``copied`` or ``unchanged``."""

    project: str
    stack: str
    serial: int
    resources: int
    status: str


def copy_stacks(
    source: Store, target: Store, names: Sequence[StackName], url: str, timeout: float
) -> list[CopiedStack]:
    """Copy stacks with lineage, serial, resources, outputs, owed refreshes and open intents; return them.

    The history of the target gets their finished runs, and a line for each stack that was copied.

    ``url`` is the target's, for messages. ``timeout``: seconds to wait for each lock. Raise ``ManifestError`` where the
    target has a stack of another lineage or a newer one, before anything is copied, and ``StateError``.
    """
    source.check()
    with source.lock("state copy", timeout), target.lock("state copy", timeout):
        for store in (source, target):
            for name in names:
                store.claim(name, timeout)
        states = {name: source.load(name) for name in names}
        problems = [
            Problem(None, f"{name} {reason}; nothing was copied", file=url, code="stale")
            for name, state in states.items()
            if (reason := state_export.replacement_problem(target.load(name), state))
        ]
        if problems:
            raise ManifestError(problems)
        _copy_runs(source, target, names)
        copied = [_copy(target, name, state, url) for name, state in states.items()]
    target.check()
    return copied


def _copy_runs(source: Store, target: Store, names: Sequence[StackName]) -> None:
    """Copy the finished runs of stacks that the target lacks, in the order of their ends, with their documents."""
    present = {run["run"] for run in finished_runs(target, names)}
    for run in finished_runs(source, names):
        if run["run"] in present:
            continue
        name = StackName(run.pop("project"), run.pop("stack"))
        kept = run.pop("kept")
        target.finish_run(name, run)
        with suppress(OSError):  # documents may be lost at any time
            if kept and (content := source.load_run(run["run"])) is not None:
                target.save_run(run["run"], content)


def _copy(target: Store, name: StackName, state: StackState, url: str) -> CopiedStack:
    """Copy a stack unless it is there, and read it again. Raise ``StateError`` if it differs then."""
    status = "unchanged"
    if not _are_equal(target.load(name), state):
        with finishing(target, name, "state copy"):
            target.overwrite(name, state)
        status = "copied"
        if not _are_equal(target.load(name), state):
            msg = f"{url}: {name} is not as it was copied"
            raise StateError(msg)
    return CopiedStack(*name, state.serial, len(state.records), status)


def _are_equal(state: StackState, other: StackState) -> bool:
    """Whether two states have the same content; of secrets only the digests are compared."""
    return state.intents == other.intents and state_export.to_document(state) == state_export.to_document(other)
