"""Read and change roles with psql: statements go through its standard input, rows come back as JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import unicodedata
from typing import TYPE_CHECKING, Any

from resource_api import Command, ResourceError, Sensitive, SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Context, Resource

#: Rounds of PBKDF2, the server's own default (scram_iterations).
ROUNDS = 4096
#: Attributes that are words of ``ALTER ROLE``.
OPTIONS = {"login": ("LOGIN", "NOLOGIN"), "create_databases": ("CREATEDB", "NOCREATEDB")}
QUERY = """
SELECT coalesce(json_agg(r), '[]') FROM (
    SELECT rolname AS name, rolcanlogin AS login, rolcreatedb AS create_databases, rolconnlimit AS connection_limit,
        oid::bigint AS oid, coalesce(shobj_description(oid, 'pg_authid'), '') AS comment,
        ARRAY(SELECT pg_get_userbyid(m.roleid)::text FROM pg_auth_members m WHERE m.member = a.oid ORDER BY 1)
            AS member_of
    FROM pg_roles a WHERE rolname !~ '^pg_' {filter} ORDER BY rolname
) r;
"""


class Provider(SimpleProvider):
    """The roles of one server."""

    psql = Command("psql", timeout=60)

    def configure(self, context: Context, config: Mapping[str, Any]) -> None:
        """Store where the server is."""
        self.config = config

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort the roles that a role is a member of: their order means nothing."""
        for resource in resources:
            if resource.get("member_of") is not None:
                resource["member_of"] = sorted(set(resource["member_of"]))
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the roles in ``names``, or all, with one query."""
        condition = "" if names is None else f"AND rolname = ANY (ARRAY[{', '.join(map(literal, names))}]::text[])"
        for role in json.loads(self._run(QUERY.format(filter=condition))):
            yield {"ensure": "present", **role, "member_of": sorted(role["member_of"])}

    def create(self, context: Context, name: str, should: Resource) -> None:
        """Create a role with the declared attributes, in one transaction."""
        self._run("BEGIN;", f"CREATE ROLE {identifier(name)};", *statements(name, should, ()), "COMMIT;")

    def update(self, context: Context, name: str, should: Resource) -> None:
        """Change the declared attributes of a role, in one transaction."""
        rows = json.loads(self._run(QUERY.format(filter=f"AND rolname = {literal(name)}")))
        present = rows[0]["member_of"] if rows else ()
        self._run("BEGIN;", *statements(name, should, present), "COMMIT;")

    def delete(self, context: Context, name: str) -> None:
        """Drop a role; the server refuses if it owns something."""
        self._run(f"DROP ROLE IF EXISTS {identifier(name)};")

    def _run(self, *statements: str) -> str:
        """Return the output of psql. Raises ``ResourceError`` with the reason of the server."""
        options = ["-XqAtw", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=terse"]
        connection = ["-h", self.config["host"], "-p", self.config["port"], "-U", self.config["user"], "-d", "postgres"]
        text = "\n".join(["SET standard_conforming_strings = on;", *statements])
        result = self.psql.attempt(*options, *connection, input=Sensitive(text), user=self.config["account"])
        if result.exit_code:
            raise ResourceError(result.stderr.strip() or f"psql ended with exit code {result.exit_code}")
        return result.stdout


def statements(name: str, should: Resource, present: Collection[str]) -> Iterator[str]:
    """Yield the statements that make a role as declared; ``present``: the roles that it is a member of."""
    role = identifier(name)
    words = [pair[not should[option]] for option, pair in OPTIONS.items() if should.get(option) is not None]
    if should.get("connection_limit") is not None:
        words.append(f"CONNECTION LIMIT {should['connection_limit']}")
    if should.get("password") is not None:
        words.append(f"PASSWORD {literal(verifier(should['password'].reveal()))}")
    if words:
        yield f"ALTER ROLE {role} WITH {' '.join(words)};"
    if should.get("comment") is not None:
        yield f"COMMENT ON ROLE {role} IS {literal(should['comment'])};"
    if should.get("member_of") is not None:
        yield from (f"GRANT {identifier(group)} TO {role};" for group in should["member_of"] if group not in present)
        yield from (f"REVOKE {identifier(group)} FROM {role};" for group in present if group not in should["member_of"])


def verifier(password: str) -> str:
    """Return the verifier that the server stores (RFC 5803): the password itself never reaches it or its log."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", unicodedata.normalize("NFKC", password).encode(), salt, ROUNDS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    first, second, third = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ROUNDS}:{first}${second}:{third}"


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
