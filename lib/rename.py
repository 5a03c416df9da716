"""Rename and move, durably, and not misled by other users who can write to a directory on the path."""

from __future__ import annotations

import os

from resource_api import files


def rename(path: str, name: str) -> None:
    """Rename what is at ``path`` to ``name`` in its own directory; an empty directory there is replaced.

    Raise ``OSError``.
    """
    move(path, f"{path.rpartition('/')[0]}/{name}")


def move(path: str, new: str) -> None:
    """Move what is at ``path`` to another path of the same filesystem, durably. Raise ``OSError``."""
    with files.Directories() as one, files.Directories() as other:
        (parent, old), (directory, name) = one.place(path), other.place(new)
        os.rename(old, name, src_dir_fd=parent.fd, dst_dir_fd=directory.fd)
        for each in {parent.fd, directory.fd}:
            fd = os.open(".", os.O_RDONLY, dir_fd=each)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
