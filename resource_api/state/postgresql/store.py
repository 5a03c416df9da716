"""The store of a team: one PostgreSQL database for many machines and users, one run at a time for each stack.

The session of a run holds the leases of its stacks (``lease``), which a thread renews, keeps the stacks in memory, and
writes each commit by one statement (``database``). A read takes a snapshot, and needs no right to write. The
format of rows is in ``stack_rows``.
"""

from __future__ import annotations

import errno
import json
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.model import codec
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateDamaged, StateError, StateLocked
from resource_api.state import stack_rows
from resource_api.state.postgresql import database as databases
from resource_api.state.postgresql import lease as leases
from resource_api.state.postgresql.database import (
    SCHEMA,
    CollectedRows,
    FetchedRows,
    ServerConnection,
    damage,
    snapshot,
)
from resource_api.state.postgresql.lease import Lease, LeaseHolder
from resource_api.state.row_store import RowStore
from resource_api.state.stack_rows import StackRows, describe_stacks
from resource_api.state.store import StackName, not_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.model.record import RecordKey, StackState
    from resource_api.state.encryption.keys import Key
    from resource_api.state.postgresql.database import Connection
    from resource_api.state.stack_rows import FindDataKey

    #: A statement and its values.
    _Statement = tuple[str, Sequence[object]]

T = TypeVar("T")

#: Seconds between two attempts to take a lease that another run holds.
_PAUSE: Final = 2.0
#: Renewals in the time of a lease.
_RENEWALS: Final = 3

#: The part ``mine`` of every write: it renews the lease and yields the row of the stack, or nothing if the lease was
#: lost or this write is done already. The other parts depend on its rows, so that they do nothing then.
_MINE: Final = f"""
WITH mine AS (
    UPDATE {SCHEMA}.stack SET write = %(write)s, expires = clock_timestamp() + make_interval(secs => %(seconds)s)
        {{columns}}
    WHERE number = %(number)s AND fence = %(fence)s AND write <> %(write)s
    RETURNING number, project, stack)"""
#: The columns of the stack's row that a write sets besides, if it changes the header.
_HEADER: Final = ", body = %(body)s, checksum = %(checksum)s, lineage = %(lineage)s, serial = %(serial)s"
_DELETE: Final = f"DELETE FROM {SCHEMA}.{{}} WHERE id >= %s AND id < %s"
_LIMIT: Final = "SET LOCAL idle_in_transaction_session_timeout = {}"
_LOCK: Final = f"SELECT FROM {SCHEMA}.stack WHERE number = %s AND fence = %s AND write <> %s FOR UPDATE"
_REMOVE_FREE: Final = f"DELETE FROM {SCHEMA}.stack WHERE number = %s AND body IS NULL"
_RENAME: Final = f"UPDATE {SCHEMA}.stack SET project = %s, stack = %s WHERE number = %s"
_STATE: Final = f"SELECT fence, write FROM {SCHEMA}.stack WHERE number = %s"


class LeasedSession:
    """The leases of one run and the stacks that it has used.

    Every method but ``claim`` is called under the guard of its store, which lets one thread at a time use the
    connection.
    """

    def __init__(
        self, server: ServerConnection, guard: threading.RLock, command: str, timeout: float, seconds: float
    ) -> None:
        """Hold no lease yet: the first write of each stack claims one, and waits up to ``timeout`` seconds for it.

        ``command`` is in the message of another run that waits; a lease that is not renewed ends after ``seconds``.
        """
        self.stacks: dict[StackName, StackRows] = {}
        #: The error after which nothing more is written, or None.
        self.failure: StateError | None = None
        #: The stack of each run that has finished in this session.
        self.finished: dict[str, StackName] = {}
        self._server = server
        self._guard = guard
        self._holder = LeaseHolder.of_this_process(command)
        self._timeout = timeout
        self._seconds = seconds
        self._leases: dict[StackName, Lease] = {}
        #: The number of the last write, stored with it: an attempt that succeeded unnoticed is not repeated.
        self._write = 0
        #: Set at the end of the session, for the thread that renews.
        self._ended = threading.Event()
        #: Started with the first lease.
        self._renewing: threading.Thread | None = None

    def holds(self, name: StackName) -> bool:
        """Whether the run has a lease of a stack."""
        return name in self._leases

    def number(self, name: StackName) -> int:
        """Return the number of a stack, which is claimed if it was not."""
        return self._lease(name).number

    def claim(self, name: StackName, timeout: float) -> None:
        """Take the lease of a stack, waiting up to ``timeout`` seconds. Raise ``StateLocked``, ``StateError``.

        The guard is released after each short wait for a notification, so that leases are renewed in between.
        """
        until = time.monotonic() + timeout
        while (locked := self._try_claim(name)) is not None:
            remaining = until - time.monotonic()
            if remaining <= 0:
                raise locked
            with self._guard:
                self._server.wait_for(leases.CHANNEL, "/".join(name), min(_PAUSE, remaining))

    def _try_claim(self, name: StackName) -> StateLocked | None:
        """Take the lease of a stack unless the run has it; return None, or the error that names another holder.

        With its first lease the session starts the thread that renews all of them.
        """
        with self._guard:
            if name in self._leases:
                return None
            result = self._server.run(lambda connection: self._take(connection, name))
            if isinstance(result, StateLocked):
                return result
            self._leases[name] = result
            if self._renewing is None:
                self._renewing = threading.Thread(target=self._renew_all, name="state lease", daemon=True)
                self._renewing.start()
            return None

    def _take(self, connection: Connection, name: StackName) -> Lease | StateLocked:
        """Take the lease of a stack, or return the error that names its holder.

        A lease is a part of the stack's row: before the first one the tables are created.
        """
        if not self._server.has_tables():
            databases.create_tables(connection, self._server.url)
        return leases.take(connection, name, self._holder, self._seconds)

    def _lease(self, name: StackName) -> Lease:
        """Return the lease of a stack, claimed if the run has none."""
        if name not in self._leases:
            self.claim(name, self._timeout)
        return self._leases[name]

    def change(self, name: StackName, stack: StackRows, change: Callable[[CollectedRows], object]) -> StackState:
        """Apply ``change`` to a stack and write the rows that it collects; return the state afterwards.

        Raise ``StateError``. After a failure the stack is read again before its next use.
        """
        try:
            rows = CollectedRows()
            change(rows)
            self._write_rows(name, stack.state, rows)
        except BaseException:
            self.stacks.pop(name, None)  # it has the change, and the database may not
            raise
        return stack.state

    def rename(
        self, name: StackName, new: StackName, stack: StackRows, change: Callable[[CollectedRows], object]
    ) -> None:
        """Apply ``change``, which moves a stack to a free name that is claimed too, and move its runs."""
        lease, free = self._lease(name), self._lease(new)
        self.stacks.pop(name, None)  # first: after a failure it would have the change, and the database may not
        rows = CollectedRows()
        change(rows)
        moves = [
            (_REMOVE_FREE, (free.number,)),
            (_RENAME, (*new, lease.number)),
            (databases.RENAME_RUNS, (*new, *name)),
        ]
        self._write_rows(name, stack.state, rows, moves)
        self._leases[new] = self._leases.pop(name)
        self.stacks[new] = stack

    def remove(self, name: StackName) -> None:
        """Remove the rows of a stack, and its runs; its lease remains, so that no other run begins to write it."""
        self.stacks.pop(name, None)
        limits = stack_rows.limits(self._lease(name).number)
        deletions = [(_DELETE.format(table), limits) for table in stack_rows.TABLES]
        # The row of the stack, which has the lease, becomes that of a stack of which nothing is recorded.
        values = {"body": None, "checksum": None, "lineage": "", "serial": 0}
        self.write(name, "", values, header=_HEADER, preceding=[*deletions, (databases.REMOVE_RUNS, name)])

    def _write_rows(
        self, name: StackName, state: StackState, rows: CollectedRows, moves: Sequence[_Statement] = ()
    ) -> None:
        """Write the changed rows and the header of a stack in one statement, which takes one round trip to the server.

        The deleted ranges of rows and the ``moves`` of a renaming are separate statements before it, in the same
        transaction.
        """
        _, body, checksum = rows.header
        parts, values = rows.statement()
        values |= {"body": body, "checksum": checksum, "lineage": state.lineage, "serial": state.serial}
        deletions = [(_DELETE.format(table), limits) for table, limits in rows.ranges.items()]
        self.write(name, parts, values, header=_HEADER, preceding=[*deletions, *moves])

    def write(
        self,
        name: StackName,
        parts: str,
        values: Mapping[str, object],
        *,
        header: str = "",
        preceding: Sequence[_Statement] = (),
    ) -> None:
        """Write by one statement, which has an effect only if the lease of the stack is still held.

        ``parts`` follow its part ``mine``, with ``values`` for their parameters; ``header`` sets further columns of the
        row of the stack; ``preceding``: statements and values to execute before, in one transaction. A lost connection
        is retried for the time of a lease. Raise ``StateLost``, ``StateError``.
        """
        lease = self._lease(name)
        self._write += 1
        arguments = {**values, **lease._asdict(), "write": self._write, "seconds": self._seconds}
        statement = f"{_MINE.format(columns=header)}{parts} SELECT count(*) FROM mine", arguments
        work = partial(self._execute, lease=lease, statement=statement, preceding=preceding)
        try:
            if not self._server.run(work, self._seconds):
                self._check_lost(name, lease)
        except StateError as error:
            self.failure = error
            raise

    def _execute(
        self,
        connection: Connection,
        lease: Lease,
        statement: tuple[str, Mapping[str, object]],
        preceding: Sequence[_Statement],
    ) -> bool:
        """Execute the statements in one transaction; return whether they had an effect.

        They have none if the lease is lost. An attempt is repeated after a lost connection, and has no effect if the
        former one succeeded and only its answer was lost. Without ``preceding`` statements ``statement`` checks both.
        """
        if not preceding:
            return connection.execute(*statement).fetchone() == (1,)
        with connection.transaction():
            # Otherwise a client that is frozen now would keep the rows locked.
            connection.execute(_LIMIT.format(round(1000 * self._seconds)))
            if connection.execute(_LOCK, (*lease, self._write)).fetchone() is None:
                return False
            for text, values in preceding:
                connection.execute(text, values)
            return connection.execute(*statement).fetchone() == (1,)

    def _check_lost(self, name: StackName, lease: Lease) -> None:
        """Raise ``StateLost`` for a write without effect, unless only the answer of an earlier attempt was lost."""
        query = _STATE, (lease.number,)
        state = self._server.run(lambda connection: connection.execute(*query).fetchone(), self._seconds)
        if state != (lease.fence, self._write):
            raise self._server.run(lambda connection: leases.lost(connection, name), self._seconds)

    def _renew_all(self) -> None:
        """Renew every lease until the session ends, in a thread; the next write notices a lease that was lost.

        A statement of another thread that takes longer than a lease means that the server hangs: the connection is
        ended, so that the other thread gets an error instead of waiting forever.
        """
        while not self._ended.wait(self._seconds / _RENEWALS):
            if not self._guard.acquire(timeout=self._seconds):
                self._server.abort()
                continue
            try:
                for lease in self._leases.values():
                    self._server.run(partial(leases.renew, lease=lease, seconds=self._seconds))
            except StateError:
                continue
            finally:
                self._guard.release()

    def close(self, *, reconnect: bool) -> None:
        """End every lease of the session.

        Without ``reconnect``, after a failure, nothing is done if the connection is lost: to wait for the server would
        delay the error, and the leases expire.
        """
        self._ended.set()
        if reconnect or self._server.is_open:
            with suppress(StateError):
                for lease in self._leases.values():
                    self._server.run(partial(leases.release, lease=lease))
        self._leases.clear()


class PostgresqlStore(RowStore[LeasedSession]):
    """Keeps state in the schema ``resource_api`` of a database, created with the first write."""

    def __init__(self, url: str, key: Key | None = None, *, lease_seconds: float | None = None) -> None:
        """Connect to nothing yet. Raise ``ValueError`` for a URL that libpq cannot read.

        ``lease_seconds``: the time after which a run that has not renewed its lock loses it; None: ``lease.SECONDS``.
        """
        super().__init__(key)
        self._server = ServerConnection(url)
        self._seconds = leases.SECONDS if lease_seconds is None else lease_seconds

    def load(self, name: StackName) -> StackState:
        """Return the state of a stack: from memory while the run holds its lease, otherwise as it is read now.

        Only the holder of the lease writes the stack, so that its state in memory is the present one.
        """
        with self._guard:
            if self._session is not None and self._session.holds(name):
                return self._stack(self._session, name).state
            rows = self._rows(name, self._data_keys.for_use)
            return self._new_state(name) if rows is None else rows.state

    def stacks(self) -> Sequence[StackName]:
        """Return every stack with a commit, sorted."""
        return sorted(self._names(f"SELECT project, stack FROM {SCHEMA}.stack WHERE serial > 0"))

    def history(self, name: StackName | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the last finished runs of a stack, or of all, in the order in which they ended."""
        return self._read(lambda connection: databases.history(connection, name), [])

    def holder(self, name: StackName | None = None) -> str:
        """Return another process that holds the lock of a stack, or of any, or an empty text."""
        holders: dict[tuple[str, str], str] = self._read(leases.foreign_holders, {})
        return next((holder for stack, holder in holders.items() if name in {None, stack}), "")

    def load_run(self, run: str) -> bytes | None:
        """Return the document of a run, or None."""
        with _as_system_error():
            return self._read(lambda connection: databases.report(connection, run), None)

    def saved_runs(self) -> Sequence[str]:
        """Return the ids of the runs with a document, the oldest first."""
        with _as_system_error():
            return self._read(databases.reported, [])

    def load_conclusion(self, label: str) -> None:
        """Return None: the cache of unchanged runs is for state on this machine."""

    def check(self) -> Sequence[str]:
        """Verify the rows of all stacks and the history, for ``state check``; return lines about the stacks.

        Raises ``StateError`` for the first damage.
        """

        def verify(connection: Connection) -> list[str]:
            """Verify all stacks of one snapshot, and return a line about each, for ``state check``."""
            with snapshot(connection):
                rows = FetchedRows.fetch(connection, self._server.url)
                databases.history(connection, None)  # only to see that its rows can be read
                holders = leases.foreign_holders(connection)
            states = stack_rows.verify(rows, self._data_keys.for_check)
            return list(describe_stacks(self._server.url, states, lambda name: holders.get(name, "")))

        return self._read(verify, [f"{self._server.url}: nothing is recorded yet"])

    def recover(self, timeout: float) -> Sequence[str]:  # noqa: ARG002 - nothing is written
        """Verify all stacks. Raises ``StateError`` for damage, which a backup of the server repairs."""
        return [f"nothing to recover: {self.check()[0]}"]

    def _read(self, read: Callable[[Connection], T], nothing: T) -> T:
        """Return the result of ``read``, or ``nothing`` where no tables exist."""
        with self._guard, self._damage_as_error():
            return self._server.run(lambda connection: read(connection) if self._server.has_tables() else nothing)

    @contextmanager
    def _damage_as_error(self) -> Iterator[None]:
        """Turn damage of rows into this store's error, with other advice.

        The usual advice is ``state recover``, which needs generations (copies of older states): a database on a server
        has none.
        """
        try:
            yield
        except StateDamaged as error:
            raise damage(self._server.url, error.message) from error

    def _rows(self, name: StackName, find_data_key: FindDataKey) -> StackRows | None:
        """Return the rows of a stack as the database has them now, or None if nothing is recorded of it.

        ``find_data_key`` returns the key that opens the stack, for its use or for a change of the key.
        """

        def read(connection: Connection) -> StackRows | None:
            """Return the rows of a stack in one snapshot, or None if it has none; verify that they are its own."""
            rows = FetchedRows.fetch(connection, self._server.url, name)
            for header in stack_rows.headers(rows).values():
                if header.name != name:
                    raise rows.damage(f"the header of {name} is that of {header.name}")
                return StackRows.read(rows, header, find_data_key(header))
            return None

        return self._read(read, None)

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        """Hold a session for one run of ``command``; each stack is locked when it is claimed or first written.

        Raise ``RuntimeError`` if this store has a run already.
        """
        with self._guard:
            if self._session is not None:
                raise RuntimeError("a store has one run at a time")
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
        """Record a finished run in the history of its stack.

        The session remembers the stack, under whose lease ``save_run`` can then save the run's document.
        """
        codec.check_encodable(run)
        with self._writing() as session:
            session.write(name, databases.ADD_RUN, {"run": run.get("run"), "entry": databases.to_json(run)})
            session.finished[str(run.get("run"))] = name

    def save_run(self, run: str, content: bytes) -> None:
        """Save the document of a run beside its entry in the history.

        It is not kept if this session has not recorded the run by ``finish_run``, or if it is too large.
        """
        with _as_system_error(), self._writing() as session:
            if run in session.finished and len(content) <= databases.LARGEST_REPORT:
                report = databases.to_json(json.loads(content))
                session.write(session.finished[run], databases.SAVE_REPORT, {"run": run, "report": report})

    def save_conclusion(self, label: str, name: StackName, content: object, keys: Sequence[RecordKey]) -> None:
        """Save nothing."""

    def rekey(self, name: StackName, key: Key | None, *, drop_generations: bool = False) -> StackState:  # noqa: ARG002 - there are none
        """Encrypt a stack under ``key`` with a new data key; with None keep only digests of its secrets.

        The former key does not open anything that is written from now on.
        """
        with self._writing() as session:
            session.number(name)
            stack = self._rows(name, self._data_keys.for_rekey)
            if stack is None:
                raise not_recorded(name)
            return self._encrypt(session, name, stack, key)

    def _recorded(self, session: LeasedSession, *names: StackName) -> Container[StackName]:
        """Return every stack of which anything is recorded, to check a removal or a rename.

        The stacks ``names`` are claimed first, so that no other run changes them after the check.
        """
        for name in names:
            session.number(name)  # which claims it
        return self._names(f"SELECT project, stack FROM {SCHEMA}.stack WHERE body IS NOT NULL")

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
        """Return a stack for its first use in a session: read from the database, or a new one if it has none.

        It is claimed before it is read, so that no other run changes it afterwards.
        """
        number = session.number(name)
        stack = self._rows(name, self._data_keys.for_use)
        return stack or StackRows(number, self._new_state(name), self._data_keys.for_new_stack(name))


def _as_system_error() -> AbstractContextManager[None]:
    """Turn ``StateError`` into ``OSError``: a document of a run may be lost."""
    return errors_as(partial(OSError, errno.EIO), StateError)
