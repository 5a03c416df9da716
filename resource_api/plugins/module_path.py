"""Find the files of types, providers, components and policies on the module path.

A module path is a list of directories, each with any of ``types/``, ``providers/``, ``components/`` and ``policies/``.
Files are found by path and never imported by name: a top-level package called ``types`` would break Python. Nothing is
executed here. Paths are texts: importing pathlib takes longer than finding the files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Final, Self

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

PACKAGE: Final = os.path.realpath(__file__).rsplit("/", 2)[0]
#: Holds the bundled ``types/`` and ``providers/``: inside the package once installed, beside it in a checkout.
BUNDLED: Final = PACKAGE if os.path.isdir(f"{PACKAGE}/types") else PACKAGE.rpartition("/")[0]
#: The program's own installation, whose code is trusted: users who can change it can change this module too.
OWN: Final = (
    PACKAGE,
    *(f"{BUNDLED}/{kind}" for kind in ("types", "providers", "components", "policies", "lib")),
    *(parent for parent in (PACKAGE.rpartition("/")[0],) if parent.endswith(("/site-packages", "/dist-packages"))),
)
#: Installed distributions name a package whose directory holds ``types/`` and ``providers/`` in this group.
ENTRY_POINTS: Final = "resource_api.modules"


#: Python, a type as data, and a provider that is an executable: the suffixes of files by kind, the first one that is
#: found is used. Other kinds are Python only.
_SUFFIXES: Final[Mapping[str, Sequence[str]]] = {"types": (".py", ".json"), "providers": (".py", "")}


class Origin(NamedTuple):
    """Where a type or component comes from; all texts are empty where a program has registered it."""

    #: The directory of the module path, or of the package of a distribution.
    directory: str = ""
    #: The installed distribution that it belongs to, and its version.
    distribution: str = ""
    version: str = ""

    @property
    def kind(self) -> str:
        """The kind of the origin, for lists of types: ``bundled``, ``distribution``, ``directory`` or ``program``."""
        if self.directory == BUNDLED:
            return "bundled"
        if self.distribution:
            return "distribution"
        return "directory" if self.directory else "program"

    def __str__(self) -> str:
        """Return the origin in words."""
        return {
            "bundled": "bundled",
            "distribution": f"distribution {self.distribution} {self.version}".rstrip(),
            "directory": self.directory,
            "program": "registered by a program",
        }[self.kind]


class ModulePath:
    """Directories in which ``<kind>/<name>.py`` is looked for; the first hit wins, installed distributions are last.

    A type can also be a ``.json``, and a provider an executable without suffix. A kind is ``types``, ``providers``,
    ``components`` or ``policies``.
    """

    def __init__(
        self, directories: Sequence[str], *, distributions: bool = True, aliases: Mapping[str, str] | None = None
    ) -> None:
        """Look in ``directories`` in their order, then in installed distributions unless these are excluded.

        ``aliases``: a directory → the path, with symbolic links, by which the user named it or a file in it. Code is
        checked along these links too: other users could change them.
        """
        self.aliases = dict(aliases or {})
        #: Without those of installed distributions.
        self.directories = list(directories)
        #: The directories of installed distributions; None before they are searched for.
        self._distributions: list[str] | None = None if distributions else []

    @classmethod
    def resolve(
        cls, directories: Iterable[str | os.PathLike[str]], manifest: str | None = None, *, bundled: bool = True
    ) -> Self:
        """Return the module path: the user's directories, then that of the manifest, then the bundled one.

        Directories are real paths. A path with symbolic links is kept as an alias, because the links are checked too: a
        changed link would lead to other code.
        """
        real_paths = {text: os.path.realpath(text) for text in map(os.fsdecode, directories)}
        if manifest is not None:
            real_paths[manifest] = os.path.dirname(os.path.realpath(manifest))
        # Not normalized: 'link/..' is the directory above the link's target, not the one with the link.
        aliases = {
            real: f"{os.getcwd()}/{text}" if text[:1] != "/" else text
            for text, real in real_paths.items()
            if _goes_through_links(text, real)
        }
        return cls([*real_paths.values(), *([BUNDLED] if bundled else ())], aliases=aliases)

    def add_manifest(self, manifest: str) -> None:
        """Look in the directory of a manifest too, right before the bundled one, as ``resolve`` does."""
        added = self.resolve((), manifest, bundled=False)
        directories = [directory for directory in added.directories if directory not in self.directories]
        position = self.directories.index(BUNDLED) if BUNDLED in self.directories else len(self.directories)
        self.directories[position:position] = directories
        self.aliases |= added.aliases

    def find(self, kind: str, name: str, *, installed: bool = True) -> str | None:
        """Return the first file of the name in the directories for a ``kind``, such as ``types``, or None.

        Without ``installed``, distributions are not searched: that takes as long as a short run.
        """
        directories = self._all() if installed else self.directories
        return next(_files(directories, kind, name), None)

    def find_all(self, kind: str, name: str) -> list[str]:
        """Return every file of one name, in the order of the module path."""
        return list(_files(self._all(), kind, name))

    def providers(self, name: str, directory: str | None = None, *, installed: bool = True) -> dict[str, str]:
        """Return the files of a type's providers by their names, in the order of the module path, or of one directory.

        They are ``providers/TYPE.py``, which has the name of the type, and ``providers/TYPE/NAME.py``; an executable
        has no suffix. Distributions are searched only if nothing else has any, and not without ``installed``.
        """
        if directory is not None:
            return _providers([directory], name)
        return _providers(self.directories, name) or (_providers(self._all(), name) if installed else {})

    def directories_of(self, name: str) -> list[str]:
        """Return the directories up to the last one that has a file of a type or of its providers.

        They are the module path of the type's worker. No later directory is needed, and without any earlier one the
        worker might find other files than this process.
        """
        files = {self.find("types", name), *self.providers(name).values()}
        directories, last = [], 0
        for directory in self._all():
            directories.append(directory)
            matches = files & {*_files([directory], "types", name), *_providers([directory], name).values()}
            files -= matches
            last = len(directories) if matches else last
            if not files:
                break
        return directories[:last]

    def origin(self, path: str) -> Origin:
        """Return where a file of the module path comes from."""
        directory = path.rsplit("/", 2)[0]
        return Origin(directory, *(("", "") if directory in self.directories else _distribution(directory)))

    def data_files(self, name: str) -> list[str]:
        """Return the files of one name directly in the directories, in their order; not those of distributions."""
        paths = [f"{directory}/{name}" for directory in self.directories]
        return [path for path in paths if os.path.isfile(path)]

    def unread(self, name: str) -> tuple[str, str]:
        """Return a file that looks like a type or component but is not read, and its right name; both "" if none.

        It explains an unknown type. Examples: ``types/NAME.yaml``, ``type/NAME.py``, names with capital letters or '-'.
        """
        name = name.lower().replace("-", "_")
        folders = product(self.directories, ("types", "components", "type", "component"))
        for directory, folder in folders:
            right = f"{folder.removesuffix('s')}s/{name}.py"
            for file in entries(f"{directory}/{folder}"):
                stem = file.partition(".")[0].lower().replace("-", "_")
                if stem == name and f"{folder}/{file}" != right:
                    return f"{directory}/{folder}/{file}", right
        return "", ""

    def names(self, kind: str, *, installed: bool = True) -> list[str]:
        """Return every name of a ``kind`` such as ``types``, sorted, for lists and suggestions.

        Executables are left out: without a suffix they cannot be told from other files.
        """
        files: set[str] = set()
        for directory in self._all() if installed else self.directories:
            files.update(entries(f"{directory}/{kind}"))
        suffixes = tuple(filter(None, _SUFFIXES.get(kind, (".py",))))
        return sorted({name.rpartition(".")[0] for name in files if name.endswith(suffixes) and name[0] != "_"})

    def _all(self) -> Iterator[str]:
        """Yield the directories, then those of installed distributions.

        The search for distributions takes as long as a short run, so it begins only if the caller needs more.
        """
        yield from self.directories
        if self._distributions is None:
            self._distributions = [directory for directory, _ in _distributions()]
        yield from self._distributions


def _goes_through_links(path: str, real: str) -> bool:
    """Return whether the path of a directory, or of a file in it, goes through links; ``real`` is without them."""
    absolute = os.path.abspath(path)
    return absolute != real and absolute.rpartition("/")[0] != real.rstrip("/")


def _files(directories: Iterable[str], kind: str, name: str) -> Iterator[str]:
    """Yield the file of one name in each directory that has one, in the order of the directories.

    If a directory has it as Python and as JSON or an executable, only the Python file counts.
    """
    for directory in directories:
        for suffix in _SUFFIXES.get(kind, (".py",)):
            path = f"{directory}/{kind}/{name}{suffix}"
            if os.path.isfile(path):
                yield path
                break


def _providers(directories: Iterable[str], name: str) -> dict[str, str]:
    """Return the files of a type's providers by name, the first of each name.

    Several directories may have providers of one type, but the type itself may have another version in a later one:
    providers beside its file there belong to that version and are excluded.
    """
    paths: dict[str, str] = {}
    directories_used: list[str] = []
    for directory in directories:
        files = _providers_in(directory, name)
        if not files:
            continue
        is_other_version = any(_files(directories_used, "types", name)) and any(_files([directory], "types", name))
        if not is_other_version:
            directories_used.append(directory)
            for stem, path in files.items():
                paths.setdefault(stem, path)
    return paths


def _providers_in(directory: str, name: str) -> dict[str, str]:
    """Return name → file of a type's providers in one directory: ``providers/TYPE.py`` and ``providers/TYPE/NAME.py``.

    Other files there, such as a README, are left out; an executable has no suffix.
    """
    path = next(_files([directory], "providers", name), None)
    paths = {} if path is None else {name: path}
    for file in entries(f"{directory}/providers/{name}"):
        path = f"{directory}/providers/{name}/{file}"
        if file[0] not in "_." and (file.endswith(".py") or ("." not in file and os.path.isfile(path))):
            paths.setdefault(file.removesuffix(".py"), path)
    return paths


def entries(directory: str) -> list[str]:
    """Return the names in a directory, sorted; none if it is missing, because all directories here are optional."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _distribution(directory: str) -> tuple[str, str]:
    """Return the name and version of the distribution with a directory, for the origin of its types.

    Both are empty where the metadata lack them.
    """
    for location, point in _distributions():
        if location == directory and point.dist is not None:
            return point.dist.name, point.dist.version
    return "", ""


def _distributions() -> Iterator[tuple[str, EntryPoint]]:
    """Yield the directories of installed distributions, each with the entry point that names it.

    An entry point whose package cannot be found is left out. The search for a package within another one imports the
    outer package, whose code may fail.
    """
    from importlib.metadata import entry_points  # slow to import

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        spec = None
        with suppress(Exception, SystemExit):
            spec = find_spec(point.module)
        if spec is not None:
            yield from ((directory, point) for directory in spec.submodule_search_locations or ())
