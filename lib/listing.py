"""The files of a directory, where a directory that cannot be read must not look like an empty one.

``Path.glob`` takes every error for an empty directory since Python 3.13.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

#: Characters of another file in a message.
LONGEST_TEXT = 80


def matching(directory: str | os.PathLike[str], pattern: str = "*") -> list[Path]:
    """Return the sorted paths in a directory whose names match; none without the directory.

    Raise ``OSError`` if it cannot be read, unlike ``Path.glob``, which returns nothing then.
    """
    try:
        names = os.listdir(directory)  # noqa: PTH208 - bare names
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Path(directory, name) for name in sorted(names) if fnmatchcase(name, pattern)]


def cut(text: str) -> str:
    """Return a text for a message, cut after 80 characters: it comes from a file of any content."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
