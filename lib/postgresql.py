"""Reach a PostgreSQL server with psql: statements go through its standard input, rows come back as JSON."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.secret_pipe import served
from lib.sensitive import refused_secrets
from resource_api import Attribute, Command, ResourceError, Sensitive, SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Context, Problem

#: The lines of a message of psql that show a statement or advice.
HIDDEN = ("LINE ", "HINT:", "CONTEXT:", "QUERY:", "LOCATION:")
#: A name of an object that needs no more than quotes, as long as the server keeps. ``pg_`` begins its own names.
NAME = r"Pattern[/\A(?!pg_)[A-Za-z_][A-Za-z0-9_.@$-]{0,62}\z/]"
#: The programs in Debian; the one on the search path is a script that finds them.
PROGRAMS = "usr/lib/postgresql/*/bin/psql"
TIMEOUT = 60.0


def config_attributes() -> dict[str, Attribute]:
    """Return the configuration that all types of this server have: its address, the connection's role, and TLS."""
    word = r"Pattern[/\A[^[:cntrl:]]+\z/]"
    return {
        "host": Attribute(
            word,
            "The host, or the directory of the socket.",
            default="/var/run/postgresql",
            must_be="a host, or an absolute path",
        ),
        "port": Attribute("Integer[1, 65535]", "The port.", default=5432),
        "user": Attribute(word, "The role that makes the changes.", default="postgres", must_be="a role's name"),
        "password": Attribute("Optional[Sensitive[String[1]]]", "Its password; `peer` and `trust` need none."),
        "account": Attribute(
            r"Pattern[/\A[^\s:\/[:cntrl:]]+\z/]",
            "The local account for connections through a socket.",
            default="postgres",
            must_be="a user's name",
        ),
        "database": Attribute(word, "The database to connect to.", default="postgres", must_be="a database's name"),
        "sslmode": Attribute(
            "Enum[disable, prefer, require, verify-ca, verify-full]",
            "How the connection is encrypted.",
            default="prefer",
        ),
    }


class Server:
    """One server, as one role."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Choose the newest psql, which works with all servers; nothing is connected before the first script."""
        self._config = config
        self._psql = Command(max(map(str, Path("/").glob(PROGRAMS)), key=_version, default="psql"), timeout=TIMEOUT)
        self._account = config["account"] if config["host"].startswith("/") else None

    def through(self, database: str) -> Server:
        """Return the server as it is reached through a database; an empty name is the configured one."""
        return Server({**self._config, "database": database}) if database else self

    def run(self, *statements: str) -> str:
        """Run statements, perhaps with secrets, in order, and return their output. Raise ``ResourceError``."""
        return self._run(Sensitive(_script(*statements)))

    def read(self, query: str) -> str:
        """Run a query without a secret and return its output. Raise ``ResourceError`` with the reason.

        Unlike in ``run``, the text is not ``Sensitive``: the first secret of a run starts a process that masks output.
        """
        return self._run(_script(query))

    def _run(self, script: str | Sensitive[str]) -> str:
        """Run a script with psql and return its output. Raise ``ResourceError`` with psql's reason for a failure.

        A password reaches psql through a pipe, the rest in its environment: other users can see arguments.
        """
        # No startup file, no messages, bare rows, and no question for a password.
        options = ("-XqAtw", "-v", "ON_ERROR_STOP=1", "-v", "SHOW_CONTEXT=never")
        connection = {key: str(self._config[key]) for key in ("host", "port", "user", "sslmode", "database")}
        variables = {f"PG{key.upper()}": value for key, value in connection.items()}
        variables |= {"PGCONNECT_TIMEOUT": "10", "PGAPPNAME": "resource-api"}
        with self._password() as more:
            variables.update(more)
            result = self._psql.attempt(*options, env=variables, input=script, user=self._account, log="debug")
        if result.exit_code:
            raise ResourceError(_reason(result.stderr) or f"psql ended with exit code {result.exit_code}")
        return result.stdout

    @contextmanager
    def _password(self) -> Iterator[Mapping[str, str]]:
        """Yield the variables for psql to read the password from a pipe in the block; none without a password."""
        if self._config.get("password") is None:
            yield {}
            return
        lines = ["[server]", f"password={self._config['password'].reveal()}", ""]
        with served("\n".join(lines).encode(), self._account) as pipe:
            yield {"PGSERVICE": "server", "PGSERVICEFILE": pipe}

    def rows(
        self, query: str, names: Collection[str] | None, *, table: str = "", without: str = ""
    ) -> list[dict[str, Any]]:
        """Return the rows of a query whose column ``name`` is one of ``names``, or all for None.

        ``without`` is the query for a role that has no right to read ``table``, such as the table of passwords: it
        returns the same rows without these values. The server chooses between both, in one call of psql.
        """
        condition = "true" if names is None else f"name = ANY (ARRAY[{', '.join(map(literal, names))}]::text[])"
        script, script_without = (
            f"SELECT coalesce(json_agg(r ORDER BY name), '[]') FROM ({text}) r WHERE {condition};"  # noqa: S608 - quoted by literal
            for text in (query, without)
        )
        if table:
            # Commands of psql: the first one stores the answer in a variable, by which the query is chosen.
            may = f"SELECT has_table_privilege({literal(table)}, 'SELECT') AS may \\gset"
            script = f"{may}\n\\if :may\n{script}\n\\else\n{script_without}\n\\endif"
        rows: list[dict[str, Any]] = json.loads(self.read(script))
        return rows


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def comment(kind: str, name: str, should: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statement that sets a declared comment."""
    if should.get("comment") is not None:
        yield f"COMMENT ON {kind} {identifier(name)} IS {literal(should['comment'])};"


def switches(words: Mapping[str, str], should: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of an SQL statement for boolean attributes: ``LOGIN``, or ``NOLOGIN`` for false.

    ``words``: attribute → its option. An undeclared attribute has none, so that it stays as it is.
    """
    for attribute, word in words.items():
        if should.get(attribute) is not None:
            yield word if should[attribute] else f"NO{word}"


def _script(*statements: str) -> str:
    """Return statements as one script whose texts mean the same on every server."""
    return "\n".join(["SET standard_conforming_strings = on;", "SET client_encoding = 'UTF8';", *statements])


def _version(path: str) -> int:
    """Return the version in the path of a program, ``/usr/lib/postgresql/15/...``, or 0."""
    return int(digits) if (digits := path.split("/")[4]).isdecimal() else 0


def _reason(stderr: str) -> str:
    """Return the messages of psql and their details in one line, for the error of a resource.

    The name of the program and the quoted statement with the lines after it are left out: the user has not written
    that statement.
    """
    texts, is_message = [], True
    for line in filter(None, map(str.strip, stderr.splitlines())):
        if line.startswith(HIDDEN):
            is_message = False
        elif ":  " in line:  # ``ERROR:  there is no ...`` begins a message
            is_message = True
        if is_message:
            text = line.removeprefix("psql: ").removeprefix("error: ")
            texts.append(text.partition(":  ")[2] or text)
    return "; ".join(texts)


class ServerProvider(SimpleProvider):
    """The base class of the providers of one server's databases, roles and rights."""

    def check_config(self, _context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration as it is. Raise ``ResourceError`` for a password that psql would alter."""
        password = config.get("password")
        text = str(password.reveal()) if isinstance(password, Sensitive) else ""
        if not text.isprintable():
            raise ResourceError("the password is not one printable line")
        if text.endswith(" "):
            raise ResourceError("the password ends with a blank, which psql would leave out")
        return config

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the server's configuration."""
        self._server = Server(config)

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets but a password, as servers log statements."""
        return refused_secrets(should, "password")

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the changed settings that lead to another server, where the recorded resources are not."""
        return [name for name in ("host", "port") if is_.get(name) != should.get(name)]
