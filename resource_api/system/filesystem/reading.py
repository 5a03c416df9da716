"""Read files, their status, attributes and digests: no link of another user is followed, and no FIFO blocks."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, BinaryIO, Final

from resource_api.model.values.text import show_size
from resource_api.system.filesystem.directories import Directories, opened
from resource_api.system.filesystem.permissions import PATH_FLAGS, read_attributes

try:
    from _sha256 import sha256 as _sha256  # the source of hashlib's: Python 3.11
except ImportError:  # pragma: no cover - depends on the version
    try:
        from _sha2 import sha256 as _sha256  # from Python 3.12 on
    except ImportError:
        from hashlib import sha256 as _sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO, RawIOBase

    from resource_api.system.filesystem.directories import Directory

#: Flags to open a file for reading without following a link or blocking on a FIFO.
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Bytes of one part of a content that is not held in memory as a whole.
_PART: Final = 1 << 18
#: Size from which OpenSSL, which is six times as fast, is worth its loading, 3 ms.
_LARGE: Final = 1 << 16


def stat_and_read(directories: Directories, path: str, limit: int) -> tuple[os.stat_result, bytes | None]:
    """Return the status of the file at the absolute ``path``, and its content if it is regular.

    The content is None unless it is a regular file of at most ``limit`` bytes. A link at the end of the path is not
    followed; a FIFO or a device is not opened. Raise ``OSError``.
    """
    parent, _, name = path.rpartition("/")
    fd = directories.reach(parent).fd
    status = os.lstat(name or ".", dir_fd=fd)
    size = status.st_size
    if size > limit or not stat.S_ISREG(status.st_mode):
        return status, None
    file = os.open(name, READ_FLAGS, dir_fd=fd)
    try:
        content: bytes | None = os.read(file, size + 1)
        # Its status has another size while it is written, and 0 for a file of proc(5): then read to the end.
        if content is not None and len(content) != size:
            content = _whole(file, limit)
    finally:
        os.close(file)
    return status, content


def stat_attributes(directories: Directories, path: str) -> tuple[os.stat_result, dict[str, bytes]]:
    """Return status and extended attributes of a file of any kind. Raise ``OSError``: ELOOP for a link at the end."""
    directory, name = directories.place(path)
    with opened_for_attributes(directory, name, path) as fd:
        return os.fstat(fd), read_attributes(fd)


def read(path: str, limit: int) -> bytes:
    """Return the content of a regular file, without following a link of another user or waiting for a FIFO.

    Raise ``OSError`` with the path: EFBIG above ``limit`` bytes, EINVAL for no regular file.
    """
    try:
        with Directories() as directories:
            status, content = stat_and_read(directories, path, limit)
    except OSError as error:
        if not os.path.isabs(error.filename or ""):  # the name in an open directory
            error.filename = path
        raise
    if content is None:
        raise not_read(status, path, limit)
    return content


def not_read(status: os.stat_result, path: str, limit: int) -> OSError:
    """Return the error for a file without content: EFBIG above ``limit`` bytes, EINVAL unless it is regular."""
    if not stat.S_ISREG(status.st_mode):
        return OSError(errno.EINVAL, "not a regular file", path)
    return OSError(errno.EFBIG, f"larger than {show_size(limit)}", path)


def open_source(path: str) -> FileIO:
    """Open a regular file for reading. Links are followed unless another user could have put them there.

    The stream is unbuffered. Raise ``OSError``: ELOOP for such a link, EINVAL unless the file is regular.
    """
    try:
        with Directories() as directories:
            directory, name = directories.follow(path)
            file = os.open(name, READ_FLAGS, dir_fd=directory.fd)
    except OSError as error:
        error.filename = path
        raise
    return regular(file, path)


def regular(file: int, path: str) -> FileIO:
    """Return an unbuffered stream of an open regular file. Raise ``OSError`` for another kind, which may be endless."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(file, "rb", buffering=0)


def _whole(file: int, limit: int) -> bytes | None:
    """Return the whole content of an open file whose status has a wrong size, or None above ``limit`` bytes."""
    with os.fdopen(file, "rb", closefd=False) as stream:
        stream.seek(0)
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None


@contextmanager
def opened_for_attributes(directory: Directory, name: str, path: str) -> Iterator[int]:
    """Yield a descriptor of a file of any kind that allows only to read status and attributes.

    Opening a device or FIFO otherwise could act on it or block. Raise ``OSError``: ELOOP for a link.
    """
    with opened(name, PATH_FLAGS, directory.fd) as fd:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link has no such attributes", path)
        yield fd


def parts(opener: Callable[[], BinaryIO | RawIOBase]) -> Iterator[bytes]:
    """Open a stream when its first part is needed, yield its content in parts of 256 KiB, and close it."""
    with opener() as stream:
        yield from parts_of(stream)


def parts_of(stream: BinaryIO | RawIOBase) -> Iterator[bytes]:
    """Yield the content of an open stream in parts of 256 KiB; of a file that grows all the time there is no end."""
    while part := stream.read(_PART):
        yield part


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal digits."""
    return sha256_of((content,)) if len(content) >= _LARGE else str(_sha256(content).hexdigest())


def sha256_of(parts: Iterable[bytes], largest: float = inf) -> str:
    """Return the SHA-256, in hexadecimal digits, of a content in parts; "" as soon as it exceeds ``largest`` bytes."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    for part in parts:
        digest.update(part)
        size += len(part)
        if size > largest:
            return ""
    return digest.hexdigest()
