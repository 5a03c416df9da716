"""The rights of accounts of a real MariaDB server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import mysql_privilege_syntax as privileges
from lib.mysql_privilege_syntax import Target
from resource_api import ManifestError, Runtime
from resource_api.system.log import ForwardedLog
from resource_api.testing import ProviderCompliance
from tests.mariadb_server import ACCOUNT
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport
    from tests.mariadb_server import Server

ROOT = Path(__file__).resolve().parents[2]
#: An account whose name has what SQL uses around names, and a server's own form of it.
ODD = "ra`'@%-test@%"
ACCOUNTS = {"ra-test-a@localhost": "'ra-test-a'@'localhost'", ODD: "'ra`''@%-test'@'%'"}
A = "ra-test-a@localhost"


@pytest.fixture(scope="module")
def prepared(mariadb: Server) -> Iterator[Server]:
    """Yield a server with accounts, and a database with tables, a view and routines."""
    mariadb.sql(
        "CREATE DATABASE ra_db",
        "CREATE TABLE ra_db.one (id INT, Total INT, `a b` INT)",
        "CREATE TABLE ra_db.`odd.``name *` (id INT)",
        "CREATE VIEW ra_db.two AS SELECT 1 AS x",
        "CREATE PROCEDURE ra_db.work() SELECT 1",
        "CREATE FUNCTION ra_db.f() RETURNS INT RETURN 1",
        "CREATE USER ''@'ra-test'",
        "CREATE ROLE ra_role",
        *(f"GRANT SELECT ON {table} TO ra_role" for table in ("*.*", "ra_db.*", "ra_db.one")),
        "GRANT EXECUTE ON PROCEDURE ra_db.work TO ra_role",
        "GRANT INSERT ON ra_db.one TO ''@'ra-test'",
    )
    yield mariadb
    mariadb.sql("DROP DATABASE ra_db", "DROP ROLE ra_role", "DROP USER ''@'ra-test'")


@pytest.fixture
def accounts(prepared: Server) -> Iterator[Server]:
    """Yield the server with accounts that have no rights, and remove them afterwards."""
    prepared.sql(*(f"CREATE USER {sql} IDENTIFIED BY 'open-sesame'" for sql in ACCOUNTS.values()))
    yield prepared
    prepared.sql(*(f"DROP USER IF EXISTS {sql}" for sql in ACCOUNTS.values()))


@pytest.fixture
def careless(mariadb: Server) -> Iterator[None]:
    """Let the server create accounts where rights are given to them, as it does in this mode."""
    [(mode,)] = mariadb.sql("SELECT @@GLOBAL.sql_mode")
    mariadb.sql("SET GLOBAL sql_mode = ''")
    yield
    mariadb.sql(f"SET GLOBAL sql_mode = '{mode}'")


def applied(
    server: Server, user: str, table: str, config: dict[str, Any] | None = None, **attributes: Any
) -> RunReport:
    """Apply the rights of an account; return the report."""
    manifest = {
        "project": "p",
        "providers": {"mysql_grant": {"config": config or server.config}},
        "resources": {"Mysql_grant[x]": {"user": user, "table": table, **attributes}},
    }
    return Runtime(REGISTRY).apply(manifest)


def apply(server: Server, user: str, table: str, *rights: str, **attributes: Any) -> None:
    """Give rights twice, the second time without a change."""
    expected = {**attributes, "privileges": list(rights)} if rights else attributes
    assert reason(applied(server, user, table, **expected)) == ""
    assert applied(server, user, table, **expected).summary.unchanged == 1


def grants(server: Server, user: str) -> list[str]:
    """Return what the server says of the rights of an account, but for its password."""
    rows = server.sql(f"SHOW GRANTS FOR {ACCOUNTS[user]}")
    return [text.partition(" TO ")[0] + text[text.find(" WITH ") :] * (" WITH " in text) for (text,) in rows]


NOTHING = "GRANT USAGE ON *.*"


def test_an_account_has_the_rights_that_are_declared_and_no_others(accounts: Server) -> None:
    """On a database, a table and the whole server; those of another account, and on other things, stay."""
    accounts.sql(
        "GRANT DELETE, DROP ON ra_db.* TO 'ra-test-a'@'localhost'", "GRANT DROP ON ra_db.* TO " + ACCOUNTS[ODD]
    )
    apply(accounts, A, "ra_db.*", "insert", "SELECT")
    assert grants(accounts, A) == [NOTHING, "GRANT SELECT, INSERT ON `ra_db`.*"]
    assert grants(accounts, ODD) == [NOTHING, "GRANT DROP ON `ra_db`.*"]
    apply(accounts, A, "ra_db.two", "SELECT", "SHOW VIEW")
    apply(accounts, A, "*.*", "RELOAD", "BINLOG MONITOR")
    apply(accounts, A, "*.*", "REPLICATION CLIENT", "RELOAD", "USAGE")
    apply(accounts, A, "ra_db.*", ensure="absent")
    assert grants(accounts, A) == ["GRANT RELOAD, BINLOG MONITOR ON *.*", "GRANT SELECT, SHOW VIEW ON `ra_db`.`two`"]
    apply(accounts, A, "*.*", ensure="absent")
    assert grants(accounts, A)[0] == NOTHING


@pytest.mark.parametrize(
    ("table", "output"),
    [
        ("*.*", "*.*"),
        ("ra_db.*", "`ra_db`.*"),
        ("ra_db.`odd.``name *`", "`ra_db`.`odd.``name *`"),
        ("PROCEDURE ra_db.work", "PROCEDURE `ra_db`.`work`"),
        ("FUNCTION ra_db.f", "FUNCTION `ra_db`.`f`"),
    ],
)
def test_all_rights_are_those_that_the_server_has_there(accounts: Server, table: str, output: str) -> None:
    """A right that is missing among them is given; one of them can be kept alone."""
    apply(accounts, ODD, table, "ALL", options=["GRANT"])
    given_all = next(line for line in grants(accounts, ODD) if output in line)
    whole = "EXECUTE, ALTER ROUTINE" if "`work`" in output or "`f`" in output else "ALL PRIVILEGES"
    assert given_all == f"GRANT {whole} ON {output} WITH GRANT OPTION"
    one = "EXECUTE" if whole != "ALL PRIVILEGES" else "SELECT"
    apply(accounts, ODD, table, one, options=[])
    assert f"GRANT {one} ON {output}" in grants(accounts, ODD)
    apply(accounts, ODD, table, "all privileges")
    assert f"GRANT {whole} ON {output}" in grants(accounts, ODD)


def test_rights_on_columns_are_given_and_taken(accounts: Server) -> None:
    """The server compares columns without regard to case, and takes rights away only by the names that it has."""
    apply(accounts, A, "ra_db.one", "SELECT (total, ID)", "INSERT", "update(a b)")
    assert grants(accounts, A)[1] == "GRANT SELECT (`ID`, `total`), INSERT, UPDATE (`a b`) ON `ra_db`.`one`"
    apply(accounts, A, "ra_db.one", "SELECT (id)", "SELECT (Total)", "INSERT", "UPDATE (a b)")
    apply(accounts, A, "ra_db.one", "SELECT (ID)")
    assert grants(accounts, A)[1] == "GRANT SELECT (`ID`) ON `ra_db`.`one`"
    apply(accounts, A, "ra_db.one", "SELECT")
    assert grants(accounts, A)[1] == "GRANT SELECT ON `ra_db`.`one`"
    apply(accounts, A, "ra_db.one", "SELECT (ID)", options=["GRANT"])
    apply(accounts, A, "ra_db.one", ensure="absent")
    assert grants(accounts, A) == [NOTHING]


@pytest.mark.parametrize("table", ["*.*", "ra_db.*", "ra_db.one", "PROCEDURE ra_db.work"])
def test_a_right_to_give_rights_is_seen_alone(accounts: Server, table: str) -> None:
    """With ``USAGE``, which is none; it goes with all others, and stays where it is not declared."""
    apply(accounts, A, table, "USAGE", options=["GRANT"])
    assert any(line.endswith("WITH GRANT OPTION") for line in grants(accounts, A))
    one = "EXECUTE" if table.startswith("PROCEDURE") else "SELECT"
    apply(accounts, A, table, one)
    assert any(line.endswith("WITH GRANT OPTION") and one in line for line in grants(accounts, A))
    apply(accounts, A, table, ensure="absent")
    assert grants(accounts, A) == [NOTHING]


def test_a_database_is_a_pattern_as_the_server_has_it(accounts: Server) -> None:
    """With a backslash it is one database; both are different rights."""
    apply(accounts, A, "ra\\_db.*", "SELECT")
    apply(accounts, A, "ra_db.*", "INSERT")
    assert sorted(grants(accounts, A)[1:]) == ["GRANT INSERT ON `ra_db`.*", "GRANT SELECT ON `ra\\_db`.*"]


@pytest.mark.parametrize(
    ("name", "rights", "error"),
    [
        (("ra-none@localhost", "ra_db.*"), ["SELECT"], "there is no such account (1133)"),
        ((A, "ra_db.none"), ["SELECT"], "Table 'ra_db.none' doesn't exist (1146)"),
        ((A, "PROCEDURE ra_db.none"), ["EXECUTE"], "FUNCTION or PROCEDURE none does not exist (1305)"),
        ((A, "ra_db.one"), ["SELECT (none)"], "Unknown column 'none' in 'one' (1054)"),
        ((A, "*.*"), ["SLECT", "FLY", "SELECT"], "the server has no FLY, SLECT on *.*"),
        ((A, "ra_db.*"), ["SHOW CREATE ROUTINE"], "the server has no SHOW CREATE ROUTINE on ra_db.*"),
    ],
)
@pytest.mark.usefixtures("careless")
def test_what_does_not_exist_is_an_error(
    accounts: Server, name: tuple[str, str], rights: list[str], error: str
) -> None:
    """And has no rights: there is nothing to take away. No account is created by giving rights to it."""
    assert error in reason(applied(accounts, *name, privileges=rights))
    assert applied(accounts, *name, ensure="absent").summary.unchanged == 1
    assert not accounts.sql("SELECT 1 FROM mysql.user WHERE User = 'ra-none'")


def test_a_listing_has_the_rights_of_accounts_and_not_those_of_roles_or_the_server(prepared: Server) -> None:
    """Also of one whose user has no name; nothing is left out with a warning."""
    lines: list[str] = []
    log = ForwardedLog("warning", lambda event: lines.append(event.text))
    rows = Runtime(REGISTRY, log=log).resources("mysql_grant", config=prepared.config)
    assert {(row["user"], row["table"]) for row in rows} == {(f"{ACCOUNT}@localhost", "*.*"), ("@ra-test", "ra_db.one")}
    assert lines == []


def test_a_user_who_cannot_see_the_rights_of_others_is_told(accounts: Server) -> None:
    """Otherwise they would look absent."""
    accounts.sql(
        "GRANT CREATE USER ON *.* TO 'ra-test-a'@'localhost'", "GRANT SELECT ON mysql.user TO 'ra-test-a'@'localhost'"
    )
    limited = {**accounts.config, "user": "ra-test-a", "password": "open-sesame"}
    report = applied(accounts, ODD, "ra_db.*", limited, privileges=["SELECT"])
    assert "hides the rights of others from this user; it needs SELECT on the database mysql" in reason(report)
    report = applied(accounts, ODD, "ra_db.one", limited, privileges=["SELECT"])
    assert "SELECT command denied to user 'ra-test-a'@'localhost'" in reason(report)


def test_the_account_that_makes_the_changes_keeps_its_rights(accounts: Server) -> None:
    """Those on the whole server: nobody else may be left who could give them back."""
    text = f"{ACCOUNT}@localhost"
    for attributes in ({"ensure": "absent"}, {"privileges": ["SELECT"]}, {"privileges": ["ALL"], "options": []}):
        assert "the changes are made with" in reason(applied(accounts, text, "*.*", **attributes))
    assert applied(accounts, text, "*.*", privileges=["ALL"], options=["GRANT"]).summary.unchanged == 1


def test_a_grant_comes_after_its_account_and_database() -> None:
    """Whichever order they are declared in; a pattern that is one database is that database."""
    resources = {
        "Mysql_grant[app@x on my\\_app.*]": {"privileges": ["ALL"]},
        "Mysql_grant[app@x/other.t]": {"privileges": ["SELECT"]},
        "Mysql_user[app@x]": {},
        "Mysql_database[my_app]": {},
    }
    catalog = Runtime(REGISTRY).compile({"resources": resources})
    titles = [str(entry.reference) for entry in catalog.entries]
    assert titles.index("Mysql_grant[app@x on my\\_app.*]") > titles.index("Mysql_database[my_app]")
    assert {entry.should.get("table") for entry in catalog.entries} >= {"other.t", "my\\_app.*"}


@pytest.mark.parametrize(
    ("table", "attributes", "reason"),
    [
        ("d.t", {"privileges": ["CREATE USER"]}, "there is no CREATE USER on a table; the rights are ALTER, CREATE"),
        ("d.*", {"privileges": ["FILE"]}, "there is no FILE on a database; the rights are ALTER"),
        (
            "PROCEDURE d.p",
            {"privileges": ["SELECT"]},
            "there is no SELECT on a procedure; the rights are ALTER ROUTINE",
        ),
        ("d.t", {"privileges": ["DROP (a)"]}, "there is no DROP on columns of a table"),
        ("d.*", {"privileges": ["SELECT (a)"]}, "there is no SELECT on columns of a database; only a table has them"),
        ("d.*", {"privileges": ["GRANT OPTION"]}, "the right to give rights to others is options: \\[GRANT\\]"),
        ("d.*", {"privileges": ["USAGE"]}, "USAGE is no right, every account has it"),
        ("d.t", {"privileges": ["SELECT ( )"]}, "must be rights as SELECT, or SELECT \\(id, name\\)"),
        ("d.*", {"privileges": ["SELECT; DROP"]}, "must be rights as SELECT, or SELECT \\(id, name\\)"),
        ("d", {"privileges": ["SELECT"]}, "must be \\*.\\*, DATABASE.\\*, DATABASE.TABLE"),
        ("a b.*", {"privileges": ["SELECT"]}, "must be \\*.\\*, DATABASE.\\*, DATABASE.TABLE"),
    ],
)
def test_what_cannot_be_meant_is_refused(table: str, attributes: dict[str, Any], reason: str) -> None:
    """Before a server is asked."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {"Mysql_grant[x]": {"user": "a@b", "table": table, **attributes}}})


@pytest.fixture
def shop(mariadb: Server) -> Iterator[Server]:
    """Yield the server with what the examples of the pages are about, and remove it and what they make."""
    accounts = ("'app'@'localhost'", "'report'@'10.0.%'", "'backup'@'localhost'", "'admin'@'localhost'")
    mariadb.sql("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT, total INT)", "CREATE USER ''@'localhost'")
    mariadb.sql("CREATE PROCEDURE shop.close_day() SELECT 1", f"CREATE USER {accounts[-1]}")
    yield mariadb
    mariadb.sql("DROP DATABASE shop", *(f"DROP USER IF EXISTS {item}" for item in (*accounts, "''@'localhost'")))


def test_the_examples_of_the_pages_apply_and_then_change_nothing(shop: Server) -> None:
    """All of them in one manifest, on this server instead of the one that a page has."""
    kinds = ("mysql_database", "mysql_user", "mysql_grant")
    resources: dict[str, Any] = {}
    for kind in kinds:
        page = (ROOT / "docs" / "reference" / f"{kind}.md").read_text(encoding="utf-8")
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
            document = yaml.safe_load(block)
            for name, attributes in document.get("resources", document).items():
                resources.setdefault(name, {}).update(attributes)
    assert {name.partition("[")[0].lower() for name in resources} == set(kinds)
    manifest = {"project": "p", "providers": {kind: {"config": shop.config} for kind in kinds}, "resources": resources}
    assert [step.error for step in Runtime(REGISTRY).apply(manifest).steps if step.error] == []
    assert Runtime(REGISTRY).apply(manifest).summary.unchanged == len(resources)


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)


@settings(max_examples=50)
@given(st.sampled_from([privileges.ONE_TABLE, "PROCEDURE", "FUNCTION", privileges.DATABASE]), NAMES, NAMES)
def test_what_rights_are_on_is_written_and_read_alike(kind: str, database: str, name: str) -> None:
    """Whatever is in the names."""
    target = Target(kind, database, "" if kind == privileges.DATABASE else name)
    assert privileges.parse_target(str(target)) == target
    assert privileges.parse_target(target.sql) == target


class TestMysqlGrant(ProviderCompliance):
    """Rights on a database, a table and a routine, of several accounts."""

    type_name = "mysql_grant"
    listing_size = 1

    @pytest.fixture
    def config(self, accounts: Server) -> dict[str, Any]:
        return {**accounts.config, "password": "not-needed-here"}

    @pytest.fixture
    def present(self) -> Resource:
        return {"user": A, "table": "`ra_db`.one", "privileges": ["select (id)", "INSERT"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "privileges": ["UPDATE", "SELECT"], "options": ["GRANT"]}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [
            {**present, "user": ODD, "table": "ra_db.*", "privileges": ["ALL"]},
            {**present, "table": "FUNCTION ra_db.f", "privileges": ["EXECUTE"]},
        ]

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"
