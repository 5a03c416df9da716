"""Read the rights on all objects of a database with one query; change the rights in a database in one session."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from lib.postgresql import ServerProvider, identifier, literal
from lib.postgresql_rights import GRANTS, INSIDE, OBJECTS, QUALIFIED
from resource_api import Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    #: Role, kind, object, database.
    Name = tuple[str, str, str, str]

PUBLIC = "PUBLIC"
#: The rights that there are, by kind.
TABLE = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"})
SEQUENCE = frozenset({"USAGE", "SELECT", "UPDATE"})
RIGHTS = {
    "database": frozenset({"CREATE", "CONNECT", "TEMPORARY"}),
    "schema": frozenset({"USAGE", "CREATE"}),
    "table": TABLE,
    "tables": TABLE,
    "sequence": SEQUENCE,
    "sequences": SEQUENCE,
    "functions": frozenset({"EXECUTE"}),
    "tablespace": frozenset({"CREATE"}),
}
#: Kinds that stand for all objects of a schema.
ALL_IN = {"tables": "TABLES", "sequences": "SEQUENCES", "functions": "FUNCTIONS"}
#: Kinds that are in no database.
OUTSIDE = frozenset({"database", "tablespace"})
#: The rights of one role on each object.
ROWS = """
    WITH roles(role, oid) AS (SELECT rolname::text, oid FROM pg_roles UNION ALL SELECT 'PUBLIC', 0),
    objects(kind, schema, name, acl, owner, letter) AS ({objects}),
    wanted AS ({wanted})
    SELECT w.role, w.kind, w.name, o.name AS member,
        EXISTS (SELECT FROM pg_namespace WHERE nspname = w.name) AS is_schema,
        ARRAY(SELECT DISTINCT privilege_type FROM aclexplode(coalesce(o.acl, acldefault(o.letter::"char", o.owner))) a
            WHERE a.grantee = r.oid) AS rights,
        ARRAY(SELECT DISTINCT privilege_type FROM aclexplode(coalesce(o.acl, acldefault(o.letter::"char", o.owner))) a
            WHERE a.grantee = r.oid AND is_grantable) AS grantable,
        ARRAY(SELECT DISTINCT privilege_type FROM aclexplode(acldefault(o.letter::"char", o.owner))) AS every
    FROM wanted w JOIN roles r USING (role)
        LEFT JOIN objects o ON (o.kind = w.kind AND o.name = w.name) OR (o.kind || 's' = w.kind AND o.schema = w.name)
"""


class Row(NamedTuple):
    """The rights of a role on one object, which may be one of many in a schema; ``member`` is None without one."""

    role: str
    kind: str
    name: str
    member: str | None
    is_schema: bool
    rights: list[str]
    grantable: list[str]
    every: list[str]


class Provider(ServerProvider):
    """The rights in the databases of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write ``PUBLIC`` in capitals, tables with their schema, and rights in order; ``ALL`` stands alone."""
        for resource in resources:
            if resource.get("role", "").lower() == "public":
                resource["role"] = PUBLIC
            name = resource.get("object_name", "")
            if resource.get("object_type") in QUALIFIED and "." not in name:
                resource["object_name"] = f"public.{name}"
            if resource.get("privilege") is not None:
                rights = set(resource["privilege"])
                resource["privilege"] = ["ALL"] if "ALL" in rights else sorted(rights)
        return resources

    def validate(self, context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse rights that the kind of object does not have, and a database that is missing or needless."""
        yield from super().validate(context, should)
        kind, database, privilege = should["object_type"], should["database"], should.get("privilege")
        for right in privilege if isinstance(privilege, list) else ():
            if isinstance(right, str) and right not in RIGHTS[kind] | {"ALL"}:
                rights = ", ".join(sorted(RIGHTS[kind]))
                yield Problem("privilege", f"there is no {right} on {kind}; the rights are {rights} and ALL")
        if kind in OUTSIDE and database:
            yield Problem("database", f"a {kind} is in no database; leave it out")
        if kind not in OUTSIDE and not database:
            yield Problem("database", f"database is needed, as in 'app on {kind} NAME in DATABASE'")
        if kind not in QUALIFIED and "." in should["object_name"]:
            yield Problem("object_name", f"the name after '{kind}' has no '.'")
        if should["role"] == PUBLIC and should.get("grant_option"):
            yield Problem("grant_option", "PUBLIC cannot give rights to others")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare ``ALL`` with all rights for the kind of object.

        A grant on all objects of a schema is in sync only if no object lacks a right that another object has: the
        message names such objects.
        """
        if attribute != "privilege":
            return None
        if is_.get("missing"):
            return False, f"not all are on {', '.join(is_['missing'])}"
        return bool(is_.get("is_all")) if should["privilege"] == ["ALL"] else None

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the rights in ``names``, or all; those in a database can be read only by a query through it."""
        # The empty name is for objects in no database, such as databases themselves.
        for database in ["", *self._databases()] if names is None else dict.fromkeys(name[3] for name in names):
            requested = None if names is None else [name for name in names if name[3] == database]
            try:
                groups = self._read(database, requested)
            except ResourceError:
                if not database or database in self._databases():
                    raise
                continue  # the database does not exist, and so there are no rights in it
            yield from context.accepted([_row(database, rows) for rows in groups if any(row.rights for row in rows)])

    def _databases(self) -> list[str]:
        """Return the databases that accept connections, without templates: a listing has the rights in these."""
        text = self._server.read("SELECT json_agg(datname) FROM pg_database WHERE datallowconn AND NOT datistemplate;")
        databases: list[str] = json.loads(text)
        return databases

    def _read(self, database: str, names: Collection[Name] | None) -> list[list[Row]]:
        """Return the rows of rights in a database, grouped by name: role, kind and object.

        A name on all objects of a schema has a row for each object. With ``names``, each of them has a row if its role
        exists, even without rights; None reads all rights.
        """
        if names is None:
            kinds, requested = INSIDE if database else OUTSIDE, GRANTS
        else:
            values = ", ".join(f"({', '.join(map(literal, name[:3]))})" for name in names)
            requested = f"SELECT * FROM (VALUES {values}) v(role, kind, name)"  # noqa: S608 - quoted by literal
            kinds = frozenset(name[1].removesuffix("s") for name in names)
        objects = " UNION ALL ".join(OBJECTS[kind] for kind in sorted(kinds))
        rows = ROWS.replace("{objects}", objects).replace("{wanted}", requested)
        query = f"SELECT coalesce(json_agg(q ORDER BY role, kind, name, member), '[]') FROM ({rows}) q;"  # noqa: S608 - constants
        rows_of_names = (Row(**row) for row in json.loads(self._server.through(database).read(query)))
        return [list(group) for _, group in groupby(rows_of_names, key=lambda row: row[:3])]

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Change the rights in each database in one session, each right in a transaction of its own."""
        groups: dict[str, list[Name]] = defaultdict(list)
        for name in changes:
            groups[name[3]].append(name)
        failures: list[ResourceError] = []
        for database, names in groups.items():
            try:
                self._change(context, database, {name: changes[name].should for name in names})
            except ResourceError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _change(self, context: Context, database: str, states: Mapping[Name, Mapping[str, Any]]) -> None:
        """Change the rights in one database as declared in ``states``, by statements of one session.

        Rights on all objects of an empty schema fail: PostgreSQL would accept them without any effect.
        """
        statements: list[str] = []
        rows_by_name = {(*rows[0][:3], database): rows for rows in self._read(database, list(states))}
        for name, should in states.items():
            rows = rows_by_name.get(name, [])
            is_empty_schema = bool(rows) and rows[0].is_schema and rows[0].member is None
            if name[1] in ALL_IN and is_empty_schema:
                context.failed(name, message=f"there are no {name[1]} in the schema '{name[2]}' yet")
                continue
            statements += _statements(name, should, {right for row in rows for right in row.rights})
        self._server.through(database).run(*statements)


def _row(database: str, rows: list[Row]) -> Resource:
    """Return the row of a role's rights on an object, or on all objects of a schema, each of which has one of ``rows``.

    For a schema ``privilege`` has all rights that the role has on at least one object, and ``missing`` the objects that
    lack some of these, so that ``insync`` reports them.
    """
    first, rights = rows[0], {right for row in rows for right in row.rights}
    missing = [row.member for row in rows if rights - set(row.rights)]
    attributes: Resource = {
        "ensure": "present",
        "role": first.role,
        "object_type": first.kind,
        "object_name": first.name,
        "database": database,
        "privilege": sorted(rights),
        "grant_option": all(set(row.rights) == set(row.grantable) for row in rows),
        "is_all": all(set(row.rights) == set(row.every) for row in rows),
    }
    return {**attributes, "missing": missing[:3]} if missing else attributes


def _statements(name: Name, should: Mapping[str, Any], held: Collection[str]) -> Iterator[str]:
    """Yield the statements that give a role exactly the declared rights on an object; ``held``: its present ones."""
    target, role = _target(name), PUBLIC if name[0] == PUBLIC else identifier(name[0])
    if should["ensure"] == "absent":
        yield f"REVOKE ALL PRIVILEGES ON {target} FROM {role};"
        return
    every = should["privilege"] == ["ALL"]
    rights = "ALL PRIVILEGES" if every else ", ".join(should["privilege"])
    yield "BEGIN;"
    if not every and (extra := sorted(set(held) - set(should["privilege"]))):
        yield f"REVOKE {', '.join(extra)} ON {target} FROM {role};"
    yield f"GRANT {rights} ON {target} TO {role}{' WITH GRANT OPTION' if should.get('grant_option') else ''};"
    if should.get("grant_option") is False:
        yield f"REVOKE GRANT OPTION FOR {rights} ON {target} FROM {role};"
    yield "COMMIT;"


def _target(name: Name) -> str:
    """Return the object of a right in the syntax of GRANT, such as ``ALL TABLES IN SCHEMA "app"``."""
    _, kind, object_name, _ = name
    path = ".".join(map(identifier, object_name.split(".")))
    return f"ALL {ALL_IN[kind]} IN SCHEMA {path}" if kind in ALL_IN else f"{kind.upper()} {path}"
