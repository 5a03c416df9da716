"""Recorded stacks and runs that a command selects: lookups in them, and edits under the lock.

Each edit leaves a line in the history. No provider is called.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import reference
from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import regex
from resource_api.render import run_document
from resource_api.runtime import recorded_stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.cli.session import Session
    from resource_api.model.json_documents import RunJson
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import StackName, Store


class RecordedStack:
    """One stack of a store."""

    def __init__(self, session: Session, name: StackName | None = None) -> None:
        """Open the store; use the stack ``name``, or else the one that the command's options select."""
        self.store: Store = session.runtime.store
        self._lock = session.runtime.lock
        self._settings = session.settings
        self._named = name

    @cached_property
    def name(self) -> StackName:
        """The name of the stack. Raise ``UsageError`` where the command's options select none."""
        return self._named or recorded_stack.selected(self.store, self._settings)

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
            # The first run of another process may be about to record it: that has to end before.
            if not self.store.holder():
                raise
        with self._lock(command):
            name = self.name
            with finishing(self.store, name, command):
                yield


@contextmanager
def finishing(store: Store, name: StackName, command: str) -> Iterator[None]:
    """Add a command that succeeds to the history of a stack."""
    started = time.time()
    yield
    run = {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()}
    store.finish_run(name, run)


def none_recorded(session: Session) -> bool:
    """Whether the store is empty and no project is given: then an empty result is no error."""
    return recorded_stack.none_recorded(session.runtime.store, session.settings)


def find_record(state: StackState, text: str) -> Record:
    """Return the record of a ``Type[title]``, a ``Type[name]`` or a URN. Raise ``UsageError``."""
    return _find_named(state, parse_reference(text, state))[0]


def _find_named(state: StackState, target: Reference) -> list[Record]:
    """Return the record of a name, then those of replaced resources that are not deleted yet."""
    records = state.records.values()
    record = next((candidate for candidate in records if candidate.reference == target), None)
    record = record or state.records.get((target.type, target.title))
    if record is None:
        raise UsageError(recorded_stack.no_record(state, target))
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

    def __init__(self, session: Session) -> None:
        """Read the history. Raise ``UsageError`` where no stack is recorded."""
        self._store = session.runtime.store
        names = recorded_stack.all_selected(self._store, session.settings)
        self._whose = f" of {names[0]}" if len(names) == 1 else ""
        self.all = recorded_stack.finished_runs(self._store, names)

    def document(self, prefix: str | None) -> RunJson:
        """Return the document of the run whose id begins with ``wanted``.

        ``last``, or None, is the last one that did something, ``last-1`` the one before. Raise ``UsageError`` where
        there is none, or several.
        """
        position = _LAST.fullmatch(prefix or "last")
        run = self._last(int(position[1] or 0)) if position else self._find(str(prefix))
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
        runs = [run for run in self.all if str(run.get("run", "")).startswith(prefix)]
        if len(runs) != 1:
            which = f"{len(runs)} runs begin with" if runs else "there is no run"
            msg = f"{which} '{prefix}' in the history{self._whose}; 'resource-api history' lists the runs"
            raise UsageError(msg)
        return runs[0]
