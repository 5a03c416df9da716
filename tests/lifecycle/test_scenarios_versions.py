"""A type that has changed since its resources were recorded: older records are upgraded, newer ones refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.model.values.errors import ResourceError
from resource_api.runtime.state_refresh import refresh
from resource_api.state.store import MemoryStore, StackName
from tests.lifecycle.world import Kill, MortalStore, acted, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.record import StackState

ROWS: dict[str, dict[str, Any]] = {}


def registry(version: int, size: str, upgrade: Callable[[int, dict[str, Any]], Any] | None = None) -> Registry:
    """Return a registry with one version of the type ``box``, whose ``size`` has the given name."""

    class Provider(BaseProvider):
        def get(self, context: Any) -> Any:  # noqa: ARG002
            return [{"name": name, "ensure": "present", size: row["size"]} for name, row in ROWS.items()]

        def set(self, context: Any, changes: Mapping[Any, Any]) -> None:  # noqa: ARG002
            for name, change in changes.items():
                ROWS[name] = {"size": change.should[size]}

    members = {} if upgrade is None else {"upgrade": lambda _self, old, values: upgrade(old, values)}
    result = Registry()
    result.register_type(
        TypeDefinition(
            name="box",
            docs="A box.",
            schema_version=version,
            features=() if upgrade is None else {"upgrade"},
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                size: Attribute("Optional[Integer]", "How big it is."),
            },
        )
    )
    result.register_provider("box", type("Provider", (Provider,), members))
    return result


def site(**values: int) -> dict[str, Any]:
    """Return the manifest of one box."""
    return {"project": "versions", "resources": {"Box[a]": values}}


@pytest.fixture
def store() -> MemoryStore:
    """Return the state of a run with version 2 of the type, in which the size had the given name."""
    ROWS.clear()
    store = MemoryStore()
    Runtime(registry(2, "size"), state=store).apply(site(size=3))
    return store


def test_an_older_record_is_upgraded_before_it_is_compared(store: MemoryStore) -> None:
    """A renamed attribute is no drift and no change; the next write is of the new version."""
    versions = []

    def upgrade(version: int, values: dict[str, Any]) -> dict[str, Any]:
        versions.append(version)
        return {"width" if name == "size" else name: value for name, value in values.items()}

    runtime = Runtime(registry(3, "width", upgrade), state=store)
    plan = runtime.plan(site(width=3))
    assert (planned(plan), list(plan.drift), set(versions)) == ({}, [], {2})
    ROWS["a"]["size"] = 9
    assert [change.attribute for change in runtime.plan(site(width=3)).drift[0].changes] == ["width"]
    assert runtime.apply(site(width=3)).steps[0].corrective
    (record,) = store.load(StackName("versions", "default")).records.values()
    assert (record.schema_version, record.should["width"]) == (3, 3)


def test_an_older_record_of_a_type_without_upgrade_is_used_as_it_is(store: MemoryStore) -> None:
    """Without the feature nothing needs to be converted."""
    assert acted(Runtime(registry(3, "size"), state=store).apply(site(size=3))) == {}
    (record,) = store.load(StackName("versions", "default")).records.values()
    assert record.schema_version == 3


def test_a_newer_record_is_refused(store: MemoryStore) -> None:
    """Nothing is changed, and the message tells what to do."""
    runtime = Runtime(registry(1, "size"), state=store)
    report = runtime.apply(site(size=4))
    assert acted(report) == {"Box[a]": ("update", "failed")}
    assert "version 2 of its type, and this is version 1" in report.steps[0].error
    assert ROWS == {"a": {"size": 3}}
    with pytest.raises(ResourceError, match="version 2"):
        refresh(runtime, site(size=4))


@pytest.mark.parametrize("answer", [None, ["size"], {1: 2}, {"size": "3"}, ZeroDivisionError("oops")])
def test_a_failing_upgrade_fails_its_resource(store: MemoryStore, answer: Any) -> None:
    """Whatever it raises or returns."""

    def upgrade(_version: int, _values: dict[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    report = Runtime(registry(3, "size", upgrade), state=store).apply(site(size=4))
    assert acted(report) == {"Box[a]": ("update", "failed")}
    assert "upgrade" in report.steps[0].error
    assert ROWS == {"a": {"size": 3}}


def test_a_refresh_records_the_resources_beside_one_whose_upgrade_fails(store: MemoryStore) -> None:
    """That one is named, and no other."""
    both = {"project": "versions", "resources": {"Box[a]": {"size": 3}, "Box[b]": {"size": 4}}}
    Runtime(registry(2, "size"), state=store).apply(both)

    def upgrade(_version: int, values: dict[str, Any]) -> dict[str, Any]:
        if values["name"] == "a":
            raise ValueError("oops")
        return values

    ROWS["b"]["size"] = 9
    with pytest.raises(ResourceError) as caught:
        refresh(Runtime(registry(3, "size", upgrade), state=store), both)
    assert ("Box[a]: " in str(caught.value), "Box[b]" in str(caught.value)) == (True, False)
    state = store.load(StackName("versions", "default"))
    assert [row["size"] for record in state.records.values() if (row := record.is_)] == [3, 9]


class Jobs:
    """Jobs by name and user, of a type that has only the namevar ``name`` in its first version."""

    def __init__(self) -> None:
        """Start without jobs."""
        self.store = MortalStore()
        self.found: dict[tuple[str, str], int] = {}
        self.calls: list[str] = []
        #: When the next change is killed: before or after it is made; empty: it is not.
        self.killed = ""

    def runtime(self, version: int) -> Runtime:
        """Return a new process that has one version of the type."""
        self.store.dead = False
        jobs, registry = self, Registry()

        class Provider(BaseProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                rows = jobs.found.items()
                return [{"name": name, "user": user, "ensure": "present", "size": size} for (name, user), size in rows]

            def set(self, context: Any, changes: Mapping[Any, Any]) -> None:  # noqa: ARG002
                for change in changes.values():
                    jobs.change(change)

        class Daemon(BaseProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                return [{"name": "d"}]

            def set(self, context: Any, changes: Mapping[Any, Any]) -> None:
                raise NotImplementedError

            def refresh(self, context: Any, names: Any) -> None:  # noqa: ARG002
                jobs.calls.append("refresh")

        name = Attribute("String", "Its name.", kind="namevar")
        user = Attribute("String", "Who runs it.", kind="namevar" if version == 2 else None, default="root")
        job = TypeDefinition(
            name="job",
            docs="A job.",
            attributes={
                "name": name,
                "user": user,
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "size": Attribute("Optional[Integer]", "How big it is."),
            },
            title_patterns=[{"pattern": r"(?P<name>.+)\z"}] if version == 2 else [],
        )
        registry.register_type(job)
        registry.register_provider("job", Provider)
        daemon = TypeDefinition(name="daemon", docs="A daemon.", attributes={"name": name}, features={"refreshable"})
        registry.register_type(daemon)
        registry.register_provider("daemon", Daemon)
        return Runtime(registry, state=self.store)

    def change(self, change: Any) -> None:
        """Make one change, unless killed before."""
        key = change.should["name"], change.should.get("user", "root")
        action = "update"
        if change.should.get("ensure") == "absent":
            action, key = "delete", next(item for item in self.found if item[0] == key[0])
        elif key not in self.found:
            action = "create"
        if self.killed == "before":
            self.kill()
        self.calls.append(f"{action} {' '.join(key)}")
        if action == "delete":
            del self.found[key]
        else:
            self.found[key] = change.should["size"]
        if self.killed == "after":
            self.kill()

    def kill(self) -> None:
        """End the process."""
        self.store.dead, self.killed = True, ""
        raise Kill

    @property
    def state(self) -> StackState:
        """The recorded state."""
        return self.store.load(StackName("jobs", "default"))


def jobs_site(**jobs: Any) -> dict[str, Any]:
    """Return the manifest of jobs, and of a daemon that each of them refreshes."""
    resources = {f"Job[{name}]": {**values, "notify": "Daemon[d]"} for name, values in jobs.items()}
    return {"project": "jobs", "resources": {**resources, "Daemon[d]": {}}}


@pytest.mark.parametrize("user", ["root", "bob"])
@pytest.mark.parametrize("refreshed", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_change_in_doubt_is_recovered_under_another_namevar(
    user: str, killed: str, *, recorded: bool, refreshed: bool
) -> None:
    """The run is killed in a call of the first version; a run of the second makes nothing twice and owns it."""
    jobs = Jobs()
    site = jobs_site(a={"user": user, "size": 1}, b={"size": 1})
    if recorded:
        jobs.runtime(1).apply(jobs_site(a={"user": user, "size": 0}, b={"size": 1}))
    jobs.killed, before = killed, len(jobs.calls)
    with pytest.raises(Kill):
        jobs.runtime(1).apply(site)
    assert next(iter(jobs.state.intents)) == ("job", "a")
    runtime = jobs.runtime(2)
    if refreshed:
        refresh(runtime, site)
    report = runtime.apply(site)
    assert report.exit_code == 0
    verb = "update" if recorded else "create"
    assert [call for call in jobs.calls[before:] if call.endswith(f" a {user}")] == [f"{verb} a {user}"]
    assert jobs.calls[-1] == "refresh"
    assert jobs.state.intents == {}
    assert [key for key in jobs.state.records if key[0] == "job"] == [("job", ("a", user)), ("job", ("b", "root"))]
    assert planned(runtime.plan(site)) == {}
    runtime.destroy(site)
    assert jobs.found == {}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_change_in_doubt_that_is_no_longer_declared_is_pruned_under_another_namevar(*, recorded: bool) -> None:
    """Its name is that of its record, or of its title with the defaults."""
    jobs = Jobs()
    if recorded:
        jobs.runtime(1).apply(jobs_site(a={"user": "bob", "size": 0}))
    jobs.killed = "after"
    with pytest.raises(Kill):
        jobs.runtime(1).apply(jobs_site(a={"user": "bob" if recorded else "root", "size": 1}))
    report = jobs.runtime(2).apply(jobs_site(), prune=True)
    assert (report.exit_code, jobs.found, jobs.state.intents) == (0, {}, {})
    assert [key for key in jobs.state.records if key[0] == "job"] == []


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_deletion_in_doubt_is_finished_under_another_namevar(killed: str) -> None:
    """Once."""
    jobs = Jobs()
    jobs.runtime(1).apply(jobs_site(a={"user": "bob", "size": 0}))
    jobs.killed = killed
    gone = jobs_site(a={"user": "bob", "ensure": "absent"})
    with pytest.raises(Kill):
        jobs.runtime(1).apply(gone)
    assert jobs.runtime(2).apply(gone).exit_code == 0
    assert jobs.calls.count("delete a bob") == 1
    assert (jobs.found, jobs.state.intents) == ({}, {})
