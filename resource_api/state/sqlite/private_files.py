"""Files that only their owner can read, replaced atomically and durably.

Every function raises ``OSError``. What the files contain must not enter here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create(path: str) -> int:
    """Create an empty file with mode 0600, whatever the umask; return its descriptor. A leftover file is removed."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, _FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def replace(path: str, data: bytes) -> None:
    """Replace the content of a file durably; after an error the former content is still there."""
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
