"""Comparable contents of an overlay: kind, mode, owner and content digest of each path that was written."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.overlay import written_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.system.overlay.written_files import Written

    #: Path → the written file, and the digest of its content.
    Contents = Mapping[str, tuple[Written, str]]

#: Files up to this size are compared by content, and up to that size by lines in any order.
_COMPARED: Final = 64 * 1024 * 1024
_COMPARED_BY_LINE: Final = 1024 * 1024
#: The separators between the members of lists and mappings depend on their order.
_SPACES: Final = bytes.maketrans(b",;[]{}", b"      ")
#: The header that crontab(1) writes above a table, with the time of its installation.
_CRONTAB: Final = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")


def read(descriptor: int, former: Contents | None = None) -> Contents:
    """Return the contents of the layers of a descriptor; files unchanged since ``former`` are not read again."""
    former = former or {}
    contents = {}
    for path, written in written_files.read(descriptor).items():
        same = path in former and former[path][0] == written
        contents[path] = former[path] if same else (written, digest(path) if written.kind == "file" else "")
    return contents


def comparable(entry: Any) -> tuple[Any, ...] | None:
    """Return kind, mode, owner, group and digest of a path, from values or a JSON document, or None for nothing."""
    if entry is None:
        return None
    (kind, mode, uid, gid, *_), content = entry
    return kind, mode, uid, gid, content


def differing(first: Contents, second: Contents) -> set[str]:
    """Return the paths at which two contents differ."""
    paths = first.keys() | second.keys()
    return {path for path in paths if comparable(first.get(path)) != comparable(second.get(path))}


def differ(paths: Sequence[str]) -> str:
    """Return the message that paths differ: the first one is named, the rest is counted."""
    return f"{paths[0]} and {len(paths) - 1} more differ" if len(paths) > 1 else f"{paths[0]} differs"


def digest(path: str) -> str:
    """Return a digest of a file, or the target of a link; empty where it cannot be read or is too large.

    The digest of a text is followed by a space and a digest of its words in any order.
    """
    try:
        if os.path.islink(path):
            return os.readlink(path)
        if not os.path.isfile(path) or (size := os.path.getsize(path)) > _COMPARED:
            return ""
        with open(path, "rb") as file:
            if size > _COMPARED_BY_LINE:
                return hashlib.file_digest(file, "blake2b").hexdigest()
            content = _CRONTAB.sub(b"", file.read())
    except OSError:
        return ""
    whole = _digest(content)
    return whole if b"\0" in content else f"{whole} {_digest(b' '.join(sorted(content.translate(_SPACES).split())))}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()


def in_any_order(digest: str) -> str:
    """Return the part of a digest that does not depend on the order of lines and members, if it has one."""
    return digest.rpartition(" ")[2]
