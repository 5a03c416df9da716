"""Make changed files and directories durable at the lowest cost.

A few changes are flushed one by one (fsync), many by flushing their filesystem once (syncfs): for ten thousand files
that is one wait instead of ten thousand. A flush that fails is neither retried nor ignored: the kernel reports an
error only once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system import c_library
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, opened

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directories, Directory

#: Up to this number, changes are flushed one by one.
FEW: Final = 8


class PendingFlush:
    """Changes that are not on disk yet. Every method raises ``OSError`` if the disk cannot store them."""

    def __init__(self, directories: Directories) -> None:
        """Start without changes; ``directories`` opens the directories to flush."""
        self._directories = directories
        self._files = 0
        #: Filesystems with unflushed files, each with a directory on it that was opened before the change.
        self._filesystems: dict[int, int] = {}
        #: Paths of directories with changed entries.
        self._changed: dict[str, None] = {}

    def file(self, fd: int, directory: Directory) -> None:
        """Flush an open file in ``directory`` now, or one of many files in ``flush_files``."""
        self._files += 1
        if self._files <= FEW:
            os.fsync(fd)
        elif directory.device not in self._filesystems:
            self._filesystems[directory.device] = os.open(".", DIRECTORY_FLAGS, dir_fd=directory.fd)

    def entries(self, path: str) -> None:
        """Record a change of an entry of the directory at ``path``."""
        self._changed[path] = None

    def flush_files(self) -> None:
        """Flush all files that are not durable yet."""
        filesystems, self._filesystems, self._files = self._filesystems, {}, 0
        try:
            for fd in filesystems.values():
                _syncfs(fd)
        finally:
            for fd in filesystems.values():
                os.close(fd)

    def flush_directories(self) -> None:
        """Flush each changed directory once, or its filesystem when there are many."""
        changed, self._changed = self._changed, {}
        flushed: set[int] = set()
        for path in changed:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
                directory = self._directories.reach(path)
                if directory.device in flushed:
                    continue
                with opened(".", DIRECTORY_FLAGS, directory.fd) as fd:
                    if len(changed) > FEW:
                        _syncfs(fd)
                        flushed.add(directory.device)
                    else:
                        os.fsync(fd)


def _syncfs(fd: int) -> None:
    """Call syncfs(2), which reports write errors since ``fd`` was opened (Linux 5.8)."""
    c_library.call("syncfs", fd)
