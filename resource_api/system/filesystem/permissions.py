"""Owner, mode, ACL and extended attributes of an open file, changed so that nobody gains a right in between.

Everything is done on a descriptor. Which rights a file should have is decided elsewhere.
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from typing import Final

from resource_api.model.values._namedtuple import NamedTuple

#: A new file's and a new directory's mode, whatever the umask is.
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o755

ACL: Final = "system.posix_acl_access"
#: They vouch for the very content of a file, and would lie with another.
_OF_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})
#: One entry of an ACL (acl(5), linux/posix_acl_xattr.h): tag, permissions, whose. A header of four bytes comes first.
_ENTRY: Final = struct.Struct("<HHI")
_HEADER: Final = 4
_USER, _MASK, _OTHER = 0x01, 0x10, 0x20


class Rights(NamedTuple):
    """Mode, owner and group to be; None keeps what is."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None

    @property
    def ids(self) -> tuple[int, int]:
        """Owner and group as chown(2) takes them."""
        return -1 if self.uid is None else self.uid, -1 if self.gid is None else self.gid


def change(fd: int, now: os.stat_result, wanted: Rights) -> None:
    """Give an open file or directory, seen as ``now``, other rights.

    A new owner is let in only to what the old mode and the new one both allow; then the mode is set.
    """
    old = stat.S_IMODE(now.st_mode)
    mode = old if wanted.mode is None else wanted.mode
    moves = wanted.uid not in {None, now.st_uid} or wanted.gid not in {None, now.st_gid}
    if moves:
        narrow = old & mode & 0o777
        if narrow != old & 0o777:
            os.fchmod(fd, narrow)
        os.fchown(fd, *wanted.ids)
    if wanted.mode is not None and (moves or old != mode):
        os.fchmod(fd, mode)


def dress(fd: int, old: os.stat_result | None, wanted: Rights, directory: int, name: str) -> None:
    """Give a new file, 0600 and the caller's, its rights; what is not wanted it takes from the ``old`` one.

    The old file is called ``name`` in the open ``directory``; its ACL and extended attributes are copied. Set-id bits
    are not: they vouch for the old content. The owner comes first, then the ACL with the new mode within, since a mode
    before it would give the group what the ACL keeps from it.
    """
    mode, uid, gid = wanted
    if old is not None:
        mode = old.st_mode & 0o1777 if mode is None else mode
        uid = old.st_uid if uid is None else uid
        gid = old.st_gid if gid is None else gid
    mode = FILE_MODE if mode is None else mode
    if uid is not None or gid is not None:
        now = os.fstat(fd)
        if uid not in {None, now.st_uid} or gid not in {None, now.st_gid}:
            os.fchown(fd, *Rights(None, uid, gid).ids)
    if old is not None:
        _copy_attributes(f"/proc/self/fd/{directory}/{name}", fd, mode)
    os.fchmod(fd, mode)


def _copy_attributes(where: str, fd: int, mode: int) -> None:
    names = _attributes(where)
    if ACL not in names and ACL in _attributes(fd):  # the directory's default, which the old file does not have
        os.removexattr(fd, ACL)
    for name in names:
        if name not in _OF_CONTENT:
            value = os.getxattr(where, name, follow_symlinks=False)
            os.setxattr(fd, name, _masked(value, mode) if name == ACL else value)


def _attributes(file: str | int) -> list[str]:
    """Give the names of the extended attributes; none where the filesystem has none."""
    with suppress(OSError):
        return os.listxattr(file) if isinstance(file, int) else os.listxattr(file, follow_symlinks=False)
    return []


def _masked(acl: bytes, mode: int) -> bytes:
    """Give the ACL that allows what ``mode`` does: chmod(2) of a file with an ACL, before anybody is let in."""
    bits = {_USER: mode >> 6 & 7, _MASK: mode >> 3 & 7, _OTHER: mode & 7}
    entries = [_ENTRY.pack(tag, bits.get(tag, allowed), who) for tag, allowed, who in _ENTRY.iter_unpack(acl[_HEADER:])]
    return acl[:_HEADER] + b"".join(entries)
