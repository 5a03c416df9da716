"""The Pythons of this machine: those of its path and of pyenv, and the one that ``make test`` unpacks."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: The oldest Python that runs what is sent to a host, and the newest that is promised.
OLDEST: Final = (3, 11)
NEWEST: Final = (3, 13)
#: Made by ``.ci/newer-python``; it runs everywhere, but not from everywhere: its modules stay where they are.
_UNPACKED: Final = ROOT / ".venv" / "python-trixie" / "python"
#: The oldest whose syntax the first program has.
_OLDEST_SYNTAX: Final = 6


@cache
def interpreters() -> dict[tuple[int, int], str]:
    """Return the path of an interpreter of each version from 3.6 on; that of the tests is among them."""
    entries = {sys.version_info[:2]: sys.executable}
    # Directories called shims hold scripts of pyenv, which look for an interpreter each time.
    paths = [Path(item) for item in os.get_exec_path() if not item.endswith("/shims")]
    paths += [Path("/usr/bin"), Path("/usr/local/bin"), *sorted(Path.home().glob(".pyenv/versions/*/bin"))]
    for minor in range(_OLDEST_SYNTAX, 30):
        for path in (f"{location}/python3.{minor}" for location in paths):
            if os.access(path, os.X_OK):
                entries.setdefault((3, minor), path)
    if _UNPACKED.exists():
        entries.setdefault(NEWEST, str(_UNPACKED))
    return dict(sorted(entries.items()))


def new_enough() -> list[str]:
    """Return the commands that run the program sent to a host."""
    return [path for version, path in interpreters().items() if version >= OLDEST]


def too_old() -> list[str]:
    """Return those that say what is needed instead."""
    return [path for version, path in interpreters().items() if version < OLDEST]


def name(path: str) -> str:
    """Return ``3.13``, for the names of tests."""
    return next("{}.{}".format(*version) for version, interpreter in interpreters().items() if interpreter == path)
