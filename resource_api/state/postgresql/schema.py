"""The tables of a PostgreSQL store, in the schema ``resource_api``, and the version of their format.

``stack`` has a row for each stack: its lease, and its header with a checksum, as the rows of ``resource``, ``owed`` and
``intent`` have one. ``run`` has a row for each finished run, with its report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import errors

from resource_api.model.values.errors import StateError
from resource_api.state.stack_rows import TABLES

if TYPE_CHECKING:
    from resource_api.state.postgresql.connection import Connection

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


def exists(connection: Connection, url: str) -> bool:
    """Return whether the tables exist, in a format that this version reads; an empty schema has none.

    Raise ``StateError`` for a schema of another program, and for another format.
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
        try:
            versions = connection.execute(f"SELECT version FROM {SCHEMA}.format").fetchall()
        except errors.UndefinedColumn:
            versions = []
    _check_format([version for (version,) in versions], url)
    return True


def _check_format(versions: list[object], url: str) -> None:
    """Raise ``StateError`` unless the database has one format that this version reads."""
    if len(versions) != 1 or not isinstance(versions[0], int):
        msg = f"{url}: the schema {SCHEMA} is not one of resource-api; name another database"
    elif versions[0] > VERSION:
        msg = f"{url}: written by a newer resource-api: format {versions[0]}, this one reads up to {VERSION}"
    elif versions[0] < 1:
        msg = f"{url}: state is damaged: there is no format {versions[0]}"
    else:
        return
    raise StateError(msg)


def create(connection: Connection, url: str) -> None:
    """Create the tables unless they exist, all or none. Raise ``StateError``."""
    if connection.info.parameter_status("server_encoding") != "UTF8":
        encoding = connection.info.parameter_status("server_encoding")
        msg = f"{url}: the database has the encoding {encoding}; state needs one with ENCODING 'UTF8'"
        raise StateError(msg)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION,))
        if exists(connection, url):
            return
        has_schema = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (SCHEMA,)).fetchone()
        for statement in ((f"CREATE SCHEMA {SCHEMA}",) if has_schema == (False,) else ()) + _TABLES:
            connection.execute(statement)
