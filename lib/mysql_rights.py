"""Read the rights of accounts, with one query for each table that a server keeps them in."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib.mysql import among, among_accounts, split_account
from lib.mysql_privilege_syntax import DATABASE, FUNCTION, GRANT, ONE_TABLE, PROCEDURE, SERVER, USAGE, Target, right
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lib.mysql import Session
    from lib.mysql_privilege_syntax import Right

    #: Account, and the target of the rights.
    Name = tuple[str, str]
    #: Of each name its rights, with the columns as the server has them.
    Held = dict[Name, dict[Right, str]]

#: Rights one by one, with the account as 'USER'@'HOST', where nothing is escaped.
BY_RIGHT = {
    SERVER: "SELECT GRANTEE, PRIVILEGE_TYPE AS rights, IS_GRANTABLE FROM information_schema.USER_PRIVILEGES",
    DATABASE: """
        SELECT GRANTEE, TABLE_SCHEMA AS Db, PRIVILEGE_TYPE AS rights, IS_GRANTABLE
        FROM information_schema.SCHEMA_PRIVILEGES
    """,
}
#: All rights in one value. In ``information_schema`` those on routines are missing, and GRANT OPTION alone.
BY_OBJECT = {
    "tables_priv": "SELECT User, Host, Db, Table_name AS name, Table_priv AS rights FROM mysql.tables_priv",
    "columns_priv": """
        SELECT User, Host, Db, Table_name AS name, Column_name AS part, Column_priv AS rights FROM mysql.columns_priv
    """,
    "procs_priv": """
        SELECT User, Host, Db, Routine_name AS name, Routine_type AS kind, Proc_priv AS rights FROM mysql.procs_priv
    """,
}
#: Without SELECT on the database ``mysql`` the server shows only the rights of who asks, and says nothing of others.
SEES_ALL = """
    SELECT (SELECT COUNT(DISTINCT CAST(GRANTEE AS BINARY)) FROM information_schema.USER_PRIVILEGES)
        >= (SELECT COUNT(*) FROM mysql.user WHERE Host <> '') AS sees_all
"""
#: The targets of rights → the tables in which a server keeps them.
TABLES = {
    SERVER: (SERVER,),
    DATABASE: (DATABASE,),
    ONE_TABLE: ("tables_priv", "columns_priv"),
    PROCEDURE: ("procs_priv",),
    FUNCTION: ("procs_priv",),
}
ALL_TABLES = frozenset(table for tables in TABLES.values() for table in tables)


def read(session: Session, tables: Collection[str], users: Collection[str] | None) -> Held:
    """Return the rights of the accounts ``users``, or of all for None, in the ``tables`` of a server.

    A caller that needs the rights on certain targets passes only the ``TABLES`` of these, to save queries. Raise
    ``ResourceError`` if the server would show only the rights of the connection's own user: all other rights would seem
    to be missing.
    """
    held: Held = defaultdict(dict)
    if not BY_RIGHT.keys().isdisjoint(tables) and not session.rows(SEES_ALL)[0]["sees_all"]:
        msg = "the server hides the rights of others from this user; it needs SELECT on the database mysql"
        raise ResourceError(msg)
    for table in sorted(tables):
        if table in BY_RIGHT:
            rows = map(_one_right, session.rows(f"{BY_RIGHT[table]} WHERE {_grantees(users)}"))
        else:
            condition = "TRUE" if users is None else among_accounts(users)
            rows = map(_some_rights, session.rows(f"{BY_OBJECT[table]} WHERE {condition}"))
        for name, rights in rows:
            # A row without a host is a role.
            if rights and not name[0].endswith("@"):
                held[name] |= rights
    return held


def _grantees(users: Collection[str] | None) -> str:
    """Return the condition that ``GRANTEE`` is one of some accounts."""
    pairs = map(split_account, users or ())
    return "TRUE" if users is None else among("GRANTEE", [f"'{user}'@'{host}'" for user, host in pairs])


def _one_right(row: Mapping[str, Any]) -> tuple[Name, dict[Right, str]]:
    """Return (account, target) and the right in a row of ``BY_RIGHT``: one right on the server or on a database.

    If the right may be given to others, ``GRANT`` is returned beside it; ``USAGE`` is no right.
    """
    user, _, host = row["GRANTEE"][1:-1].rpartition("'@'")  # 'USER'@'HOST', nothing is escaped
    target = Target(DATABASE, row["Db"]) if "Db" in row else Target(SERVER)
    words = [row["rights"], *([GRANT] if row["IS_GRANTABLE"] == "YES" else [])]
    return (f"{user}@{host}", str(target)), {(right(word), ""): "" for word in words if word != USAGE}


def _some_rights(row: Mapping[str, Any]) -> tuple[Name, dict[Right, str]]:
    """Return (account, target) and the rights in a row of ``BY_OBJECT``: all rights on one table, column or routine.

    Rights on a column have its name.
    """
    target, column = Target(row.get("kind", ONE_TABLE), row["Db"], row["name"]), row.get("part", "")
    words = row["rights"].split(",") if row["rights"] else []
    return (f"{row['User']}@{row['Host']}", str(target)), {(right(word), column.lower()): column for word in words}
