"""The database on a PostgreSQL server: the connection to it, its tables, the rows of stacks, and finished runs.

Nothing depends on the session of the server: no settings, no prepared statements, no temporary tables, and no locks
beyond a transaction. So a pooler may give each transaction to another session (pgbouncer in transaction mode).

``stack`` has a row for each stack: its lease, and its header with a checksum, as the rows of ``resource``, ``owed`` and
``intent`` have one. They are written by one statement, which renews the lease and does nothing where that was lost: it
is atomic, durable when it returns, and needs one journey to the server. ``run`` has a row for each finished run; no
decision depends on it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import weakref
from bisect import bisect_left
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import psycopg
from psycopg import conninfo, errors, pq

from resource_api.model.values.errors import StateError
from resource_api.model.values.text import filled_lines
from resource_api.model.values.values import map_leaves
from resource_api.state.stack_rows import SPAN, TABLES, are_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.state.store import Row, StackName

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

#: Parameter of libpq → the variable by which users set it, or "", and the default: a host that does not answer is an
#: error within this time, and a cut connection is noticed while it is idle and while it waits for an answer.
_DEFAULTS: Final[Mapping[str, tuple[str, str | int]]] = {
    "connect_timeout": ("PGCONNECT_TIMEOUT", 10),
    "fallback_application_name": ("", "resource-api"),
    "keepalives_idle": ("", 10),
    "keepalives_interval": ("", 5),
    "keepalives_count": ("", 3),
    "tcp_user_timeout": ("", 30_000),
}
#: Seconds between two attempts to reach a server that is being restarted.
_PAUSE: Final = 0.2
#: The errors of a session that the server ends, before the connection is closed.
_ENDED: Final = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.IdleSessionTimeout)

#: The version of the format; a newer one is refused.
VERSION: Final = 1
SCHEMA: Final = "resource_api"
#: The key of a lock that is held while the tables are created.
_CREATION: Final = 0x72617069

_TABLES: Final = (
    f"CREATE TABLE {SCHEMA}.format (version integer NOT NULL)",
    f"INSERT INTO {SCHEMA}.format VALUES ({VERSION})",
    f"""CREATE TABLE {SCHEMA}.stack (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        project text NOT NULL,
        stack text NOT NULL,
        lineage text NOT NULL DEFAULT '',
        serial bigint NOT NULL DEFAULT 0,
        fence bigint NOT NULL DEFAULT 0,
        write bigint NOT NULL DEFAULT 0,
        holder jsonb,
        expires timestamptz,
        body bytea,
        checksum bigint,
        UNIQUE (project, stack))""",
    *(
        f"CREATE TABLE {SCHEMA}.{table} (id bigint PRIMARY KEY, body bytea NOT NULL, checksum bigint NOT NULL)"
        for table in TABLES
    ),
    f"""CREATE TABLE {SCHEMA}.run (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        project text NOT NULL,
        stack text NOT NULL,
        run text,
        entry jsonb NOT NULL,
        report jsonb)""",
    f"CREATE INDEX ON {SCHEMA}.run (project, stack, number)",
    f"CREATE INDEX ON {SCHEMA}.run (run)",
)

#: The statements that read the rows of a stack, and of all.
_OF_STACK: Final = f"""
WITH header AS (
    SELECT number, body, checksum FROM {SCHEMA}.stack WHERE project = %s AND stack = %s AND body IS NOT NULL)
SELECT 'stack', * FROM header""" + "".join(
    f"""
UNION ALL SELECT '{table}', id, {table}.body, {table}.checksum FROM header, {SCHEMA}.{table}
    WHERE id >= number * {SPAN} AND id < (number + 1) * {SPAN}"""
    for table in TABLES
)
_ALL: Final = f"SELECT 'stack', number, body, checksum FROM {SCHEMA}.stack WHERE body IS NOT NULL" + "".join(
    f" UNION ALL SELECT '{table}', * FROM {SCHEMA}.{table}" for table in TABLES
)
_INSERT: Final = """, w_{table} AS (
    INSERT INTO {schema}.{table} SELECT rows.* FROM mine,
        unnest(%({table}_i)s::bigint[], %({table}_b)b::bytea[], %({table}_c)s::bigint[]) AS rows
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, checksum = excluded.checksum)"""

#: The number of runs in the history of a stack, and of reports.
_HISTORY: Final = 500
_REPORTS: Final = 100
#: The size of the largest report that is kept, in bytes.
LARGEST_REPORT: Final = 64 * 1024 * 1024

#: Parts of a statement with a part ``mine``, the stack. A part does not see the rows that another one writes.
ADD_RUN: Final = f""", added AS (
    INSERT INTO {SCHEMA}.run (project, stack, run, entry)
    SELECT project, stack, %(run)s, %(entry)s::jsonb FROM mine
), removed AS (
    DELETE FROM {SCHEMA}.run USING mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND run.number <= (
        SELECT number FROM {SCHEMA}.run AS old WHERE old.project = mine.project AND old.stack = mine.stack
        ORDER BY number DESC OFFSET {_HISTORY - 1} LIMIT 1))"""
SAVE_REPORT: Final = f""", saved AS (
    UPDATE {SCHEMA}.run SET report = %(report)s::jsonb FROM mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND run.run = %(run)s
), emptied AS (
    UPDATE {SCHEMA}.run SET report = NULL FROM mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND report IS NOT NULL AND run.number <= (
        SELECT number FROM {SCHEMA}.run AS old
        WHERE old.project = mine.project AND old.stack = mine.stack AND report IS NOT NULL
        ORDER BY number DESC OFFSET {_REPORTS - 1} LIMIT 1))"""
RENAME_RUNS: Final = f"UPDATE {SCHEMA}.run SET project = %s, stack = %s WHERE project = %s AND stack = %s"
REMOVE_RUNS: Final = f"DELETE FROM {SCHEMA}.run WHERE project = %s AND stack = %s"


class ServerConnection:
    """One connection to the server at a URL, opened with its first use, for one thread at a time."""

    def __init__(self, url: str) -> None:
        """Open nothing yet. Raise ``ValueError`` for a URL that libpq cannot read."""
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # every error is raised
        self.url = url
        try:
            parameters: dict[str, Any] = conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise ValueError("libpq cannot read the URL") from None  # its message quotes the URL
        for name, (variable, value) in _DEFAULTS.items():
            if "service" not in parameters and variable not in os.environ:  # a service has its own
                parameters.setdefault(name, value)
        self._parameters = conninfo.make_conninfo(**parameters)
        self._connection: Connection | None = None
        #: Closes the connection, also when this object is no longer used.
        self._closing: weakref.finalize[Any, Any] | None = None
        #: The process that opened the connection; a forked child opens its own.
        self._pid = 0
        #: Whether tables were seen on the present connection.
        self._has_tables = False

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._closing is not None:
            self._closing()
        self._connection = self._closing = None

    def abort(self) -> None:
        """End the connection while another thread waits for an answer; that thread gets an error.

        For a server that hangs: the other thread would wait without end.
        """
        with suppress(psycopg.Error, OSError):
            if self._connection is not None:
                with socket.socket(fileno=os.dup(self._connection.fileno())) as connected:
                    connected.shutdown(socket.SHUT_RDWR)

    def run(self, work: Callable[[Connection], T], patience: float = 0.0) -> T:
        """Return the result of ``work``; after a lost connection it is called again on a new one.

        A connection that was open is reopened once in any case, and for ``patience`` seconds as often as needed, as
        during a restart of the server. ``work`` must have no further effect if it is called again. Raise
        ``StateError``.
        """
        until = time.monotonic() + patience
        reopened = False
        while True:
            try:
                return self._attempt(work)
            except _ConnectionLostError as error:
                if error.was_open and not reopened:
                    reopened = True
                elif time.monotonic() < until:
                    time.sleep(_PAUSE)
                else:
                    raise StateError(str(error)) from error

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        """Return the result of ``work`` on the connection, opened if there is none.

        If ``work`` fails within a statement or a transaction, the connection is closed: the next user of it would get
        the rest of an old answer, or continue that transaction.
        """
        try:
            with self._errors():
                return work(self._opened())
        except BaseException:
            connection = self._connection
            # After an interrupt the end of the statement may be unread.
            if connection is not None and connection.info.transaction_status is not pq.TransactionStatus.IDLE:
                self.close()
            raise

    def _opened(self) -> Connection:
        """Return the connection, opened if there is none."""
        # After a fork the connection remains that of the parent.
        if self._connection is None or self._connection.closed or self._pid != os.getpid():
            self.close()
            connection = psycopg.connect(self._parameters, autocommit=True, prepare_threshold=None)
            self._connection, self._pid, self._has_tables = connection, os.getpid(), False
            self._closing = weakref.finalize(self, _close, connection, self._pid)
        return self._connection

    def has_tables(self) -> bool:
        """Return whether the tables exist: without them nothing is recorded, and the first write creates them.

        Once they exist, the server is not asked again on this connection. Raise ``StateError`` for tables of another
        format.
        """
        if not self._has_tables:
            self._has_tables = _tables_exist(self._opened(), self.url)
        return self._has_tables

    def wait_for(self, channel: str, payload: str, seconds: float) -> None:
        """Wait at most ``seconds`` until ``payload`` is notified on a channel, as when another run releases a lease.

        The caller then tries again. Behind a pooler no notification can be received, and the whole time passes.
        """

        def wait(connection: Connection) -> bool:
            """Wait for a notification; return False at once behind a pooler, which shares sessions."""
            # A pooler has a process number of its own; to listen would concern the sessions of others.
            backend = connection.execute("SELECT pg_backend_pid()").fetchone()
            if backend != (connection.info.backend_pid,):
                return False
            connection.execute(f"LISTEN {channel}")
            for notify in connection.notifies(timeout=seconds):
                if notify.payload == payload:
                    break
            connection.execute(f"UNLISTEN {channel}")
            return True

        if not self.run(wait):
            time.sleep(seconds)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, without asking the server."""
        return self._connection is not None and not self._connection.closed

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the database into ``StateError``, with advice for the user.

        If the connection is lost, close it and raise an error of its own, after which ``run`` may try again.
        """
        try:
            yield
        except errors.InsufficientPrivilege as error:
            role = self._connection.info.user if self._connection is not None and self.is_open else ""
            msg = f"{self.url}: the role '{role}' may not do that: {_message(error)}; docs/teams.md lists rights"
            raise StateError(msg) from error
        except errors.ReadOnlySqlTransaction as error:
            msg = f"{self.url}: the server takes no writes, as a standby: {_message(error)}; name the one that does"
            raise StateError(msg) from error
        except psycopg.Error as error:
            failure = f"{self.url}: state cannot be used: {_message(error)}"
            was_open = self._connection is not None
            if self._connection is not None and not self._connection.closed and not isinstance(error, _ENDED):
                raise StateError(failure) from error
            self.close()
            raise _ConnectionLostError(failure, was_open=was_open) from error
        except UnicodeEncodeError as error:
            msg = f"{self.url}: state cannot be used: the encoding of the connection is not UTF-8"
            raise StateError(msg) from error


class _ConnectionLostError(StateError):
    """The connection could not be opened, or the server or the network ended it after it ``was_open``."""

    def __init__(self, message: str, *, was_open: bool = False) -> None:
        super().__init__(message)  # a copy is made of the message alone, then gets the fields
        self.was_open = was_open


@contextmanager
def snapshot(connection: Connection) -> Iterator[Connection]:
    """Show the content of one moment to several statements, in a transaction that cannot write.

    For ``state check``: the rows, the history and the holders of leases then belong together, while other runs write.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield connection
    finally:
        with suppress(psycopg.Error):  # of a connection that was lost
            connection.execute("ROLLBACK")


def _message(error: psycopg.Error) -> str:
    """Return the message of an error on one line, without details, which may quote values."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    return "; ".join(filled_lines(text)).removesuffix(":")


def _close(connection: Connection, pid: int) -> None:
    """Close a connection that process ``pid`` opened; a forked child leaves it, because it would end that session."""
    if os.getpid() == pid:
        with suppress(psycopg.Error):
            connection.close()


def _tables_exist(connection: Connection, url: str) -> bool:
    """Return whether the tables exist, in a format that this version reads.

    An empty schema, which an administrator may have created, counts as one without tables. Raise ``StateError`` for a
    schema with the tables of another program, and for another format.
    """
    row = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL, (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(%s))",
        (f"{SCHEMA}.format", SCHEMA),
    ).fetchone()
    has_format, relations = row or (False, 0)
    if not relations:
        return False
    versions: list[tuple[object]] = []
    if has_format:
        with suppress(errors.UndefinedColumn):
            versions = connection.execute(f"SELECT version FROM {SCHEMA}.format").fetchall()
    _check_format([version for (version,) in versions], url)
    return True


def _check_format(versions: list[object], url: str) -> None:
    """Raise ``StateError`` unless the database has one format that this version reads.

    The tables of another program or of a newer version must be neither misread nor changed.
    """
    if len(versions) != 1 or not isinstance(versions[0], int):
        msg = f"{url}: the schema {SCHEMA} is not one of resource-api; name another database"
    elif versions[0] > VERSION:
        msg = f"{url}: written by a newer resource-api: format {versions[0]}, this one reads up to {VERSION}"
    elif versions[0] < 1:
        msg = f"{url}: state is damaged: there is no format {versions[0]}"
    else:
        return
    raise StateError(msg)


def create_tables(connection: Connection, url: str) -> None:
    """Create the tables unless they exist, all or none. Raise ``StateError`` for a database in another encoding.

    A lock in the database makes a second first run wait for this one.
    """
    if connection.info.parameter_status("server_encoding") != "UTF8":
        encoding = connection.info.parameter_status("server_encoding")
        raise StateError(f"{url}: the database has the encoding {encoding}; state needs one with ENCODING 'UTF8'")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION,))
        if _tables_exist(connection, url):
            return
        has_schema = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (SCHEMA,)).fetchone()
        for statement in ((f"CREATE SCHEMA {SCHEMA}",) if has_schema == (False,) else ()) + _TABLES:
            connection.execute(statement)


class FetchedRows:
    """Rows that were read by one statement, which shows the content of one moment."""

    def __init__(self, rows: Iterable[tuple[str, int, bytes, int]], url: str) -> None:
        """Take the rows, each after the name of its table, sorted for ``read``; ``url`` is for messages.

        Reading all tables by one statement needs one round trip to the server.
        """
        self._url = url
        #: Table → its rows, ordered by id.
        self._rows: dict[str, list[Row]] = {}
        for table, row_id, body, checksum in sorted(rows, key=itemgetter(0, 1)):
            self._rows.setdefault(table, []).append((row_id, body, checksum))

    @classmethod
    def fetch(cls, connection: Connection, url: str, name: StackName | None = None) -> Self:
        """Return all rows of a stack, or of all stacks."""
        query, values = (_ALL, ()) if name is None else (_OF_STACK, name)
        return cls(connection.execute(query, values, binary=True), url)

    def read(self, table: str, low: int = 0, high: int = 2**62) -> list[Row]:
        """Return the verified rows of a table with ``low`` <= id < ``high``, ordered by id. Raise ``StateError``.

        The rows of one stack have the ids of such a range.
        """
        rows = self._rows.get(table, [])
        first, end = (bisect_left(rows, limit, key=itemgetter(0)) for limit in (low, high))
        rows = rows[first:end]
        if not are_intact(rows):
            raise self.damage(f"a row of table {table} was altered")
        return rows

    def damage(self, message: str) -> StateError:
        """Return the error for damaged rows."""
        return damage(self._url, message)

    def check(self) -> None:
        """Do nothing: the server verifies its own files."""


def damage(url: str, message: str) -> StateError:
    """Return the error for damage, which names the remedies."""
    remedy = "restore the database from a backup of the server, or the stack with 'state import --force'"
    return StateError(f"{url}: state is damaged: {message}; {remedy}")


class CollectedRows:
    """The writes of one change to a stack, collected for one statement: one round trip to the server."""

    def __init__(self) -> None:
        """Start without rows to write or delete."""
        #: The header of the stack, which every change writes.
        self.header: Row = (0, b"", 0)
        #: By table, the limits of the ids that are deleted before anything is written.
        self.ranges: dict[str, tuple[int, int]] = {}
        #: By table and id; an id is in ``_rows`` or in ``_deleted``, never in both: the statement has no order.
        self._rows: dict[str, dict[int, Row]] = {}
        self._deleted: dict[str, set[int]] = {}

    def write(self, table: str, rows: Sequence[Row]) -> None:
        """Collect rows to insert; rows with the same ids are replaced.

        The table ``stack`` has one row for each stack: its header, which is written with the lease, not inserted.
        """
        if table == "stack":
            [self.header] = rows
            return
        for row in rows:
            self._rows.setdefault(table, {})[row[0]] = row
            self._deleted.get(table, set()).discard(row[0])

    def delete(self, table: str, ids: Iterable[int]) -> None:
        """Collect rows to delete, by their ids.

        A row that was collected to be written before is not written: the statement executes all parts at once, without
        an order.
        """
        for row_id in ids:
            self._rows.get(table, {}).pop(row_id, None)
            self._deleted.setdefault(table, set()).add(row_id)

    def delete_range(self, table: str, low: int, high: int) -> None:
        """Delete the rows with ``low`` <= id < ``high``, before any row is written."""
        self.ranges[table] = low, high

    def statement(self) -> tuple[str, dict[str, object]]:
        """Return the parts of a statement (CTEs) that delete and insert the rows, and their parameters.

        The caller puts them after a part ``mine``, which yields the stack's row only while the run holds its lease. The
        parts here depend on that row, so that a run that has lost the lease writes nothing.
        """
        parts: list[str] = []
        values: dict[str, object] = {}
        for table, ids in self._deleted.items():
            if ids:
                parts.append(
                    f", d_{table} AS (DELETE FROM {SCHEMA}.{table} USING mine WHERE id = ANY(%({table}_d)s::bigint[]))"
                )
                values[f"{table}_d"] = sorted(ids)
        for table, rows in self._rows.items():
            if rows:
                parts.append(_INSERT.format(schema=SCHEMA, table=table))
                columns = zip(*rows.values(), strict=True)
                values |= {f"{table}_{key}": list(column) for key, column in zip("ibc", columns, strict=True)}
        return "".join(parts), values


def to_json(value: object) -> str:
    """Return a JSON value as text, without characters that the server's JSON cannot hold: NUL and half surrogates."""
    text = json.dumps(value, separators=(",", ":"))
    if "\\u0000" in text or "\\ud" in text:
        text = json.dumps(map_leaves(value, _storable, _storable), separators=(",", ":"))
    return text


def _storable(part: object) -> object:
    """Return a key or a scalar without the characters that the server cannot store."""
    if isinstance(part, str):
        # In UTF-16 two halves of a pair become their character, and a half alone is replaced.
        return part.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return part


def history(connection: Connection, name: StackName | None) -> list[Mapping[str, object]]:
    """Return the history: the finished runs of a stack, or of all stacks for None, in the order in which they ended."""
    condition, values = ("", ()) if name is None else ("WHERE project = %s AND stack = %s", name)
    query = f"SELECT project, stack, entry FROM {SCHEMA}.run {condition} ORDER BY number"
    rows = connection.execute(query, values).fetchall()
    return [{**entry, "project": project, "stack": stack} for project, stack, entry in rows]


def report(connection: Connection, run: str) -> bytes | None:
    """Return the report of an earlier run as JSON, for its display, or None if none was saved."""
    query = f"SELECT report FROM {SCHEMA}.run WHERE run = %s AND report IS NOT NULL ORDER BY number DESC LIMIT 1"
    row = connection.execute(query, (run,)).fetchone()
    return None if row is None else json.dumps(row[0]).encode()


def reported(connection: Connection) -> list[str]:
    """Return the ids of the runs with a report, the oldest first."""
    rows = connection.execute(f"SELECT run FROM {SCHEMA}.run WHERE report IS NOT NULL ORDER BY number").fetchall()
    return [run for (run,) in rows]
