"""The durable store: one SQLite database for each machine or user, one run at a time.

Under the lock there is one connection, and what it knows of a stack is kept beside it, so that a commit costs what it
writes. Without the lock each reading has its own connection, which can change nothing. How damage is mended is
``recovery``'s.
"""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from resource_api.contract import history, recovery, rows
from resource_api.contract.opening import Opened, open_checked
from resource_api.contract.vaults import Vaults
from resource_api.hands import database as databases
from resource_api.hands import marker as markers
from resource_api.hands.lock import Lock
from resource_api.hands.marker import Marker
from resource_api.nouns.errors import StateError, UsageError
from resource_api.nouns.record import StackState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.contract.rows import Stack
    from resource_api.contract.state import StackName
    from resource_api.hands.database import Database
    from resource_api.hands.keys import Key
    from resource_api.nouns.record import Commit, Intent


class _Writer:
    """What the holder of the lock has: the connection, made when it is first needed, and what is written."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.opened: Opened | None = None
        self.stacks: dict[StackName, Stack] = {}
        self.marker: Marker | None = None
        #: Serials and lineages as they are written.
        self.known: dict[tuple[str, str], tuple[str, int]] = {}
        self.checked = False
        self.changed = False
        self.broken = ""


class SqliteStore:
    """Keeps state in the SQLite database at ``path`` and a few files beside it; made with the first write."""

    def __init__(self, path: str, key: Key | None = None) -> None:
        """Know where; nothing is opened yet. With a ``key`` every stack is encrypted, and must be."""
        self.path = path
        self._vaults = Vaults(key)
        self._lock = Lock(path)
        self._guard = threading.RLock()
        self._writer: _Writer | None = None
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
                self._writer = self._begin()
            try:
                yield
            except BaseException:
                with suppress(StateError):
                    self._end()
                raise
            self._end()

    def intend(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Note what is about to be changed."""
        if intents:
            self._write(name, lambda database, stack: stack.intend(database, intents))

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Write, and give what is known then."""
        if commit.empty:
            state = self.load(name)
            if not any(key in state.intents for key in commit.done):
                return state
        return self._write(name, lambda database, stack: stack.commit(database, commit, secrets.token_hex(16)))

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Write a whole state in place of what is known."""
        state = state._replace(project=name.project, stack=name.stack)
        with self._guard:
            writer = self._held()
            if name in writer.known and writer.known[name][0] != state.lineage:
                del writer.known[name]
                self._mark(writer)
        self._write(name, lambda database, stack: stack.overwrite(database, state, stack.vault))

    def rekey(self, name: StackName, key: Key | None, *, drop: bool = False) -> StackState:
        """Encrypt a stack with a new data key, whatever it was before, or keep no secrets of it any more."""
        with self._guard:
            writer = self._held()
            opened = self._writable(writer)
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
            if drop:
                recovery.drop(self.path)
            return known

    def finish(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Note that a run is over, and in the marker what must be there from now on."""
        with self._guard:
            writer = self._held()
            opened = self._writable(writer)
            with self._breaking(writer), opened.database.transaction():
                history.add(opened.database, name, run)
            self._mark(writer)

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
                with open_checked(self.path) or nullcontext() as opened:
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
        with open_checked(self.path) or nullcontext() as opened:
            yield opened

    def _read(self, opened: Opened, name: StackName) -> Stack:
        header = opened.headers[name]
        return rows.Stack.read(opened.database, header, self._vaults.demanded(header))

    def _fresh(self, name: StackName) -> StackState:
        """Give the state of a stack never seen; its salt stays the same, since secrets are sealed with it before."""
        salt = self._salts.setdefault(name, secrets.token_bytes(32))
        return StackState(name.project, name.stack, salt=salt, encrypted=self._vaults.key is not None)

    # Writing

    def _begin(self) -> _Writer:
        writer = _Writer()
        writer.opened = open_checked(self.path, write=True)
        # Whoever made these held the lock, and was killed.
        for half_made in (f"{self.path}.0", f"{self.path}.new"):
            databases.clear(half_made)
        writer.marker = markers.read(self.path)
        if writer.opened is not None:
            writer.known = {tuple(n): h.last for n, h in writer.opened.headers.items() if h.last[1]}  # type: ignore[misc] # two texts
        return writer

    def _end(self) -> None:
        """Let go of the database: what was written is in its main file, the marker and a generation."""
        with self._guard:
            writer, self._writer = self._writer, None
            if writer is None or writer.opened is None or writer.pid != os.getpid():
                return
            with writer.opened:
                if writer.changed and not writer.broken:
                    writer.opened.database.checkpoint()
                    recovery.keep(writer.opened.database)
                if not writer.broken:
                    self._mark(writer)

    def _held(self) -> _Writer:
        if self._writer is None:
            msg = "state is written under the lock only"
            raise RuntimeError(msg)
        if self._writer.broken:
            raise StateError(self._writer.broken)
        return self._writer

    def _writable(self, writer: _Writer) -> Opened:
        """Give the database, made now if need be, its structure verified before the first write."""
        if writer.opened is None:
            writer.marker = Marker({}, making=True)
            markers.write(self.path, writer.marker)
            databases.create(self.path)
            writer.opened = Opened(databases.open_for_writing(self.path), {})
        elif not writer.checked:
            writer.opened.database.check()
        writer.checked = True
        return writer.opened

    def _stack(self, writer: _Writer, name: StackName) -> Stack:
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
            database = self._writable(writer).database
            stack = self._stack(writer, name)
            serial = stack.state.serial
            try:
                with self._breaking(writer), database.transaction():
                    work(database, stack)
            except BaseException:
                self._forget(writer, name)
                raise
            state = stack.state
            if state.serial != serial or state.lineage:
                writer.changed |= state.serial != serial
                self._note(writer, name, state)
            return state

    def _note(self, writer: _Writer, name: StackName, state: StackState) -> None:
        """Note what is known of a stack; a new lineage is marked at once, a new serial when the run is over."""
        new = tuple(name) not in writer.known
        writer.known[name] = state.lineage, state.serial
        if new:
            self._mark(writer)

    def _forget(self, writer: _Writer, name: StackName) -> None:
        """After a write that raised: what is written is no longer known here."""
        writer.stacks.pop(name, None)
        if writer.opened is not None and not writer.broken:
            writer.opened = writer.opened.again()

    def _mark(self, writer: _Writer) -> None:
        marker = Marker(dict(writer.known))
        if marker != writer.marker:
            markers.write(self.path, marker)
            writer.marker = marker

    @contextmanager
    def _breaking(self, writer: _Writer) -> Iterator[None]:
        """Write nothing more after the disk has refused something: a flush that failed is never tried again."""
        try:
            yield
        except StateError as error:
            writer.broken = str(error)
            raise
