"""The durable store: one SQLite database for each machine or user, one run at a time.

Under the lock there is one connection, and what it knows of a stack is kept beside it, so that a commit costs what it
writes. Without the lock each reading has its own connection, which can change nothing. How damage is mended is
``recovery``'s.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.model.record import StackState
from resource_api.model.values.errors import StateError, UsageError
from resource_api.state.encryption.envelope import DataKeys
from resource_api.state.lock import Lock
from resource_api.state.sqlite import backups as recovery
from resource_api.state.sqlite import cache, history
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.session import Writer, open_database
from resource_api.state.store import CachedConclusion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import Commit, Intent
    from resource_api.model.record import Key as Identity
    from resource_api.state.encryption.keys import Key
    from resource_api.state.sqlite.cache import Kept
    from resource_api.state.sqlite.database import Database
    from resource_api.state.sqlite.session import Opened
    from resource_api.state.sqlite.stack_rows import Stack
    from resource_api.state.store import StackName


class SqliteStore:
    """Keeps state in the SQLite database at ``path`` and a few files beside it; made with the first write."""

    def __init__(self, path: str, key: Key | None = None) -> None:
        """Know where; nothing is opened yet. With a ``key`` every stack is encrypted, and must be."""
        self.path = path
        self._vaults = DataKeys(key)
        self._lock = Lock(path)
        self._guard = threading.RLock()
        self._writer: Writer | None = None
        self._salts: dict[StackName, bytes] = {}

    def load(self, name: StackName) -> StackState:
        """Give what is known of a stack."""
        with self._guard:
            if self._writer is not None:
                return self._stack(self._writer, name).state
            with self._reading() as opened:
                if opened is None or name not in opened.headers:
                    return self._fresh(name)
                return self._read(opened, name).state

    def stacks(self) -> Sequence[StackName]:
        """Give every stack that has been committed to, sorted."""
        with self._guard, self._reading() as opened:
            return sorted(n for n, h in opened.headers.items() if h.last[1]) if opened else []

    def history(self, name: StackName) -> Sequence[Mapping[str, Any]]:
        """Give the last finished runs of a stack, the oldest first."""
        with self._guard, self._reading() as opened:
            return history.read(opened.database, name) if opened else []

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        """Hold the lock for one run of ``command``, waiting up to ``timeout`` seconds."""
        databases.prepare(self.path)
        with self._lock.held(timeout):
            databases.refuse_newer(self.path)
            self._lock.announce(command)
            with self._guard:
                self._writer = Writer(self.path)
            try:
                yield
            except BaseException:
                with suppress(StateError):
                    self._end()
                raise
            self._end()

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        if intents:
            self._write(name, lambda database, stack: stack.record_intents(database, intents))

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        if commit.empty:
            state = self.load(name)
            if not any(key in state.intents for key in commit.done):
                return state
        return self._write(name, lambda database, stack: stack.commit(database, commit, os.urandom(16).hex()))

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Write a whole state in place of what is known."""
        state = state._replace(project=name.project, stack=name.stack)
        with self._guard:
            writer = self._held()
            if name in writer.known and writer.known[name][0] != state.lineage:
                del writer.known[name]
                writer.mark()
        self._write(name, lambda database, stack: stack.overwrite(database, state, stack.vault))

    def rekey(self, name: StackName, key: Key | None, *, drop_generations: bool = False) -> StackState:
        """Encrypt a stack with a new data key, whatever it was before, or keep no secrets of it any more."""
        with self._guard:
            writer = self._held()
            opened = writer.writable()
            if name not in opened.headers:
                msg = f"nothing is recorded of project {name.project}, stack {name.stack}"
                raise UsageError(msg)
            header = opened.headers[name]
            stack = rows.Stack.read(opened.database, header, self._vaults.given(header))
            vault = self._vaults.renewed(name, key)
            state = stack.state._replace(serial=stack.state.serial + 1)
            writer.stacks[name] = stack
            known = self._write(name, lambda database, stack: stack.overwrite(database, state, vault))
            opened.database.compact()
            if drop_generations:
                recovery.drop(self.path)
            return known

    def finish_run(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over, and in the marker what must be there from now on."""
        with self._guard:
            writer = self._held()
            opened = writer.writable()
            with writer.breaking(), opened.database.transaction():
                history.add(opened.database, name, run)
            writer.mark()

    def save_conclusion(self, label: str, name: StackName, content: Any, keys: Sequence[Identity]) -> None:
        """Keep plain data without secrets for as long as the stack stays as it is."""
        with self._guard:
            writer = self._held()
            if writer.opened is not None and self._vaults.key is None:
                cache.keep(writer.opened, label, self._stack(writer, name), keys, content)

    def load_conclusion(self, label: str) -> CachedConclusion | None:
        """Give what was remembered, if its stack is as it was then and needs no key."""
        with self._guard, self._reading() as opened:
            kept = cache.find(self.path, label, opened.headers) if opened and self._vaults.key is None else None
        return None if kept is None else CachedConclusion(kept.content, partial(self._picked, kept))

    def _picked(self, kept: Kept, numbers: Iterable[int]) -> StackState | None:
        with self._guard, self._reading() as opened:
            return cache.picked(opened, kept, numbers) if opened else None

    def check(self) -> Sequence[str]:
        """Verify everything that is kept; gives what was found good. Raises ``StateError``."""
        with self._guard, self._reading() as opened:
            if opened is None:
                return [f"{self.path}: nothing is recorded yet"]
            states = rows.verify(opened.database, self._vaults.found)
            history.read(opened.database)
            return [*recovery.describe(self.path, states), *recovery.generations(self.path, self._vaults.found)]

    def recover(self, timeout: float) -> Sequence[str]:
        """Put the newest whole generation in place of what is damaged; gives what was done and lost."""
        databases.prepare(self.path)
        with self._guard, self._lock.held(timeout):
            databases.refuse_newer(self.path)
            self._lock.announce("state recover")
            try:
                with open_database(self.path) or nullcontext() as opened:
                    if opened is not None:
                        rows.verify(opened.database, self._vaults.found)
            except StateError as error:
                return recovery.recover(self.path, str(error), self._vaults.found)
            return ["nothing to recover: " + line for line in self.check()[:1]]

    # Reading

    @contextmanager
    def _reading(self) -> Iterator[Opened | None]:
        """Give the database as it is now, or None when there is none yet: the writer's, or one for this reading."""
        if self._writer is not None:
            yield self._writer.opened and self._writer.opened.again()
            return
        with open_database(self.path) or nullcontext() as opened:
            yield opened

    def _read(self, opened: Opened, name: StackName) -> Stack:
        header = opened.headers[name]
        return rows.Stack.read(opened.database, header, self._vaults.demanded(header))

    def _fresh(self, name: StackName) -> StackState:
        """Give the state of a stack never seen; its salt stays the same, since secrets are sealed with it before."""
        salt = self._salts.setdefault(name, os.urandom(32))
        return StackState(name.project, name.stack, salt=salt, encrypted=self._vaults.key is not None)

    # Writing

    def _end(self) -> None:
        """Let go of the database: what was written is in its main file, the marker and a generation."""
        with self._guard:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.end()

    def _held(self) -> Writer:
        if self._writer is None:
            msg = "state is written under the lock only"
            raise RuntimeError(msg)
        if self._writer.broken:
            raise StateError(self._writer.broken)
        return self._writer

    def _stack(self, writer: Writer, name: StackName) -> Stack:
        stack = writer.stacks.get(name)
        if stack is None:
            headers = writer.opened.headers if writer.opened else {}
            if writer.opened and name in headers:
                stack = self._read(writer.opened, name)
            else:
                numbers = {h.number for h in headers.values()} | {s.number for s in writer.stacks.values()}
                stack = rows.Stack(max(numbers, default=0) + 1, self._fresh(name), self._vaults.fresh(name))
            writer.stacks[name] = stack
        return stack

    def _write(self, name: StackName, work: Callable[[Database, Stack], None]) -> StackState:
        """Do ``work`` in one transaction; what is known afterwards is what is written."""
        with self._guard:
            writer = self._held()
            database = writer.writable().database
            stack = self._stack(writer, name)
            serial = stack.state.serial
            try:
                with writer.breaking(), database.transaction():
                    work(database, stack)
            except BaseException:
                writer.forget(name)
                raise
            state = stack.state
            if state.serial != serial or state.lineage:
                writer.changed |= state.serial != serial
                writer.note(name, state)
            return state
