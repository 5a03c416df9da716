"""The rights of roles in a real PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from examples.postgresql.tests.conftest import Cluster, cluster
from resource_api import ManifestError, Runtime
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport

__all__ = ["cluster"]

ROLES = ("ra-test-A", "ra-test-b", "ra-test-c")


@pytest.fixture(scope="module")
def prepared(cluster: Cluster) -> Iterator[Cluster]:
    """Yield a server with roles, and a schema with a table, a view, a sequence and a function."""
    cluster.sql(
        "CREATE SCHEMA ra; CREATE TABLE ra.one (id serial); CREATE VIEW ra.two AS SELECT 1 AS x;"
        "CREATE FUNCTION ra.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SCHEMA ra_empty;"
        + "".join(f'CREATE ROLE "{role}";' for role in ROLES)
    )
    yield cluster
    roles = ", ".join(f'"{role}"' for role in ROLES)
    cluster.sql(f"DROP SCHEMA ra CASCADE; DROP SCHEMA ra_empty; DROP OWNED BY {roles}; DROP ROLE {roles}")


@pytest.fixture
def server(prepared: Cluster) -> Iterator[Cluster]:
    """Yield the server, and take all rights away from its roles afterwards."""
    yield prepared
    roles = ", ".join(f'"{role}"' for role in ROLES)
    prepared.sql(f"DROP OWNED BY {roles}; DROP TABLE IF EXISTS ra.new; GRANT CONNECT ON DATABASE postgres TO PUBLIC")


def applied(server: Cluster, **options: Any) -> RunReport:
    """Apply rights by title, with ``options`` as attributes."""
    title, attributes = options.pop("title"), options
    manifest = {
        "project": "p",
        "providers": {"postgresql_grant": {"config": server.config}},
        "resources": {f"Postgresql_grant[{title}]": attributes},
    }
    return Runtime(REGISTRY).apply(manifest)


def apply(server: Cluster, title: str, *privilege: str, **attributes: Any) -> None:
    """Give rights twice, the second time without a change."""
    expected = {**attributes, "privilege": list(privilege)} if privilege else attributes
    assert reason(applied(server, title=title, **expected)) == ""
    assert applied(server, title=title, **expected).summary.unchanged == 1


def may(server: Cluster, role: str, kind: str, name: str, *rights: str) -> list[bool]:
    """Return what the server says about rights of a role."""
    words = ", ".join(f"has_{kind}_privilege('{role}', '{name}', '{right}')" for right in rights)
    return [answer == "t" for answer in server.sql(f"SELECT {words}").split("|")]


def test_a_role_has_the_rights_that_are_declared_and_no_others(server: Cluster) -> None:
    """On a table and a view; those of another role stay."""
    server.sql('GRANT DELETE ON ra.one TO "ra-test-A", "ra-test-b"')
    apply(server, "ra-test-A on table ra.one in postgres", "INSERT", "SELECT")
    assert may(server, "ra-test-A", "table", "ra.one", "SELECT", "INSERT", "DELETE", "UPDATE") == [
        True,
        True,
        False,
        False,
    ]
    assert may(server, "ra-test-b", "table", "ra.one", "DELETE") == [True]
    apply(server, "ra-test-A on table ra.two in postgres", "ALL")
    assert may(server, "ra-test-A", "table", "ra.two", "SELECT", "TRIGGER") == [True, True]
    apply(server, "ra-test-A on table ra.two in postgres", ensure="absent")
    assert may(server, "ra-test-A", "table", "ra.two", "SELECT", "TRIGGER") == [False, False]


def test_rights_on_all_of_a_schema_reach_what_is_created_later_by_the_next_run(server: Cluster) -> None:
    """And the run says on which object one was missing."""
    title = "ra-test-A on tables ra in postgres"
    apply(server, title, "SELECT")
    assert may(server, "ra-test-A", "table", "ra.two", "SELECT") == [True]
    server.sql("CREATE TABLE ra.new ()")
    plan = Runtime(REGISTRY).plan(
        {
            "providers": {"postgresql_grant": {"config": server.config}},
            "resources": {f"Postgresql_grant[{title}]": {"privilege": ["SELECT"]}},
        }
    )
    assert "not all are on ra.new" in str(plan)
    apply(server, title, "SELECT")
    assert may(server, "ra-test-A", "table", "ra.new", "SELECT", "INSERT") == [True, False]
    apply(server, "ra-test-A on sequences ra in postgres", "USAGE")
    assert may(server, "ra-test-A", "sequence", "ra.one_id_seq", "USAGE", "UPDATE") == [True, False]


def test_rights_on_all_of_a_schema_need_something_in_it(server: Cluster) -> None:
    """Nothing could be seen of them later; there are none to take away. A missing schema or role is an error too."""
    title = "{} on tables {} in postgres"
    for role, schema, error in (
        ("ra-test-A", "ra_empty", "there are no tables in the schema 'ra_empty' yet"),
        ("ra-test-A", "ra_none", 'schema "ra_none" does not exist'),
        ("ra-none", "ra", 'role "ra-none" does not exist'),
    ):
        assert error in reason(applied(server, title=title.format(role, schema), privilege=["SELECT"]))
        assert applied(server, title=title.format(role, schema), ensure="absent").summary.unchanged == 1


def test_public_loses_what_the_server_gives_it(server: Cluster) -> None:
    """It may connect to each database and run each function until that is taken away."""
    apply(server, "public on database postgres", ensure="absent")
    assert may(server, "ra-test-A", "database", "postgres", "CONNECT") == [False]
    apply(server, "ra-test-A on database postgres", "CONNECT")
    assert may(server, "ra-test-A", "database", "postgres", "CONNECT", "TEMPORARY") == [True, False]
    apply(server, "PUBLIC on functions ra in postgres", ensure="absent")
    assert may(server, "ra-test-A", "function", "ra.f()", "EXECUTE") == [False]


def test_a_right_to_give_rights_is_given_and_taken(server: Cluster) -> None:
    """The rights themselves stay."""
    title = "ra-test-A on schema ra in postgres"
    for option in (True, False):
        apply(server, title, "USAGE", grant_option=option)
        assert may(server, "ra-test-A", "schema", "ra", "USAGE", "USAGE WITH GRANT OPTION") == [True, option]


def test_what_does_not_exist_is_an_error_of_the_server(server: Cluster) -> None:
    """And has no rights: there is nothing to take away."""
    assert 'relation "ra.none" does not exist' in reason(
        applied(server, title="ra-test-A on table ra.none in postgres", privilege=["SELECT"])
    )
    title = "ra-test-A on table orders in ra_none"
    assert 'database "ra_none" does not exist' in reason(applied(server, title=title, privilege=["SELECT"]))
    assert applied(server, title=title, ensure="absent").summary.unchanged == 1


@pytest.mark.parametrize(
    ("title", "attributes", "reason"),
    [
        (
            "a on table x in d",
            {"privilege": ["CONNECT"]},
            "there is no CONNECT on table; the rights are DELETE, INSERT",
        ),
        ("a on database d in d", {"privilege": ["CONNECT"]}, "a database is in no database; leave it out"),
        ("a on table x", {"privilege": ["SELECT"]}, "database is needed, as in 'app on table NAME in DATABASE'"),
        ("a on schema x.y in d", {"privilege": ["USAGE"]}, "the name after 'schema' has no '.'"),
        ("PUBLIC on schema x in d", {"privilege": ["USAGE"], "grant_option": True}, "PUBLIC cannot give rights"),
        ("a on nothing x in d", {"privilege": ["USAGE"]}, "role"),
    ],
)
def test_what_cannot_be_meant_is_refused(title: str, attributes: dict[str, Any], reason: str) -> None:
    """Before a server is asked."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {f"Postgresql_grant[{title}]": attributes}})


class TestPostgresqlGrant(ProviderCompliance):
    """Rights on a table, of several roles."""

    type_name = "postgresql_grant"
    listing_size = 1

    @pytest.fixture
    def config(self, prepared: Cluster) -> dict[str, Any]:
        return {**prepared.config, "password": "not-needed-here"}

    @pytest.fixture
    def present(self) -> Resource:
        names = {"role": ROLES[0], "object_type": "table", "object_name": "ra.one", "database": "postgres"}
        return {**names, "privilege": ["SELECT", "INSERT"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "privilege": ["UPDATE", "SELECT"], "grant_option": True}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [
            {**present, "role": ROLES[1]},
            {**present, "role": ROLES[2], "object_type": "schema", "object_name": "ra", "privilege": ["ALL"]},
        ]

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"
