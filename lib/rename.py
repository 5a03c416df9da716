"""Rename and move, durably, and not misled by other users who can write to a directory on the path."""

from __future__ import annotations

import os

from resource_api import files


def rename(path: str, name: str) -> None:
    """Rename a file or directory in its own directory; an empty one at ``name`` is replaced. Raise ``OSError``."""
    move(path, f"{path.rpartition('/')[0]}/{name}")


def move(path: str, new: str) -> None:
    """Move the file or directory at ``path`` to another path of the same filesystem, durably.

    Directories on both paths are reached by descriptor, so that no other user can exchange one, and are flushed:
    otherwise a loss of power could bring the former name back. Raise ``OSError``.
    """
    with files.Directories() as sources, files.Directories() as targets:
        (parent, old), (directory, name) = sources.place(path), targets.place(new)
        os.rename(old, name, src_dir_fd=parent.fd, dst_dir_fd=directory.fd)
        for directory_fd in {parent.fd, directory.fd}:
            fd = os.open(".", os.O_RDONLY, dir_fd=directory_fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
