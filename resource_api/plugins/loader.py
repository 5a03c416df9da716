"""Finds type and provider files on the module path and executes them, each in isolation.

Files are found by path and never imported by name: a top-level package called ``types`` would break Python.
A file that raises, exits, prints or edits ``sys.path`` on import disables itself only. What the values in the
files mean is the registry's business. Paths are texts here: importing pathlib takes longer than finding the files.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import DefinitionError, reason
from resource_api.system import process_guard as guard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PACKAGE: Final = os.path.realpath(__file__).rsplit("/", 2)[0]
#: Holds the bundled ``types/`` and ``providers/``: inside the package once installed, beside it in a checkout.
BUNDLED: Final = PACKAGE if os.path.isdir(f"{PACKAGE}/types") else PACKAGE.rpartition("/")[0]  # noqa: PTH112 - text
#: Installed distributions name a package whose directory holds ``types/`` and ``providers/`` in this group.
ENTRY_POINTS: Final = "resource_api.modules"


class Finder:
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


def execute(path: str, name: str) -> ModuleType:
    """Execute a file as the module ``name`` and give it.

    Raises ``DefinitionError`` naming the file, the line and the reason when it raises, exits, prints, or changes
    ``sys.path``; other changes of the process are undone. The module stays in ``sys.modules``, so that tracebacks and
    pickles find it.
    """
    module = ModuleType(name)
    module.__file__ = path
    search_path, moved = list(sys.path), False
    sys.modules[name] = module
    printed = _Printed()
    try:
        code = SourceFileLoader(name, path).get_code(name)
        with guard.protected():
            sys.stdout = printed
            try:
                exec(code or "", module.__dict__)  # noqa: S102 - executing a module file is what a loader does
            finally:
                moved = sys.path != search_path
    except KeyboardInterrupt:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        msg = f"{path}:{line_of(error, path)}: {_why(error)}"
        raise DefinitionError(msg) from error
    if printed.wrote or moved:
        sys.modules.pop(name, None)
        msg = f"{path}: {'prints' if printed.wrote else 'changes sys.path'} while it is loaded; a module file must not"
        raise DefinitionError(msg)
    return module


class _Printed:
    """Stands in for stdout while a file is executed, to notice that it prints."""

    encoding = "utf-8"
    wrote = False

    def write(self, text: str) -> int:
        self.wrote = self.wrote or bool(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""

    def isatty(self) -> bool:
        return False


def line_of(error: BaseException, file: str) -> int:
    """Give the line of ``file`` that an exception came from, 1 when it came from nowhere in it."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 1
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _why(error: BaseException) -> str:
    if isinstance(error, DefinitionError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"exits while it is loaded (code {error.code})"
    text = reason(error)
    return text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}"
