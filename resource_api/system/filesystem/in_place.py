"""Overwrite files whose paths cannot be replaced: mount points, and files in directories without write access.

A container has such files: /etc/hosts, /etc/resolv.conf, /etc/hostname. Overwriting is not atomic, so it is done only
where replacing is impossible, under a lock of the file, and never where other users could put another file there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import in_memory, opened, write_all
from resource_api.system.filesystem.permissions import change_permissions
from resource_api.system.filesystem.trees import mount_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from resource_api.system.filesystem.directories import Directory
    from resource_api.system.filesystem.permissions import Permissions

    #: The whole content of a file, or its parts in order.
    Content = bytes | Iterable[bytes]

#: Errors of creating a file in a directory that cannot be written to.
UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: ``FS_IOC_GETFLAGS``, and the attributes ``i`` and ``a`` (ioctl_iflags(2)).
_GET_ATTRIBUTES: Final = 0x80086601
_LOCKING: Final = 0x30
#: Seconds to wait for a lock, as lckpwdf(3) does; other processes hold it for milliseconds.
_LOCK_SECONDS: Final = 15


def why_not_replaced(paths: Iterable[str], *, follow: bool = False) -> dict[str, str]:
    """Return path → reason for those of ``paths`` whose file cannot be replaced by renaming, to be shown in plans.

    These are mount points, and writable files in a directory without write access. They are overwritten in place,
    which is not atomic. ``follow``: a link at the end of a path is followed, as ``edit`` does. Raise ``OSError``.
    """
    targets = {path: os.path.realpath(path) if follow else path for path in paths}
    mounted = mount_points() if targets else frozenset()
    reasons = {}
    for path, target in targets.items():
        if not os.path.isfile(target) or os.path.islink(target):
            continue
        if target in mounted or os.path.realpath(target) in mounted:
            reasons[path] = f"'{path}' is a mount point"
        elif os.access(target, os.W_OK):
            directory = os.path.dirname(target)
            if not os.access(directory, os.W_OK) or _is_locked(directory):
                reasons[path] = f"'{path}' can be written to, and its directory cannot"
    return reasons


def locked_path(path: str, *, removed: bool = False) -> str:
    """Return the path that chattr(1) has locked against a change of ``path``, for an explanation, or an empty text.

    It is ``path`` itself or its directory. A locked directory forbids to create and remove files, so it is a cause only
    if ``path`` does not exist or is to be ``removed``, which a replacement does too.
    """
    if _is_locked(path):
        return path
    directory = os.path.dirname(path)
    return directory if (removed or not os.path.lexists(path)) and _is_locked(directory) else ""


def _is_locked(path: str) -> bool:
    """Return whether chattr(1) has made a file or directory immutable or append-only; False if unreadable."""
    attributes = bytearray(struct.calcsize("l"))
    with suppress(OSError), opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC) as fd:
        fcntl.ioctl(fd, _GET_ATTRIBUTES, attributes)
    return bool(attributes[0] & _LOCKING)


def can_overwrite(directory: Directory, name: str, old: os.stat_result | None) -> bool:
    """Return whether the ``old`` file ``name`` may be overwritten, where no new file can be created beside it.

    The caller must be able to write to it, and no other user may be able to swap it for another file meanwhile.
    """
    if old is None or not directory.trusted:
        return False
    with suppress(OSError), opened(name, _FLAGS, directory.fd):  # for writing
        return True
    return False


def overwrite(directory: Directory, name: str, old: os.stat_result, content: bytes, should: Permissions) -> None:
    """Give the ``old`` file ``name`` new permissions, then new content in one write; it is durable on return.

    Overwriting is not atomic, so it is done under a lock of the file, and the old content is restored after an error.
    The permissions are first, so that nobody reads the new content by the old ones. Raise ``OSError``: EAGAIN if the
    file was changed since ``old``, EPERM where other users could swap it or it has other hard links, EBUSY if another
    process holds the lock.
    """
    if not directory.trusted:
        reason = "it cannot be replaced, and other users can write to a directory on its path, so it is not overwritten"
        raise PermissionError(errno.EPERM, reason, name)
    with opened(name, _FLAGS, directory.fd) as fd:
        if not lock_soon(fd):
            raise OSError(errno.EBUSY, "another process keeps it locked")
        present = os.fstat(fd)
        if file_version(present) != file_version(old):
            raise BlockingIOError(errno.EAGAIN, "it has been changed meanwhile", name)
        if present.st_nlink > 1:
            reason = "it cannot be replaced, and has other hard links, whose content would change too"
            raise PermissionError(errno.EPERM, reason, name)
        if should.mode is None and present.st_mode & 0o6000:  # granted to the old content
            should = should._replace(mode=stat.S_IMODE(present.st_mode) & 0o1777)
        before = os.pread(fd, present.st_size, 0)
        change_permissions(fd, present, should, clear=should.drop_attributes(present.st_uid))
        try:
            # A kill between the two calls leaves blank lines at the end, and nothing of the old content.
            write_all(fd, content.ljust(len(before), b"\n"))
            os.ftruncate(fd, len(content))
            os.fsync(fd)
        except OSError:
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, before)
            os.ftruncate(fd, len(before))
            raise


def checked_content(content: Content, check: Callable[[str], object] | None) -> bytes:
    """Return a content as bytes, after ``check`` has had the chance to refuse it by raising; None: without a check.

    ``check`` is called with the path of a copy, which is in memory, because no file can be created beside the old one.
    """
    whole = content if isinstance(content, bytes) else b"".join(content)
    if check is not None:
        with in_memory(whole) as copy:
            check(copy)
    return whole


def lock_soon(fd: int, lock: Callable[[int, int], object] = fcntl.flock) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock for 15 seconds.

    ``lock``: the kind of lock that the other programs use, ``fcntl.flock`` or ``fcntl.lockf``, as the two kinds do not
    exclude each other.
    """
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        else:
            return True


def file_version(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers from a status that differ if a file was written or replaced between two statuses."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
