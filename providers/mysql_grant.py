"""Read the rights of all accounts with one query for each kind of target; change them one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import mysql_rights
from lib.mysql import OWN_ACCOUNTS, ServerProvider, account, canonical_account, identifier
from lib.mysql_privilege_syntax import (
    ALL,
    DATABASE,
    FUNCTION,
    GRANT,
    ONE_TABLE,
    PROCEDURE,
    SERVER,
    USAGE,
    canonical,
    parse,
    parse_target,
    problems,
    right,
    write,
)
from resource_api import UNKNOWN, Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lib.mysql import Session
    from lib.mysql_privilege_syntax import Right
    from resource_api import Context, Resource

    #: Account, and the target of the rights.
    Name = tuple[str, str]

#: The columns in which a server keeps rights: there is one, or a word of one, for each right of its version.
COLUMNS = r"""
    SELECT TABLE_NAME AS table_name, COLUMN_NAME AS name, COLUMN_TYPE AS type FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME IN ('db', 'tables_priv', 'procs_priv') AND COLUMN_NAME LIKE '%\\_priv'
"""
#: Column of rights → the kinds of their targets.
KINDS = {"Table_priv": (ONE_TABLE,), "Proc_priv": (PROCEDURE, FUNCTION)}
#: Words that servers list beside the rights of ALL.
NO_RIGHTS = frozenset({GRANT, "PROXY", USAGE})


class Provider(ServerProvider):
    """The rights of the accounts of one server."""

    _rights: Mapping[str, Collection[str]] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write accounts, names and rights in the one form that ``get`` returns."""
        for resource in resources:
            if "user" in resource:
                resource["user"] = canonical_account(resource["user"])
            if "table" in resource:
                resource["table"] = str(parse_target(resource["table"]))
            if resource.get("privileges") is not None:
                resource["privileges"] = canonical(resource["privileges"])
            if resource.get("options") is not None:
                resource["options"] = sorted(set(resource["options"]))
        return resources

    def validate(self, context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse rights that the kind of target does not have, and ``USAGE`` alone, which means no right."""
        yield from super().validate(context, should)
        privileges, options, table = should.get("privileges"), should.get("options"), should.get("table")
        if not isinstance(table, str) or not isinstance(privileges, list) or UNKNOWN in privileges:
            return
        for problem in problems(parse_target(table), privileges):
            yield Problem("privileges", problem)
        if privileges == [USAGE] and (options is None or options == []):
            yield Problem("privileges", "USAGE is no right, every account has it; ensure: absent takes all others away")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare ``ALL`` with all rights of this server, and columns regardless of case, as the server does."""
        if attribute != "privileges":
            return None
        if should["privileges"] == [ALL]:
            return bool(is_.get("is_all"))
        return parse(is_.get("privileges", ())).keys() == parse(should["privileges"]).keys()

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the rights in ``names``, or of all accounts but the server's own, from as few tables as possible."""
        kinds = mysql_rights.TABLES if names is None else {parse_target(table).kind for _, table in names}
        users = None if names is None else {user for user, _ in names}
        with self._server.session(context) as session:
            held = mysql_rights.read(session, {table for kind in kinds for table in mysql_rights.TABLES[kind]}, users)
            rows = []
            for name, rights in held.items():
                is_requested = name[0] not in OWN_ACCOUNTS if names is None else name in names
                if is_requested:
                    rows.append(_row(name, rights, self._existing(session, parse_target(name[1]).kind)))
        yield from context.accepted(rows)

    def _existing(self, session: Session, kind: str) -> Collection[str]:
        """Return this server's rights for a kind of target, to recognize ``ALL`` and to refuse unknown rights.

        A query covers more than one kind, so all its results are kept for the run.
        """
        if kind not in self._rights:
            self._rights = {**self._rights, **_existing_rights(session, kind)}
        return self._rights[kind]

    def _change(self, session: Session, name: Name, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Give an account exactly the declared rights: missing ones first, so that it never lacks one that stays."""
        target, before = parse_target(name[1]), is_ or {}
        held = parse([*before.get("privileges", ()), *before.get("options", ())])
        held.pop((USAGE, ""), None)
        expected = _expected(held, should)
        missing = {right: column for right, column in expected.items() if right not in held}
        # ALL is no right of its own: the account has every right that the server knows.
        if before.get("is_all"):
            missing.pop((ALL, ""), None)
        if unknown := {right for right, _ in missing} - {ALL, GRANT, *self._existing(session, target.kind)}:
            raise ResourceError(f"the server has no {', '.join(sorted(unknown))} on {target}")
        extra = {right: column for right, column in held.items() if right not in expected}
        if extra and target.kind == SERVER:
            session.check_other(name[0])
        for statement in _statements(target.sql, account(name[0]), missing, extra):
            session.run(statement)


def _existing_rights(session: Session, kind: str) -> Mapping[str, Collection[str]]:
    """Return kind of target → this server's rights for it, which differ between versions of MySQL and MariaDB.

    ``SHOW PRIVILEGES`` lists the rights on the server. Those on a database, table or routine are the columns, or the
    words of a column, in which the server keeps them. The result has ``kind`` and all others of the same query.
    """
    rights_by_kind: dict[str, set[str]] = defaultdict(set)
    if kind == SERVER:
        rights_by_kind[SERVER] = {right(row["Privilege"]) for row in session.rows("SHOW PRIVILEGES")}
    else:
        for row in session.rows(COLUMNS):
            if row["table_name"] == "db":
                rights_by_kind[DATABASE].add(right(row["name"].removesuffix("_priv").replace("_", " ")))
            for kind_of_target in KINDS.get(row["name"], ()):
                rights_by_kind[kind_of_target] |= set(map(right, re.findall(r"'([^']+)'", row["type"])))
    return {name: rights - NO_RIGHTS for name, rights in rights_by_kind.items()}


def _row(name: Name, rights: Mapping[Right, str], existing: Collection[str]) -> Resource:
    """Return the row of an account's rights on a target; ``existing``: all rights of the server, for ``is_all``."""
    rights_proper = {right: column for right, column in rights.items() if right != (GRANT, "")}
    return {
        "ensure": "present",
        "user": name[0],
        "table": name[1],
        "privileges": write(rights_proper.items()) or [USAGE],
        "options": [GRANT] if len(rights_proper) < len(rights) else [],
        "is_all": set(existing) <= {right for right, column in rights_proper if not column},
    }


def _expected(held: Mapping[Right, str], should: Mapping[str, Any]) -> dict[Right, str]:
    """Return the rights that an account gets, with ``GRANT`` as one of them; ``held`` are its present ones.

    Both map (right, column in small letters) to the column as it is written. With ``ALL`` the account keeps its present
    rights, and without declared options its ``GRANT``.
    """
    if should["ensure"] == "absent":
        return {}
    expected, options = parse(should["privileges"]), should.get("options")
    expected.pop((USAGE, ""), None)
    if (ALL, "") in expected:
        expected |= {right: column for right, column in held.items() if right != (GRANT, "")}
    may_grant = (GRANT, "") in held if options is None else GRANT in options
    if may_grant:
        expected[GRANT, ""] = ""
    return expected


def _statements(on: str, who: str, missing: Mapping[Right, str], extra: Mapping[Right, str]) -> Iterator[str]:
    """Yield SQL that grants ``missing`` and revokes ``extra`` rights of the account ``who`` on the target ``on``."""
    # When MariaDB revokes a right on a table, it revokes the same right on columns too: so these are granted last.
    late = {right: column for right, column in missing.items() if right[1] and (right[0], "") in extra}
    first = {right: column for right, column in missing.items() if right not in late}
    if first:
        yield _grant(on, who, first)
    if extra:
        yield f"REVOKE {_sql(extra)} ON {on} FROM {who}"
    if late:
        yield _grant(on, who, late)


def _grant(on: str, who: str, rights: Mapping[Right, str]) -> str:
    """Return the statement that grants rights; ``GRANT`` among them becomes ``WITH GRANT OPTION``, as SQL requires."""
    granted = {right: column for right, column in rights.items() if right != (GRANT, "")}
    option = " WITH GRANT OPTION" if len(granted) < len(rights) else ""
    return f"GRANT {_sql(granted) or USAGE} ON {on} TO {who}{option}"


def _sql(rights: Mapping[Right, str]) -> str:
    """Return rights as a list in SQL."""
    words = write(rights.items(), identifier)
    return ", ".join("GRANT OPTION" if word == GRANT else word for word in words)
