"""List the mount points of the calling thread's namespace, and unmount them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directory

#: The calling thread may have its own mount namespace.
_MOUNTS: Final = "/proc/thread-self/mountinfo"
_NO_FOLLOW: Final = 8  # umount2(2)


def mount_points() -> frozenset[str]:
    """Return the paths of all mount points (proc_pid_mountinfo(5): fifth field, octal escapes). Raise ``OSError``."""
    with open(_MOUNTS, "rb") as file:
        return frozenset(os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in file)


def _unescaped(path: bytes) -> bytes:
    return path.decode("unicode_escape").encode("latin-1") if b"\\" in path else path


def mounts_beneath(directory: Directory) -> set[str]:
    """Return the mount points below a directory, relative to it."""
    start = directory.beneath("")
    return {path.removeprefix(start) for path in mount_points() if path.startswith(start)}


def mount_id(fd: int) -> int:
    """Return the number of an open file's mount (proc_pid_fdinfo(5)), which distinguishes bind mounts."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(int(line[7:]) for line in file if line.startswith("mnt_id:"))


def unmount(directory: Directory, name: str) -> None:
    """Unmount ``name`` in an open directory, which no other user can redirect. Raise ``OSError``."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).umount2
    if call(os.fsencode(f"/proc/self/fd/{directory.fd}/{name}"), _NO_FOLLOW) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory.beneath(name))
