"""The types of the fuzz targets: one in memory with attributes of every kind, beside the bundled ones."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.provider.context import RunContext
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context

MODULES: Final = Path(__file__).resolve().parent / "modules"

TYPE = TypeDefinition(
    name="thing",
    docs="A thing in memory.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute("String[1]", "Its name.", kind="namevar"),
        "size": Attribute("Optional[Integer[0, 100]]", "The size."),
        "ratio": Attribute("Optional[Float]", "The ratio."),
        "mode": Attribute(r"Optional[Pattern[/\A[0-7]{4}\z/]]", "The mode."),
        "parts": Attribute("Optional[Array[String[1], 0, 5]]", "The parts."),
        "tree": Attribute("Optional[Data]", "Any data."),
        "shape": Attribute("Optional[Struct[{sides => Integer, Optional[colour] => Enum[red, green]}]]", "The shape."),
        "peer": Attribute("Optional[Reference[thing]]", "Another thing."),
        "body": Attribute("Optional[Variant[String, Asset]]", "The content."),
        "origin": Attribute("Optional[String]", "The origin.", kind="init_only"),
        "force": Attribute("Boolean", "A parameter.", kind="parameter", default=False),
        "token": Attribute("Optional[Sensitive[String]]", "A secret."),
        "pin": Attribute("Optional[Sensitive[String]]", "A secret that cannot be read.", write_only=True),
        "serial": Attribute("Optional[Integer]", "A number.", kind="read_only"),
    },
    features={"canonicalize", "simple_get_filter"},
)


class Provider(BaseProvider):
    """The things by name; ``answers`` replaces what a method returns."""

    stored: ClassVar[dict[str, Any]] = {}
    answers: ClassVar[dict[str, Any]] = {}

    def canonicalize(self, _context: Context, resources: list[Any]) -> Any:
        """Return the resources, with sorted parts."""
        for resource in resources:
            if resource.get("parts"):
                resource["parts"] = sorted(resource["parts"])
        return self.answers.get("canonicalize", resources)

    def get(self, _context: Context, names: Collection[str] | None = None) -> Any:
        """Return copies of the things."""
        rows = [dict(row) for name, row in self.stored.items() if names is None or name in names]
        return self.answers.get("get", rows)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Keep what is declared."""
        for name, change in changes.items():
            with context.processing(name, change.is_, change.should):
                if change.should["ensure"] == "absent":
                    self.stored.pop(name, None)
                else:
                    stored = {key: value for key, value in change.should.items() if key not in {"force", "pin"}}
                    self.stored[name] = {**self.stored.get(name, {}), **stored}


@cache
def registry(*, bundled: bool = True) -> Registry:
    """Return a registry with the types of the fuzz targets, and with the bundled ones unless nothing may be changed."""
    path = Registry.from_path(MODULES, bundled=bundled)
    path.register_type(TYPE)
    path.register_provider("thing", Provider)
    return path


@cache
def bundled_provider(name: str, implementation: str = "") -> Any:
    """Return the module of a bundled provider, the one that ``registry`` has loaded; of several, name one."""
    return sys.modules[registry().provider(name, implementation=implementation).__module__]


def _pool(registry: Registry) -> Any:
    from resource_api.plugins.provider_pool import ProviderPool

    return ProviderPool(registry, RunContext(Log("off")))


def runtime(*, bundled: bool = False, state: str = "memory:") -> Runtime:
    """Return a runtime that writes nowhere."""
    return Runtime(registry(bundled=bundled), state=state, run=RunContext(Log("off")))


def reset(stored: Mapping[str, Any] | None = None, **answers: Any) -> None:
    """Set what exists, and what the methods of the provider return instead of it."""
    Provider.stored = {key: dict(value) for key, value in (stored or {}).items()}
    Provider.answers = answers
