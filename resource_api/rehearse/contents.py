"""What an overlay holds, comparable: kind, mode, owner and a digest of the content of each path that was written."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.overlay import written_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.system.overlay.written_files import Written

    #: Path → what was written there, and the digest of its content.
    Contents = Mapping[str, tuple[Written, str]]

#: Files up to this size are compared by content, and up to that size by lines in any order.
_COMPARED: Final = 64 * 1024 * 1024
_COMPARED_BY_LINE: Final = 1024 * 1024
#: What stands between the members of lists and mappings depends on their order.
_SPACES: Final = bytes.maketrans(b",;[]{}", b"      ")
#: The header that crontab(1) writes above a table, with the time of its installation.
_CRONTAB: Final = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")


def read(descriptor: int, known: Contents | None = None) -> Contents:
    """Return what the layers of a descriptor hold; a file that is in ``known`` unchanged is not read again."""
    before = known or {}
    found = {}
    for path, written in written_files.read(descriptor).items():
        same = path in before and before[path][0] == written
        found[path] = before[path] if same else (written, digest(path) if written.kind == "file" else "")
    return found


def comparable(each: Any) -> tuple[Any, ...] | None:
    """Return the kind, mode, owner, group and digest of a path, of values or of a JSON document; None for nothing."""
    if each is None:
        return None
    (kind, mode, uid, gid, *_), content = each
    return kind, mode, uid, gid, content


def differing(first: Contents, second: Contents) -> set[str]:
    """Return the paths at which two contents differ."""
    paths = first.keys() | second.keys()
    return {path for path in paths if comparable(first.get(path)) != comparable(second.get(path))}


def differ(paths: Sequence[str]) -> str:
    """Return that something else is at ``paths``: the first one is named, the others are counted."""
    return f"{paths[0]} and {len(paths) - 1} more differ" if len(paths) > 1 else f"{paths[0]} differs"


def digest(path: str) -> str:
    """Return a digest of a file, or the target of a link; empty where it cannot be read or is too large.

    That of a text is followed by a space and a digest of its words in any order.
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
    found = _digest(content)
    return found if b"\0" in content else f"{found} {_digest(b' '.join(sorted(content.translate(_SPACES).split())))}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()


def in_any_order(found: str) -> str:
    """Return the part of a digest that does not depend on the order of lines and members, if it has one."""
    return found.rpartition(" ")[2]
