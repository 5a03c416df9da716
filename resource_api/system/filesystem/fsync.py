"""What has been changed but is not on disk yet, and the cheapest way to get it there.

A few changes are made durable one by one, many by flushing their filesystem once: with ten thousand files that is
the difference between one and ten thousand waits. A flush that fails is never tried again nor passed over.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import LISTING

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directories, Directory

#: So many changes are made durable one by one.
FEW: Final = 8


class Durability:
    """Notes changes and makes them durable; every method raises ``OSError`` when the disk does not take them."""

    def __init__(self, held: Directories) -> None:
        """Note nothing yet; directories are reached through ``held``."""
        self._held = held
        self._files = 0
        #: Filesystems where a file is not durable yet, each with a directory of it that has been open since.
        self._loose: dict[int, int] = {}
        #: Directories with changed names, by path.
        self._directories: dict[str, None] = {}

    def file(self, fd: int, directory: Directory) -> None:
        """Make an open file in ``directory`` durable: now, or when it is one of many, with ``files``."""
        self._files += 1
        if self._files <= FEW:
            os.fsync(fd)
        elif directory.device not in self._loose:
            self._loose[directory.device] = os.open(".", LISTING, dir_fd=directory.fd)

    def names(self, path: str) -> None:
        """Note that a name in the directory at ``path`` has changed."""
        self._directories[path] = None

    def flush_files(self) -> None:
        """Make every file durable that is not."""
        loose, self._loose, self._files = self._loose, {}, 0
        try:
            for fd in loose.values():
                _syncfs(fd)
        finally:
            for fd in loose.values():
                os.close(fd)

    def flush_names(self) -> None:
        """Make names durable: each directory once, or its filesystem when there are many."""
        changed, self._directories = self._directories, {}
        flushed: set[int] = set()
        for path in changed:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed since
                directory = self._held.reach(path)
                if directory.device in flushed:
                    continue
                fd = os.open(".", LISTING, dir_fd=directory.fd)
                try:
                    if len(changed) > FEW:
                        _syncfs(fd)
                        flushed.add(directory.device)
                    else:
                        os.fsync(fd)
                finally:
                    os.close(fd)


def _syncfs(fd: int) -> None:
    """Call syncfs(2), which reports what could not be written since ``fd`` was opened (Linux 5.8)."""
    import ctypes  # noqa: PLC0415 - only for many files at once

    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
