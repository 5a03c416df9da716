"""Read all accounts with one query; create, change and drop each with one statement."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import TYPE_CHECKING, Any

from lib import mysql_rights
from lib.mysql import OWN_ACCOUNTS, ServerProvider, account, among, among_accounts, canonical_account, literal
from lib.sensitive import reveal
from resource_api import Problem, ResourceError, Sensitive, SideEffect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lib.mysql import Session
    from resource_api import Change, Context, Resource

NATIVE = "mysql_native_password"
#: Plugins that let everybody in while they have nothing to compare with.
HASHED = frozenset({NATIVE, "mysql_old_password", "ed25519", "parsec", "sha256_password", "caching_sha2_password"})
NATIVE_HASH = re.compile(r"\*[0-9A-Fa-f]{40}|invalid")
#: Attribute → column and word of SQL.
LIMITS = {
    "max_connections_per_hour": "max_connections",
    "max_queries_per_hour": "max_questions",
    "max_updates_per_hour": "max_updates",
    "max_user_connections": "max_user_connections",
}
TLS_COLUMNS = {"CIPHER": "ssl_cipher", "ISSUER": "x509_issuer", "SUBJECT": "x509_subject"}
TLS_WORDS = {"": "NONE", "ANY": "SSL", "X509": "X509"}
SELECT = f"""
    SELECT User, Host, u.plugin, u.ssl_type,
        {", ".join(f"u.{column}" for column in (*LIMITS.values(), *TLS_COLUMNS.values()))},
"""
#: Values that MariaDB keeps in one value of JSON, and MySQL in columns; the latter has hashes of any bytes.
MARIADB = """
        u.authentication_string AS hash, COALESCE(JSON_VALUE(p.Priv, '$.account_locked'), 0) <> 0 AS locked,
        CAST(JSON_VALUE(p.Priv, '$.password_lifetime') AS SIGNED) AS lifetime,
        JSON_EXTRACT(p.Priv, '$.auth_or[*].plugin') AS plugins
    FROM mysql.user u JOIN mysql.global_priv p USING (User, Host) WHERE u.is_role = 'N'
"""
MYSQL = """
        IF(u.plugin = 'caching_sha2_password', CONCAT('0x', HEX(u.authentication_string)), u.authentication_string)
            AS hash,
        u.account_locked = 'Y' AS locked, u.password_lifetime AS lifetime, NULL AS plugins
    FROM mysql.user u WHERE TRUE
"""
#: The objects that run with the rights of the account that has defined them.
DEFINED = """
    SELECT 'view' AS kind, CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) AS name, DEFINER AS definer
        FROM information_schema.VIEWS WHERE SECURITY_TYPE = 'DEFINER'
    UNION ALL SELECT LOWER(ROUTINE_TYPE), CONCAT(ROUTINE_SCHEMA, '.', ROUTINE_NAME), DEFINER
        FROM information_schema.ROUTINES WHERE SECURITY_TYPE = 'DEFINER'
    UNION ALL SELECT 'trigger', CONCAT(TRIGGER_SCHEMA, '.', TRIGGER_NAME), DEFINER FROM information_schema.TRIGGERS
    UNION ALL SELECT 'event', CONCAT(EVENT_SCHEMA, '.', EVENT_NAME), DEFINER FROM information_schema.EVENTS
"""


class Provider(ServerProvider):
    """The accounts of one server."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write hosts and plugins in small letters, TLS requirements in order and without quotes, as ``get`` does."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = canonical_account(resource["name"])
            if resource.get("plugin") is not None:
                resource["plugin"] = resource["plugin"].lower()
            if resource.get("tls_options") is not None:
                resource["tls_options"] = sorted(set(map(_unquoted, resource["tls_options"])))
            if resource.get("password_hash") is not None:
                resource["password_hash"] = Sensitive(_canonical_hash(reveal(resource["password_hash"])))
        return resources

    def validate(self, context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a password or hash that is not for the plugin, and requirements of TLS that exclude each other.

        Each value is checked for its type, as it may not be known yet.
        """
        yield from super().validate(context, should)
        plugin = should.get("plugin") if isinstance(should.get("plugin"), str) else None
        if should.get("password") is not None:
            if should.get("password_hash") is not None:
                yield Problem("password_hash", "password_hash is what is computed of password; declare one of them")
            if plugin not in {None, NATIVE}:
                yield Problem("password", f"password is for the plugin {NATIVE}; {plugin} needs password_hash")
        value = reveal(should.get("password_hash"))
        if isinstance(value, str) and plugin in {None, NATIVE} and not NATIVE_HASH.fullmatch(value):
            message = f"password_hash of {NATIVE} is * and 40 hexadecimal digits; another one needs its plugin"
            yield Problem("password_hash", message)
        options = should.get("tls_options")
        texts = [text for text in options if isinstance(text, str)] if isinstance(options, list) else []
        words = [text.partition(" ")[0] for text in texts]
        if len(set(words)) < len(words) or (len(words) > 1 and not TLS_COLUMNS.keys() >= set(words)):
            yield Problem("tls_options", "NONE, SSL and X509 stand alone; CIPHER, ISSUER and SUBJECT once each")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare a declared password by its hash, as the server stores nothing else."""
        if attribute != "password":
            return None
        return is_.get("plugin") == NATIVE and reveal(is_.get("password_hash")) == _hash(should["password"])

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the accounts in ``names``, or all, from one query; never the server's own."""
        with self._server.session(context) as session:
            query = SELECT + (MARIADB if session.is_mariadb else MYSQL)
            if names is not None:
                query += f" AND {among_accounts(names)}"
            rows = session.rows(query)
        return context.accepted(row for row in map(_resource, rows) if row["name"] not in OWN_ACCOUNTS)

    def side_effects(self, context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the rights that are lost with an account, and the views and routines that run as this account."""
        with self._server.session(context) as session:
            for name, target in mysql_rights.read(session, mysql_rights.ALL_TABLES, changes.keys()):
                yield name, SideEffect((name, target), "remove", "mysql_grant", dependent=True)
            defined = f"SELECT * FROM ({DEFINED}) d WHERE {among('definer', changes)} ORDER BY kind, name"  # noqa: S608 - quoted by among
            for row in session.rows(defined):
                yield row["definer"], SideEffect(row["name"], "break", row["kind"], dependent=True)

    def _change(self, session: Session, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Create an account, change its declared attributes, or drop it."""
        who, absent = account(name), should["ensure"] == "absent"
        if absent or should.get("locked"):
            session.check_other(name)
        if absent:
            session.run(f"DROP USER IF EXISTS {who}")
            return
        login = _login(session, is_, should)
        clauses = [*([login] if login else []), *_clauses(should)]
        if is_ is None:
            session.run(" ".join([f"CREATE USER {who}", *clauses]))
        elif clauses:
            session.run(" ".join([f"ALTER USER {who}", *clauses]))


def _resource(row: Mapping[str, Any]) -> Resource:
    """Return the row of an account from that of the server's table.

    An account of MariaDB may have several plugins: its row has all of them, and no hash.
    """
    plugin, value = row["plugin"] or NATIVE, row["hash"] or ""
    tls_options = [f"{word} {row[column]}" for word, column in TLS_COLUMNS.items() if row[column]]
    account_row: Resource = {
        "ensure": "present",
        "name": f"{row['User']}@{row['Host']}",
        **{attribute: int(row[column]) for attribute, column in LIMITS.items()},
        "tls_options": [TLS_WORDS[row["ssl_type"]]] if row["ssl_type"] in TLS_WORDS else tls_options,
        "password_lifetime": {None: "default", -1: "default", 0: "never"}.get(row["lifetime"], row["lifetime"]),
        "locked": bool(row["locked"]),
    }
    if row["plugins"] is not None:
        return {**account_row, "plugins": sorted({plugin, *json.loads(row["plugins"])})}
    account_row["plugin"] = plugin.lower()
    if value:
        account_row["password_hash"] = Sensitive(_canonical_hash(value))
    return account_row


def _login(session: Session, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str:
    """Return the clause for an account's login, ``IDENTIFIED ...``, or an empty text for no change.

    A new account without a declared login gets a random password, as an empty one would let everybody in. Raise
    ``ResourceError`` for a plugin without its hash.
    """
    plugin, value = should.get("plugin"), reveal(should.get("password_hash"))
    if should.get("password") is not None:
        value = _hash(should["password"])
    if value is None and is_ is not None and plugin in {None, is_.get("plugin")}:
        return ""
    if value is None and plugin is None:
        if not session.is_mariadb:
            return "IDENTIFIED BY RANDOM PASSWORD"
        value = _hash(Sensitive(secrets.token_hex()))
    if value is None and plugin in HASHED:
        raise ResourceError(f"the plugin {plugin} needs password_hash: without it everybody could log in")
    method = f"IDENTIFIED WITH {plugin or NATIVE}"
    if value is None:
        return method
    # The log has the statement: the value is masked also as it is quoted there.
    session.context.conceal([Sensitive(value), Sensitive(literal(value)[1:-1])])
    return f"{method} AS {value if re.fullmatch(r'0x[0-9A-F]+', value) else literal(value)}"


def _clauses(should: Mapping[str, Any]) -> Iterator[str]:
    """Yield the clauses of CREATE USER and ALTER USER for all attributes but the login, in the order of the grammar."""
    if (options := should.get("tls_options")) is not None:
        parts = (option.partition(" ") for option in options)
        yield "REQUIRE " + " AND ".join(f"{word} {literal(text)}" if text else word for word, _, text in parts)
    limits = [f"{attribute} {should[attribute]}" for attribute in LIMITS if should.get(attribute) is not None]
    if limits:
        yield f"WITH {' '.join(limits).upper()}"
    if (days := should.get("password_lifetime")) is not None:
        yield f"PASSWORD EXPIRE {days.upper() if isinstance(days, str) else f'INTERVAL {days} DAY'}"
    if should.get("locked") is not None:
        yield "ACCOUNT LOCK" if should["locked"] else "ACCOUNT UNLOCK"


def _unquoted(option: str) -> str:
    """Return a requirement of TLS without optional quotes, so that ``ISSUER '/CN=ca'`` equals ``ISSUER /CN=ca``."""
    word, _, text = option.partition(" ")
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    return f"{word} {text[1:-1] if quoted else text}".rstrip()


def _canonical_hash(value: str) -> str:
    """Return a hash as the server prints it: digits of the native form are capitals."""
    return value.upper() if re.fullmatch(r"\*[0-9a-fA-F]{40}", value) else value


def _hash(password: Sensitive[str]) -> str:
    """Return the hash of a password by ``mysql_native_password``, to compare it with the server's and to set it.

    It is SHA-1 of SHA-1 without a salt. A ``password`` that is such a hash already stays one.
    """
    if re.fullmatch(r"\*[0-9A-Fa-f]{40}", reveal(password)):
        return _canonical_hash(reveal(password))
    first = hashlib.sha1(reveal(password).encode(), usedforsecurity=False).digest()
    return f"*{hashlib.sha1(first, usedforsecurity=False).hexdigest().upper()}"
