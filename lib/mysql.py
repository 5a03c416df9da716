"""Reach a MariaDB or MySQL server with PyMySQL, and write names and texts into statements."""

from __future__ import annotations

import re
import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lib import prerequisites
from lib.sensitive import refused_secrets
from resource_api import Attribute, BaseProvider, ResourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from ssl import SSLContext

    from pymysql.connections import Connection

    from resource_api import Change, Context, Problem

WORD = r"Pattern[/\A[^[:cntrl:]]+\z/]"
PATH = r"Optional[Pattern[/\A\/[^[:cntrl:]]+\z/]]"
#: Accounts that the servers use themselves.
OWN_ACCOUNTS = frozenset(
    {"mariadb.sys@localhost", "mysql.infoschema@localhost", "mysql.session@localhost", "mysql.sys@localhost"}
)
#: ``USER@HOST``; the user may be empty, and has no space at its end, which servers cut off.
ACCOUNT = (
    rf"Pattern[/\A(?!({'|'.join(map(re.escape, sorted(OWN_ACCOUNTS)))})\z)"
    r"""([^[:cntrl:]]{0,79}[^[:cntrl:]\s])?@[^@'"`\s[:cntrl:]]{1,255}\z/]"""
)
#: The resources that come before these types; the packages and services of Debian and of Oracle.
SERVER = {"package": ["mariadb-server", "default-mysql-server", "mysql-server"], "service": ["mariadb", "mysql"]}
#: Seconds for a connection, and for the answer to a statement.
CONNECT_TIMEOUT, TIMEOUT = 10, 300
#: The oldest versions whose accounts and names of character sets are read here as they are written.
OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
VERIFYING = frozenset({"verify-ca", "verify-full"})
#: Errors of the server whose text does not name the missing object.
HINTS = {1133: "there is no such account", 1410: "there is no such account"}


def config_attributes() -> dict[str, Attribute]:
    """Return the configuration that all types of this server have: its address, the connection's user, and TLS."""
    return {
        "host": Attribute(
            WORD,
            "The host, or the path of the socket.",
            default="/run/mysqld/mysqld.sock",
            must_be="a host, or an absolute path",
        ),
        "port": Attribute("Integer[1, 65535]", "The port; a socket has none.", default=3306),
        "user": Attribute(WORD, "The user that makes the changes.", default="root", must_be="a user's name"),
        "password": Attribute(
            "Optional[Sensitive[String[1]]]", "Its password; `unix_socket` and `auth_socket` need none."
        ),
        "sslmode": Attribute(
            "Enum[disable, prefer, require, verify-ca, verify-full]",
            "How a connection through a port is encrypted.",
            default="prefer",
        ),
        "ca_file": Attribute(
            PATH,
            "The certificate authorities for `verify-ca` and `verify-full`; by default those of the system.",
            must_be="an absolute path",
        ),
        "cert_file": Attribute(PATH, "The certificate of the user.", must_be="an absolute path"),
        "key_file": Attribute(PATH, "Its private key, unless `cert_file` contains it.", must_be="an absolute path"),
    }


class Server:
    """One server, as one user."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Keep the address of the server; nothing is connected."""
        self._config = config

    @contextmanager
    def session(self, context: Context) -> Iterator[Session]:
        """Yield a connection to the server. Raise ``ResourceError`` with the reason why there is none."""
        with prerequisites.needing("pymysql", "pip install 'resource-api[mysql]'"):
            import pymysql  # an extra installs it
        try:
            # Deferred, because PyMySQL would leave a socket of its own open that it cannot connect.
            connection = pymysql.connect(**self._options(_seconds(context)), defer_connect=True)
            connection.connect(self._socket())
        except (pymysql.MySQLError, OSError, RuntimeError, ValueError, LookupError, struct.error) as error:
            # PyMySQL takes any answer for a server's.
            raise ResourceError(f"cannot connect to the server at {self._address()}: {_reason(error)}") from None
        try:
            session = Session(connection, context)
            session.prepare()
            yield session
        finally:
            connection.close()

    def _address(self) -> str:
        """Return the socket, or the host and port, for a message."""
        host: str = self._config["host"]
        return host if host.startswith("/") else f"{host}:{self._config['port']}"

    def _socket(self) -> socket.socket:
        """Return a connected socket for PyMySQL, of the file system if the host is a path. Raise ``OSError``.

        If the connection fails, the socket is closed here; PyMySQL would leave its own socket open.
        """
        host, port = self._config["host"], self._config["port"]
        if not host.startswith("/"):
            connection = socket.create_connection((host, port), CONNECT_TIMEOUT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connection
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(CONNECT_TIMEOUT)
            connection.connect(host)
        except OSError:
            connection.close()
            raise
        return connection

    def _options(self, seconds: float) -> dict[str, Any]:
        """Return PyMySQL's options and time limits. Raise ``ResourceError`` for an unreadable file of TLS."""
        config, password = self._config, self._config.get("password")
        options: dict[str, Any] = {
            "user": config["user"],
            # As bytes: PyMySQL would write a text as latin1.
            "password": b"" if password is None else password.reveal().encode(),
            "charset": "utf8mb4",
            "read_timeout": seconds,
            "write_timeout": seconds,
        }
        if config["host"].startswith("/") or config["sslmode"] == "disable":
            options["ssl_disabled"] = True
        elif config["sslmode"] != "prefer":
            options["ssl"] = _tls(config)
        if not config["host"].startswith("/"):
            options["host"] = config["host"]
            # Without a verified certificate the answer may be another server's: it must not get the password in clear.
            if config["sslmode"] not in VERIFYING:
                options["auth_plugin_map"] = dict.fromkeys(("mysql_clear_password", "dialog"), _NoClearText)
        return options


class Session:
    """A connection to a server."""

    def __init__(self, connection: Connection[Any], context: Context) -> None:
        """Recognize the product of the server, whose statements differ; ``context``: that of the provider's call."""
        self.context = context
        self._connection = connection
        #: Whether the server is MariaDB, and not MySQL.
        self.is_mariadb = recognize(connection.get_server_info()) == "MariaDB"  # type: ignore[no-untyped-call] # stubs

    def prepare(self) -> None:
        r"""Let the server read statements as they are written here: ``\`` escapes, and GRANT creates no account."""
        mode = "NO_AUTO_CREATE_USER" if self.is_mariadb else ""
        self._execute(f"SET SESSION sql_mode = {literal(mode)}")

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query, all texts as such."""
        names, rows = self._execute(query)
        return [dict(zip(names, map(_text, row), strict=True)) for row in rows]

    def run(self, statement: str) -> None:
        """Run a statement with a change; its known secrets are masked in the log."""
        self.context.debug(f"Executing '{statement}'")
        self._execute(statement)

    def check_other(self, name: str) -> None:
        """Raise ``ResourceError`` for this connection's own account, without which nobody could make changes."""
        [row] = self.rows("SELECT CURRENT_USER() AS name")
        if row["name"] == name:
            raise ResourceError(f"the changes are made with '{name}' itself; nobody could make any further ones")

    def _execute(self, statement: str) -> tuple[list[str], Collection[tuple[Any, ...]]]:
        """Return the columns and rows of a statement's result, for statements that read and that change.

        Raise ``ResourceError`` with the server's reason.
        """
        try:
            with self._connection.cursor() as cursor:
                # Without arguments: PyMySQL would read each % in a name as a place for one.
                cursor.execute(statement)
                return [column[0] for column in cursor.description or ()], cursor.fetchall()
        except self._connection.Error as error:
            raise ResourceError(_reason(error)) from None


class _NoClearText:
    """Refuses to send the password itself to a server that may be another one."""

    def __init__(self, _connection: Connection[Any]) -> None:
        """Need nothing of the connection."""

    def authenticate(self, _packet: object) -> object:
        """Raise ``RuntimeError``, which ends the connection."""
        raise RuntimeError("it asks for the password itself, which it gets with sslmode verify-ca or verify-full only")


def recognize(info: str) -> str:
    """Return the product in a server's version text. Raise ``ResourceError`` for a version that is too old."""
    # MariaDB before 11 puts the version in front that old replicas expect: 5.5.5-10.11.6-MariaDB.
    mariadb = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", info)
    version = mariadb or re.match(r"(\d+)\.(\d+)\.", info)
    product = "MariaDB" if mariadb else "MySQL"
    if not version or (int(version[1]), int(version[2])) < OLDEST[product]:
        needed = ".".join(map(str, OLDEST[product]))
        raise ResourceError(f"the server is {info}; {product} {needed} or later is needed")
    return product


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return "`" + name.replace("`", "``") + "`"


def split_account(name: str) -> tuple[str, str]:
    """Return the user and the host of an account; a user may contain ``@``."""
    user, _, host = name.rpartition("@")
    return user, host


def account(name: str) -> str:
    """Return an account in SQL: ``'user'@'host'``. Raise ``ResourceError`` for a name that a server would alter.

    A server cannot store characters of four bytes, such as emojis: the statement would concern another account.
    """
    if not storable(name):
        raise ResourceError(f"no account can have the name '{name}': a server keeps characters of three bytes at most")
    user, host = split_account(name)
    return f"{literal(user)}@{literal(host)}"


def canonical_account(name: str) -> str:
    """Return an account with its host in small letters, as the server keeps it."""
    user, host = split_account(name)
    return f"{user}@{host.lower()}"


def among(expression: str, values: Iterable[str]) -> str:
    """Return the SQL condition that an expression equals one of the ``storable`` ``values``: no row has others."""
    listed = [literal(value) for value in values if storable(value)]
    return f"{expression} IN ({', '.join(listed)})" if listed else "FALSE"


def among_accounts(names: Iterable[str]) -> str:
    """Return the SQL condition that selects the rows of the accounts ``names`` by their columns ``User`` and ``Host``.

    A name that a server cannot store has no row, and is left out.
    """
    pairs = (map(literal, split_account(name)) for name in names if storable(name))
    listed = [f"({', '.join(pair)})" for pair in pairs]
    return f"(User, Host) IN ({', '.join(listed)})" if listed else "FALSE"


def storable(name: str) -> bool:
    """Return whether servers can keep a name: of a character of four bytes they make a question mark, or an error."""
    return name.isascii() or max(name) <= "\uffff"


def _seconds(context: Context) -> float:
    """Return the seconds that an answer may take: the remaining time of the resource, if that is less."""
    remaining = TIMEOUT if context.deadline is None else context.deadline - time.monotonic()
    return min(TIMEOUT, max(remaining, 1))


def _tls(config: Mapping[str, Any]) -> SSLContext:
    """Return the TLS context for an ``sslmode``; only ``verify`` modes check certificates. Raise ``ResourceError``."""
    import ssl  # slow to import, and types load this module for their attributes

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config["sslmode"] == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if config["sslmode"] in VERIFYING else ssl.CERT_NONE
    try:
        if config.get("ca_file") is not None:
            context.load_verify_locations(config["ca_file"])
        elif config["sslmode"] in VERIFYING:
            context.load_default_certs()
        if config.get("cert_file") is not None:
            context.load_cert_chain(config["cert_file"], config.get("key_file"))
    except OSError as error:
        raise ResourceError(f"the files for TLS cannot be used: {error}") from None
    return context


def _text(value: Any) -> Any:
    """Return a value of a row; the server sends some texts as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _reason(error: Exception) -> str:
    """Return the message of a server or of PyMySQL in words for the user, with the number of the error."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if len(error.args) == 2 and isinstance(error.args[0], int):  # noqa: PLR2004 - number and text
        number, text = error.args
        return f"{HINTS.get(number, text)} ({number})"
    return str(error) or type(error).__name__


class ServerProvider(BaseProvider):
    """The base class of the providers of one server's databases, accounts and rights."""

    def check_config(self, _context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration. Raise ``ResourceError`` for files of TLS that its ``sslmode`` would ignore.

        The user who declares them expects a verified connection, which it would not be.
        """
        if config["sslmode"] in {"disable", "prefer"}:
            for name in ("ca_file", "cert_file", "key_file"):
                if config.get(name) is not None:
                    msg = f"{name} is for sslmode require, verify-ca or verify-full, not {config['sslmode']}"
                    raise ResourceError(msg)
        return config

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the server's configuration."""
        self._server = Server(config)

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the changed settings that lead to another server, where the recorded resources are not."""
        return [name for name in ("host", "port") if is_.get(name) != should.get(name)]

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets in attributes other than passwords, as statements with them are logged."""
        return refused_secrets(should, "password", "password_hash")

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Change all resources through one connection, which saves time; a failure of one does not affect the rest."""
        with self._server.session(context) as session:
            for name, (is_, should) in changes.items():
                if should["ensure"] == "absent":
                    action = context.deleting(name)
                else:
                    action = context.creating(name) if is_ is None else context.updating(name)
                with action:
                    self._change(session, name, is_, should)

    def _change(self, session: Session, name: Any, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Bring one resource to its declared state; ``is_`` is None where it does not exist."""
        raise NotImplementedError
