"""Registries of types that a test declares itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import Registry

if TYPE_CHECKING:
    from resource_api import BaseProvider, TypeDefinition


def registry_of(*types: tuple[TypeDefinition, type[BaseProvider]]) -> Registry:
    """Return a registry of these types alone, each with its provider."""
    registry = Registry()
    for definition, provider in types:
        registry.register_type(definition)
        registry.register_provider(definition.name, provider)
    return registry
