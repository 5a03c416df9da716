"""The roles of a real PostgreSQL server."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.postgresql.tests.conftest import Cluster, cluster
from resource_api import ManifestError, Runtime
from resource_api.system.log import ForwardedLog
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource

__all__ = ["cluster"]


class TestPostgresqlRole(ProviderCompliance):
    """A role in others, with a password."""

    type_name = "postgresql_role"
    listing_size = 8

    @pytest.fixture
    def config(self, cluster: Cluster) -> dict[str, Any]:
        return cluster.config

    @pytest.fixture
    def present(self) -> Resource:
        groups = ["pg_read_all_stats", "pg_monitor"]
        return {
            "name": "ra-test-A",
            "login": True,
            "member_of": groups,
            "comment": "it's \\",
            "password": "open-barley",
        }

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        more = {"createdb": True, "connection_limit": 6, "valid_until": "2031-01-31T12:00:00Z"}
        return {**present, "member_of": ["pg_monitor"], "password": "open-sesame", **more}

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


@pytest.fixture
def role(cluster: Cluster) -> Iterator[str]:
    """Yield the name of a role that does not exist yet, and is removed."""
    yield "ra-test-own"
    cluster.sql('DROP ROLE IF EXISTS "ra-test-own"')


def apply(config: dict[str, Any], resources: dict[str, Any]) -> Any:
    """Apply roles of a server; return the report."""
    providers = {"postgresql_role": {"config": config}}
    return Runtime(REGISTRY).apply({"project": "p", "providers": providers, "resources": resources})


def test_the_server_gets_only_a_verifier_of_a_password(cluster: Cluster, role: str) -> None:
    """Who has the password can log in; it is not in the log of a server that logs each statement."""
    declared = {f"Postgresql_role[{role}]": {"login": True, "password": "open-barley-7"}}
    cluster.sql("ALTER SYSTEM SET log_statement = 'all'")
    cluster.sql("SELECT pg_reload_conf()")
    assert reason(apply(cluster.config, declared)) == ""
    assert cluster.can_log_in(role, "open-barley-7")
    assert not cluster.can_log_in(role, "open-barley-8")
    log = Path(cluster.directory, "log").read_text()
    assert "ALTER ROLE" in log
    assert "open-barley" not in log


def stored(cluster: Cluster, role: str) -> str:
    """Return what the server stores of a password."""
    return cluster.sql(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'")  # noqa: S608 - of the test


@pytest.mark.parametrize("method", ["scram-sha-256", "md5"])
def test_a_verifier_is_stored_as_it_is(cluster: Cluster, role: str, method: str) -> None:
    """Who has its password can log in; a second run changes nothing, and neither does one with the password itself."""
    cluster.sql(f"SET password_encryption = '{method}'; CREATE ROLE \"{role}\" LOGIN PASSWORD 'open-barley-7'")
    before = stored(cluster, role)
    cluster.sql(f'DROP ROLE "{role}"')
    for password in (before, before, "open-barley-7"):
        report = apply(cluster.config, {f"Postgresql_role[{role}]": {"login": True, "password": password}})
        assert reason(report) == ""
        assert password == "open-barley-7" or stored(cluster, role) == before
    assert cluster.can_log_in(role, "open-barley-7")


@pytest.mark.parametrize("method", ["scram-sha-256", "md5"])
def test_a_password_that_was_changed_elsewhere_is_set_again(cluster: Cluster, role: str, method: str) -> None:
    """The plan says so; one that was only set again, with another salt, is the same."""
    declared = {f"Postgresql_role[{role}]": {"login": True, "password": "open-barley-7"}}
    runtime = Runtime(REGISTRY, state="memory:")
    manifest = {"project": "p", "providers": {"postgresql_role": {"config": cluster.config}}, "resources": declared}
    assert reason(runtime.apply(manifest)) == ""
    assert runtime.apply(manifest).summary.unchanged == 1
    cluster.sql(f"SET password_encryption = '{method}'; ALTER ROLE \"{role}\" PASSWORD 'open-barley-7'")
    assert runtime.apply(manifest).summary.unchanged == 1
    for change in ("PASSWORD 'other'", "PASSWORD NULL"):
        cluster.sql(f"SET password_encryption = '{method}'; ALTER ROLE \"{role}\" {change}")
        assert not cluster.can_log_in(role, "open-barley-7")
        (step,) = runtime.plan(manifest).steps
        assert "the server has another password" in str(step.decision)
        assert runtime.apply(manifest).summary.updated == 1
        assert cluster.can_log_in(role, "open-barley-7")


def test_nothing_of_what_the_server_stores_is_printed(cluster: Cluster, role: str) -> None:
    """Not even in a log for debugging, also of passwords in the old form."""
    cluster.sql(f"SET password_encryption = 'md5'; CREATE ROLE \"{role}\" PASSWORD 'open-barley-7'")
    lines: list[str] = []
    runtime = Runtime(REGISTRY, log=ForwardedLog("debug", lambda event: lines.append(event.text)))
    runtime.plan(
        {
            "project": "p",
            "providers": {"postgresql_role": {"config": cluster.config}},
            "resources": {f"Postgresql_role[{role}]": {"password": "open-barley-7"}},
        }
    )
    verifier = stored(cluster, role)
    digest = hashlib.sha256(verifier.encode()).hexdigest()
    text = "\n".join(lines)
    assert f'"name":"{role}"' in text
    assert verifier not in text
    assert digest not in text
    assert f"{int(digest, 16):b}" not in text


def test_a_password_opens_the_connection(cluster: Cluster, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a port, where it is needed; a wrong one is refused, and nothing is left of either."""
    created: list[str] = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(
        tempfile, "mkdtemp", lambda *args, **options: created.append(make(*args, **options)) or created[-1]
    )
    apply(cluster.config, {f"Postgresql_role[{role}]": {"login": True, "password": "open-barley", "createrole": True}})
    remote = {"host": "127.0.0.1", "port": cluster.port, "user": role, "password": "open-barley"}
    assert apply(remote, {f"Postgresql_role[{role}]": {"createrole": True}}).summary.unchanged == 1
    assert "password authentication failed" in reason(
        apply({**remote, "password": "no"}, {f"Postgresql_role[{role}]": {}})
    )
    assert created
    assert not any(map(os.path.exists, created))


def test_reading_roles_is_no_secret_and_changing_one_is(cluster: Cluster, role: str) -> None:
    """A run that changes nothing has nothing to mask, and starts no process for that."""
    runtime = Runtime(REGISTRY)
    manifest = {
        "project": "p",
        "providers": {"postgresql_role": {"config": cluster.config}},
        "resources": {f"Postgresql_role[{role}]": {"login": True}},
    }
    assert [step.action.value for step in runtime.plan(manifest).steps] == ["create"]
    assert not runtime.log.mask
    assert runtime.apply(manifest).summary.created == 1
    assert runtime.log.mask


def test_a_role_that_owns_something_stays(cluster: Cluster, role: str) -> None:
    """The server says what it is."""
    apply(cluster.config, {f"Postgresql_role[{role}]": {}})
    cluster.sql(f'CREATE SCHEMA ra_test AUTHORIZATION "{role}"')
    report = apply(cluster.config, {f"Postgresql_role[{role}]": {"ensure": "absent"}})
    cluster.sql("DROP SCHEMA ra_test")
    assert "cannot be dropped because some objects depend on it; owner of schema ra_test" in reason(report)


def test_a_name_that_the_server_would_cut_off_is_refused() -> None:
    """It would be another role; those of the server are not managed."""
    for name in ("a" * 64, "pg_monitor"):
        with pytest.raises(ManifestError, match="must be a role's name"):
            Runtime(REGISTRY).validate({"resources": {f"Postgresql_role[{name}]": {}}})


def test_a_plan_says_which_roles_leave_a_dropped_one(cluster: Cluster, role: str) -> None:
    """A membership that is declared keeps it."""
    cluster.sql(f'CREATE ROLE "{role}"')
    cluster.sql(f'CREATE ROLE "ra-test-member" IN ROLE "{role}", pg_monitor')
    try:
        absent = {f"Postgresql_role[{role}]": {"ensure": "absent"}}
        providers = {"postgresql_role": {"config": cluster.config}}
        manifest = {"project": "p", "providers": providers}
        [step] = Runtime(REGISTRY).plan({**manifest, "resources": absent}).steps
        assert [(effect.action, effect.name) for effect in step.side_effects or ()] == [("update", "ra-test-member")]
        member = {"Postgresql_role[ra-test-member]": {"member_of": ["pg_monitor", role]}}
        steps = Runtime(REGISTRY).plan({**manifest, "resources": {**absent, **member}}).steps
        reason = {str(step.reference): step.error for step in steps}[f"Postgresql_role[{role}]"]
        assert "would also update ra-test-member, which Postgresql_role[ra-test-member] declares otherwise" in reason
        member = {"Postgresql_role[ra-test-member]": {"member_of": ["pg_monitor"]}}
        report = Runtime(REGISTRY).apply({**manifest, "resources": {**absent, **member}})
        assert [step.error for step in report.steps if step.error] == []
    finally:
        cluster.sql('DROP ROLE IF EXISTS "ra-test-member"')


@pytest.mark.parametrize("password", ["two\nlines", "abcd "])
def test_a_password_of_the_provider_that_psql_would_read_otherwise_is_refused(password: str) -> None:
    """It reads a line, and leaves out blanks at the end."""
    config = {"host": "db.example.org", "password": password}
    manifest = {"providers": {"postgresql_role": {"config": config}}, "resources": {"Postgresql_role[a]": {}}}
    with pytest.raises(ManifestError, match="the password"):
        Runtime(REGISTRY).validate(manifest)
