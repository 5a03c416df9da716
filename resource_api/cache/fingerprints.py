"""Fingerprints of a run: whether code, manifest and types are as they were when its conclusion was saved.

Fingerprints cover the interpreter, every file of loaded code, the manifest's files, and the types' declarations. A file
of code is the same while its size, its inode and the time of its last status change are, which cannot be set back. The
state is guarded by the store (``load_conclusion``); the system is read in every run.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import read as reading
from resource_api.model.values.start_up import NamedTuple, blake2b

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.document import Document
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.plugins.registry import Registry
    from resource_api.provider.derived import DerivedValues

#: Nanoseconds by which the times of files may be behind the clock.
_CLOCK_TICK: Final = 10_000_000


class Fingerprints(NamedTuple):
    """The code, manifest files and types that a conclusion depends on, as plain data."""

    environment: Sequence[Any]
    #: Files of code: path, size, time of the last status change, inode.
    code: Sequence[Sequence[Any]]
    #: Directories in which code is looked for, likewise, where a later run may need code that it does not load.
    directories: Sequence[Sequence[Any]]
    #: Files of the manifest: path, where that leads, digest.
    files: Sequence[Sequence[str]]
    #: Type → its files, and its declaration.
    types: Mapping[str, Sequence[Any]]
    #: Provider instance → the provider that the machine has chosen among those of its type.
    chosen: Mapping[str, str]

    def are_valid(self, registry: Registry) -> bool:
        """Return whether nothing differs from that run, before a provider is called. Raises ``DefinitionError``."""
        return (
            self.environment == _environment()
            and _are_unchanged(self.code)
            and _are_unchanged(self.directories)
            and all(_type(registry, name) == declared for name, declared in self.types.items())
            and all(_is_same_file(*file) for file in self.files)
            # A whole run warns of a manifest that other users can change.
            and not any(registry.trust.who_can_change(path) for path, *_ in self.files)
        )

    def cover_loaded_code(self) -> bool:
        """Return whether this process has loaded no other file: a new one may come first on a search path."""
        covered = {"", *(path for path, *_ in self.code)}
        return all(path in covered or _file_of(path) in covered for path in _module_paths())

    def are_chosen(self, chosen: Mapping[str, str]) -> bool:
        """Return whether ``chosen``, of the instances that are in use by now, are the providers of that run."""
        return all(self.chosen.get(instance) == name for instance, name in chosen.items())

    def match(self, documents: Iterable[Document]) -> bool:
        """Return whether these are the files of the manifest, unchanged."""
        return [_digest(document.raw) for document in documents] == [digest for *_, digest in self.files]


def take_fingerprints(
    catalog: Catalog, providers: ProviderPool, began: int, derived: DerivedValues | None
) -> Fingerprints | None:
    """Return the fingerprints of a run that ``began`` then, in nanoseconds, or None if it must not be relied on.

    None: a provider ran in a worker, whose code is not known here, or a file was replaced during the run. ``derived``
    values depend also on the code of earlier runs, and on where later ones would find it.
    """
    code, files = _code(began, derived.code if derived else ()), _files(catalog.manifest)
    directories = _directories(began, code) if code and derived and derived.used else []
    if directories is None:
        return None
    definitions = {entry.definition for entry in catalog.entries}
    if code is None or files is None or any(map(providers.run.isolates, definitions)):
        return None
    types: dict[str, Sequence[Any]] = {}
    for name in {definition.name for definition in definitions}:
        if (declared := _type(providers.registry, name)) is None:
            return None
        types[name] = declared
    return Fingerprints(_environment(), code, directories, files=files, types=types, chosen=providers.chosen())


# The process: its interpreter and code


def _environment() -> list[Any]:
    """Return the interpreter, the user, and where code is looked for."""
    return [sys.version, os.geteuid(), list(sys.path)]


def _code(began: int, more: Iterable[str]) -> list[list[Any]] | None:
    """Return a stamp of every file of loaded code, and of ``more``, or None if one was replaced since."""
    return _stamps({*map(_file_of, _module_paths()), *more} - {""}, began)


def _directories(began: int, code: Iterable[Sequence[Any]]) -> list[list[Any]] | None:
    """Return a stamp of every directory with ``code`` or on the search path, or None if one changed during the run."""
    names = {os.path.dirname(path) for path, *_ in code} | {os.path.abspath(path) for path in sys.path}
    return _stamps(filter(os.path.isdir, names), began)


def _stamps(paths: Iterable[str], began: int) -> list[list[Any]] | None:
    """Return a stamp of each file, or None if one cannot be read or changed since the run ``began``."""
    try:
        stamps = [_stamp(path) for path in sorted(paths)]
    except OSError:
        return None
    return None if any(changed >= began - _CLOCK_TICK for _, _, changed, _ in stamps) else stamps


def _are_unchanged(stamps: Iterable[Sequence[Any]]) -> bool:
    try:
        return all(_stamp(stamp[0]) == stamp for stamp in stamps)
    except OSError:
        return False


def _stamp(path: str) -> list[Any]:
    status = os.stat(path)
    return [path, status.st_size, status.st_ctime_ns, status.st_ino]


def _module_paths() -> set[str]:
    return {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))}


def _file_of(path: str) -> str:
    """Return the file that a module comes from, which may be an archive, or an empty text."""
    while path and not os.path.isfile(path):
        path = os.path.dirname(path) if os.path.dirname(path) != path else ""
    return path


# The manifest and the types


def _files(manifest: Manifest) -> list[list[str]] | None:
    """Return the path, real path and digest of every file of a manifest.

    None for a program, and for a file included under two names, which may become two files.
    """
    files, expected = [], 1
    for document in manifest.documents:
        if os.path.splitext(document.file)[1].lower() not in reading.READERS:
            return None
        path = os.path.abspath(document.file)
        files.append([path, os.path.realpath(path), _digest(document.raw)])
        expected += len(document.data.get("include") or ()) if type(document.data) is dict else 0
    return files if len(files) == expected else None


def _is_same_file(path: str, real: str, digest: str) -> bool:
    try:
        return os.path.realpath(path) == real and _digest(reading.read_file(path)[0]) == digest
    except (OSError, ValueError):
        return False


def _digest(raw: bytes) -> str:
    return blake2b(raw, digest_size=32).hexdigest()


def _type(registry: Registry, name: str) -> list[Any] | None:
    """Return a type's files and its declaration, which may depend on the environment, or None without a file."""
    files = registry.files_of(name)
    if files is None:
        return None
    definition = registry.type(name)
    attributes = [(attr, a.type, a.kind, a.default) for attr, a in definition.attributes.items()]
    return [*files, repr([attributes, sorted(definition.features), definition.title_patterns])]
