"""The history of finished runs and their reports: one row for each run, the newest of each stack.

A report is a JSON value, which the server can search; it is no part of the state, and no decision depends on it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from resource_api.model.values.values import map_leaves
from resource_api.state.postgresql.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.postgresql.connection import Connection
    from resource_api.state.store import StackName

#: The number of runs in the history of a stack, and of reports.
HISTORY: Final = 500
REPORTS: Final = 100
#: The size of the largest report that is kept, in bytes.
LARGEST: Final = 64 * 1024 * 1024

#: Parts of a statement with a part ``mine``, the stack. A part does not see the rows that another one writes.
ADD: Final = f""", added AS (
    INSERT INTO {SCHEMA}.run (project, stack, run, entry)
    SELECT project, stack, %(run)s, %(entry)s::jsonb FROM mine
), removed AS (
    DELETE FROM {SCHEMA}.run USING mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND run.number <= (
        SELECT number FROM {SCHEMA}.run AS old WHERE old.project = mine.project AND old.stack = mine.stack
        ORDER BY number DESC OFFSET {HISTORY - 1} LIMIT 1))"""
SAVE: Final = f""", saved AS (
    UPDATE {SCHEMA}.run SET report = %(report)s::jsonb FROM mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND run.run = %(run)s
), emptied AS (
    UPDATE {SCHEMA}.run SET report = NULL FROM mine
    WHERE run.project = mine.project AND run.stack = mine.stack AND report IS NOT NULL AND run.number <= (
        SELECT number FROM {SCHEMA}.run AS old
        WHERE old.project = mine.project AND old.stack = mine.stack AND report IS NOT NULL
        ORDER BY number DESC OFFSET {REPORTS - 1} LIMIT 1))"""
RENAME: Final = f"UPDATE {SCHEMA}.run SET project = %s, stack = %s WHERE project = %s AND stack = %s"
REMOVE: Final = f"DELETE FROM {SCHEMA}.run WHERE project = %s AND stack = %s"


def to_json(value: object) -> str:
    """Return the text of a JSON value that the server stores: it has no place for NUL and half of a surrogate pair."""
    text = json.dumps(value, separators=(",", ":"))
    if "\\u0000" in text or "\\ud" in text:
        text = json.dumps(map_leaves(value, _storable, _storable), separators=(",", ":"))
    return text


def _storable(part: object) -> object:
    """Return a key or a scalar without the characters that the server cannot store."""
    if isinstance(part, str):
        return part.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return part


def history(connection: Connection, name: StackName | None) -> list[Mapping[str, object]]:
    """Return the finished runs of a stack, or of all, in the order in which they ended."""
    condition, values = ("", ()) if name is None else ("WHERE project = %s AND stack = %s", name)
    query = f"SELECT project, stack, entry FROM {SCHEMA}.run {condition} ORDER BY number"
    rows = connection.execute(query, values).fetchall()
    return [{**entry, "project": project, "stack": stack} for project, stack, entry in rows]


def report(connection: Connection, run: str) -> bytes | None:
    """Return the report of a run as JSON, or None."""
    query = f"SELECT report FROM {SCHEMA}.run WHERE run = %s AND report IS NOT NULL ORDER BY number DESC LIMIT 1"
    row = connection.execute(query, (run,)).fetchone()
    return None if row is None else json.dumps(row[0]).encode()


def reported(connection: Connection) -> list[str]:
    """Return the ids of the runs with a report, the oldest first."""
    rows = connection.execute(f"SELECT run FROM {SCHEMA}.run WHERE report IS NOT NULL ORDER BY number").fetchall()
    return [run for (run,) in rows]
