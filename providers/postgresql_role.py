"""Read all roles with one query; change each in one transaction."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from lib import postgresql
from lib.postgresql import ServerProvider, identifier, literal
from lib.sensitive import reveal
from resource_api import Sensitive, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

#: Rounds of PBKDF2, the server's own default (scram_iterations).
ROUNDS = 4096
#: The texts that the server takes for a verifier, and stores as they are.
SCRAM = re.compile(r"SCRAM-SHA-256\$[1-9][0-9]{0,8}:[A-Za-z0-9+/]+={0,2}\$[A-Za-z0-9+/=]{44}:[A-Za-z0-9+/=]{44}")
MD5 = re.compile(r"md5[0-9a-f]{32}")
DIGEST = 32  # bytes
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
            AS member_of{more}
    FROM {table} a WHERE rolname !~ '^pg_'
"""
#: The method of a stored password, and the digest of its verifier. The output is logged, so it is masked.
STORED = """,
        CASE WHEN rolpassword LIKE 'SCRAM-SHA-256$%' THEN 'SCRAM-SHA-256$' || split_part(rolpassword, '$', 2)
            WHEN rolpassword LIKE 'md5%' THEN 'md5' WHEN rolpassword IS NOT NULL THEN 'other' END AS method,
        (('x' || encode(sha256(convert_to(rolpassword, 'UTF8')), 'hex'))::bit(256)
            # ('x' || encode(sha256(convert_to({key} || rolname, 'UTF8')), 'hex'))::bit(256))::text AS digest"""


class Provider(ServerProvider):
    """The roles of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort the roles that a role is a member of: their order means nothing."""
        for resource in resources:
            if resource.get("member_of") is not None:
                resource["member_of"] = sorted(set(resource["member_of"]))
        return resources

    def insync(
        self, _context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Compare a declared password with the verifier that the server stores, if our role may read that."""
        if attribute != "ensure" or should["ensure"] == "absent" or None in {should.get("password"), is_.get("stored")}:
            return None
        method, _, digest = reveal(is_["stored"]).rpartition(" ")
        if matches(reveal(should["password"]), name, method, digest):
            return None
        return False, "changed: the server has another password"

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the roles in ``names``, or all, with digests of password verifiers if our role may read these.

        The query masks the digests with a random key, as the output of psql is logged.
        """
        key = os.urandom(32).hex()
        without = QUERY.format(more="", table="pg_roles")
        query = QUERY.format(more=STORED.format(key=literal(key)), table="pg_authid")
        rows = self._server.rows(query, names, table="pg_authid", without=without)
        return context.accepted([_resource(row, key) for row in rows])

    def create(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a role with the declared attributes."""
        self._server.run("BEGIN;", f"CREATE ROLE {identifier(name)};", *_statements(name, should, ()), "COMMIT;")

    def update(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Change the attributes of a role in one transaction, and only the difference of its memberships."""
        rows = self._server.rows(QUERY.format(more="", table="pg_roles"), [name])
        present = next((row["member_of"] for row in rows), ())
        self._server.run("BEGIN;", *_statements(name, should, present), "COMMIT;")

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the roles that are members of a dropped role, and lose that membership."""
        for row in self._server.rows(QUERY.format(more="", table="pg_roles"), None):
            for name in changes.keys() & set(row["member_of"]):
                remaining = sorted(set(row["member_of"]) - changes.keys())
                yield name, SideEffect(row["name"], "update", state={"ensure": "present", "member_of": remaining})

    def delete(self, _context: Context, name: str) -> None:
        """Drop a role; the server refuses an owner of objects."""
        self._server.run(f"DROP ROLE IF EXISTS {identifier(name)};")


def _statements(name: str, should: Mapping[str, Any], present: Collection[str]) -> Iterator[str]:
    """Yield the statements that make a role as declared; ``present``: the roles that it is a member of."""
    role, groups = identifier(name), should.get("member_of")
    words = list(postgresql.switches(WORDS, should))
    if should.get("connection_limit") is not None:
        words.append(f"CONNECTION LIMIT {should['connection_limit']}")
    if should.get("valid_until") is not None:
        words.append(f"VALID UNTIL {literal(should['valid_until'])}")
    if should.get("password") is not None:
        words.append(f"PASSWORD {literal(verifier(reveal(should['password'])))}")
    if words:
        yield f"ALTER ROLE {role} WITH {' '.join(words)};"
    yield from postgresql.comment("ROLE", name, should)
    if groups is not None:
        yield from (f"GRANT {identifier(group)} TO {role};" for group in groups if group not in present)
        yield from (f"REVOKE {identifier(group)} FROM {role};" for group in present if group not in groups)


def _resource(row: dict[str, Any], key: str) -> Resource:
    """Return the row of a role from that of the query.

    For ``insync``, ``stored`` has the method and the unmasked digest of the password, with a blank between them: only
    the blank if there is no password. It is missing if our role may not read it.
    """
    role = {"ensure": "present", **row, "member_of": sorted(row["member_of"])}
    method, digest = role.pop("method", None), role.pop("digest", None)
    if "method" not in row:
        return role
    if method is None:
        return {**role, "stored": Sensitive(" ")}
    return {**role, "stored": Sensitive(f"{method} {unmasked(digest, key, row['name'])}")}


def verifier(password: str) -> str:
    """Return the verifier that the server stores: the password never reaches it or its log."""
    return password if is_verifier(password) else _scram(password, os.urandom(16), ROUNDS)


def is_verifier(text: str) -> bool:
    """Return whether a text is a verifier already, by the rules of the server."""
    return bool(SCRAM.fullmatch(text) or MD5.fullmatch(text))


def matches(password: str, role: str, method: str, digest: str) -> bool:
    """Return whether the server has a declared password, which may be a verifier itself.

    ``method`` is the stored verifier without its secret part, ``digest`` the SHA-256 of the whole. A verifier is made
    of the password with the same method and salt. Only digests are compared, so that the stored verifier need not be
    read.
    """
    if is_verifier(password):
        stored = password
    elif method == "md5":
        stored = "md5" + hashlib.md5((password + role).encode(), usedforsecurity=False).hexdigest()
    else:
        rounds, _, salt = method.removeprefix("SCRAM-SHA-256$").partition(":")
        stored = _scram(password, base64.b64decode(salt), int(rounds)) if rounds.isdecimal() else ""
    return hmac.compare_digest(hashlib.sha256(stored.encode()).hexdigest(), digest)


def unmasked(bits: str, key: str, role: str) -> str:
    """Return the digest of a verifier from ``bits``, masked by the server: XOR with the SHA-256 of key and role."""
    mask = int.from_bytes(hashlib.sha256((key + role).encode()).digest(), "big")
    return (int(bits, 2) ^ mask).to_bytes(DIGEST, "big").hex()


def _scram(password: str, salt: bytes, rounds: int) -> str:
    """Return the verifier of a password (RFC 5802), which the server stores, to send it and to compare it."""
    salted = hashlib.pbkdf2_hmac("sha256", unicodedata.normalize("NFKC", password).encode(), salt, rounds)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_key, server_key = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${rounds}:{salt_text}${stored_key}:{server_key}"
