"""Rename within a directory, durably, and not misled by other users who can write to it."""

from __future__ import annotations

import os

from resource_api import files


def rename(path: str, name: str) -> None:
    """Rename what is at ``path`` to ``name`` in its own directory; an empty directory there is replaced.

    Raise ``OSError``.
    """
    with files.Directories() as directories:
        parent, old = directories.place(path)
        os.rename(old, name, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
        fd = os.open(".", os.O_RDONLY, dir_fd=parent.fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
