"""Read and replace, atomically and durably, files that only their owner can read.

Functions raise ``OSError``; for files that a user names, ``UsageError``.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError
from resource_api.model.values.text import shell_word
from resource_api.system.filesystem import files
from resource_api.system.filesystem.directories import Directories, opened

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Largest size in bytes of a file of keys.
MAX_BYTES: Final = 64 * 1024
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def create(path: str) -> int:
    """Create an empty file with mode 0600, in place of a killed process's leftover; return its descriptor.

    The mode is set again after opening, because an umask may have removed bits of it.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, _FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def replace(path: str, data: bytes) -> None:
    """Replace the content of a private file durably; after an error or a kill it has the former content."""
    new = f"{path}.new"
    try:
        with open(create(new), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
    rename(new, path)


def rename(old: str, new: str) -> None:
    """Rename a file within one directory; the new name is on disk on return."""
    os.rename(old, new)
    with opened(os.path.dirname(new) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as directory:
        os.fsync(directory)


def is_private_directory(path: str) -> bool:
    """Return whether a directory belongs to the caller and is closed to other users."""
    return _is_private(os.lstat(path), stat.S_IFDIR)


def read(path: str) -> bytes | None:
    """Return the content of a file, or None if another user could have written it."""
    with os.fdopen(os.open(path, _READ), "rb") as file:
        return file.read() if _is_private(os.fstat(file.fileno()), stat.S_IFREG) else None


def _is_private(status: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS


def read_private_file(path: str) -> bytes:
    """Return the content of a file that only its owner can read, up to 64 KiB. Raise ``UsageError``.

    It is for keys that a user names: one that others can read is refused, with the remedy. A link on the way is
    followed only if no other user could have created it.
    """
    with errors_as(UsageError, OSError, f"{path}: the key cannot be read: "), Directories() as directories:
        directory, name = directories.follow(os.path.join(os.getcwd(), path))
        with open(os.open(name, _READ | os.O_NONBLOCK, dir_fd=directory.fd), "rb") as file:
            if error := _permission_error(os.fstat(file.fileno()), path):
                raise UsageError(error)
            return file.read(MAX_BYTES)


def create_private_file(path: str, content: bytes) -> None:
    """Create a file of a key with mode 0600. Raise ``UsageError`` when it exists or cannot be written."""
    with errors_as(UsageError, OSError, f"cannot create the key file {path}: "):
        files.write_new(path, content, 0o600)


def _permission_error(status: os.stat_result, path: str) -> str:
    """Return why a key's file is not private, with the remedy, or an empty text."""
    if not stat.S_ISREG(status.st_mode):
        return f"{path}: is not a regular file"
    if status.st_uid not in {0, os.geteuid()}:
        return f"{path}: belongs to another user (uid {status.st_uid}); a key must belong to root or to the caller"
    if status.st_mode & _OTHERS:
        return f"{path}: others can use this key; run: chmod go= {shell_word(path)}"
    return ""


def oldest_first(names: Iterable[str]) -> list[str]:
    """Return names that begin with a time in UTC, such as ``20260102T030405``, the oldest, to be removed, first.

    A time in the future counts as older than all others: it is from before the clock was set back, and would displace
    new files forever.
    """
    present = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return sorted(names, key=lambda name: (name[: len(present)] <= present, name))
