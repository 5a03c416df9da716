"""The syntax of rights on a MariaDB or MySQL server and of their targets. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from lib.mysql import identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    #: A right, and the column that it is about in small letters; empty where it is about more than columns.
    Right = tuple[str, str]

#: A name as it is, or in backticks.
PART = r"(?:[^.`*\s[:cntrl:]]+|`(?:[^`[:cntrl:]]|``)+`)"
TABLE = rf"Pattern[/\A(\*\.\*|{PART}\.\*|((PROCEDURE|FUNCTION) )?{PART}\.{PART})\z/]"
#: A column has at least one character: with none, the right would be one on all of the table.
COLUMN = r" *[^()`,\s[:cntrl:]][^()`,[:cntrl:]]*"
PRIVILEGE = rf"Pattern[/\A[A-Za-z_]+( [A-Za-z_]+)*( ?\({COLUMN}(,{COLUMN})*\))?\z/]"

SERVER, DATABASE, ONE_TABLE, PROCEDURE, FUNCTION = "server", "database", "table", "PROCEDURE", "FUNCTION"
ALL, USAGE, GRANT = "ALL", "USAGE", "GRANT"
#: The rights on anything less than the server, of any version.
OF_COLUMNS = frozenset({"INSERT", "REFERENCES", "SELECT", "UPDATE"})
OF_TABLES = OF_COLUMNS | {
    *("ALTER", "CREATE", "CREATE VIEW", "DELETE", "DELETE HISTORY", "DROP", "INDEX", "SHOW VIEW", "TRIGGER")
}
OF_ROUTINES = frozenset({"ALTER ROUTINE", "EXECUTE", "SHOW CREATE ROUTINE"})
RIGHTS = {
    DATABASE: OF_TABLES | OF_ROUTINES | {"CREATE ROUTINE", "CREATE TEMPORARY TABLES", "EVENT", "LOCK TABLES"},
    ONE_TABLE: OF_TABLES,
    PROCEDURE: OF_ROUTINES,
    FUNCTION: OF_ROUTINES,
}
#: Other words for a right: of newer servers, and of the tables that servers keep them in.
ALIASES = {
    "ALL PRIVILEGES": ALL,
    "BINLOG MONITOR": "REPLICATION CLIENT",
    "CREATE TMP TABLE": "CREATE TEMPORARY TABLES",
    "DELETE VERSIONING ROWS": "DELETE HISTORY",
    "GRANT OPTION": GRANT,
    "READ ONLY ADMIN": "READ_ONLY ADMIN",
    "REPLICA MONITOR": "SLAVE MONITOR",
    "REPLICATION REPLICA": "REPLICATION SLAVE",
    "REPLICATION REPLICA ADMIN": "REPLICATION SLAVE ADMIN",
}
_NAME = re.compile(r"`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^.]+)")


class Target(NamedTuple):
    """The target of rights. The database is a pattern, as of LIKE, if they are on all of it."""

    kind: str
    database: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the target in the form of a manifest, with backticks only if they are needed."""
        return self._written(lambda name: name if re.fullmatch(r"[^.`*\s]+", name) else identifier(name))

    @property
    def sql(self) -> str:
        """Return the target in the syntax of GRANT."""
        return self._written(identifier)

    def _written(self, quote: Callable[[str], str]) -> str:
        """Return the target in the syntax of GRANT: ``*.*`` or ``shop.orders``, its names quoted by ``quote``.

        It is the common part of the form for users, with as few quotes as possible, and the form for statements.
        """
        if self.kind == SERVER:
            return "*.*"
        prefix = f"{self.kind} " if self.kind in {PROCEDURE, FUNCTION} else ""
        return f"{prefix}{quote(self.database)}.{'*' if self.kind == DATABASE else quote(self.name)}"


def parse_target(text: str) -> Target:
    """Return the target in a value of the attribute ``table``: ``*.*``, ``shop.*``, ``shop.orders``.

    Names may be in backquotes, and after the word ``PROCEDURE`` or ``FUNCTION`` the name is that of a routine.
    """
    if text == "*.*":
        return Target(SERVER)
    kind, space, rest = text.partition(" ")
    if not (space and kind in {PROCEDURE, FUNCTION}):
        kind, rest = ONE_TABLE, text
    names = [match["plain"] or match["quoted"].replace("``", "`") for match in _NAME.finditer(rest)]
    return Target(DATABASE, names[0]) if rest.endswith(".*") else Target(kind, *names)


def right(text: str) -> str:
    """Return the canonical name of a right: in capital letters, and one for all synonyms."""
    upper = " ".join(text.upper().split())
    return ALIASES.get(upper, upper)


def parse(privileges: Iterable[str]) -> dict[Right, str]:
    """Return (right, column in lower case) → the column as it is written, for each right in declared privileges.

    ``SELECT (Name, id)`` is two rights: ``{("SELECT", "name"): "Name", ("SELECT", "id"): "id"}``. As single rights the
    declared and the present ones can be compared; the column is "" for a right on the whole target.
    """
    rights: dict[Right, str] = {}
    for text in privileges:
        name, bracket, columns = text.partition("(")
        for column in columns.rstrip(") ").split(",") if bracket else [""]:
            rights[right(name), column.strip().lower()] = column.strip()
    return rights


def write(rights: Iterable[tuple[Right, str]], quote: Callable[[str], str] = str) -> list[str]:
    """Return the ``rights``, items of ``parse``, in the syntax of SQL, sorted: ``SELECT (Name, id)``.

    It is the inverse of ``parse``, for values of attributes and for statements: the columns of one right are joined
    again. ``quote`` writes the name of a column.
    """
    columns: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for (name, lower_column), column in sorted(rights):
        columns[name, lower_column != ""].append(quote(column))
    return [f"{name} ({', '.join(listed)})" if has_columns else name for (name, has_columns), listed in columns.items()]


def canonical(privileges: Iterable[str]) -> list[str]:
    """Return declared rights in the form in which they are compared: sorted, without synonyms.

    ``ALL`` includes every other right, and replaces them. ``USAGE`` means no right, and is dropped beside any other.
    """
    rights = parse(privileges)
    if (ALL, "") in rights:
        return [ALL]
    if len(rights) > 1:
        rights.pop((USAGE, ""), None)
    return write(rights.items())


def problems(target: Target, privileges: Iterable[str]) -> Iterator[str]:
    """Yield the mistakes in rights on a target that can be detected without a server, when a manifest is validated."""
    allowed = RIGHTS.get(target.kind)
    for name, column in parse(privileges):
        if name == GRANT:
            yield "the right to give rights to others is options: [GRANT]"
        elif column and (target.kind != ONE_TABLE or name not in OF_COLUMNS):
            rights = ", ".join(sorted(OF_COLUMNS))
            yield f"there is no {name} on columns of a {target.kind.lower()}; only a table has them, with {rights}"
        elif allowed is not None and name not in allowed | {ALL, USAGE}:
            yield f"there is no {name} on a {target.kind.lower()}; the rights are {', '.join(sorted(allowed))} and ALL"
