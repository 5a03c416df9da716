"""The code that the Python of an environment executes at every start: its packages, and the directories it searches."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from lib import listing
from resource_api import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

HOME = re.compile(r"^[ \t]*home[ \t]*=[ \t]*([^\r\n]+)", re.MULTILINE | re.IGNORECASE)
#: The directories of the system's Python.
SYSTEM = ("/usr/", "/bin/")


def code(prefix: str) -> Iterator[str]:
    """Yield the trees from which the Python in the directory ``prefix`` executes code, to check who can change them.

    They are the environment itself, the installation behind it, and the directories in its files of paths (``*.pth``,
    of an editable package), which are searched too.
    """
    yield prefix
    yield from _installation(os.path.realpath(f"{prefix}/bin/python"))
    with suppress(OSError):
        text = _text(f"{prefix}/pyvenv.cfg")
        yield from (tree for home in HOME.findall(text) for tree in _installation(f"{home.strip()}/python"))
    for library in listing.matching(f"{prefix}/lib", "python3*"):
        for path in listing.matching(f"{library}/site-packages", "*.pth"):
            with suppress(OSError):
                yield from _searched(path.parent, _text(str(path)).splitlines())


def _text(path: str) -> str:
    """Return the content of a file, or "" without one. Raise ``OSError``."""
    return (files.read_content(path) or b"").decode("utf-8", "replace")


def _searched(packages: Path, lines: Iterable[str]) -> Iterator[str]:
    """Yield the directories that the lines of a ``.pth`` file in ``packages`` add to the search path of modules.

    Lines with ``import`` are code, which Python executes, and comments add nothing.
    """
    for line in lines:
        if line.strip() and not line.startswith(("#", "import ", "import\t")):
            yield os.path.normpath(packages / line.rstrip())


def of_interpreter(program: str) -> Iterator[str]:
    """Yield the tree of the installation that a Python belongs to, unless it is the system's."""
    yield from _installation(os.path.realpath(program))


def _installation(program: str) -> Iterator[str]:
    """Yield the library directory of a Python program's installation: ``/opt/py/lib`` for ``/opt/py/bin/python``.

    Yield nothing for the system's Python, which other users cannot change.
    """
    top = os.path.dirname(os.path.dirname(program))  # noqa: PTH120 - text in, text out
    if top[:1] == "/" and not f"{top}/".startswith(SYSTEM) and top != "/":
        yield f"{top}/lib"
