"""The databases of a real PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from examples.postgresql.tests.conftest import Cluster, cluster
from resource_api import Runtime
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource

__all__ = ["cluster"]


class TestPostgresqlDatabase(ProviderCompliance):
    """A database with an encoding, which then gets another owner."""

    type_name = "postgresql_database"
    listing_size = 3

    @pytest.fixture
    def config(self, cluster: Cluster) -> Iterator[dict[str, Any]]:
        cluster.sql("CREATE ROLE ra_owner")
        yield {**cluster.config, "password": "not-needed-here"}
        for name in cluster.sql("SELECT datname FROM pg_database WHERE datdba = 'ra_owner'::regrole").splitlines():
            cluster.sql(f'DROP DATABASE "{name}"')
        cluster.sql("DROP ROLE ra_owner")

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-A", "encoding": "utf-8", "locale": "C", "comment": "it's \\"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "owner": "ra_owner", "connection_limit": 5, "is_template": True}

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


def test_a_database_in_use_stays(cluster: Cluster) -> None:
    """The server says so; with its owner and itself in one run, each has a provider of its own."""
    both = {name: {"config": cluster.config} for name in ("postgresql_role", "postgresql_database")}
    resources: dict[str, Any] = {"Postgresql_database[ra-app]": {"owner": "ra-app"}, "Postgresql_role[ra-app]": {}}
    runtime = Runtime(REGISTRY)
    try:
        report = runtime.apply({"project": "p", "providers": both, "resources": resources})
        assert [(step.error, str(step.action)) for step in report.steps] == [("", "create")] * 2
        assert cluster.sql("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'ra-app'") == "ra-app"
        gone = {"project": "p", "providers": both, "resources": {"Postgresql_database[postgres]": {"ensure": "absent"}}}
        assert "cannot drop the currently open database" in reason(Runtime(REGISTRY).apply(gone))
    finally:
        cluster.sql('DROP DATABASE IF EXISTS "ra-app"')
        cluster.sql('DROP ROLE IF EXISTS "ra-app"')


def test_a_plan_says_which_rights_go_with_a_database(cluster: Cluster) -> None:
    """Those on it and in it; one that is declared keeps it, whichever provider of the server has it."""
    for statement in (
        "CREATE ROLE ra_reader",
        'CREATE DATABASE "ra-shop"',
        'GRANT CONNECT ON DATABASE "ra-shop" TO ra_reader',
    ):
        cluster.sql(statement)
    try:
        configured = {"a": {"type": "postgresql_database"}, "b": {"type": "postgresql_grant"}}
        providers = {name: {**item, "config": cluster.config} for name, item in configured.items()}
        manifest = {"project": "p", "providers": providers}
        grants = {"Postgresql_grant[ra_reader on schema public in ra-shop]": {"privilege": ["USAGE"], "provider": "b"}}
        assert reason(Runtime(REGISTRY).apply({**manifest, "resources": grants})) == ""
        absent = {"Postgresql_database[ra-shop]": {"ensure": "absent", "provider": "a"}}
        [step] = Runtime(REGISTRY).plan({**manifest, "resources": absent}).steps
        names = [effect.name for effect in step.side_effects or ()]
        assert ("ra_reader", "database", "ra-shop", "") in names
        assert ("ra_reader", "schema", "public", "ra-shop") in names
        steps = Runtime(REGISTRY).plan({**manifest, "resources": {**absent, **grants}}).steps
        error = {str(value.reference): value.error for value in steps}["Postgresql_database[ra-shop]"]
        assert "which Postgresql_grant[ra_reader on schema public in ra-shop] declares as present" in error
        cluster.sql('ALTER DATABASE "ra-shop" ALLOW_CONNECTIONS false')
        assert reason(Runtime(REGISTRY).apply({**manifest, "resources": absent})) == ""
    finally:
        cluster.sql('DROP DATABASE IF EXISTS "ra-shop"')
        cluster.sql("DROP ROLE ra_reader")
