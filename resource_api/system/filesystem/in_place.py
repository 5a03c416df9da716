"""Overwrite files whose paths cannot be replaced: mount points, and files in directories without write access.

A container has such files: /etc/hosts, /etc/resolv.conf, /etc/hostname. Overwriting is not atomic, so it is done only
where replacing is impossible, under a lock of the file, and never where other users could put another file there.
Linux only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import opened
from resource_api.system.filesystem.mount_points import mount_points
from resource_api.system.filesystem.permissions import change_permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from resource_api.system.filesystem.directories import Directory
    from resource_api.system.filesystem.permissions import Permissions

    #: The whole content of a file, or its parts in order.
    Content = bytes | Iterable[bytes]

#: Errors of creating a file in a directory that cannot be written to.
UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: How long the lock is waited for, in seconds; who holds it in earnest needs milliseconds.
_PATIENCE: Final = 15


def why_not_replaced(paths: Iterable[str], *, follow: bool = False) -> dict[str, str]:
    """Return why a file is overwritten in place, by path, of those ``paths`` for which it is.

    ``follow``: a link at the end of a path is followed, as ``edit`` does.
    """
    places = {path: os.path.realpath(path) if follow else path for path in paths}
    mounted = mount_points() if places else frozenset()
    found = {}
    for path, place in places.items():
        if not os.path.isfile(place) or os.path.islink(place):
            continue
        parent = os.path.dirname(place)
        if place in mounted or os.path.realpath(place) in mounted:
            found[path] = f"'{path}' is a mount point"
        elif not os.access(parent, os.W_OK) and os.access(place, os.W_OK):
            found[path] = f"'{path}' can be written to, and its directory cannot"
    return found


def can_overwrite(directory: Directory, name: str, old: os.stat_result | None) -> bool:
    """Return whether the ``old`` regular file ``name`` may be overwritten: not where others could swap it."""
    if old is None or not directory.trusted:
        return False
    with suppress(OSError), opened(name, _FLAGS, directory.fd):
        return True
    return False


def overwrite(directory: Directory, name: str, old: os.stat_result, content: bytes, wanted: Permissions) -> None:
    """Give the ``old`` file ``name`` new permissions, then in one write a new content; it is durable on return.

    Raise ``OSError``, with the old content restored: EAGAIN when the file is not as ``old`` any more, EPERM where
    others could swap it or it has other hard links, EBUSY when another process keeps the lock.
    """
    if not directory.trusted:
        why = "it cannot be replaced, and other users can write to a directory on its path, so it is not overwritten"
        raise PermissionError(errno.EPERM, why, name)
    with opened(name, _FLAGS, directory.fd) as fd, _locked(fd):
        now = os.fstat(fd)
        if _version(now) != _version(old):
            raise BlockingIOError(errno.EAGAIN, "it has been changed meanwhile", name)
        if now.st_nlink > 1:
            why = "it cannot be replaced, and has other hard links, whose content would change too"
            raise PermissionError(errno.EPERM, why, name)
        if wanted.mode is None and now.st_mode & 0o6000:  # granted to the old content
            wanted = wanted._replace(mode=stat.S_IMODE(now.st_mode) & 0o1777)
        before = os.pread(fd, now.st_size, 0)
        change_permissions(fd, now, wanted, clear=wanted.end_attributes(now.st_uid))
        try:
            # A kill between the two calls leaves blank lines at the end, and nothing of the old content.
            _write(fd, content.ljust(len(before), b"\n"))
            os.ftruncate(fd, len(content))
            os.fsync(fd)
        except OSError:
            _write(fd, before)
            os.ftruncate(fd, len(before))
            raise


def checked(content: Content, check: Callable[[str], object] | None) -> bytes:
    """Return a whole content, after ``check`` was called with a path at which programs of the same user can read it."""
    whole = content if isinstance(content, bytes) else b"".join(content)
    if check is not None:
        with os.fdopen(os.memfd_create("new content"), "wb", buffering=0) as file:
            os.fchmod(file.fileno(), 0o600)
            _write(file.fileno(), whole)
            check(f"/proc/{os.getpid()}/fd/{file.fileno()}")
    return whole


def _write(fd: int, content: bytes) -> None:
    """Write all of ``content`` at the beginning of a file."""
    done = 0
    while done < len(content):
        done += os.pwrite(fd, memoryview(content)[done:], done)


@contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Hold the lock of an open file, which excludes other runs. Raise ``OSError`` (EBUSY)."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "another process keeps it locked") from None
            time.sleep(0.02)
    yield  # closing the file ends the lock


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
