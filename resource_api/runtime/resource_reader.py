"""Reading the resources of a type without a manifest; nothing that plans or applies is imported."""

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
    from resource_api.plugins.implementations import Suitability
    from resource_api.plugins.registry import Registry
    from resource_api.provider.context import RunContext


class ResourceReader:
    """Reads resources with the types and providers of a registry."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Use ``registry``, and ``run`` for the log, cancellation and isolation; nothing is read yet."""
        self.registry = registry
        self.run = run
        registry.warn = lambda message: run.log.write("warning", "", message)

    def resources(
        self, type_name: str, names: Sequence[Any] | None = None, *, strict: str = "error"
    ) -> list[dict[str, Any]]:
        """Return the resources of a type: all that exist, or those called ``names``.

        A name that does not exist is returned with ``ensure: absent``. ``strict`` is ``error``, ``warning`` or ``off``:
        what happens to rows that break the type's declaration. Raise ``ProviderError`` naming every resource that
        cannot be read.
        """
        rows, failures = self.read(type_name, names, strict=strict)
        if failures:
            raise ProviderError("\n".join(f"{reference}: {why}" for reference, why in failures.items()))
        return rows

    def read(
        self, type_name: str, names: Sequence[Any] | None = None, *, strict: str = "error"
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Return the resources that can be read, as ``resources`` does, and the reference → reason of the others.

        Raise ``ProviderError`` when none can be read.
        """
        with ProviderPool(self.registry, self.run) as providers:
            tools = providers.functions(type_name)
            if tools.definition.config.attributes:
                from resource_api.catalog import provider_config  # noqa: PLC0415 - few types take a configuration

                providers.configure(type_name, provider_config.default_config(tools))
            rows, failures = Snapshot(providers, strict).existing(tools.definition, names)
        return rows, {str(Reference(type_name, _title(name))): why for name, why in failures.items()}

    def suitability(self, type_name: str) -> list[Suitability]:
        """Return for each of several providers of a type whether it is suitable here; empty for an ordinary type.

        A provider that cannot be loaded is a ``DefinitionError``.
        """
        with ProviderPool(self.registry, self.run) as providers:
            return providers.suitability(type_name)

    def tools(self, type_name: str) -> ProviderFunctions:
        """Return the pure functions of a type's provider. Raise ``DefinitionError``."""
        return ProviderPool(self.registry, self.run).functions(type_name)


def _title(name: Name) -> str:
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
