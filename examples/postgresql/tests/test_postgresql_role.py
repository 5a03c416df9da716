"""The roles of a real PostgreSQL server: the laws of providers, and the runs of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_api import Registry, Runtime
from resource_api.testing import ProviderCompliance

HOME = Path(__file__).resolve().parents[1]


class TestPostgresqlRole(ProviderCompliance):
    """The laws, for roles that other roles may be members of."""

    type_name = "postgresql_role"
    module_path = (HOME,)
    listing_size = 8
    slowest_get = 1

    @pytest.fixture
    def config(self, cluster):
        return cluster.config

    @pytest.fixture
    def present(self):
        return {
            "name": "ra-test-A",
            "login": True,
            "connection_limit": 5,
            "member_of": ["pg_read_all_stats", "pg_monitor"],
            "comment": "it's a \\ test",
            "password": "ra-test-secret",
        }

    @pytest.fixture
    def updated(self, present):
        return {**present, "connection_limit": 6, "member_of": ["pg_monitor"], "password": "ra-test-other"}

    @pytest.fixture
    def neighbours(self):
        return "it reads no file"


@pytest.fixture
def runtime(tmp_path):
    """Return a runtime with a state of its own."""
    return Runtime(Registry.from_path(HOME), state=f"sqlite:{tmp_path}/state.db")


@pytest.fixture
def manifest(cluster):
    """Return a function that declares roles of the server; afterwards they are dropped."""
    names = set()

    def build(**resources):
        names.update(resources)
        return {
            "project": "roles",
            "providers": {"postgresql_role": {"config": cluster.config}},
            "resources": {f"Postgresql_role[{name}]": declared for name, declared in resources.items()},
        }

    yield build
    for name in names:
        cluster.sql(f'DROP ROLE IF EXISTS "{name}"')


def test_a_role_is_created_kept_corrected_and_deleted(cluster, runtime, manifest):
    """The server has the declared roles after each run, a change by hand is drift, noop changes nothing."""
    declared = manifest(app={"login": True, "connection_limit": 3, "password": "first-secret"})
    count = "select count(*) from pg_authid"
    before = cluster.sql(count)
    assert runtime.apply(declared, noop=True).summary.created == 1
    assert cluster.sql(count) == before
    assert runtime.apply(declared).summary.created == 1
    assert cluster.can_log_in("app", "first-secret")
    assert runtime.apply(declared).summary.changed == 0

    cluster.sql("alter role app connection limit 9")
    [drift] = runtime.plan(declared).drift
    assert [change.attribute for change in drift.changes] == ["connection_limit"]
    assert runtime.apply(declared).summary.updated == 1
    assert cluster.sql("select rolconnlimit from pg_roles where rolname = 'app'") == "3"
    assert runtime.destroy(declared).summary.deleted == 1
    assert cluster.sql(count) == before


def test_a_new_password_is_set(cluster, runtime, manifest):
    """The server stores a verifier, and the old password is of no use any more."""
    runtime.apply(manifest(app={"login": True, "password": "first-secret"}))
    assert runtime.apply(manifest(app={"login": True, "password": "it's other"})).summary.updated == 1
    assert cluster.can_log_in("app", "it's other")
    assert not cluster.can_log_in("app", "first-secret")
    assert cluster.sql("select rolpassword from pg_authid where rolname = 'app'").startswith("SCRAM-SHA-256$4096:")


def test_groups_come_first_and_go_last(cluster, runtime, manifest):
    """A role is created after the roles that it is a member of, whatever the order in the manifest."""
    declared = manifest(app={"member_of": ["writers", "readers"]}, readers={}, writers={})
    report = runtime.apply(declared)
    assert [step.reference for step in report.steps][-1] == "Postgresql_role[app]"
    assert runtime.apply(manifest(app={"member_of": ["readers"]}, readers={}, writers={})).summary.updated == 1
    members = "select pg_get_userbyid(roleid) from pg_auth_members where member = 'app'::regrole"
    assert cluster.sql(members) == "readers"
    assert runtime.destroy(declared).summary.deleted == 3


def test_a_failure_has_the_reason_of_the_server(cluster, runtime, manifest):
    """A role that owns something cannot be dropped, one in a missing group is not created; others are not affected."""
    runtime.apply(manifest(owner={}))
    cluster.sql("create table things (); alter table things owner to owner")
    report = runtime.apply(manifest(owner={"ensure": "absent"}, lost={"member_of": ["nobody-has-it"]}, other={}))
    errors = {step.reference: step.error for step in report.steps if step.status == "failed"}
    cluster.sql("drop table things")
    assert 'role "owner" cannot be dropped' in errors["Postgresql_role[owner]"]
    assert 'role "nobody-has-it" does not exist' in errors["Postgresql_role[lost]"]
    assert len(errors) == 2
    assert cluster.sql("select count(*) from pg_roles where rolname in ('lost', 'other')") == "1"


def test_a_name_cannot_inject_statements(cluster, runtime, manifest):
    """Quotes in values are part of the values."""
    comment = "'; DROP ROLE readers; -- \\ \"\n\\! touch /tmp/x"
    runtime.apply(manifest(readers={}, app={"comment": comment}))
    assert cluster.sql("select shobj_description('app'::regrole, 'pg_authid')") == comment
    assert runtime.apply(manifest(readers={}, app={"comment": comment})).summary.changed == 0


def test_a_server_that_does_not_answer_has_no_absent_roles(cluster, runtime, manifest):
    """Nothing is created, and the error is that of psql."""
    declared = manifest(app={})
    declared["providers"]["postgresql_role"]["config"] = {**cluster.config, "port": 1}
    report = runtime.apply(declared)
    assert "connection to server" in report.steps[0].error


def test_a_listing_is_a_manifest_that_changes_nothing(cluster, manifest, tmp_path):
    """The roles of the server can be declared: there is nothing to do."""
    types = Registry.from_path(HOME)
    runtime = Runtime(types, state=f"sqlite:{tmp_path}/state.db")
    runtime.apply(manifest(readers={"comment": "may read"}, app={"member_of": ["readers"]}))
    listed = manifest()
    provider = types.provider("postgresql_role")()
    provider.configure(None, cluster.config)
    for role in provider.get(None):
        declared = {name: value for name, value in role.items() if name not in {"name", "oid"}}
        listed["resources"][f"Postgresql_role[{role['name']}]"] = declared
    assert len(listed["resources"]) == 3
    again = runtime.apply(listed)
    assert (again.exit_code, again.summary.changed) == (0, 0)


def test_the_manifest_of_the_example_applies(cluster, runtime):
    """``site.yaml`` creates its roles, and then changes nothing."""
    inputs = {name: cluster.config[name] for name in ("host", "port", "account")} | {"password": "ra-test-secret"}
    assert runtime.apply(HOME / "site.yaml", inputs).summary.created == 2
    assert cluster.can_log_in("app", "ra-test-secret")
    assert runtime.apply(HOME / "site.yaml", inputs).summary.changed == 0
    assert runtime.destroy(HOME / "site.yaml", inputs).summary.deleted == 2
