"""The recorded stack that a command is about: finding it and its resources, and changing it under the lock.

Every command that changes it leaves a line in the history. No provider is called.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model.values import reference
from resource_api.model.values.errors import UsageError
from resource_api.runtime.queries import recorded_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.cli.session import Session
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import StackName, StateStore


class Stack:
    """One stack of a store."""

    def __init__(self, session: Session, name: StackName | None = None) -> None:
        """Open the store; use the stack ``name``, or else the one that the command's options select."""
        self.store: StateStore = session.runtime.store
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


def find(known: StackState, text: str) -> Record:
    """Return the record of a ``Type[title]``, a ``Type[name]`` or a URN. Raise ``UsageError``."""
    return _find_named(known, parse(text, known))[0]


def _find_named(known: StackState, wanted: Reference) -> list[Record]:
    """Return the record of a name, then those of what the resource has replaced and is not deleted yet."""
    records = known.records.values()
    found = next((record for record in records if record.reference == wanted), None)
    found = found or known.records.get((wanted.type, wanted.title))
    if found is None:
        raise UsageError(recorded_stack.no_record(known, wanted))
    return [found, *(record for record in records if record.successor == str(found.reference))]


def find_all(known: StackState, text: str) -> list[Record]:
    """Return the records of a resource, or of every resource of a component, with what it has replaced.

    Raise ``UsageError``.
    """
    wanted = parse(text, known)
    name = str(wanted)
    members = [each for each in known.records.values() if name in reference.enclosing_components(each.parent)]
    return members or _find_named(known, wanted)


def parse(text: str, known: StackState) -> Reference:
    """Return the reference that a reference, or a URN of a stack, means on the command line. Raise ``UsageError``."""
    try:
        reference.check_stack(text, known.project, known.stack)
        return reference.parse_name(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
