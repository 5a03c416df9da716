"""Mount an overlay over each file system of this machine, as root, or over each directory, as another user.

Root covers a file system from its root. To anybody else the kernel does not reveal what is beneath a mount: what
contains one cannot be below an overlay. Such a directory is made anew, and each that it contains is covered.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import opened
from resource_api.system.overlay.mount_table import REPLACED
from resource_api.system.overlay.namespaces import NO_DEVICES, READ_ONLY, bind, mount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.system.overlay.mount_table import Mount

#: Where the tmpfs is mounted while the root is built: nothing of it is taken over, and every machine has it.
BASE: Final = "/run"
ROOT: Final = f"{BASE}/root"
LAYERS: Final = f"{BASE}/layers"
#: Directories in which everybody may write, below those of root, which an overlay of another user cannot copy.
_OF_EVERYBODY: Final = ("/var/tmp",)  # noqa: S108 - nothing is written there


def cover_as_root(found: Sequence[Mount]) -> None:
    """Mount all that is taken over of the machine below ``ROOT``. Raise ``OSError``."""
    for each in found:
        if each.kept and os.path.exists(f"{ROOT}{each.place}"):  # otherwise another mount hides it
            _cover(each.place, each, "")


def cover_as_user(found: Sequence[Mount]) -> None:
    """Do the same as another user than root. Raise ``OSError``."""
    try:
        os.setxattr(LAYERS, "user.overlay.", b"")
    except OSError as error:
        raise OSError(
            error.errno, "a user who is not root needs Linux 6.6, for attributes of files in memory"
        ) from error
    mounts = {each.place: each for each in found}
    used = filter(os.path.isdir, (os.getcwd(), os.path.expanduser("~")))
    places = (*mounts, *_OF_EVERYBODY, *map(_where_to_cover, used))
    divided = {above for place in places for above in _above(place)} - {*REPLACED}
    bind(ROOT, ROOT)  # a root must be a mount
    waiting = [("/", mounts["/"])]
    while waiting:
        directory, on = waiting.pop()
        with suppress(PermissionError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.path in divided and entry.is_dir(follow_symlinks=False):
                    os.mkdir(f"{ROOT}{entry.path}")
                    waiting.append((entry.path, mounts.get(entry.path, on)))
                else:
                    _take_over(entry, mounts.get(entry.path, on))
        os.chmod(f"{ROOT}{directory}", _mode(directory))


def _above(place: str) -> list[str]:
    """Return all directories that contain a path: ``/`` and ``/var`` for ``/var/tmp``."""
    parts = place.split("/")
    return ["/".join(parts[:count]) or "/" for count in range(1, len(parts))] if place != "/" else []


def _where_to_cover(path: str) -> str:
    """Return the directory that must have an overlay of its own, so that the user can write in ``path`` or beneath.

    An overlay of a user makes a copy of each directory between its root and a change: all of them must be the user's.
    """
    way = [*_above(path), path]
    own = (number for number, place in enumerate(way) if os.stat(place).st_uid == os.geteuid())
    place = way[max(next(own, len(way)) - 1, 0)]
    # What the user can write to is not divided: what is made in it would not be reported.
    return "/" if any(os.access(above, os.W_OK) for above in _above(place)) else place


def _take_over(entry: os.DirEntry[str], on: Mount) -> None:
    """Cover what a directory contains. Only what is a file or a directory: a socket would lead to who listens."""
    target = f"{ROOT}{entry.path}"
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
    elif entry.is_dir():
        os.mkdir(target)
        if on.kept and entry.path not in REPLACED:
            _cover(entry.path, on, "userxattr,")
    elif entry.is_file():
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        bind(entry.path, target, on.flags | NO_DEVICES | READ_ONLY)


def _cover(place: str, on: Mount, options: str) -> None:
    """Mount an overlay of what is at a path, a read-only one unless its mount ``on`` is writable.

    What is read-only is covered too, because who listens on a socket could be reached otherwise.
    """
    flags = on.flags | NO_DEVICES | (0 if on.writable else READ_ONLY)
    if os.path.isdir(place):
        try:
            _overlay(place, flags, options)
        except OSError:  # not every kind of file system can be below an overlay
            if on.place == "/":
                raise
        else:
            return
    elif not os.path.isfile(place):
        return
    bind(place, f"{ROOT}{place}", flags | READ_ONLY)


def _overlay(place: str, flags: int, options: str) -> None:
    made = f"{LAYERS}/{len(os.listdir(LAYERS))}"
    upper, work = f"{made}/upper", f"{made}/work"
    for directory in (made, upper, work):
        os.mkdir(directory)
    about = os.stat(place)
    if os.geteuid() == 0:  # anybody else owns all that is made
        os.chown(upper, about.st_uid, about.st_gid)
    os.chmod(upper, _mode(place))
    os.symlink(place, f"{made}/place")
    # A number, because options of a mount are separated by commas, which a path may contain.
    with opened(place, os.O_PATH) as descriptor:
        layers = f"lowerdir=/proc/self/fd/{descriptor},upperdir={upper},workdir={work}"
        mount("overlay", f"{ROOT}{place}", flags, options + layers)


def _mode(place: str) -> int:
    """Return the mode of a directory without what this user may not do, who will own it. As root, the mode."""
    mode = stat.S_IMODE(os.stat(place).st_mode)
    for may, bits in ((os.R_OK, 0o444), (os.W_OK, 0o222), (os.X_OK, 0o111)):
        if not os.access(place, may):
            mode &= ~bits
    return mode
