"""Plans to carry out, made from a manifest and from what exists in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import Change, Context

_ATTRIBUTES: Final = {
    "name": Attribute("String", "The name.", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    "size": Attribute("Optional[Integer]", "How big it is."),
    "near": Attribute("Optional[String]", "The serial of another."),
    "serial": Attribute("Optional[String]", "Known once it exists.", kind="read_only"),
}
#: Type → its features.
TYPES: Final = {"part": ["refreshable"], "tool": [], "errand": ["imperative"]}


def plan(resources: Mapping[str, Any], exists: Mapping[str, int] | None = None, **options: Any) -> ExecutionPlan:
    """Return the plan of ``resources``; ``exists``: the size of each part that exists, by name."""
    result = exists or {}

    class Provider(BaseProvider):
        def get(self, _context: Context) -> list[dict[str, Any]]:
            return [{"name": name, "size": size, "serial": f"S-{name}"} for name, size in result.items()]

        def set(self, _context: Context, _changes: Mapping[str, Change]) -> None:
            """Change nothing."""

    class Refreshable(Provider):
        def refresh(self, _context: Context, _names: Collection[str]) -> None:
            """Refresh nothing."""

    class Errand(Provider):
        def due(self, *_: object) -> bool:
            return True

    providers: dict[str, type] = {"part": Refreshable, "tool": Provider, "errand": Errand}
    registry = Registry()
    for name, features in TYPES.items():
        definition = TypeDefinition(name=name, docs="A thing.", attributes=_ATTRIBUTES, features=features)
        registry.register_type(definition)
        registry.register_provider(name, providers[name])
    return Runtime(registry, log=Log("off")).plan({"project": "p", "resources": resources}, **options)
