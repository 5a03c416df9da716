"""A type that has changed since its resources were recorded: older records are upgraded, newer ones refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.model.values.errors import ResourceError
from resource_api.runtime.refresh import refresh
from resource_api.state.store import MemoryStore, StackName
from tests.lifecycle.world import acted, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    found = Registry()
    found.register_type(
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
    found.register_provider("box", type("Provider", (Provider,), members))
    return found


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


@pytest.mark.parametrize("answer", [None, ["size"], {1: 2}, ZeroDivisionError("oops")])
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
