"""Read all roles with one query; change each in one transaction."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lib import postgresql
from lib.postgresql import identifier, literal
from lib.postgresql_provider import ServerProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Context, Resource

#: Rounds of PBKDF2, the server's own default (scram_iterations).
ROUNDS = 4096
#: Attributes that are words of ``ALTER ROLE``, with NO before them where they are false.
WORDS = {
    "login": "LOGIN",
    "superuser": "SUPERUSER",
    "createdb": "CREATEDB",
    "createrole": "CREATEROLE",
    "inherit": "INHERIT",
    "replication": "REPLICATION",
    "bypassrls": "BYPASSRLS",
}
QUERY = """
    SELECT rolname::text AS name, rolcanlogin AS login, rolsuper AS superuser, rolcreatedb AS createdb,
        rolcreaterole AS createrole, rolinherit AS inherit, rolreplication AS replication, rolbypassrls AS bypassrls,
        rolconnlimit AS connection_limit, oid::bigint AS oid,
        coalesce(shobj_description(oid, 'pg_authid'), '') AS comment,
        CASE WHEN rolvaliduntil IS NULL OR rolvaliduntil = 'infinity' THEN 'infinity'
            ELSE to_char(rolvaliduntil AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS valid_until,
        ARRAY(SELECT DISTINCT pg_get_userbyid(m.roleid)::text FROM pg_auth_members m WHERE m.member = a.oid)
            AS member_of
    FROM pg_roles a WHERE rolname !~ '^pg_'
"""


class Provider(ServerProvider):
    """The roles of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort the roles that a role is a member of: their order means nothing."""
        for resource in resources:
            if resource.get("member_of") is not None:
                resource["member_of"] = sorted(set(resource["member_of"]))
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Read all roles that are wanted."""
        rows = self._server.rows(QUERY, names)
        return context.accepted([{"ensure": "present", **row, "member_of": sorted(row["member_of"])} for row in rows])

    def create(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a role and make it what is declared."""
        self._server.run("BEGIN;", f"CREATE ROLE {identifier(name)};", *_statements(name, should, ()), "COMMIT;")

    def update(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Change what is declared of a role."""
        present = next((row["member_of"] for row in self._server.rows(QUERY, [name])), ())
        self._server.run("BEGIN;", *_statements(name, should, present), "COMMIT;")

    def delete(self, _context: Context, name: str) -> None:
        """Drop a role; the server refuses if it owns something."""
        self._server.run(f"DROP ROLE IF EXISTS {identifier(name)};")


def _statements(name: str, should: Mapping[str, Any], present: Collection[str]) -> Iterator[str]:
    """Yield what makes a role as declared; ``present``: the roles that it is a member of."""
    role, groups = identifier(name), should.get("member_of")
    words = list(postgresql.switches(WORDS, should))
    if should.get("connection_limit") is not None:
        words.append(f"CONNECTION LIMIT {should['connection_limit']}")
    if should.get("valid_until") is not None:
        words.append(f"VALID UNTIL {literal(should['valid_until'])}")
    if should.get("password") is not None:
        words.append(f"PASSWORD {literal(_verifier(should['password'].reveal()))}")
    if words:
        yield f"ALTER ROLE {role} WITH {' '.join(words)};"
    yield from postgresql.comment("ROLE", name, should)
    if groups is not None:
        yield from (f"GRANT {identifier(group)} TO {role};" for group in groups if group not in present)
        yield from (f"REVOKE {identifier(group)} FROM {role};" for group in present if group not in groups)


def _verifier(password: str) -> str:
    """Return what the server stores of a password (RFC 5803), so the password itself never reaches it or its log."""
    import base64  # noqa: PLC0415 - all of them only for a password
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415
    import unicodedata  # noqa: PLC0415

    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", unicodedata.normalize("NFKC", password).encode(), salt, ROUNDS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    first, second, third = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ROUNDS}:{first}${second}:{third}"
