"""What a runtime is given to read, made a catalog: whole, or emptied of everything but what deleting needs.

The types come from the runtime's registry; nothing is planned here, and no system is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import provider_config
from resource_api.catalog.compile import compile_catalog
from resource_api.catalog.resources import Definitions
from resource_api.manifest import read as reading
from resource_api.model.declaration import Manifest
from resource_api.model.values.errors import ManifestError
from resource_api.system.filesystem import assets

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.component import LoadedComponent
    from resource_api.model.values.document import Document
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.plugins.registry import Registry
    from resource_api.system.facts import Facts
    from resource_api.system.log import Log

    Source = str | os.PathLike[str] | Mapping[str, Any]


class Emptied:
    """A manifest of which only the frame counts: its project, and how its providers are configured."""

    def __init__(self, source: Source) -> None:
        """Stand for ``source`` without its resources."""
        self.source = source


class Compiler:
    """Makes catalogs with the types of a registry."""

    def __init__(self, registry: Registry, facts: Facts, log: Log) -> None:
        """Compile with the types of ``registry`` and with ``facts``; what is left aside is told to ``log``."""
        self._registry = registry
        self._facts = facts
        self._log = log

    def compile(
        self, source: Source | Manifest | Emptied, inputs: Mapping[str, Any], providers: ProviderPool
    ) -> Catalog:
        """Give the catalog of a manifest. Raises ``ManifestError``."""
        manifest = self._read(source.source if isinstance(source, Emptied) else source, inputs)
        providers.expect({declared.instance: declared.version for declared in manifest.providers.values()})
        if isinstance(source, Emptied):
            return self._emptied(manifest, inputs, providers)
        return self._compile(manifest, inputs, providers)

    def _read(self, source: Source | Manifest, inputs: Mapping[str, Any]) -> Manifest:
        def python(raw: bytes, file: str) -> Document:
            from resource_api.manifest import python_manifest  # noqa: PLC0415 - only for such a file

            return python_manifest.read(raw, file, inputs, self._facts, self._log.mask.add)

        return source if isinstance(source, Manifest) else reading.read(source, python)

    def _compile(self, manifest: Manifest, inputs: Mapping[str, Any], providers: ProviderPool) -> Catalog:
        return compile_catalog(
            manifest,
            inputs,
            self._facts,
            Definitions(providers.tools, self._component, self._registry.owners),
            assets.Assets(),
        )

    def _component(self, name: str) -> LoadedComponent | None:
        """Give what builds a component; None where no component has that name. Raises ``DefinitionError``."""
        if (found := self._registry.component(name)) is None:
            return None
        from resource_api.manifest import python_component  # noqa: PLC0415 - only where there are components

        return python_component.blueprint(*found, self._facts, self._log.mask.add)

    def _emptied(self, manifest: Manifest, inputs: Mapping[str, Any], providers: ProviderPool) -> Catalog:
        """Give the catalog of nothing but configured providers; where they cannot be told, what is recorded must do."""
        frame = manifest._replace(resources=(), outputs={}, moved=(), removed=(), defaults={})
        if frame.providers:
            needed = provider_config.reduce_to_providers(frame)
            given = {name: value for name, value in inputs.items() if name in needed.inputs}
            try:
                return self._compile(needed, given, providers)
            except ManifestError as error:
                self._log.write("info", "", f"the providers of the manifest are left aside: {error}")
        return self._compile(frame._replace(inputs={}, values={}, providers={}), {}, providers)
