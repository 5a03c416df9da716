"""The store of a team: one PostgreSQL database for many machines and users, one run at a time for each stack.

A run holds the lease of its stack (``lease``), keeps the stack in memory, and writes each commit by one statement
(``tables``). What only reads takes a snapshot, and needs no right to write. The format of rows is in ``stack_rows``.
"""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from resource_api.model import codec
from resource_api.model.values.errors import StateDamaged, StateError
from resource_api.state import stack_rows
from resource_api.state.postgresql import lease as leases
from resource_api.state.postgresql import runs, schema
from resource_api.state.postgresql.connection import ServerConnection, snapshot
from resource_api.state.postgresql.schema import SCHEMA
from resource_api.state.postgresql.session import LeasedSession
from resource_api.state.postgresql.tables import FetchedRows, damage
from resource_api.state.row_store import RowStore
from resource_api.state.stack_rows import StackRows, describe_stacks
from resource_api.state.store import StackName, not_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from resource_api.model.record import RecordKey, StackState
    from resource_api.state.encryption.keys import Key
    from resource_api.state.postgresql.connection import Connection
    from resource_api.state.stack_rows import FindDataKey

T = TypeVar("T")


class PostgresqlStore(RowStore[LeasedSession]):
    """Keeps state in the schema ``resource_api`` of a database, created with the first write."""

    def __init__(self, url: str, key: Key | None = None, *, lease_seconds: float | None = None) -> None:
        """Connect to nothing yet. With a ``key`` every stack is encrypted, and one that is not is refused.

        ``lease_seconds``: the time after which a run that has not renewed its lock has lost it, by default
        ``lease.SECONDS``. Raise ``UsageError`` for a URL that libpq cannot read.
        """
        super().__init__(key)
        self._server = ServerConnection(url)
        self._seconds = leases.SECONDS if lease_seconds is None else lease_seconds

    # Reading

    def load(self, name: StackName) -> StackState:
        """Return the state of a stack."""
        with self._guard:
            if self._session is not None and self._session.holds(name):
                return self._stack(self._session, name).state
            rows = self._rows(name, self._data_keys.for_use)
            return self._new_state(name) if rows is None else rows.state

    def stacks(self) -> Sequence[StackName]:
        """Return every stack with a commit, sorted."""
        query = f"SELECT project, stack FROM {SCHEMA}.stack WHERE serial > 0"
        return sorted(self._names(query))

    def history(self, name: StackName | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the last finished runs of a stack, or of all, in the order in which they ended."""
        return self._read(lambda connection: runs.history(connection, name), [])

    def holder(self, name: StackName | None = None) -> str:
        """Return another process that holds the lock of a stack, or of any, or an empty text."""
        holders: dict[tuple[str, str], str] = self._read(leases.foreign_holders, {})
        return next((holder for stack, holder in holders.items() if name in {None, stack}), "")

    def load_run(self, run: str) -> bytes | None:
        """Return the document of a run, or None."""
        with _as_system_error():
            return self._read(lambda connection: runs.report(connection, run), None)

    def saved_runs(self) -> Sequence[str]:
        """Return the ids of the runs with a document, the oldest first."""
        with _as_system_error():
            return self._read(runs.reported, [])

    def load_conclusion(self, label: str) -> None:
        """Return None: the cache of unchanged runs is for state on this machine."""

    def check(self) -> Sequence[str]:
        """Verify the rows of all stacks and read the history; return lines about the stacks. Raises ``StateError``."""

        def verify(connection: Connection) -> list[str]:
            """Return the lines about all stacks of one snapshot."""
            with snapshot(connection):
                rows = FetchedRows.of_all(connection, self._server.url)
                runs.history(connection, None)  # only to see that its rows can be read
                holders = leases.foreign_holders(connection)
            states = stack_rows.verify(rows, self._data_keys.for_check)
            return list(describe_stacks(self._server.url, states, lambda name: holders.get(name, "")))

        return self._read(verify, [f"{self._server.url}: nothing is recorded yet"])

    def recover(self, timeout: float) -> Sequence[str]:  # noqa: ARG002 - nothing is written
        """Verify as ``check`` does. Raises ``StateError`` for damage, which a backup of the server repairs."""
        return ["nothing to recover: " + line for line in self.check()[:1]]

    def _read(self, read: Callable[[Connection], T], nothing: T) -> T:
        """Return the result of ``read``, or ``nothing`` where no tables exist."""

        def work(connection: Connection) -> T:
            """Return the result of ``read``, or ``nothing``, from one connection."""
            return read(connection) if self._server.has_tables(schema.exists) else nothing

        with self._guard, self._damage_as_error():
            return self._server.run(work)

    @contextmanager
    def _damage_as_error(self) -> Iterator[None]:
        """Turn damage that 'state recover' would repair in other stores into the error of this one."""
        try:
            yield
        except StateDamaged as error:
            raise damage(self._server.url, error.message) from error

    def _rows(self, name: StackName, find_data_key: FindDataKey) -> StackRows | None:
        """Return the rows of a stack, or None where nothing is recorded of it."""

        def read(connection: Connection) -> StackRows | None:
            """Return the rows of a stack in one snapshot, or None if it has none."""
            rows = FetchedRows.of_stack(connection, name, self._server.url)
            for header in stack_rows.headers(rows).values():
                if header.name != name:
                    msg = f"the header of {name} is that of {header.name}"
                    raise rows.damage(msg)
                return StackRows.read(rows, header, find_data_key(header))
            return None

        return self._read(read, None)

    # Writing

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        """Begin one run of ``command``; a stack is locked when it is claimed, or else with its first write."""
        with self._guard:
            if self._session is not None:
                msg = "a store has one run at a time"
                raise RuntimeError(msg)
            self._session = session = LeasedSession(self._server, self._guard, command, timeout, self._seconds)
        succeeded = False
        try:
            yield
            succeeded = True
        finally:
            with self._guard:
                self._session = None
                session.close(reconnect=succeeded)

    def claim(self, name: StackName, timeout: float) -> None:
        """Lock a stack for the run, waiting up to ``timeout`` seconds."""
        with self._writing() as session:
            acquire = session.claim
        acquire(name, timeout)  # without the guard: leases are renewed during a wait

    def finish_run(self, name: StackName, run: Mapping[str, object]) -> None:
        """Record a finished run."""
        codec.check_encodable(run)
        with self._writing() as session:
            session.write(name, runs.ADD, {"run": run.get("run"), "entry": runs.to_json(run)})
            session.finished[str(run.get("run"))] = name

    def save_run(self, run: str, content: bytes) -> None:
        """Save the document of a run beside its entry in the history; of a run without one here it is not kept."""
        with _as_system_error(), self._writing() as session:
            if run in session.finished and len(content) <= runs.LARGEST:
                report = runs.to_json(json.loads(content))
                session.write(session.finished[run], runs.SAVE, {"run": run, "report": report})

    def save_conclusion(self, label: str, name: StackName, content: object, keys: Sequence[RecordKey]) -> None:
        """Save nothing."""

    def rekey(self, name: StackName, key: Key | None, *, drop_generations: bool = False) -> StackState:  # noqa: ARG002 - there are none
        """Encrypt a stack under ``key`` with a new data key; with None keep only digests of its secrets."""
        with self._writing() as session:
            session.number(name)
            stack = self._rows(name, self._data_keys.for_rekey)
            if stack is None:
                raise not_recorded(name)
            return self._encrypt(session, name, stack, key)

    def _recorded(self, session: LeasedSession, *names: StackName) -> Container[StackName]:
        """Return every stack of which anything is recorded, after ``names`` are claimed."""
        for name in names:
            session.number(name)
        query = f"SELECT project, stack FROM {SCHEMA}.stack WHERE body IS NOT NULL"
        return self._names(query)

    def _names(self, query: str) -> list[StackName]:
        """Return the stacks that a query yields; none where no tables exist."""
        nothing: list[tuple[Any, ...]] = []
        return [StackName(*row) for row in self._read(lambda connection: connection.execute(query).fetchall(), nothing)]

    @contextmanager
    def _writing(self) -> Iterator[LeasedSession]:
        """Yield the session, for this thread alone. Raises ``RuntimeError`` without the lock."""
        with self._damage_as_error(), super()._writing() as session:
            yield session

    def _open_stack(self, session: LeasedSession, name: StackName) -> StackRows:
        """Return a stack for its first use in a session, claimed: as it is written, or a new one."""
        number = session.number(name)
        stack = self._rows(name, self._data_keys.for_use)
        return stack or StackRows(number, self._new_state(name), self._data_keys.for_new_stack(name))


@contextmanager
def _as_system_error() -> Iterator[None]:
    """Turn ``StateError`` into ``OSError``: a document of a run may be lost."""
    try:
        yield
    except StateError as error:
        raise OSError(errno.EIO, str(error)) from error
