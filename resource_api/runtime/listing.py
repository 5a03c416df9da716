"""Reads resources of a type, without a manifest: listing them needs nothing of what plans and applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import ProviderError
from resource_api.model.values.reference import Reference
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name
    from resource_api.plugins.registry import Registry
    from resource_api.provider.context import RunContext


class Reader:
    """Reads with the types of a registry; what becomes of it ``run`` knows, which also takes the lines."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Read nothing yet."""
        self.registry = registry
        self.run = run
        registry.warn = lambda message: run.log.write("warning", "", message)

    def resources(
        self, type_name: str, names: Sequence[Any] | None = None, *, strict: str = "error"
    ) -> list[dict[str, Any]]:
        """Give the resources of a type that exist (of ``names``, each with ``ensure: absent`` when it does not).

        ``strict`` is ``error``, ``warning`` or ``off``: how seriously rows that are not as promised are taken.
        Raises ``ProviderError`` when they cannot be read; it names each of which this is true.
        """
        rows, failures = self.readable(type_name, names, strict=strict)
        if failures:
            raise ProviderError("\n".join(f"{reference}: {why}" for reference, why in failures.items()))
        return rows

    def readable(
        self, type_name: str, names: Sequence[Any] | None = None, *, strict: str = "error"
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Give what ``resources`` gives of those that can be read, and by reference why others cannot.

        Raises ``ProviderError`` when none can.
        """
        with ProviderPool(self.registry, self.run) as providers:
            tools = providers.tools(type_name)
            if tools.definition.config.attributes:
                from resource_api.catalog import provider_config  # noqa: PLC0415 - few types take a configuration

                providers.configure(type_name, provider_config.default_config(tools))
            rows, failures = Snapshot(providers, strict).existing(tools.definition, names)
        return rows, {str(Reference(type_name, _title(name))): why for name, why in failures.items()}

    def tools(self, type_name: str) -> ProviderFunctions:
        """Give what a type's provider answers from its arguments alone. Raises ``DefinitionError``."""
        return ProviderPool(self.registry, self.run).tools(type_name)


def _title(name: Name) -> str:
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
