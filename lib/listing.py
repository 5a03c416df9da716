"""The files of a directory: an unreadable one must not look empty, as it does for ``Path.glob`` since Python 3.13."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

#: Characters of another file in a message.
LONGEST_TEXT = 80


def matching(directory: str | os.PathLike[str], pattern: str = "*") -> list[Path]:
    """Return the sorted paths of matching names; none without the directory. Raise ``OSError`` if unreadable."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - bare names
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Path(directory, name) for name in sorted(names) if fnmatchcase(name, pattern)]


def cut(text: str) -> str:
    """Return a text for a message, cut after 80 characters: it comes from a file of any content."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
