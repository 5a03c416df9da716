"""The recorded stack that a command is about: finding it and its resources, and changing it under the lock.

Every command that changes it leaves a line in the history. No provider is called.
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
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.record import Record, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.state.store import StateStore


class Stack:
    """One stack of a store."""

    def __init__(self, session: Session, name: StackName | None = None) -> None:
        """Open the store; use the stack ``name``, or else the one that the command's options select."""
        self.store: StateStore = session.runtime.store
        self._lock = session.runtime.lock
        self.name = name or selected(self.store, session.settings)

    @property
    def state(self) -> StackState:
        """What is recorded of the stack."""
        return self.store.load(self.name)

    @contextmanager
    def changing(self, command: str) -> Iterator[None]:
        """Hold the lock, and add ``command`` to the history at the end."""
        started = time.time()
        with self._lock(command):
            yield
            run = {"run": secrets.token_hex(8), "command": command, "started": started, "ended": time.time()}
            self.store.finish_run(self.name, run)


def none_recorded(session: Session) -> bool:
    """Whether the store is empty and no project is named: then there is nothing to show, which is no error."""
    return not session.settings["project"] and not session.runtime.store.stacks()


def selected(store: StateStore, settings: Mapping[str, Any]) -> StackName:
    """Return the stack of ``--project``, or of the only recorded project. Raise ``UsageError``."""
    stack, project = settings.get("stack") or "default", settings.get("project")
    known = store.stacks()
    if project is not None:
        name = StackName(project, stack)
        if name not in known:
            raise UsageError(_not_recorded(name, known))
        return name
    found = [name for name in known if name.stack == stack]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{name.project} (stack {name.stack})" for name in found or known)
    if found:
        msg = f"several projects are recorded: {listed}; --project names one"
    elif known:
        msg = f"nothing is recorded in the stack '{stack}'; recorded are: {listed}; --stack names one"
    else:
        msg = "nothing is recorded yet"
    raise UsageError(msg)


def _not_recorded(name: StackName, known: Sequence[StackName]) -> str:
    """Return the message that nothing is recorded of a named project, or in its stack."""
    if not known:
        return "nothing is recorded yet"
    stacks = sorted(each.stack for each in known if each.project == name.project)
    if stacks:
        advice = nearest(name.stack, stacks) or f"recorded are: {', '.join(stacks)}"
        return f"nothing is recorded of project '{name.project}' in the stack '{name.stack}'; {advice}"
    projects = sorted({each.project for each in known})
    advice = nearest(name.project, projects) or f"recorded are: {', '.join(projects)}"
    return f"nothing is recorded of project '{name.project}'; {advice}"


def find(known: StackState, text: str) -> Record:
    """Return the record of a ``Type[title]``, a ``Type[name]`` or a URN. Raise ``UsageError``."""
    wanted = parse(text)
    found = next((record for record in known.records.values() if record.reference == wanted), None)
    found = found or known.records.get((wanted.type, wanted.title))
    if found is None:
        hint = nearest(str(wanted), (str(record.reference) for record in known.records.values()))
        msg = f"{wanted} is not recorded in project {known.project}, stack {known.stack}"
        raise UsageError(f"{msg}; {hint}" if hint else msg)
    return found


def find_all(known: StackState, text: str) -> list[Record]:
    """Return the record of a resource, or the records of every resource of a component. Raise ``UsageError``."""
    wanted = str(parse(text))
    members = [each for each in known.records.values() if wanted in reference.enclosing_components(each.parent)]
    return members or [find(known, text)]


def parse(text: str) -> Reference:
    """Return the reference that a reference or URN of the command line means. Raise ``UsageError``."""
    try:
        return reference.parse_name(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
