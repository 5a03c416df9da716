"""Sessions that write: the leases of one run, renewed by a thread, and its stacks, kept in memory beside the tables."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import StateError, StateLocked
from resource_api.state import stack_rows
from resource_api.state.postgresql import lease as leases
from resource_api.state.postgresql import runs, schema
from resource_api.state.postgresql.lease import Lease, LeaseHolder
from resource_api.state.postgresql.schema import SCHEMA
from resource_api.state.postgresql.tables import CollectedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.state.postgresql.connection import Connection, ServerConnection
    from resource_api.state.stack_rows import StackRows
    from resource_api.state.store import StackName

    #: A statement and its values.
    _Statement = tuple[str, Sequence[object]]

#: Seconds between two attempts to take a lease that another run holds.
PAUSE: Final = 2.0
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
_HEADER: Final = ", body = %(body)s, checksum = %(checksum)s, lineage = %(lineage)s, serial = %(serial)s"
_DELETE: Final = f"DELETE FROM {SCHEMA}.{{}} WHERE id >= %s AND id < %s"
_LIMIT: Final = "SET LOCAL idle_in_transaction_session_timeout = {}"
_LOCK: Final = f"SELECT FROM {SCHEMA}.stack WHERE number = %s AND fence = %s AND write <> %s FOR UPDATE"
_REMOVE_FREE: Final = f"DELETE FROM {SCHEMA}.stack WHERE number = %s AND body IS NULL"
_RENAME: Final = f"UPDATE {SCHEMA}.stack SET project = %s, stack = %s WHERE number = %s"
_STATE: Final = f"SELECT fence, write FROM {SCHEMA}.stack WHERE number = %s"


class LeasedSession:
    """The leases of one run and the stacks that it has used.

    Every method but ``claim`` is called under the guard of its store.
    """

    def __init__(
        self, server: ServerConnection, guard: threading.RLock, command: str, timeout: float, seconds: float
    ) -> None:
        """Hold no lease yet; one is claimed for ``command`` and ``seconds``, by a write within ``timeout`` seconds."""
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
        """Take the lease of a stack, looking for up to ``timeout`` seconds. Raise ``StateLocked``, ``StateError``."""
        until = time.monotonic() + timeout
        while (locked := self._try_claim(name)) is not None:
            remaining = until - time.monotonic()
            if remaining <= 0:
                raise locked
            with self._guard:
                self._server.wait_for(leases.CHANNEL, "/".join(name), min(PAUSE, remaining))

    def _try_claim(self, name: StackName) -> StateLocked | None:
        """Take the lease of a stack unless the run has it; return the error that names its holder, or None."""
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
        """Take the lease of a stack, for which the tables are created if needed."""
        if not self._server.has_tables(schema.exists):
            schema.create(connection, self._server.url)
        return leases.take(connection, name, self._holder, self._seconds)

    def _lease(self, name: StackName) -> Lease:
        """Return the lease of a stack, claimed if the run has none."""
        if name not in self._leases:
            self.claim(name, self._timeout)
        return self._leases[name]

    def change(self, name: StackName, stack: StackRows, change: Callable[[CollectedRows], object]) -> StackState:
        """Apply ``change`` to a stack and write it; return the state afterwards. Raise ``StateError``."""
        try:
            rows = CollectedRows()
            change(rows)
            self._write_rows(name, stack.state, rows)
        except BaseException:
            self.stacks.pop(name, None)
            raise
        return stack.state

    def rename(
        self, name: StackName, new: StackName, stack: StackRows, change: Callable[[CollectedRows], object]
    ) -> None:
        """Apply ``change``, which moves a stack to a free name that is claimed too, and move its runs."""
        lease, free = self._lease(name), self._lease(new)
        self.stacks.pop(name, None)
        rows = CollectedRows()
        change(rows)
        moves = [
            (_REMOVE_FREE, (free.number,)),
            (_RENAME, (*new, lease.number)),
            (runs.RENAME, (*new, *name)),
        ]
        self._write_rows(name, stack.state, rows, moves)
        self._leases[new] = self._leases.pop(name)
        self.stacks[new] = stack

    def remove(self, name: StackName) -> None:
        """Remove the rows of a stack, and its runs; its lease remains."""
        self.stacks.pop(name, None)
        limits = stack_rows.limits(self._lease(name).number)
        deletions = [(_DELETE.format(table), limits) for table in stack_rows.TABLES]
        values = {"body": None, "checksum": None, "lineage": "", "serial": 0}
        self.write(name, "", values, header=_HEADER, preceding=[*deletions, (runs.REMOVE, name)])

    def _write_rows(
        self, name: StackName, state: StackState, rows: CollectedRows, moves: Sequence[_Statement] = ()
    ) -> None:
        """Write the changed rows of a stack in one statement, after deletions and moves."""
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
        """Execute the ``parts`` of a statement that follow its part ``mine``, if the lease of the stack is still held.

        ``values`` are the values of their parameters; ``header`` sets further columns of the row of the stack;
        ``preceding``: statements and values that are executed before, in the same transaction. Where the connection is
        lost, the server is tried for the time of a lease. Raise ``StateLost``, ``StateError``.
        """
        lease = self._lease(name)
        self._write += 1
        arguments = {**values, **lease._asdict(), "write": self._write, "seconds": self._seconds}
        statement = f"{_MINE.format(columns=header)}{parts} SELECT count(*) FROM mine"

        def work(connection: Connection) -> bool:
            """Write if the lease is still held; return False if it is lost."""
            if not preceding:
                return connection.execute(statement, arguments).fetchone() == (1,)
            with connection.transaction():
                # Otherwise a client that is frozen now would keep the rows locked.
                connection.execute(_LIMIT.format(round(1000 * self._seconds)))
                if connection.execute(_LOCK, (*lease, self._write)).fetchone() is None:
                    return False  # lost, or an attempt before was successful
                for text, limits in preceding:
                    connection.execute(text, limits)
                return connection.execute(statement, arguments).fetchone() == (1,)

        try:
            if not self._server.run(work, self._seconds):
                self._check_lost(name, lease)
        except StateError as error:
            self.failure = error
            raise

    def _check_lost(self, name: StackName, lease: Lease) -> None:
        """Raise ``StateLost`` for a write without effect, unless an attempt of it was successful unnoticed."""

        def state(connection: Connection) -> tuple[Any, ...] | None:
            return connection.execute(_STATE, (lease.number,)).fetchone()

        if self._server.run(state, self._seconds) != (lease.fence, self._write):
            raise self._server.run(lambda connection: leases.lost(connection, name), self._seconds)

    def _renew_all(self) -> None:
        """Renew every lease until the session ends; a failure is noticed by the next write.

        A statement that takes longer than a lease ends with its connection: the server hangs, and the lease is lost.
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
        """End every lease. Where that fails, it ends by itself: after an interrupt nobody waits for a connection."""
        self._ended.set()
        if reconnect or self._server.is_open:
            with suppress(StateError):
                for lease in self._leases.values():
                    self._server.run(partial(leases.release, lease=lease))
        self._leases.clear()
