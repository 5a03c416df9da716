"""The rights that roles have been given on the objects of a PostgreSQL server, as queries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lib.postgresql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lib.postgresql import Server

#: Kinds of which a listing shows the rights in a database, and the kinds among them whose names have a schema.
INSIDE = frozenset({"schema", "table", "sequence"})
QUALIFIED = frozenset({"table", "sequence"})
#: All objects of a kind with their rights; those that were never changed have the rights that ``acldefault`` says.
RELATIONS = """
    SELECT '{kind}', nspname::text, nspname || '.' || relname, relacl, relowner, '{letter}'
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ({kinds})
"""
OBJECTS = {
    "database": "SELECT 'database', NULL, datname::text, datacl, datdba, 'd' FROM pg_database",
    "tablespace": "SELECT 'tablespace', NULL, spcname::text, spcacl, spcowner, 't' FROM pg_tablespace",
    "schema": "SELECT 'schema', NULL, nspname::text, nspacl, nspowner, 'n' FROM pg_namespace",
    "table": RELATIONS.format(kind="table", letter="r", kinds="'r', 'v', 'm', 'f', 'p'"),
    "sequence": RELATIONS.format(kind="sequence", letter="s", kinds="'S'"),
    "function": """
    SELECT 'function', nspname::text, p.oid::regprocedure::text, proacl, proowner, 'f'
    FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
""",
}
#: The rights of a listing: given to another role than the owner, on objects that are not the server's own.
GRANTS = """
    SELECT DISTINCT g.role, o.kind, o.name FROM objects o, LATERAL aclexplode(o.acl) a JOIN roles g ON g.oid = a.grantee
    WHERE a.grantee <> o.owner AND coalesce(o.schema, o.name) !~ '^(pg_|information_schema$)'
"""


def in_database(server: Server, database: str, *, connect: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield (role, kind, object, database) of each right that is lost when a database is removed.

    A plan shows them as side effects. The last part is empty for a right on the database itself. With ``connect`` the
    rights on its schemas and tables are included, which only a connection to the database can read.
    """
    # Rights on the database itself can be read through any database, those inside it only through it.
    scopes = [("", server, ["database"])]
    scopes += [(database, server.through(database), sorted(INSIDE))] if connect else []
    for scope, reached, kinds in scopes:
        objects = " UNION ALL ".join(OBJECTS[kind] for kind in kinds)
        condition = "true" if scope else f"name = {literal(database)}"
        query = f"""
            WITH roles(role, oid) AS (SELECT rolname::text, oid FROM pg_roles UNION ALL SELECT 'PUBLIC', 0),
            objects(kind, schema, name, acl, owner, letter) AS ({objects})
            SELECT coalesce(json_agg(q ORDER BY role, kind, name), '[]') FROM ({GRANTS}) q WHERE {condition};
        """  # noqa: S608 - constants, and quoted by literal
        yield from ((row["role"], row["kind"], row["name"], scope) for row in json.loads(reached.read(query)))
