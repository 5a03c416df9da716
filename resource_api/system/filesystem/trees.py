"""List and unmount mount points, and remove directory trees, without leaving a tree.

A tree may change during the removal, contain links and mount points, or be deeper than the longest path. Directories
that the system needs are never removed.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.system import c_library
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.system.filesystem.directories import Directory

#: The calling thread may have its own mount namespace.
_MOUNTS: Final = "/proc/thread-self/mountinfo"
_NO_FOLLOW: Final = 8  # umount2(2)


class Mount(NamedTuple):
    """One mounted file system; ``device`` is its number as ``8:1``, ``options`` are those of the mount and its own."""

    path: str
    device: str
    kind: str
    options: Sequence[str]


def mounts() -> Iterator[Mount]:
    """Yield all mounts in the order in which they were made (proc_pid_mountinfo(5)). Raise ``OSError``."""
    with open(_MOUNTS, "rb") as file:  # a path may contain any other end of a line than a newline
        for line in file:
            # 36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue
            of_mount, _, of_file_system = line.rstrip(b"\n").partition(b" - ")
            _id, _parent, device, _root, path, options, *_ = of_mount.split(b" ")
            kind, _source, more_options = of_file_system.split(b" ", 2)  # the source may be empty
            words = os.fsdecode(options + b"," + more_options).split(",")
            yield Mount(os.fsdecode(_unescaped(path)), device.decode(), kind.decode(), words)


def mount_points() -> frozenset[str]:
    """Return the paths of all mount points. Raise ``OSError``."""
    return frozenset(mount.path for mount in mounts())


def _unescaped(path: bytes) -> bytes:
    """Return a path without its octal escapes: a space is a backslash and 040."""
    return path.decode("unicode_escape").encode("latin-1") if b"\\" in path else path


def mounts_beneath(directory: Directory) -> set[str]:
    """Return the mount points below a directory, relative to it."""
    start = directory.beneath("")
    return {path.removeprefix(start) for path in mount_points() if path.startswith(start)}


def mount_id(fd: int) -> int:
    """Return the number of an open file's mount (proc_pid_fdinfo(5)), which distinguishes bind mounts."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(int(line.removeprefix("mnt_id:")) for line in file if line.startswith("mnt_id:"))


def unmount(directory: Directory, name: str) -> None:
    """Unmount ``name`` in an open directory, which no other user can redirect. Raise ``OSError``."""
    target = os.fsencode(f"/proc/self/fd/{directory.fd}/{name}")
    c_library.call("umount2", target, _NO_FOLLOW, path=directory.beneath(name))


#: Directories that are never removed (hier(7), file-hierarchy(7)): the system would not work without them.
PROTECTED_DIRECTORIES: Final = frozenset(
    """
    / /bin /boot /boot/efi /dev /etc /home /lib /lib32 /lib64 /libx32 /lost+found /media /mnt /opt /proc /root /run
    /sbin /srv /sys /tmp /usr /usr/bin /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/libx32 /usr/local
    /usr/sbin /usr/share /usr/src /var /var/cache /var/lib /var/lib/dpkg /var/lib/rpm /var/local /var/log /var/mail
    /var/opt /var/run /var/spool /var/tmp
    """.split()  # noqa: SIM905 - fifty words read better than fifty lines
)


def check_removable(path: str) -> None:
    """Raise ``PermissionError`` (EPERM) for a protected directory; ``path`` contains neither links nor dots."""
    if path in PROTECTED_DIRECTORIES:
        raise PermissionError(errno.EPERM, "a system directory is never removed", path)


def remove(directory: Directory, name: str) -> None:
    """Remove the directory ``name`` in ``directory`` with its whole content, after ``check_removable``.

    Subdirectories are moved up into it and emptied one after the other, so that a tree of any depth needs only two open
    directories. Raise ``OSError``: EBUSY, with nothing removed, if a filesystem is mounted on it or below it, as the
    files of that filesystem do not belong to the tree.
    """
    path = directory.beneath(name)
    mounted = any(point == path or point.startswith(f"{path}/") for point in mount_points())
    with opened(name, DIRECTORY_FLAGS, directory.fd) as top:
        if mounted or mount_id(top) != mount_id(directory.fd):
            raise OSError(errno.EBUSY, "a filesystem is mounted there", path)
        todo = _clear(top, top)
        while todo:
            child = todo.pop()
            with suppress(FileNotFoundError):  # another process has removed it
                with opened(child, DIRECTORY_FLAGS, top) as fd:  # moved into it, so no mount point
                    todo += _clear(fd, top)
                os.rmdir(child, dir_fd=top)
    os.rmdir(name, dir_fd=directory.fd)


def _clear(fd: int, top: int) -> list[str]:
    """Unlink the files of an open directory, move its subdirectories up into ``top``, and return their names there.

    The caller can then empty each by its name in ``top``, without opening all directories above it.
    """
    directories = []
    with os.scandir(fd) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in listed:
        with suppress(FileNotFoundError):  # another process has removed it
            if not is_directory:
                os.unlink(name, dir_fd=fd)
                continue
            moved = name
            if fd != top:
                moved = f".{os.urandom(8).hex()}"
                os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=top)
            directories.append(moved)
    return directories
