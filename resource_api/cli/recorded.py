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
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import UsageError
from resource_api.render import run_document
from resource_api.runtime import recorded_stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.cli.session import Session
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import StackName, Store


class Stack:
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
        """What is recorded of the stack."""
        return self.store.load(self.name)

    @contextmanager
    def changing(self, command: str) -> Iterator[None]:
        """Hold the lock, and add ``command`` to the history at the end."""
        started = time.time()
        try:
            name = self.name
        except UsageError:
            # The first run of another process may be about to record it: that has to end before.
            if not self.store.holder():
                raise
        with self._lock(command):
            name = self.name
            yield
            run = {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()}
            self.store.finish_run(name, run)


def none_recorded(session: Session) -> bool:
    """Whether the store is empty and no project is named: then there is nothing to show, which is no error."""
    return recorded_stack.none_recorded(session.runtime.store, session.settings)


def find_record(known: StackState, text: str) -> Record:
    """Return the record of a ``Type[title]``, a ``Type[name]`` or a URN. Raise ``UsageError``."""
    return _find_named(known, parse_reference(text, known))[0]


def _find_named(known: StackState, wanted: Reference) -> list[Record]:
    """Return the record of a name, then those of what the resource has replaced and is not deleted yet."""
    records = known.records.values()
    found = next((record for record in records if record.reference == wanted), None)
    found = found or known.records.get((wanted.type, wanted.title))
    if found is None:
        raise UsageError(recorded_stack.no_record(known, wanted))
    return [found, *(record for record in records if record.successor == str(found.reference))]


def find_records(known: StackState, text: str) -> list[Record]:
    """Return the records of a resource, or of every resource of a component, with what it has replaced.

    Raise ``UsageError``.
    """
    wanted = parse_reference(text, known)
    name = str(wanted)
    members = [each for each in known.records.values() if name in reference.enclosing_components(each.parent)]
    return members or _find_named(known, wanted)


def parse_reference(text: str, known: StackState) -> Reference:
    """Return the reference that a reference, or a URN of a stack, means on the command line. Raise ``UsageError``."""
    try:
        reference.check_stack(text, known.project, known.stack)
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

    def document(self, wanted: str | None) -> dict[str, Any]:
        """Return the document of the run whose id begins with ``wanted``.

        ``last``, or None, is the last one that did something, ``last-1`` the one before. Raise ``UsageError`` where
        there is none, or several.
        """
        position = _LAST.fullmatch(wanted or "last")
        run = self._last(int(position[1] or 0)) if position else self._find(str(wanted))
        with suppress(OSError, ValueError, LookupError, TypeError):
            if run["kept"] and (content := self._store.load_run(run["run"])) is not None:
                return run_document.document(content)
        return run_document.history_document({**run, "kept": False})

    def _last(self, before: int) -> Mapping[str, Any]:
        """Return the last run of which something is kept, or so many of them ``before`` it."""
        found = [run for run in self.all if run["kept"]] or self.all
        if len(found) <= before:
            msg = f"{len(found) or 'no'} runs are recorded{self._whose}"
            raise UsageError(msg)
        return found[-1 - before]

    def _find(self, wanted: str) -> Mapping[str, Any]:
        found = [run for run in self.all if str(run.get("run", "")).startswith(wanted)]
        if len(found) != 1:
            which = f"{len(found)} runs begin with" if found else "there is no run"
            msg = f"{which} '{wanted}' in the history{self._whose}; 'resource-api history' lists the runs"
            raise UsageError(msg)
        return found[0]
