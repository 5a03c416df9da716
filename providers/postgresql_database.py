"""Read all databases with one query; create, change and drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib import postgresql, postgresql_rights
from lib.postgresql import ServerProvider, identifier, literal
from resource_api import SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

QUERY = """
    SELECT datname::text AS name, pg_get_userbyid(datdba)::text AS owner, pg_encoding_to_char(encoding) AS encoding,
        CASE WHEN datcollate = datctype THEN datcollate::text END AS locale, spcname::text AS tablespace,
        datconnlimit AS connection_limit, datallowconn AS allow_connections, datistemplate AS is_template,
        coalesce(shobj_description(d.oid, 'pg_database'), '') AS comment, d.oid::bigint AS oid
    FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace
"""


class Provider(ServerProvider):
    """The databases of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write encodings as the server does, UTF8 for utf-8, so that equal encodings are equal."""
        for resource in resources:
            if resource.get("encoding") is not None:
                upper = resource["encoding"].upper()
                resource["encoding"] = "UTF8" if upper == "UTF-8" else upper
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the databases in ``names``, or all."""
        rows = self._server.rows(QUERY, names)
        databases = ({key: value for key, value in row.items() if value is not None} for row in rows)
        return context.accepted({"ensure": "present", **database} for database in databases)

    def create(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a database; attributes without an option of ``CREATE DATABASE`` follow as ``ALTER DATABASE``.

        Another encoding or locale is possible only with the template ``template0``.
        """
        template = should.get("template")
        if template is None and (should.get("encoding") is not None or should.get("locale") is not None):
            template = "template0"
        names = {"OWNER": should.get("owner"), "TEMPLATE": template, "TABLESPACE": should.get("tablespace")}
        words = [f"{word} {identifier(value)}" for word, value in names.items() if value is not None]
        quoted = {"ENCODING": should.get("encoding"), "LOCALE": should.get("locale")}
        words += [f"{word} {literal(value)}" for word, value in quoted.items() if value is not None]
        self._server.run(f"CREATE DATABASE {identifier(name)} {' '.join(words)};", *_statements(name, should))

    def update(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Set the declared attributes; owner and tablespace, which need further rights, only if they differ."""
        present = next(iter(self._server.rows(QUERY, [name])), {})
        database, changes = identifier(name), []
        if should.get("owner") not in {None, present.get("owner")}:
            changes.append(f"ALTER DATABASE {database} OWNER TO {identifier(should['owner'])};")
        if should.get("tablespace") not in {None, present.get("tablespace")}:
            changes.append(f"ALTER DATABASE {database} SET TABLESPACE {identifier(should['tablespace'])};")
        self._server.run(*changes, *_statements(name, should))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the rights that are lost with a database.

        A right on a table may be declared as one on all tables of its schema: that name is an alias of the effect.
        """
        for name, (is_, _) in changes.items():
            connect = bool(is_ and is_["allow_connections"])
            for role, kind, object_name, database in postgresql_rights.in_database(self._server, name, connect=connect):
                schema = object_name.partition(".")[0]
                aliases = [(role, f"{kind}s", schema, database)] if kind in postgresql_rights.QUALIFIED else []
                grant = (role, kind, object_name, database)
                yield name, SideEffect(grant, "remove", "postgresql_grant", aliases=aliases, dependent=True)

    def delete(self, _context: Context, name: str) -> None:
        """Drop a database; one that is a template must lose that property first."""
        if rows := self._server.rows(QUERY, [name]):
            database = identifier(name)
            release = [f"ALTER DATABASE {database} IS_TEMPLATE false;"] if rows[0]["is_template"] else []
            self._server.run(*release, f"DROP DATABASE {database};")


def _statements(name: str, should: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements that give an existing database its declared attributes, for ``create`` and ``update``.

    Owner and tablespace are missing, as only ``update`` needs statements for them.
    """
    words = {"allow_connections": "ALLOW_CONNECTIONS", "is_template": "IS_TEMPLATE"}
    options = [f"{word} {str(should[key]).lower()}" for key, word in words.items() if should.get(key) is not None]
    if should.get("connection_limit") is not None:
        options.append(f"CONNECTION LIMIT {should['connection_limit']}")
    if options:
        yield f"ALTER DATABASE {identifier(name)} WITH {' '.join(options)};"
    yield from postgresql.comment("DATABASE", name, should)
