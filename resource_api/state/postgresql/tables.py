"""The rows of a stack in the tables of a PostgreSQL store: read from a snapshot, and written by one statement.

The statement renews the lease of the stack and does nothing at all where that was lost. It is atomic, durable when it
returns, and needs one journey to the server, whatever it writes.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Self

from resource_api.model.values.errors import StateError
from resource_api.state.postgresql.schema import SCHEMA
from resource_api.state.stack_rows import SPAN, TABLES, are_intact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resource_api.state.postgresql.connection import Connection
    from resource_api.state.store import Row, StackName

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


class FetchedRows:
    """Rows that were read by one statement, which shows the content of one moment."""

    def __init__(self, rows: Iterable[tuple[str, int, bytes, int]], url: str) -> None:
        """Take rows, each after the name of its table; ``url`` is in messages about damage."""
        self._url = url
        self._rows: dict[str, list[Row]] = {}
        for table, row_id, body, checksum in sorted(rows, key=itemgetter(0, 1)):
            self._rows.setdefault(table, []).append((row_id, body, checksum))

    @classmethod
    def of_stack(cls, connection: Connection, name: StackName, url: str) -> Self:
        """Return all rows of a stack."""
        return cls(connection.execute(_OF_STACK, name, binary=True), url)

    @classmethod
    def of_all(cls, connection: Connection, url: str) -> Self:
        """Return all rows of all stacks."""
        return cls(connection.execute(_ALL, binary=True), url)

    def read(self, table: str, low: int = 0, high: int = 2**62) -> list[Row]:
        """Return the verified rows of a table with ``low`` <= id < ``high``, ordered by id. Raise ``StateError``."""
        rows = self._rows.get(table, [])
        first, end = (bisect_left(rows, limit, key=itemgetter(0)) for limit in (low, high))
        rows = rows[first:end]
        if not are_intact(rows):
            msg = f"a row of table {table} was altered"
            raise self.damage(msg)
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
    """The writes of one change, collected for one statement."""

    def __init__(self) -> None:
        """Start without any."""
        #: The header of the stack, which every change writes.
        self.header: Row = (0, b"", 0)
        #: By table, the limits of the ids that are deleted before anything is written.
        self.ranges: dict[str, tuple[int, int]] = {}
        #: By table and id; an id is in ``_rows`` or in ``_deleted``, never in both: the statement has no order.
        self._rows: dict[str, dict[int, Row]] = {}
        self._deleted: dict[str, set[int]] = {}

    def write(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows; rows with the same ids are replaced."""
        if table == "stack":
            [self.header] = rows
            return
        for row in rows:
            self._rows.setdefault(table, {})[row[0]] = row
            self._deleted.get(table, set()).discard(row[0])

    def delete(self, table: str, ids: Iterable[int]) -> None:
        """Delete the rows with these ids."""
        for row_id in ids:
            self._rows.get(table, {}).pop(row_id, None)
            self._deleted.setdefault(table, set()).add(row_id)

    def delete_range(self, table: str, low: int, high: int) -> None:
        """Delete the rows with ``low`` <= id < ``high``, before any row is written."""
        self.ranges[table] = low, high

    def statement(self) -> tuple[str, dict[str, object]]:
        """Return parts of a statement that write the rows of the stack in its part ``mine``, and their values."""
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


_INSERT: Final = """, w_{table} AS (
    INSERT INTO {schema}.{table} SELECT rows.* FROM mine,
        unnest(%({table}_i)s::bigint[], %({table}_b)b::bytea[], %({table}_c)s::bigint[]) AS rows
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, checksum = excluded.checksum)"""
