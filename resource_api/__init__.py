"""Describe and change machines and services: two methods, the whole lifecycle.

The names below are the authoring and embedding API. They are loaded when first used, so that importing this
package configures no logging, installs no signal handler, and imports neither click nor sh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resource_api.contract.provider import BaseProvider, SimpleProvider
    from resource_api.contract.registry import Registry
    from resource_api.faces.runtime import Runtime
    from resource_api.hands.command import Command
    from resource_api.hands.context import Context
    from resource_api.nouns.assets import Archive, Asset
    from resource_api.nouns.attribute import Attribute
    from resource_api.nouns.change import Change
    from resource_api.nouns.component import ComponentDefinition
    from resource_api.nouns.definition import Resource, TypeDefinition
    from resource_api.nouns.errors import (
        CannotList,
        CommandError,
        DefinitionError,
        ManifestError,
        Problem,
        ProviderError,
        ResourceAPIError,
        ResourceError,
        StateError,
    )
    from resource_api.nouns.function import Function
    from resource_api.nouns.policy import PolicyPlan, PolicyResource, PolicyStep
    from resource_api.nouns.tools import Planned
    from resource_api.nouns.values import UNKNOWN, Sensitive

__version__ = "0.1.0"

__all__ = [
    "UNKNOWN",
    "Archive",
    "Asset",
    "Attribute",
    "BaseProvider",
    "CannotList",
    "Change",
    "Command",
    "CommandError",
    "ComponentDefinition",
    "Context",
    "DefinitionError",
    "Function",
    "ManifestError",
    "Planned",
    "PolicyPlan",
    "PolicyResource",
    "PolicyStep",
    "Problem",
    "ProviderError",
    "Registry",
    "Resource",
    "ResourceAPIError",
    "ResourceError",
    "Runtime",
    "Sensitive",
    "SimpleProvider",
    "StateError",
    "TypeDefinition",
]

_HOMES = {
    "resource_api.contract.provider": ("BaseProvider", "SimpleProvider"),
    "resource_api.contract.registry": ("Registry",),
    "resource_api.faces.runtime": ("Runtime",),
    "resource_api.hands.command": ("Command",),
    "resource_api.hands.context": ("Context",),
    "resource_api.nouns.assets": ("Archive", "Asset"),
    "resource_api.nouns.attribute": ("Attribute",),
    "resource_api.nouns.change": ("Change",),
    "resource_api.nouns.component": ("ComponentDefinition",),
    "resource_api.nouns.definition": ("Resource", "TypeDefinition"),
    "resource_api.nouns.errors": (
        *("CannotList", "CommandError", "DefinitionError", "ManifestError", "Problem", "ProviderError"),
        *("ResourceAPIError", "ResourceError", "StateError"),
    ),
    "resource_api.nouns.function": ("Function",),
    "resource_api.nouns.policy": ("PolicyPlan", "PolicyResource", "PolicyStep"),
    "resource_api.nouns.tools": ("Planned",),
    "resource_api.nouns.values": ("UNKNOWN", "Sensitive"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    from importlib import import_module  # noqa: PLC0415 - with the first name

    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
