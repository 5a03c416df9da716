"""The base of the stores of rows: the session of a run keeps its stacks in memory beside the database."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from resource_api.model.record import Commit, Intent, StackState
from resource_api.state.stack_rows import DataKeys, RowWriter, StackRows
from resource_api.state.store import StackName, check_recorded, check_rename

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from resource_api.model.values.errors import StateError
    from resource_api.state.encryption.keys import Key


class StoreSession(Protocol):
    """The session of one run, which writes. Each change is all or nothing.

    After an error the stack is read again before its next use: the object may differ from the database.
    """

    #: The stacks that were read or written in this session.
    stacks: dict[StackName, StackRows]
    #: The error after which nothing more is written, or None.
    failure: StateError | None

    def change(self, name: StackName, stack: StackRows, change: Callable[[RowWriter], object]) -> StackState:
        """Apply ``change`` to a stack and write it; return the state afterwards. Raise ``StateError``."""

    def rename(self, name: StackName, new: StackName, stack: StackRows, change: Callable[[RowWriter], object]) -> None:
        """Apply ``change``, which moves a stack to a free name, and move its runs. Raise ``StateError``."""

    def remove(self, name: StackName) -> None:
        """Delete the rows of a recorded stack, and its runs. Raise ``StateError``."""


S = TypeVar("S", bound=StoreSession)


class RowStore(ABC, Generic[S]):
    """Keeps state as rows; see ``StateStore`` for the obligations of its methods."""

    def __init__(self, key: Key | None = None) -> None:
        """Open nothing yet. With a ``key`` every stack must be encrypted: one in clear may be an attacker's."""
        self._data_keys = DataKeys(key)
        #: Held by a thread that uses the store: a run's threads share one session.
        self._guard = threading.RLock()
        #: Open while the lock of the store is held.
        self._session: S | None = None
        #: The salts of stacks of which nothing is written yet.
        self._salts: dict[StackName, bytes] = {}

    @abstractmethod
    def load(self, name: StackName) -> StackState:
        """Return the state of a stack."""

    @abstractmethod
    def _open_stack(self, session: S, name: StackName) -> StackRows:
        """Return a stack for its first use in a session: as it is written, or a new one."""

    @abstractmethod
    def _recorded(self, session: S, *names: StackName) -> Container[StackName]:
        """Return every stack of which anything is recorded, after ``names`` are claimed for the session."""

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Record the changes about to be made: after a kill the next run knows which resources may have changed."""
        if intents:
            with self._writing() as session:
                stack = self._stack(session, name)
                session.change(name, stack, lambda tables: stack.record_intents(tables, intents))

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write a commit and return the state afterwards; a commit without any effect is not written.

        It has none if it changes nothing in the state and resolves no open intent.
        """
        if not commit.changes_state:
            state = self.load(name)
            if not any(key in state.intents for key in commit.resolved):
                return state
        with self._writing() as session:
            stack, lineage = self._stack(session, name), os.urandom(16).hex()  # for a new stack
            return session.change(name, stack, lambda tables: stack.commit(tables, commit, lineage))

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Replace the whole state of a stack, as for an import; its project and stack become those of ``name``."""
        state = state._replace(project=name.project, stack=name.stack)
        with self._writing() as session:
            stack = self._stack(session, name)
            session.change(name, stack, lambda tables: stack.overwrite(tables, state, stack.data_key))

    def _encrypt(self, session: S, name: StackName, stack: StackRows, key: Key | None) -> StackState:
        """Write a stack again with a new data key, wrapped by ``key``, for ``rekey``; return the state afterwards.

        ``stack`` was read with its former key; the session uses this object from now on.
        """
        session.stacks[name] = stack
        state = stack.state._replace(serial=stack.state.serial + 1)
        data_key = self._data_keys.replace(name, key)
        return session.change(name, stack, lambda tables: stack.overwrite(tables, state, data_key))

    def rename(self, name: StackName, new: StackName) -> None:
        """Move a stack with its history to a free name, with the next serial. Raises ``UsageError``."""
        with self._writing() as session:
            check_rename(name, new, self._recorded(session, name, new.checked()))
            stack = self._stack(session, name)
            state = stack.state._replace(**new._asdict(), serial=stack.state.serial + 1)
            # A new data key: each secret is bound to the stack's name.
            data_key = None if stack.data_key is None else self._data_keys.replace(new, self._data_keys.key)
            session.rename(name, new, stack, lambda tables: stack.overwrite(tables, state, data_key))

    def remove(self, name: StackName) -> None:
        """Forget a stack with its history."""
        with self._writing() as session:
            check_recorded(name, self._recorded(session, name))
            session.remove(name)

    def _stack(self, session: S, name: StackName) -> StackRows:
        """Return a stack of the session, opened with its first use.

        Later uses get the same object: only this run writes the stack, so that it need not be read again.
        """
        if (stack := session.stacks.get(name)) is None:
            stack = session.stacks[name] = self._open_stack(session, name)
        return stack

    def _new_state(self, name: StackName) -> StackState:
        """Return the state of a new stack; each call gives the same salt, as secrets are sealed before a commit."""
        salt = self._salts.setdefault(name, os.urandom(32))
        return StackState(name.project, name.stack, salt=salt, encrypted=self._data_keys.key is not None)

    @contextmanager
    def _writing(self) -> Iterator[S]:
        """Yield the session, for this thread alone. Raises ``RuntimeError`` without the lock, or an earlier failure."""
        with self._guard:
            if self._session is None:
                raise RuntimeError("state can be written only while its lock is held")
            if self._session.failure is not None:
                raise self._session.failure
            yield self._session
