"""Finds the files of types, providers, components and policies on the module path.

A module path is a list of directories, each with ``types/``, ``providers/``, ``components/`` and ``policies/``, as
far as it has any. Files are found by path and never imported by name: a top-level package called ``types`` would break
Python. Nothing is executed here. Paths are texts: importing pathlib takes longer than finding the files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PACKAGE: Final = os.path.realpath(__file__).rsplit("/", 2)[0]
#: Holds the bundled ``types/`` and ``providers/``: inside the package once installed, beside it in a checkout.
BUNDLED: Final = PACKAGE if os.path.isdir(f"{PACKAGE}/types") else PACKAGE.rpartition("/")[0]  # noqa: PTH112 - text
#: Installed distributions name a package whose directory holds ``types/`` and ``providers/`` in this group.
ENTRY_POINTS: Final = "resource_api.modules"


class ModulePath:
    """Looks for ``<kind>/<name>.py`` in directories, first hit wins; distributions come last and only when needed."""

    def __init__(self, directories: Sequence[str], *, distributions: bool = True) -> None:
        """Look in ``directories`` in their order."""
        self._directories = list(directories)
        self._distributions: list[str] | None = None if distributions else []

    def find(self, kind: str, name: str, *, installed: bool = True) -> str | None:
        """Give the file of one name (``kind``: ``types``, ``providers`` or ``components``), or None.

        Not ``installed``: distributions are not asked, which takes as long as many a run.
        """
        places = self._all() if installed else self._directories
        return next(_files(places, kind, name), None)

    def places(self, name: str) -> list[str]:
        """Give the directories, in their order, up to the one that completes a type and its provider."""
        missing, places = {"types", "providers"}, []
        for directory in self._all():
            places.append(directory)
            missing -= {kind for kind in missing if any(_files([directory], kind, name))}
            if not missing:
                break
        return places

    def every(self, kind: str, name: str) -> list[str]:
        """Give every file of one name, in the order in which they are looked for."""
        return list(_files(self._all(), kind, name))

    def names(self, kind: str, *, installed: bool = True) -> list[str]:
        """Give every name of a kind, sorted."""
        found: set[str] = set()
        for directory in self._all() if installed else self._directories:
            with suppress(OSError):
                found.update(os.listdir(f"{directory}/{kind}"))  # noqa: PTH208 - bare names
        return sorted(name[:-3] for name in found if name.endswith(".py") and not name.startswith("_"))

    def _all(self) -> Iterator[str]:
        yield from self._directories
        if self._distributions is None:
            self._distributions = _installed()
        yield from self._distributions


def _files(directories: Iterable[str], kind: str, name: str) -> Iterator[str]:
    for directory in directories:
        path = f"{directory}/{kind}/{name}.py"
        if os.path.isfile(path):  # noqa: PTH113 - text
            yield path


def _installed() -> list[str]:
    """Ask the installed distributions; one whose package cannot be found is left out."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 40 ms, only when nothing else has the type
    from importlib.util import find_spec  # noqa: PLC0415 - the same

    found: list[str] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        try:
            spec = find_spec(point.module)
        except (ImportError, ValueError):
            continue
        if spec is not None:
            found += spec.submodule_search_locations or ()
    return found
