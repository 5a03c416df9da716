"""The stack that a command is about, the resource that its words mean, and writing to it under the lock.

Every command that writes leaves a line in the history. No provider is called.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.model.values import reference
from resource_api.model.values.errors import UsageError, nearest
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.cli.session import Session
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import StateStore


class Recorded:
    """The stack that a command is about."""

    def __init__(self, session: Session, *, everything: bool = False) -> None:
        """Open the store; unless ``everything`` is asked for, find out which stack is meant."""
        self.session = session
        self.store: StateStore = session.runtime.store
        self.timeout: float = session.settings.get("lock_timeout") or 0.0
        self.name = StackName("", "") if everything else _meant(self.store, session.settings)

    @property
    def state(self) -> StackState:
        """What is known of it."""
        return self.store.load(self.name)

    @contextmanager
    def changing(self, command: str) -> Iterator[StackState]:
        """Hold the lock and give what is known; note in the history that the command was run."""
        with self.running(command):
            yield self.state

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Hold the lock, and note in the history that the command was run."""
        started = time.time()
        with self.store.lock(command, self.timeout):
            yield
            run = {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()}
            self.store.finish_run(self.name, run)


def _meant(store: StateStore, settings: Mapping[str, Any]) -> StackName:
    """Give the stack that is named, or the only recorded project's."""
    stack, project = settings.get("stack") or "default", settings.get("project")
    if project is not None:
        return StackName(project, stack)
    known = store.stacks()
    found = [name for name in known if name.stack == stack]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{name.project} (stack {name.stack})" for name in found or known)
    if found:
        msg = f"several projects are recorded: {listed}; --project names one"
        raise UsageError(msg)
    if known:
        msg = f"nothing is recorded in the stack '{stack}'; recorded are: {listed}; --stack names one"
        raise UsageError(msg)
    msg = "nothing is recorded yet"
    raise UsageError(msg)


def find(known: StackState, text: str) -> Record:
    """Give the record of ``Type[title]``, or of that type and name. Raises ``UsageError``."""
    wanted = parsed(text)
    found = next((record for record in known.records.values() if record.reference == wanted), None)
    found = found or known.records.get((wanted.type, wanted.title))
    if found is None:
        hint = nearest(str(wanted), (str(record.reference) for record in known.records.values()))
        msg = f"{wanted} is not recorded in project {known.project}, stack {known.stack}"
        raise UsageError(f"{msg}; {hint}" if hint else msg)
    return found


def all_of(known: StackState, text: str) -> list[Record]:
    """Give the record of a resource, or those of all that a component has made. Raises ``UsageError``."""
    wanted = str(parsed(text))
    made = [record for record in known.records.values() if wanted in reference.enclosing_components(record.parent)]
    return made or [find(known, text)]


def parsed(text: str) -> Reference:
    """Read a reference, or a URN, from the command line. Raises ``UsageError``."""
    try:
        return reference.parse_name(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
