"""What the conclusion of a run rests on, beside state and the system: code, the manifest's files, what types declare.

When it holds is decided here; what was concluded is not known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from resource_api.cache import conclusion as convergence
from resource_api.cache import fingerprints as grounds
from resource_api.manifest import read as reading
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.document import Document
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.plugins.registry import Registry


class Fingerprints(NamedTuple):
    """All of it as plain data, so that it can be kept."""

    surroundings: Sequence[Any]
    code: Sequence[Sequence[Any]]
    #: Path, where that leads, digest.
    files: Sequence[Sequence[str]]
    #: Type → its files, what it declares.
    types: Mapping[str, Sequence[Any]]

    def holds(self, registry: Registry) -> bool:
        """Whether all is as it was, as far as can be told before a provider is called. Raises ``DefinitionError``."""
        return (
            self.surroundings == grounds.surroundings()
            and grounds.unchanged(self.code)
            and all(_type(registry, name) == found for name, found in self.types.items())
            and all(_lies_so(*file) for file in self.files)
        )

    def says(self, documents: Iterable[Document]) -> bool:
        """Whether these are the files, as they were."""
        return [grounds.digest(each.raw) for each in documents] == [digest for *_, digest in self.files]


def rest(catalog: Catalog, providers: ProviderPool, began: int) -> Fingerprints | None:
    """Give what a run that ``began`` then (in nanoseconds) rests on; None where that is not known.

    The code is not known of what runs in workers, or has been replaced meanwhile.
    """
    code, files = grounds.code(began), _files(catalog.manifest)
    if code is None or files is None or any(providers.run.isolates(entry.definition) for entry in catalog.entries):
        return None
    types: dict[str, Sequence[Any]] = {}
    for name in {entry.type for entry in catalog.entries}:
        if (found := _type(providers.registry, name)) is None:
            return None
        types[name] = found
    return Fingerprints(grounds.surroundings(), code, files, types)


def _files(manifest: Manifest) -> list[list[str]] | None:
    """Give where every file of a manifest lies, and the digest of what was read.

    None where one is a program, or one was read under the first of its names alone.
    """
    found, named = [], 1
    for document in manifest.documents:
        if os.path.splitext(document.file)[1].lower() not in reading.READERS:  # noqa: PTH122 - text
            return None
        path = os.path.abspath(document.file)  # noqa: PTH100 - the same
        found.append([path, os.path.realpath(path), grounds.digest(document.raw)])
        named += len(document.data.get("include") or ()) if type(document.data) is dict else 0
    return found if len(found) == named else None


def _type(registry: Registry, name: str) -> list[Any] | None:
    """Give where a type is found, and what its file declares; None where a conclusion cannot rest on it."""
    found = registry.files_of(name)
    return None if found is None else [*found, convergence.declared(registry.type(name))]


def _lies_so(path: str, real: str, digest: str) -> bool:
    """Whether a file is where it was, with the bytes that it had."""
    try:
        return os.path.realpath(path) == real and grounds.digest(reading.read_file(path)[0]) == digest
    except (OSError, ValueError):
        return False
