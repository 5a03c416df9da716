"""Read all databases with one query; create, change and drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.mysql import ServerProvider, among, identifier, literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lib.mysql import Session
    from resource_api import Context, Resource

QUERY = """
    SELECT SCHEMA_NAME AS name, DEFAULT_CHARACTER_SET_NAME AS charset, DEFAULT_COLLATION_NAME AS collate_
    FROM information_schema.SCHEMATA WHERE
"""
OWN = ("information_schema", "mysql", "performance_schema", "sys")
WORDS = {"charset": "CHARACTER SET", "collate": "COLLATE"}


class Provider(ServerProvider):
    """The databases of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write character sets in small letters, and ``utf8`` by its present name, as in rows of ``get``."""
        for resource in resources:
            for attribute in WORDS:
                if resource.get(attribute) is not None:
                    resource[attribute] = _canonical(resource[attribute])
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the databases in ``names``, or all but the server's own, from one query."""
        condition = f"NOT {among('SCHEMA_NAME', OWN)}" if names is None else among("SCHEMA_NAME", names)
        with self._server.session(context) as session:
            rows = session.rows(QUERY + condition)
        return context.accepted(
            {
                "ensure": "present",
                "name": row["name"],
                "charset": _canonical(row["charset"]),
                "collate": _canonical(row["collate_"]),
            }
            for row in rows
            # The server compares without regard to case here.
            if names is None or row["name"] in names
        )

    def _change(self, session: Session, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Create a database, change its declared attributes, or drop it."""
        database = identifier(name)
        if should["ensure"] == "absent":
            session.run(f"DROP DATABASE IF EXISTS {database}")
            return
        options = [f"{word} {literal(should[key])}" for key, word in WORDS.items() if should.get(key) is not None]
        session.run(" ".join([f"{'CREATE' if is_ is None else 'ALTER'} DATABASE {database}", *options]))


def _canonical(name: str) -> str:
    """Return a character set or a collation as servers call it today."""
    lower = name.lower()
    return f"utf8mb3{lower[4:]}" if lower == "utf8" or lower.startswith("utf8_") else lower
