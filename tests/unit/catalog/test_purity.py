"""A catalog is not changed after it has been compiled, neither by planning nor by applying."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context
    from resource_api.catalog.compile import Catalog
    from resource_api.plan.planner import ExecutionPlan

PART = TypeDefinition(
    name="part",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", default="present"),
        "labels": Attribute("Optional[Array[String]]"),
        "secret": Attribute("Optional[Sensitive[String]]"),
        "note": Attribute("Optional[String]"),
        "serial": Attribute("Integer", kind="read_only"),
    },
    features={"canonicalize"},
    autorequires={"part": "$note"},
)
COMMAND = TypeDefinition(
    name="command",
    attributes={"name": Attribute("String", kind="namevar"), "text": Attribute("Optional[String]")},
    features={"imperative"},
)
MANIFEST: dict[str, Any] = {
    "project": "purity",
    "inputs": {"label": {"type": "String", "default": "Blue"}},
    "values": {"labels": ["${inputs.label}", "Red"]},
    "defaults": {"Part": {"labels": ["Green"]}},
    "resources": {
        "Part[same]": {"labels": ["green"]},
        "Part[changed]": {"labels": "${values.labels}", "secret": "hunter2", "alias": "other"},
        "Part[new]": {
            "note": "after ${Part[changed].serial}",
            "notify": "Command[run]",
            "lifecycle": {"protect": False},
        },
        "Command[run]": {"text": "serial ${Part[new].serial}"},
        "Command[known]": {"text": "literal"},
        "Part[gone]": {"ensure": "absent"},
        "Part[kept]": {"note": "x", "lifecycle": {"ignore_changes": ["note"]}},
    },
    "outputs": {"serial": "${Part[new].serial}"},
}


class Commands(BaseProvider):
    """Commands that are always due."""

    def get(self, _context: Context, _names: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Return nothing: commands cannot be read."""
        return []

    def due(self, _context: Context, _name: str, _should: Mapping[str, Any]) -> bool:
        """Return whether to run it."""
        return True

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Run nothing."""


def parts_provider() -> type[BaseProvider]:
    """Return a provider of parts in memory."""
    parts: dict[str, dict[str, Any]] = {
        name: {"name": name, "ensure": "present", "labels": ["green"], "serial": number}
        for number, name in enumerate(["same", "changed", "gone", "kept"])
    }

    class Parts(BaseProvider):
        def canonicalize(self, _context: Context, resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for resource in resources:
                if resource.get("labels"):
                    resource["labels"] = sorted(label.lower() for label in resource["labels"])
            return resources

        def get(self, _context: Context, names: Collection[str] | None = None) -> list[dict[str, Any]]:
            return [dict(part) for name, part in parts.items() if names is None or name in names]

        def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
            for name, change in changes.items():
                parts.pop(name, None)
                if change.should is not None and change.should["ensure"] == "present":
                    parts[name] = {**change.should, "serial": 10}

    return Parts


def runtime() -> Runtime:
    """Return a runtime with parts and commands."""
    return Runtime(registry_of((PART, parts_provider()), (COMMAND, Commands)))


def contents(catalog: Catalog) -> Any:
    """Return a copy of everything in a catalog."""
    entries = [
        (
            entry.reference,
            entry.index,
            entry.name,
            entry.meta,
            deepcopy(entry.should),
            deepcopy(dict(entry.inputs)),
            {name: repr(value) for name, value in entry.pending.items()},
            {name: [source.reference for source in sources] for name, sources in entry.sources.items()},
            deepcopy((entry.declaration.attributes, entry.declaration.meta)),
        )
        for entry in catalog.entries
    ]
    relationships = deepcopy((dict(catalog.requires), dict(catalog.subscribes)))
    scope = deepcopy((catalog.scope.inputs, catalog.scope.calls, list(catalog.scope.components)))
    manifest = deepcopy((catalog.manifest.values, catalog.manifest.defaults, catalog.manifest.outputs))
    return entries, relationships, scope, manifest, list(catalog.warnings), list(catalog.notes)


@pytest.mark.parametrize("options", [{}, {"noop": True}, {"parallel": 2}])
def test_planning_and_applying_leave_the_catalog_as_compiled(options: dict[str, Any]) -> None:
    """Also where values become known only while applying, and where a resource is imperative."""
    world = runtime()
    compiled = contents(world.compile(MANIFEST))
    plans: list[ExecutionPlan] = []

    def check(plan: ExecutionPlan) -> None:
        plans.append(plan)
        assert contents(plan.catalog) == compiled

    report = world.apply(MANIFEST, on_plan=check, **options)
    assert report.exit_code == 0
    assert [contents(plan.catalog) for plan in plans] == [compiled]


def test_planning_twice_gives_equal_plans() -> None:
    """The second plan decides the same, of an equal catalog."""
    world = runtime()
    first, second = world.plan(MANIFEST), world.plan(MANIFEST)
    assert first.to_dict() == second.to_dict()
    assert contents(first.catalog) == contents(second.catalog)


def test_evaluating_leaves_the_scope_as_compiled() -> None:
    """A value is evaluated as often as needed, and with the same result."""
    catalog = runtime().compile(MANIFEST)
    before = contents(catalog)
    assert [path.root for path in catalog.scope.paths("${values.labels}")] == ["values", "inputs"]
    assert contents(catalog) == before
