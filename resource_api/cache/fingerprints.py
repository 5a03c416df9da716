"""What a conclusion rests on outside of state and the system: the bytes of a manifest, and every file of code.

Code counts as changed where a file has another size, number or time of its last change, which nobody can set back.
What was concluded is not known here.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._blake2 import blake2b

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Nanoseconds that the times of files may be behind the clock.
_TICK: Final = 10_000_000


def code(began: int) -> list[list[Any]] | None:
    """Give every file of code that this process is made of: path, size, time, number.

    None where one is newer than ``began``: what was loaded may be what was there before it.
    """
    try:
        found = [_stamp(path) for path in sorted(set(map(_file, _named()))) if path]
    except OSError:
        return None
    return None if any(changed >= began - _TICK for _, _, changed, _ in found) else found


def surroundings() -> list[Any]:
    """Give the interpreter, and where it looks for code."""
    return [sys.version, os.geteuid(), list(sys.path)]


def unchanged(stamps: Iterable[Sequence[Any]]) -> bool:
    """Whether every file that ``code`` has given is as it was."""
    try:
        return all(_stamp(stamp[0]) == stamp for stamp in stamps)
    except OSError:
        return False


def complete(stamps: Iterable[Sequence[Any]]) -> bool:
    """Whether this process is made of nothing else: a file that was not there may come before one that was."""
    known = {"", *(stamp[0] for stamp in stamps)}
    return all(path in known or _file(path) in known for path in _named())


def digest(raw: bytes) -> str:
    """Give what tells the bytes of a manifest from any others."""
    return blake2b(raw, digest_size=32).hexdigest()


def _named() -> set[str]:
    return {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))}


def _file(path: str) -> str:
    """Give the file that a module comes from, which may be an archive; empty for one that is made up."""
    while path and not os.path.isfile(path):  # noqa: PTH113 - the path is text
        path = os.path.dirname(path) if os.path.dirname(path) != path else ""  # noqa: PTH120 - the same
    return path


def _stamp(path: str) -> list[Any]:
    found = os.stat(path)  # noqa: PTH116 - the path is text
    return [path, found.st_size, found.st_ctime_ns, found.st_ino]
