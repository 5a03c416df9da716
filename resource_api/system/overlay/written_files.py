"""Read what has been written on an overlay from its upper layers."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, Literal

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["file", "directory", "deleted"]
#: The device number with which an overlay marks what is deleted.
_WHITEOUT: Final = 0


class Written(NamedTuple):
    """What an upper layer holds at a path."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    #: When its content was changed, in nanoseconds; 0 for a directory.
    modified: int
    #: Differs after every change, also one of the owner.
    version: tuple[int, int]


def read(layers: int) -> Mapping[str, Written]:
    """Return what the upper layers hold, by the path that it has on the overlay; ``layers`` as of ``Overlay``."""
    found: dict[str, Written] = {}
    base = f"/proc/self/fd/{layers}"
    for number in os.listdir(base):
        place = os.readlink(f"{base}/{number}/place").rstrip("/")
        found.update(_walk(f"{base}/{number}/upper", place))
    return found


def is_full(layers: int) -> bool:
    """Return whether nothing more can be written."""
    about = os.statvfs(layers)
    return about.f_bavail == 0 or about.f_favail == 0


def _walk(directory: str, place: str) -> Iterator[tuple[str, Written]]:
    """Yield each path beneath a directory of a layer, as a path on the overlay, and what it is."""
    waiting = [(directory, place)]
    while waiting:
        directory, place = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, PermissionError):  # something that still runs has removed it, or this user may not
            continue
        for entry in entries:
            path = f"{place}/{entry.name}"
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, _written(about)
            if stat.S_ISDIR(about.st_mode):
                waiting.append((entry.path, path))


def _written(about: os.stat_result) -> Written:
    version = (about.st_ino, about.st_ctime_ns)
    if stat.S_ISDIR(about.st_mode):
        # What is written in a directory changes the times of the directory too.
        return Written("directory", about.st_mode, about.st_uid, about.st_gid, 0, 0, (0, 0))
    deleted = stat.S_ISCHR(about.st_mode) and about.st_rdev == _WHITEOUT
    kind: Kind = "deleted" if deleted else "file"
    return Written(kind, about.st_mode, about.st_uid, about.st_gid, about.st_size, about.st_mtime_ns, version)
