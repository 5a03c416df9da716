"""The accounts of a real MariaDB server, and how it is reached."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from lib import mysql
from resource_api import ManifestError, ResourceError, Runtime
from resource_api.system.log import ForwardedLog
from resource_api.testing import ProviderCompliance, context
from tests.mariadb_server import ACCOUNT
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport
    from tests.mariadb_server import Server

NAME = "ra-test-own@127.0.0.1"
#: What the server computes for `open-barley`.
HASH = "*BE4B2F8AF920EFE8DD2901C45227D6D38D2924DB"


class TestMysqlUser(ProviderCompliance):
    """An account with a password, which then gets limits."""

    type_name = "mysql_user"
    listing_size = 6

    @pytest.fixture
    def config(self, mariadb: Server) -> dict[str, Any]:
        return {**mariadb.config, "password": "not-needed-here"}

    @pytest.fixture
    def present(self) -> Resource:
        tls = ["SUBJECT '/CN=it s'", "ISSUER /CN=ca"]
        return {"name": "ra-test-A@LocalHost", "password": "open-barley", "tls_options": tls, "max_user_connections": 3}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        limits = {"max_queries_per_hour": 5, "max_updates_per_hour": 6, "max_connections_per_hour": 7}
        return {**present, **limits, "tls_options": ["X509"], "locked": True, "password_lifetime": 30}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        second = {"name": "o'brien \\@home@10.0.0.0/255.0.0.0", "password_hash": HASH.lower()}
        return [second, {**present, "name": "@ra-test"}]

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


@pytest.fixture
def account(mariadb: Server) -> Iterator[Server]:
    """Yield the server; the account of the tests does not exist before and after."""
    yield mariadb
    mariadb.sql("DROP USER IF EXISTS 'ra-test-own'@'127.0.0.1'")


def apply(config: dict[str, Any], name: str = NAME, **attributes: Any) -> RunReport:
    """Apply an account; return the report."""
    providers = {"mysql_user": {"config": config}}
    return Runtime(REGISTRY).apply(
        {"project": "p", "providers": providers, "resources": {f"Mysql_user[{name}]": attributes}}
    )


def shown(server: Server) -> str:
    """Return what the server says of the account of the tests."""
    [(text,)] = server.sql("SHOW CREATE USER 'ra-test-own'@'127.0.0.1'")
    return str(text)


def test_a_password_is_seen_and_set_again_when_somebody_has_changed_it(account: Server) -> None:
    """Without a state that knows it: the hash is compared. The password itself is in no log of the server."""
    log = account.directory / "general.log"
    account.sql(f"SET GLOBAL general_log_file = '{log}'", "SET GLOBAL general_log = 1")
    assert reason(apply(account.config, password="open-barley")) == ""
    account.sql("SET GLOBAL general_log = 0")
    assert account.can_log_in("ra-test-own", "open-barley")
    assert not account.can_log_in("ra-test-own", "open-barlex")
    assert apply(account.config, password="open-barley").summary.unchanged == 1
    assert apply(account.config, password_hash=HASH).summary.unchanged == 1
    account.sql("SET PASSWORD FOR 'ra-test-own'@'127.0.0.1' = PASSWORD('other')")
    assert apply(account.config, password="open-barley").summary.updated == 1
    assert account.can_log_in("ra-test-own", "open-barley")
    assert "CREATE USER 'ra-test-own'" in log.read_text()
    assert "open-barley" not in log.read_text()


@pytest.mark.parametrize("spelling", [HASH, HASH.lower()])
def test_a_password_that_is_a_hash_already_is_stored_as_it_is(account: Server, spelling: str) -> None:
    """Who has its password can log in."""
    assert reason(apply(account.config, password=spelling)) == ""
    assert account.can_log_in("ra-test-own", "open-barley")
    assert apply(account.config, password="open-barley").summary.unchanged == 1


def test_a_new_account_without_a_password_lets_nobody_in(account: Server) -> None:
    """The server would give it an empty one."""
    assert reason(apply(account.config)) == ""
    assert not account.can_log_in("ra-test-own", "")
    assert apply(account.config).summary.unchanged == 1
    assert "without it everybody could log in" in reason(
        apply(account.config, "ra-b@x", plugin="mysql_native_password")
    )
    assert apply(account.config, plugin="mysql_native_password").summary.unchanged == 1


def test_what_is_declared_takes_the_place_of_several_ways_to_log_in(account: Server) -> None:
    """They are shown; the plugin of one of them is not that of the account."""
    account.sql(
        f"CREATE USER 'ra-test-own'@'127.0.0.1' IDENTIFIED VIA mysql_native_password USING '{HASH}' OR unix_socket"
    )
    [row] = Runtime(REGISTRY).resources("mysql_user", names=[NAME], config=account.config)
    assert row["plugins"] == ["mysql_native_password", "unix_socket"]
    assert "plugin" not in row
    assert apply(account.config, password="open-barley").summary.updated == 1
    assert "unix_socket" not in shown(account)
    assert apply(account.config, plugin="UNIX_SOCKET", tls_options=["NONE"]).summary.updated == 1
    assert "IDENTIFIED VIA unix_socket" in shown(account)


def test_an_account_is_made_with_requirements_and_limits(account: Server) -> None:
    """As SQL says them; `default` and `never` take a lifetime back."""
    expected = {"tls_options": ["CIPHER a'b", "ISSUER /CN=\\"], "password_lifetime": "never", "locked": True}
    assert reason(apply(account.config, password="open-barley", **expected)) == ""
    text = shown(account)
    assert "REQUIRE ISSUER '/CN=\\\\' CIPHER 'a''b'" in text or "REQUIRE ISSUER '/CN=\\' CIPHER 'a'b'" in text
    assert "PASSWORD EXPIRE NEVER" in text
    assert "ACCOUNT LOCK" in text
    again = {"tls_options": ["SSL"], "password_lifetime": "default", "locked": False}
    assert reason(apply(account.config, **again)) == ""
    assert apply(account.config, **again).summary.unchanged == 1
    assert not account.can_log_in("ra-test-own", "open-barley", ssl_disabled=True)
    assert account.can_log_in("ra-test-own", "open-barley", ssl_ca=account.certificate)


def test_a_plugin_that_the_server_lacks_is_its_error(account: Server) -> None:
    """And no account is left."""
    hashed = {"plugin": "ed25519", "password_hash": "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY"}
    assert "Plugin 'ed25519' is not loaded (1524)" in reason(apply(account.config, **hashed))
    assert apply(account.config, ensure="absent").summary.unchanged == 1


def test_the_account_that_makes_the_changes_stays(mariadb: Server) -> None:
    """Nobody else may be left who could undo it."""
    for attributes in ({"ensure": "absent"}, {"locked": True}):
        assert "the changes are made with" in reason(apply(mariadb.config, f"{ACCOUNT}@localhost", **attributes))


def test_a_character_that_the_server_would_replace_is_refused(mariadb: Server) -> None:
    """It would keep another name."""
    name = "ra-\U0001f600@localhost"
    assert "characters of three bytes at most" in reason(apply(mariadb.config, name))
    assert apply(mariadb.config, name, ensure="absent").summary.unchanged == 1


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (
            {"password": "a", "password_hash": HASH},
            "password_hash is what is computed of password; declare one of them",
        ),
        (
            {"password": "a", "plugin": "ed25519"},
            "password is for the plugin mysql_native_password; ed25519 needs password_hash",
        ),
        ({"password_hash": "open-barley"}, "is \\* and 40 hexadecimal digits; another one needs its plugin"),
        ({"tls_options": ["SSL", "ISSUER /CN=x"]}, "NONE, SSL and X509 stand alone"),
        ({"tls_options": ["ISSUER /CN=x", "ISSUER /CN=y"]}, "CIPHER, ISSUER and SUBJECT once each"),
        ({"tls_options": ["TLS"]}, "must be NONE, SSL, X509, or CIPHER"),
    ],
)
def test_what_cannot_be_meant_is_refused(attributes: dict[str, Any], reason: str) -> None:
    """Before a server is asked."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {"Mysql_user[a@b]": attributes}})


@pytest.mark.parametrize("name", ["app", "mariadb.sys@localhost", "mysql.sys@localhost", "a @b", "a@b c", "a@"])
def test_only_an_account_of_its_own_can_be_declared(name: str) -> None:
    """Without a host, with spaces that the server cuts off, or one of the server: refused."""
    with pytest.raises(ManifestError, match="must be an account as app@localhost"):
        Runtime(REGISTRY).validate({"resources": {f"Mysql_user[{name}]": {}}})


def test_several_servers_are_configured_providers(account: Server) -> None:
    """The same account through the socket, and through the port as a user with a password."""
    account.sql(
        "CREATE USER 'ra-admin'@'127.0.0.1' IDENTIFIED BY 'bär'",
        "GRANT ALL ON *.* TO 'ra-admin'@'127.0.0.1' WITH GRANT OPTION",
    )
    port = {"host": "127.0.0.1", "port": account.port, "user": "ra-admin", "password": "bär"}
    providers = {"mysql_user": {"config": account.config}, "far": {"type": "mysql_user", "config": port}}
    resources = {
        f"Mysql_user[{NAME}]": {"password": "open-barley"},
        "Mysql_user[again]": {"name": "ra-test-other@x", "provider": "far"},
    }
    try:
        report = Runtime(REGISTRY).apply({"project": "p", "providers": providers, "resources": resources})
        assert [step.error for step in report.steps] == ["", ""]
        assert apply(port, password="open-barley").summary.unchanged == 1
    finally:
        account.sql("DROP USER 'ra-admin'@'127.0.0.1'", "DROP USER IF EXISTS 'ra-test-other'@'x'")


@pytest.fixture
def encrypted(account: Server) -> Iterator[dict[str, Any]]:
    """Yield the configuration of a user who must use TLS."""
    account.sql(
        "CREATE USER 'ra-tls'@'%' IDENTIFIED BY 'open-sesame' REQUIRE SSL",
        "GRANT ALL ON *.* TO 'ra-tls'@'%' WITH GRANT OPTION",
    )
    yield {"host": "localhost", "port": account.port, "user": "ra-tls", "password": "open-sesame"}
    account.sql("DROP USER 'ra-tls'@'%'")


def test_a_server_is_verified_where_that_is_wanted(encrypted: dict[str, Any], account: Server) -> None:
    """By its authority, and by its name unless `verify-ca` is enough; `prefer` and `require` take any."""
    trusted = {**encrypted, "ca_file": account.certificate}
    for config in (encrypted, {**encrypted, "sslmode": "require"}, {**trusted, "sslmode": "verify-full"}):
        assert reason(apply(config, locked=True)) == ""
    by_number = {**trusted, "host": "127.0.0.1"}
    assert reason(apply({**by_number, "sslmode": "verify-ca"})) == ""
    assert "not valid for '127.0.0.1'" in reason(apply({**by_number, "sslmode": "verify-full"}))
    assert "self-signed certificate" in reason(apply({**encrypted, "sslmode": "verify-full"}))
    assert "Access denied for user 'ra-tls'" in reason(apply({**encrypted, "sslmode": "disable"}))
    missing = {**encrypted, "sslmode": "verify-ca", "ca_file": "/none.pem"}
    assert "the files for TLS cannot be used: [Errno 2]" in reason(apply(missing))
    with pytest.raises(ManifestError, match="ca_file is for sslmode require, verify-ca or verify-full, not prefer"):
        apply({**encrypted, "ca_file": account.certificate})


@contextmanager
def other_server(*answers: bytes) -> Iterator[tuple[dict[str, Any], bytearray]]:
    """Serve one connection: send each answer and wait for the next request; yield where, and what is received."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            client, _ = listener.accept()
            client.settimeout(10)
            with client, suppress(ConnectionError):
                for answer in answers:
                    client.sendall(answer)
                    received.extend(client.recv(1 << 16))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield {"host": "127.0.0.1", "port": listener.getsockname()[1]}, received
        finally:
            thread.join()


def packet(number: int, content: bytes) -> bytes:
    """Return a packet of the protocol."""
    return len(content).to_bytes(3, "little") + bytes([number]) + content


#: Version 10 of the protocol, version of the server, thread, salt, capabilities without TLS, plugin.
GREETING = packet(
    0,
    b"\x0a8.0.36\0" + bytes(4) + b"saltsalt\0" + b"\xff\xf7\x2d\x02\0\xff\x81\x15" + bytes(10)
    + b"saltsaltsalt\0mysql_native_password\0",
)  # fmt: skip


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog"])
def test_a_server_that_is_not_verified_never_gets_the_password_itself(plugin: str) -> None:
    """One that asks for it may be another one, in between."""
    question = packet(2, b"\xfe" + plugin.encode() + b"\0Password: ")
    with other_server(GREETING, question) as (path, received):
        result = reason(apply({**path, "user": "admin", "password": "open-sesame"}))
    assert "it asks for the password itself, which it gets with sslmode verify-ca or verify-full only" in result
    assert b"admin" in received
    assert b"open-sesame" not in received


def test_a_server_that_cannot_be_reached_is_named(mariadb: Server) -> None:
    """With the reason of the system, or what it says instead of a greeting."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert reason(apply({"host": "127.0.0.1", "port": port})) == (
        f"cannot connect to the server at 127.0.0.1:{port}: Connection refused"
    )
    assert reason(apply({"host": "/none/socket"})) == (
        "cannot connect to the server at /none/socket: No such file or directory"
    )
    denied = reason(apply({**mariadb.config, "user": "nobody"}))
    assert f"cannot connect to the server at {mariadb.socket}: Access denied for user 'nobody'@'localhost'" in denied


@pytest.mark.parametrize(
    "answers", [[], [b"HTTP/1.1 400 Bad Request\r\n\r\n"], [packet(0, b"\x0a5.5\0")], [packet(0, b"")]]
)
def test_what_is_no_server_is_an_error(answers: list[bytes]) -> None:
    """One that hangs up, a web server, and one whose greeting is cut."""
    with other_server(*answers) as (path, _):
        result = reason(apply(path))
    assert result.startswith(f"cannot connect to the server at 127.0.0.1:{path['port']}: ")
    assert "lib/mysql.py" not in result


def test_a_server_that_does_not_answer_in_the_time_of_a_resource_is_an_error(mariadb: Server) -> None:
    """At the latest after a second, when no time is left."""
    hurried = context(REGISTRY.type("mysql_user"))
    hurried.deadline = time.monotonic()
    reached = mysql.Server({"port": 3306, "sslmode": "prefer", **mariadb.config})
    with reached.session(hurried) as session, pytest.raises(ResourceError, match="timed out"):
        session.run("DO SLEEP(20)")


def test_a_machine_without_the_library_is_an_error(mariadb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "pymysql", None)
    assert "needs the Python module pymysql (pip install 'resource-api[mysql]'): " in reason(apply(mariadb.config))


def test_no_hash_is_in_the_log_of_statements(account: Server) -> None:
    """Neither as it is declared, nor as SQL writes it."""
    lines: list[str] = []
    log = ForwardedLog("debug", lambda event: lines.append(event.text))
    secret = "it's \\ a secret service"
    resources = {f"Mysql_user[{NAME}]": {"plugin": "pam", "password_hash": secret}}
    providers = {"mysql_user": {"config": account.config}}
    Runtime(REGISTRY, log=log).apply({"project": "p", "providers": providers, "resources": resources})
    assert [line for line in lines if "IDENTIFIED WITH pam AS '<sensitive>'" in line], lines


def test_a_server_that_goes_away_is_an_error(mariadb: Server) -> None:
    """Between two statements; what follows is not taken for done."""
    defaults = {"port": 3306, "sslmode": "prefer"}
    with mysql.Server({**defaults, **mariadb.config}).session(context(REGISTRY.type("mysql_user"))) as session:
        [row] = session.rows("SELECT CONNECTION_ID() AS id")
        mariadb.sql(f"KILL {row['id']}")
        for _ in range(2):
            with pytest.raises(ResourceError, match=r"Lost connection|gone away|closed|\(0\)"):
                session.run("CREATE USER 'ra-test-own'@'127.0.0.1'")


def test_a_server_that_only_reads_is_an_error(account: Server) -> None:
    """It says so; the administrator may write all the same."""
    account.sql(
        "CREATE USER 'ra-limited'@'127.0.0.1' IDENTIFIED BY 'open-sesame'",
        "GRANT CREATE USER, SELECT ON *.* TO 'ra-limited'@'127.0.0.1'",
        "SET GLOBAL read_only = 1",
    )
    config = {"host": "127.0.0.1", "port": account.port, "user": "ra-limited", "password": "open-sesame"}
    try:
        assert "read-only option so it cannot execute this statement (1290)" in reason(apply(config))
    finally:
        account.sql("SET GLOBAL read_only = 0", "DROP USER 'ra-limited'@'127.0.0.1'")


@pytest.mark.parametrize(
    ("info", "product"),
    [
        ("5.5.5-10.11.19-MariaDB-0+deb12u1", "MariaDB"),
        ("11.8.3-MariaDB-1:11.8.3+maria~deb12-log", "MariaDB"),
        ("8.0.36", "MySQL"),
        ("8.4.2-2-Percona", "MySQL"),
    ],
)
def test_a_server_says_what_it_is(info: str, product: str) -> None:
    """In its greeting, before anything is asked."""
    assert mysql.recognize(info) == product


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ("5.5.5-10.5.23-MariaDB", "MariaDB 10.6 or later is needed"),
        ("5.7.44-log", "the server is 5.7.44-log; MySQL 8.0 or later is needed"),
        ("none", "the server is none; MySQL 8.0 or later is needed"),
    ],
)
def test_a_server_that_is_too_old_is_refused(info: str, reason: str) -> None:
    """It keeps accounts and names otherwise."""
    with pytest.raises(ResourceError, match=reason):
        mysql.recognize(info)


def test_a_plan_says_what_goes_with_an_account(account: Server) -> None:
    """Its rights, and what runs with them; a declared right keeps it, whichever provider of the server has it."""
    account.sql("CREATE USER 'ra-test-own'@'127.0.0.1'")
    account.sql("CREATE DATABASE `ra-test-shop`")
    try:
        account.sql("GRANT SELECT ON `ra-test-shop`.* TO 'ra-test-own'@'127.0.0.1'")
        account.sql("CREATE DEFINER='ra-test-own'@'127.0.0.1' VIEW `ra-test-shop`.one AS SELECT 1 AS n")
        absent = {f"Mysql_user[{NAME}]": {"ensure": "absent", "provider": "a"}}
        grant = {f"Mysql_grant[{NAME} on ra-test-shop.*]": {"privileges": ["SELECT"], "provider": "b"}}
        configured = {"a": {"type": "mysql_user"}, "b": {"type": "mysql_grant"}}
        providers = {name: {**item, "config": account.config} for name, item in configured.items()}
        manifest = {"project": "p", "providers": providers}
        [step] = Runtime(REGISTRY).plan({**manifest, "resources": absent}).steps
        assert [(effect.action, str(effect)) for effect in step.side_effects or ()] == [
            ("remove", f"Mysql_grant[{NAME} ra-test-shop.*]"),
            ("break", "View[ra-test-shop.one]"),
        ]
        steps = Runtime(REGISTRY).plan({**manifest, "resources": {**absent, **grant}}).steps
        error = {str(value.reference): value.error for value in steps}
        assert f"which Mysql_grant[{NAME} on ra-test-shop.*] declares as present" in error[f"Mysql_user[{NAME}]"]
        assert reason(Runtime(REGISTRY).apply({**manifest, "resources": absent})) == ""
        with pytest.raises(Exception, match="definer"):
            account.sql("SELECT * FROM `ra-test-shop`.one")
    finally:
        account.sql("DROP DATABASE `ra-test-shop`")
