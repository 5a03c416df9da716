"""Registries of types that a test declares itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import Registry

if TYPE_CHECKING:
    from resource_api import BaseProvider, TypeDefinition


def registry_of(*types: tuple[TypeDefinition, type[BaseProvider]]) -> Registry:
    """Return a registry of these types alone, each with its provider."""
    found = Registry()
    for definition, provider in types:
        found.register_type(definition)
        found.register_provider(definition.name, provider)
    return found
