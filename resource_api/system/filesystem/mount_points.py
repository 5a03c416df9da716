"""Where file systems, directories and files are mounted, as the calling thread sees it. Linux only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directory

#: Of the calling thread: its mount namespace may be its own.
_MOUNTS: Final = "/proc/thread-self/mountinfo"
_NO_FOLLOW: Final = 8  # umount2(2)


def mount_points() -> frozenset[str]:
    """Return the paths of all mount points (proc_pid_mountinfo(5): fifth field, octal escapes). Raise ``OSError``."""
    with open(_MOUNTS, "rb") as file:
        return frozenset(os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in file)


def _unescaped(path: bytes) -> bytes:
    return path.decode("unicode_escape").encode("latin-1") if b"\\" in path else path


def mounts_beneath(directory: Directory) -> set[str]:
    """Return the mount points below a directory, as paths in it."""
    start = directory.beneath("")
    return {each.removeprefix(start) for each in mount_points() if each.startswith(start)}


def mount_id(fd: int) -> int:
    """Return the number of the mount that an open file is on (proc_pid_fdinfo(5)): a bind mount has one of its own."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(int(line[7:]) for line in file if line.startswith("mnt_id:"))


def unmount(directory: Directory, name: str) -> None:
    """Unmount what is mounted on ``name`` in an open directory, which nobody can redirect. Raise ``OSError``."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).umount2
    if call(os.fsencode(f"/proc/self/fd/{directory.fd}/{name}"), _NO_FOLLOW) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory.beneath(name))
