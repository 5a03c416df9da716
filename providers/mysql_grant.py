"""Read the rights of all accounts with one query for each kind of thing they are on; change them one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lib import mysql_rights
from lib.mysql import OWN_ACCOUNTS, account, canonical_account, identifier
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
from lib.mysql_provider import ServerProvider
from resource_api import Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lib.mysql import Session
    from lib.mysql_privilege_syntax import Right
    from resource_api import Context, Resource

    #: Account, and what the rights are on.
    Name = tuple[str, str]

#: The columns in which a server keeps rights: there is one, or a word of one, for each right of its version.
COLUMNS = r"""
    SELECT TABLE_NAME AS place, COLUMN_NAME AS name, COLUMN_TYPE AS type FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME IN ('db', 'tables_priv', 'procs_priv') AND COLUMN_NAME LIKE '%\\_priv'
"""
#: Column of rights → what they are on.
KINDS = {"Table_priv": (ONE_TABLE,), "Proc_priv": (PROCEDURE, FUNCTION)}
#: What servers list beside rights that ALL has.
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

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse rights that there are not on the thing, and ``USAGE`` where it would say nothing."""
        privileges, options, table = should.get("privileges"), should.get("options"), should.get("table")
        if not isinstance(privileges, list) or not isinstance(table, str):
            return
        for problem in problems(parse_target(table), privileges):
            yield Problem("privileges", problem)
        if privileges == [USAGE] and (options is None or options == []):
            yield Problem("privileges", "USAGE is no right, every account has it; ensure: absent takes all others away")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare ``ALL`` with the rights that there are, and columns without regard to case, as the server does."""
        if attribute != "privileges":
            return None
        if should["privileges"] == [ALL]:
            return bool(is_.get("is_all"))
        return parse(is_.get("privileges", ())).keys() == parse(should["privileges"]).keys()

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Read all rights that are wanted."""
        kinds = mysql_rights.PLACES if names is None else {parse_target(table).kind for _, table in names}
        with self._server.session(context) as session:
            held = mysql_rights.read(
                session, {place for kind in kinds for place in mysql_rights.PLACES[kind]}, _users(names)
            )
            rows = [
                _row(name, rights, self._known(session, parse_target(name[1]).kind))
                for name, rights in held.items()
                if (name[0] not in OWN_ACCOUNTS if names is None else name in names)
            ]
        yield from context.accepted(rows)

    def _known(self, session: Session, kind: str) -> Collection[str]:
        """Return the rights that the server has on a kind of thing; asked once for each run."""
        if kind not in self._rights:
            self._rights = {**self._rights, **_known_rights(session, kind)}
        return self._rights[kind]

    def _change(self, session: Session, name: Name, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Give an account exactly the declared rights: missing ones first, so that it never lacks what it keeps."""
        target, before = parse_target(name[1]), is_ or {}
        held = parse([*before.get("privileges", ()), *before.get("options", ())])
        held.pop((USAGE, ""), None)
        wanted = _wanted(held, should)
        missing = {each: column for each, column in wanted.items() if each not in held}
        if before.get("is_all"):
            missing.pop((ALL, ""), None)
        if unknown := {each for each, _ in missing} - {ALL, GRANT, *self._known(session, target.kind)}:
            msg = f"the server has no {', '.join(sorted(unknown))} on {target}"
            raise ResourceError(msg)
        extra = {each: column for each, column in held.items() if each not in wanted}
        if extra and target.kind == SERVER:
            session.check_other(name[0])
        for statement in _statements(target.sql, account(name[0]), missing, extra):
            session.run(statement)


def _users(names: Collection[Name] | None) -> Collection[str] | None:
    return None if names is None else {user for user, _ in names}


def _known_rights(session: Session, kind: str) -> Mapping[str, Collection[str]]:
    """Return the rights that the server has on a kind of thing, and what it has said of others with that."""
    found: dict[str, set[str]] = defaultdict(set)
    if kind == SERVER:
        found[SERVER] = {right(row["Privilege"]) for row in session.rows("SHOW PRIVILEGES")}
    else:
        for row in session.rows(COLUMNS):
            if row["place"] == "db":
                found[DATABASE].add(right(row["name"].removesuffix("_priv").replace("_", " ")))
            for place in KINDS.get(row["name"], ()):
                found[place] |= set(map(right, re.findall(r"'([^']+)'", row["type"])))
    return {each: rights - NO_RIGHTS for each, rights in found.items()}


def _row(name: Name, rights: Mapping[Right, str], known: Collection[str]) -> Resource:
    """Return the rights of an account on something."""
    own = {each: column for each, column in rights.items() if each != (GRANT, "")}
    return {
        "ensure": "present",
        "user": name[0],
        "table": name[1],
        "privileges": write(own.items()) or [USAGE],
        "options": [GRANT] if len(own) < len(rights) else [],
        "is_all": set(known) <= {each for each, column in own if not column},
    }


def _wanted(held: Mapping[Right, str], should: Mapping[str, Any]) -> dict[Right, str]:
    """Return the rights that an account should have where it has ``held``, with ``GRANT`` as one of them."""
    if should["ensure"] == "absent":
        return {}
    wanted, options = parse(should["privileges"]), should.get("options")
    wanted.pop((USAGE, ""), None)
    if (ALL, "") in wanted:
        wanted |= {each: column for each, column in held.items() if each != (GRANT, "")}
    if (GRANT, "") in held if options is None else GRANT in options:
        wanted[GRANT, ""] = ""
    return wanted


def _statements(on: str, who: str, missing: Mapping[Right, str], extra: Mapping[Right, str]) -> Iterator[str]:
    """Yield what gives missing rights and takes others away."""
    # With a right on a table MariaDB takes the same right on its columns away: that is given afterwards.
    late = {each: column for each, column in missing.items() if each[1] and (each[0], "") in extra}
    first = {each: column for each, column in missing.items() if each not in late}
    if first:
        yield _grant(on, who, first)
    if extra:
        yield f"REVOKE {_sql(extra)} ON {on} FROM {who}"
    if late:
        yield _grant(on, who, late)


def _grant(on: str, who: str, rights: Mapping[Right, str]) -> str:
    given = {each: column for each, column in rights.items() if each != (GRANT, "")}
    return f"GRANT {_sql(given) or USAGE} ON {on} TO {who}{' WITH GRANT OPTION' if len(given) < len(rights) else ''}"


def _sql(rights: Mapping[Right, str]) -> str:
    words = write(rights.items(), identifier)
    return ", ".join("GRANT OPTION" if word == GRANT else word for word in words)
