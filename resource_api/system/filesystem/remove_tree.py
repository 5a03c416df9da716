"""Whole directories removed: what must never go, and how the rest goes without leaving the tree.

A tree may change while it is being removed, lead elsewhere by links, be mounted upon, or be deeper than any path can
say. One removal is atomic for those who look for its name. Whether a directory may go is asked elsewhere. Linux only.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import LISTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.system.filesystem.directories import Directory

#: Nothing that is called so is removed (hier(7), file-hierarchy(7)): the system would go with it.
PROTECTED: Final = frozenset(
    """
    / /bin /boot /boot/efi /dev /etc /home /lib /lib32 /lib64 /libx32 /lost+found /media /mnt /opt /proc /root /run
    /sbin /srv /sys /tmp /usr /usr/bin /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/libx32 /usr/local
    /usr/sbin /usr/share /usr/src /var /var/cache /var/lib /var/lib/dpkg /var/lib/rpm /var/local /var/log /var/mail
    /var/opt /var/run /var/spool /var/tmp
    """.split()  # noqa: SIM905 - fifty words read better than fifty lines
)


def guard(path: str) -> None:
    """Refuse (EPERM) what the system cannot be without; ``path`` has neither links nor dots in it."""
    if path in PROTECTED:
        raise PermissionError(errno.EPERM, "a directory of the system is never removed", path)


def remove(directory: Directory, name: str) -> None:
    """Remove the directory ``name`` in ``directory`` with everything in it; ``guard`` has let it through.

    Raises ``OSError``: EBUSY, with nothing removed, when something is mounted on it or beneath.
    """
    _refuse_mounted(directory.beneath(name))
    with _open(directory.fd, name) as top:
        todo = _clear(top, top)
        while todo:
            child = todo.pop()
            with _open(top, child) as fd:
                todo += _clear(fd, top)
            os.rmdir(child, dir_fd=top)
    os.rmdir(name, dir_fd=directory.fd)


@contextmanager
def _open(parent: int, name: str) -> Iterator[int]:
    fd = os.open(name, LISTING, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def _clear(fd: int, top: int) -> list[str]:
    """Unlink what is in an open directory and give its directories, which have moved up to ``top``.

    Moving them keeps two directories open at any depth, and no path longer than a name.
    """
    found = []
    with os.scandir(fd) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in listed:
        if not is_directory:
            os.unlink(name, dir_fd=fd)
            continue
        moved = name
        if fd != top:
            moved = f".{os.urandom(8).hex()}"
            os.rename(name, moved, src_dir_fd=fd, dst_dir_fd=top)
        found.append(moved)
    return found


def _refuse_mounted(path: str) -> None:
    """Look the mount points up (proc_pid_mountinfo(5): the fifth field, blanks and backslashes in octal)."""
    spelt = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in path)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - as elsewhere
        lines = file.read().splitlines()
    for line in lines:
        mounted = line.split(" ", 5)[4]
        if mounted == spelt or mounted.startswith(f"{spelt}/"):
            raise OSError(errno.EBUSY, "something is mounted there", path)
