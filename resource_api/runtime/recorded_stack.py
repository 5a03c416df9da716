"""Recorded stacks and runs that a command selects: lookups, edits under the lock, overviews of runs, copies."""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from heapq import nlargest
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import SUMMARY_FIELDS
from resource_api.model.sealed_secrets import has_sealed, open_sealed
from resource_api.model.values import reference, values
from resource_api.model.values.error_translation import errors_as
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
from resource_api.system import document_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import (
        ChangedResourceJson,
        ChangedResourcesJson,
        DriftedResourceJson,
        FailingResourceJson,
        FinishedRunJson,
        OverviewJson,
        RunJson,
        SlowCallJson,
    )
    from resource_api.model.options import Settings
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.runtime.environment import RunEnvironment

    Line = Mapping[str, Any]

#: The end of the message about a stack that is not recorded, where an option selects it.
_STACK_OPTION: Final = "; --stack names one"
#: The names of the newest runs.
_LAST: Final = regex(r"last(?:-(\d{1,3}))?")
#: The version of the format of an overview.
_OVERVIEW_VERSION: Final = 1
#: The most resources of each list, the most slow calls, and the characters of a text.
_MOST: Final = 30
_SLOW: Final = 5
_LONGEST: Final = 500
_CHANGES: Final = frozenset({*SUMMARY_FIELDS.values(), "outputs_changed"})
#: Exit codes of runs that succeeded.
_SUCCEEDED: Final = frozenset({0, 2})


class RecordedStack:
    """One stack of a store, for a command that reads or edits its state."""

    def __init__(self, runtime: RunEnvironment, settings: Settings, name: StackName | None = None) -> None:
        """Open the store; use the stack ``name``, or else the one that the command's options (``settings``) select."""
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
        """Hold the lock of the state within the block, and add ``command`` to the stack's history at its end.

        A stack that is not recorded is an error at once, unless another process holds the lock: its run may record the
        stack, so the check is repeated under the lock.
        """
        try:
            name = self.name
        except UsageError:
            if not self.store.holder():
                raise
        with self._runtime.lock(command):
            name = self.name  # again: raises where it is still not recorded
            self._runtime.claim(name)
            with finishing(self.store, name, command):
                yield


@contextmanager
def finishing(store: Store, name: StackName, command: str) -> Iterator[None]:
    """Add a command that edits a stack's state to the stack's history, for reports, unless the block raises."""
    started = time.time()
    yield
    store.finish_run(name, {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()})


def none_recorded(store: StateStore, settings: Settings) -> bool:
    """Return whether the store is empty and no project is given: then an empty result of a query is no error."""
    return not settings.get("project") and not store.stacks()


def selected(store: StateStore, settings: Settings, advice: str = _STACK_OPTION) -> StackName:
    """Return the stack that ``--stack`` and ``--project`` select; without ``--project`` only one project may have it.

    Raise ``UsageError``. ``advice``: as for ``all_selected``.
    """
    names = all_selected(store, settings, advice)
    if len(names) > 1:
        raise UsageError(f"several projects are recorded: {_listed(names)}; --project names one")
    return names[0]


def all_selected(store: StateStore, settings: Settings, advice: str = _STACK_OPTION) -> Sequence[StackName]:
    """Return the stack that ``--stack`` and ``--project`` select; without ``--project``, that stack of every project.

    Raise ``UsageError`` if there is none. ``advice``: the end of the message about a stack that is not recorded, such
    as the option that selects another one.
    """
    stack, project = settings.get("stack") or "default", settings.get("project")
    recorded = store.stacks()
    if project is not None:
        name = StackName(project, stack)
        if name not in recorded:
            raise UsageError(_not_recorded(name, recorded))
        return [name]
    if names := [name for name in recorded if name.stack == stack]:
        return names
    msg = f"nothing is recorded in the stack '{stack}'; recorded are: {_listed(recorded)}{advice}"
    raise UsageError(msg if recorded else "nothing is recorded yet")


def of_project(store: StateStore, project: str | None) -> Sequence[StackName]:
    """Return the stacks of a project, to rename all of them; None: of the only recorded project.

    Raise ``UsageError`` if there is none, or if several projects are recorded and none is given.
    """
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
    """Return the error message about a stack that is not recorded, with the nearest recorded name.

    If the project has other stacks, the message is about the stack, and otherwise about the project, as the mistyped
    one of both.
    """
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
    """Return one output, for the command ``output``; with ``reveal`` in clear instead of masked.

    Raise ``ResourceAPIError`` for an unknown output. Raise it also for a secret that cannot be revealed, because a
    state without a key records only its digest.
    """
    if name not in outputs:
        raise ResourceAPIError(f"there is no output '{name}'{hint(name, outputs)}")
    return revealed({name: outputs[name]})[name] if reveal else outputs[name]


def revealed(outputs: Mapping[str, object]) -> dict[str, object]:
    """Return outputs in clear, for ``output --reveal``.

    Raise ``ResourceAPIError`` for secrets of a state without a key, which records only their digests.
    """
    values_in_clear = {name: values.reveal(open_sealed(value)) for name, value in outputs.items()}
    if hidden := [name for name, value in values_in_clear.items() if has_sealed(value)]:
        msg = (
            f"of sensitive outputs only a digest is recorded without a key, so that they cannot be revealed:"
            f" {', '.join(hidden)}"
        )
        raise ResourceAPIError(msg)
    return values_in_clear


def resource_summary(state: StackState, record: Record) -> dict[str, object]:
    """Return the fields of a recorded resource for the output of ``state list``."""
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
    """Return the finished runs of stacks in the order in which they ended, for reports.

    The field ``kept`` of a run is true if the store still has its document; otherwise only its line in the history
    remains. If the list of documents cannot be read, no run has one.
    """
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
    """Return the record of a resource, then those of its replaced predecessors that are not deleted yet.

    ``state rm`` removes all of them from the state, since they are one resource of the user. Raise ``UsageError`` if
    the resource is not recorded.
    """
    records = state.records.values()
    matching = [record for record in records if record.reference == target]
    # Without such a title, the text in brackets may be the name: ``File[/etc/motd]`` for ``File[motd]``.
    record = matching[0] if matching else state.records.get((target.type, target.title))
    if record is None:
        raise UsageError(no_record(state, target))
    return [record, *(former for former in records if former.successor == str(record.reference))]


def recorded_keys(state: StackState, text: str) -> list[RecordKey]:
    """Return the keys under which a resource, or each resource of a component, is recorded, for ``state rm``.

    The keys of its replaced predecessors that are not deleted yet are included. After an interrupted run there may be
    only an intent to change the resource: then the intent's key is returned. Raise ``UsageError`` if nothing is
    recorded of the resource.
    """
    target = parse_reference(text, state)
    name = str(target)
    members = [record for record in state.records.values() if name in reference.enclosing_components(record.parent)]
    begun = [key for key, intent in state.intents.items() if intent.reference == target]
    if members or not begun:
        return [record.key for record in members or _find_named(state, target)]
    recorded = [key for key, record in state.records.items() if record.reference == target]
    return list(dict.fromkeys((*begun, *recorded)))


def parse_reference(text: str, state: StackState) -> Reference:
    """Return the reference in a command's argument, which may be a URN; raise ``UsageError`` for another stack's."""
    with errors_as(UsageError):
        reference.check_stack(text, state.project, state.stack)
        return reference.parse_name(text)


class Runs:
    """The finished runs of stacks, the oldest first; a user names one by ``last``, or by the beginning of its id."""

    def __init__(self, store: Store, names: Sequence[StackName]) -> None:
        """Read the history of the stacks ``names``, in which runs are searched."""
        self._store = store
        self._whose = f" of {names[0]}" if len(names) == 1 else ""
        self.all = finished_runs(self._store, names)

    def document(self, prefix: str | None) -> RunJson:
        """Return the document of the run whose id begins with ``prefix``.

        ``last``, or None, selects the last run that changed or failed something, ``last-1`` the one before. Raise
        ``UsageError`` if no run matches, or several.
        """
        name = prefix or "last"
        position = _LAST.fullmatch(name)
        return self.load(self._last(name, int(position[1] or 0)) if position else self._find(name))

    def load(self, run: Mapping[str, Any]) -> RunJson:
        """Return the document of a run of ``all``, for reports.

        If its file is missing or damaged, return a document without steps, made from the run's line in the history.
        """
        document: RunJson | None = None
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            if run["kept"] and (content := self._store.load_run(run["run"])) is not None:
                document = run_document.document(content)
        if document is not None and _is_whole(document):
            return document
        return run_document.history_document({**run, "kept": False})

    def _last(self, name: str, before: int) -> Mapping[str, Any]:
        """Return the newest run with a document, or the one ``before`` runs earlier; ``name``: the user's word for it.

        Only runs that changed or failed something have a document, and ``last`` means these. If the store has no
        document at all, all runs of the history count. Raise ``UsageError`` if there are too few.
        """
        runs = [run for run in self.all if run["kept"]] or self.all
        if len(runs) <= before:
            raise self._error(f"there is no run '{name}'", "; 'last' counts those that changed or failed something")
        return runs[-1 - before]

    def _find(self, prefix: str) -> Mapping[str, Any]:
        """Return the only run whose id begins with ``prefix``, as users shorten ids. Raise ``UsageError``."""
        runs = [run for run in self.all if str(run.get("run", "")).startswith(prefix)]
        if len(runs) != 1:
            raise self._error(f"{f'{len(runs)} runs begin with' if runs else 'there is no run'} '{prefix}'")
        return runs[0]

    def _error(self, problem: str, reason: str = "") -> UsageError:
        """Return the error about a run that is not one of ``all``."""
        return UsageError(f"{problem} in the history{self._whose}{reason}; 'resource-api history' lists the runs")


def recorded_runs(store: Store, settings: Settings) -> Runs:
    """Return the runs of the stacks that the command's options select; none, which is no error, if none is recorded."""
    return Runs(store, () if none_recorded(store, settings) else all_selected(store, settings))


def _is_whole(document: RunJson) -> bool:
    """Return whether the document of a run is intact, because its file may have been edited, and rendering could fail.

    It must match the schema, its steps and critical path must refer to calls in the document by their index, and its
    times must be finite.
    """
    if not document_schema.accepts(document_schema.load("run"), document):
        return False
    calls = range(len(document["calls"]))
    used = (step["call"] for step in document["steps"] if step["call"] is not None)
    times = (document["started"], document["ended"], document["seconds"] or 0)
    return all(call in calls for call in (*document["critical_path"], *used)) and all(map(isfinite, times))


def overview(runs: Runs, since: float, until: float) -> OverviewJson:
    """Return the overview of the runs that ended in a period, given in seconds since 1970, for ``report --since``.

    A stack is failing if its last run failed, even before the period. Lists and texts are cut, because the overviews
    of many hosts are shown on one page. To load documents takes time, so only those are loaded from which a list of the
    overview is made.
    """
    finished: list[Line] = [run for run in runs.all if "summary" in run]
    recent = [run for run in finished if run["ended"] >= since]
    newest = list({_stack_of(run): run for run in finished}.values())  # the last run of each stack
    changing = [run for run in finished if _changed(run)][-1:]
    needed = {run["run"]: run for run in (*recent, *newest, *changing)}
    documents = {name: runs.load(run) for name, run in needed.items()}
    failing = [resource for run in newest if _failed(run) for resource in _failures(run, documents, finished)]
    return {
        "kind": "overview",
        "format_version": _OVERVIEW_VERSION,
        "since": since,
        "until": until,
        "status": _overview_status(failing, recent),
        "runs": len(recent),
        "failed_runs": sum(map(_failed, recent)),
        "changes": sum(map(_changed, recent)),
        "drifted": sum(run.get("drifted") or 0 for run in recent),
        "longest": round(max(map(_seconds, recent), default=0.0), 6),
        "last": _finished_run(finished[-1]) if finished else None,
        "last_change": _last_change(changing[0], documents[changing[0]["run"]]) if changing else None,
        "failing": failing[:_MOST],
        "drift": _drifted_resources(documents[run["run"]] for run in recent)[:_MOST],
        "slow": _slow_calls(documents[run["run"]] for run in recent),
    }


def _overview_status(failing: Sequence[object], recent: Sequence[Line]) -> str:
    """Return the most urgent status that applies to an overview of ``failing`` resources and ``recent`` runs.

    Without any run in the period it is "silent".
    """
    if failing:
        return "failing"
    if any(run.get("drifted") for run in recent):
        return "drifted"
    if any(map(_changed, recent)):
        return "changed"
    return "unchanged" if recent else "silent"


def _failed(run: Line) -> bool:
    """Return whether a resource of a run failed, or the run as a whole, such as by an interrupt."""
    summary = run["summary"]
    return bool(summary["failed"]) or (summary.get("exit_code") or 0) not in _SUCCEEDED


def _changed(run: Line) -> int:
    """Return the number of changes of a run; under noop there are none."""
    return 0 if run["summary"].get("noop") else sum(run["summary"].get(name) or 0 for name in _CHANGES)


def _seconds(run: Line) -> float:
    """Return the duration of a run, at least 0: the clock may have been set back."""
    return max(0.0, float(run["ended"] - run["started"]))


def _finished_run(run: Line) -> FinishedRunJson:
    """Return the fields of a finished run for ``report --json`` and the overview."""
    return {
        "run": run["run"],
        "project": run["project"],
        "stack": run["stack"],
        "command": run["command"],
        "ended": run["ended"],
        "seconds": round(_seconds(run), 6),
        "exit_code": run["summary"].get("exit_code") or 0,
        "changes": _changed(run),
        "failed": run["summary"]["failed"],
    }


def _failures(run: Line, documents: Mapping[str, RunJson], finished: Iterable[Line]) -> list[FailingResourceJson]:
    """Return a row for each resource that failed in ``run``, the last run of its stack, for the overview.

    If no resource failed, as when a wrong manifest ended the run, one row without a resource has the exit code. The
    field ``since`` is the end of the first run in the latest unbroken series of failed runs of the stack.
    ``documents``: run's id → document; ``finished``: all runs, the oldest first.
    """
    since = run["ended"]
    for earlier in reversed([item for item in finished if _stack_of(item) == _stack_of(run)]):
        if not _failed(earlier):
            break
        since = earlier["ended"]
    failed = [step for step in documents[run["run"]]["steps"] if step["status"] == "failed"]
    rows = [(step["reference"], step["error"] or "failed", step["file"], step["line"]) for step in failed]
    rows = rows or [("", f"{run['command']} ended with exit code {run['summary'].get('exit_code') or 1}", None, None)]
    return [
        {
            "reference": _short(reference),
            "error": _short(error),
            "file": file and _short(file),
            "line": line,
            "project": run["project"],
            "stack": run["stack"],
            "since": since,
        }
        for reference, error, file, line in rows
    ]


def _stack_of(run: Line) -> tuple[str, str]:
    return run["project"], run["stack"]


def _last_change(run: Line, document: RunJson) -> ChangedResourcesJson:
    """Return the resources that a run has changed, at most ``_MOST``, with the run's fields, for the overview."""
    changed = [step for step in document["steps"] if step["status"] == "success"]
    resources: list[ChangedResourceJson] = [
        {"reference": _short(step["reference"]), "action": step["action"]} for step in changed[:_MOST]
    ]
    return {**_finished_run(run), "resources": resources}


def _drifted_resources(documents: Iterable[RunJson]) -> list[DriftedResourceJson]:
    """Return the resources that runs found drifted, for the overview, each with the number of these runs.

    The most frequent ones are first.
    """
    drifted: dict[str, DriftedResourceJson] = {}
    for document in documents:
        for drift in document["drift"]:
            reference = _short(drift["reference"])
            row = drifted.setdefault(reference, {"reference": reference, "runs": 0, "last": 0.0, "attributes": []})
            row["runs"] += 1
            row["last"] = max(row["last"], document["ended"])
            names = dict.fromkeys((*row["attributes"], *(_short(change["attribute"]) for change in drift["changes"])))
            row["attributes"] = list(names)[:_MOST]
    return sorted(drifted.values(), key=lambda row: -row["runs"])


def _slow_calls(documents: Iterable[RunJson]) -> list[SlowCallJson]:
    """Return the calls of providers that took longest, among those in the documents of runs, for the overview."""
    calls = nlargest(_SLOW, (call for item in documents for call in item["calls"]), key=lambda call: call["seconds"])
    return [
        {
            "method": call["method"],
            "first": _short(call["first"]),
            "resources": call["resources"],
            "seconds": call["seconds"],
        }
        for call in calls
    ]


def _short(text: str) -> str:
    """Return a text, cut where it would make the overview large."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


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
    """Copy whole stacks to another store, also their history of runs; return a row for each stack.

    The command can be repeated after an interruption, since stacks that are copied already are unchanged. ``url``: that
    of the target, for messages. ``timeout``: seconds to wait for each lock. Raise ``ManifestError``, before anything is
    copied, if the target has a stack of another lineage or a newer state of one; and ``StateError``.
    """
    source.check()
    with source.lock("state copy", timeout), target.lock("state copy", timeout):
        for store in (source, target):
            for name in names:
                store.claim(name, timeout)
        states = {name: source.load(name) for name in names}
        _check_replaceable(target, states, url)
        _copy_runs(source, target, names)
        copied = [_copy(target, name, state, url) for name, state in states.items()]
    target.check()
    return copied


def _check_replaceable(target: Store, states: Mapping[StackName, StackState], url: str) -> None:
    """Raise ``ManifestError`` for a state that must not replace the target's state of the same stack.

    Such a state has another lineage or is older, so that newer records of the target would be lost.
    """
    problems = []
    for name, state in states.items():
        if reason := state_export.replacement_problem(target.load(name), state):
            problems.append(Problem(None, f"{name} {reason}; nothing was copied", file=url, code="stale"))
    if problems:
        raise ManifestError(problems)


def _copy_runs(source: Store, target: Store, names: Sequence[StackName]) -> None:
    """Copy the finished runs of stacks to the target, with their documents, without duplicates.

    Runs that the target has from an earlier, interrupted copy are not copied again. A document that cannot be read or
    written is omitted, since a report works without it.
    """
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
    """Copy a stack unless the target has it already from an interrupted copy, and verify the copy by reading it.

    Raise ``StateError`` if it differs.
    """
    status = "unchanged"
    if not _are_equal(target.load(name), state):
        with finishing(target, name, "state copy"):
            target.overwrite(name, state)
        status = "copied"
        if not _are_equal(target.load(name), state):
            raise StateError(f"{url}: {name} is not as it was copied")
    return CopiedStack(*name, state.serial, len(state.records), status)


def _are_equal(state: StackState, other: StackState) -> bool:
    """Return whether two states have the same content; of secrets, encrypted anew in a copy, by their digests."""
    return state.intents == other.intents and state_export.to_document(state) == state_export.to_document(other)
