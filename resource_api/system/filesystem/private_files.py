"""Read and replace, atomically and durably, files that only their owner can read. Every function raises ``OSError``."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def create(path: str) -> int:
    """Create an empty file with mode 0600, whatever the umask; return its descriptor. A leftover file is removed."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, _FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def replace(path: str, data: bytes) -> None:
    """Replace the content of a file durably; after an error it has the former content."""
    new = f"{path}.new"
    try:
        with os.fdopen(create(new), "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
    rename(new, path)


def rename(old: str, new: str) -> None:
    """Rename a file durably within one directory."""
    os.rename(old, new)
    fd = os.open(os.path.dirname(new) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_private_directory(path: str) -> bool:
    """Return whether a directory belongs to the caller and is closed to other users."""
    return _is_private(os.lstat(path), stat.S_IFDIR)


def read(path: str) -> bytes | None:
    """Return the content of a file, or None if another user could have written it."""
    with os.fdopen(os.open(path, _READ), "rb") as file:
        return file.read() if _is_private(os.fstat(file.fileno()), stat.S_IFREG) else None


def _is_private(status: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS
