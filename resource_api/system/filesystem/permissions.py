"""Change owner, mode, ACL and extended attributes of an open file without granting extra access on the way.

At no instant has a user a right that neither the old nor the new permissions grant. All operations use a descriptor.
Which permissions a file should have must not be decided here.
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from typing import Final

from resource_api.model.values._namedtuple import NamedTuple

#: Modes of new files and directories, independent of the umask.
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o755

ACL: Final = "system.posix_acl_access"
#: Extended attributes that certify the content of a file, and must not be copied to new content.
_CERTIFYING: Final = frozenset({"security.capability", "security.ima", "security.evm"})
#: An ACL entry (acl(5), linux/posix_acl_xattr.h): tag, permissions, id; after a header of four bytes.
_ENTRY: Final = struct.Struct("<HHI")
_HEADER: Final = 4
_USER, _MASK, _OTHER = 0x01, 0x10, 0x20


class Permissions(NamedTuple):
    """Wanted mode, owner and group; None keeps the present one."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None

    @property
    def ids(self) -> tuple[int, int]:
        """Owner and group as arguments of chown(2)."""
        return -1 if self.uid is None else self.uid, -1 if self.gid is None else self.gid


def directory_mode(mode: int) -> int:
    """Return the mode of a directory for the mode of its files: who may read it may also search it, as in Puppet."""
    return mode | (mode & 0o444) >> 2


def change_permissions(fd: int, now: os.stat_result, wanted: Permissions) -> None:
    """Change the permissions of an open file or directory whose status is ``now``.

    The owner changes while the mode is the intersection of the old and the new one; then the mode is set.
    """
    old = stat.S_IMODE(now.st_mode)
    mode = old if wanted.mode is None else wanted.mode
    new_owner = wanted.uid not in {None, now.st_uid} or wanted.gid not in {None, now.st_gid}
    if new_owner:
        narrow = old & mode & 0o777
        if narrow != old & 0o777:
            os.fchmod(fd, narrow)
        os.fchown(fd, *wanted.ids)
    if wanted.mode is not None and (new_owner or old != mode):
        os.fchmod(fd, mode)


def set_new_permissions(fd: int, old: os.stat_result | None, wanted: Permissions, directory: int, name: str) -> None:
    """Set the permissions of a new file (mode 0600) that will replace the ``old`` one, if there is one.

    The old file is ``name`` in the open ``directory``. What ``wanted`` leaves open is copied from it, also its ACL and
    extended attributes, but not set-id bits: they were granted to the old content. The order is owner, ACL (with the
    new mode in it), mode: a mode before the ACL would give the group permissions that the ACL denies.
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
            os.fchown(fd, *Permissions(None, uid, gid).ids)
    if old is not None:
        _copy_attributes(f"/proc/self/fd/{directory}/{name}", fd, mode)
    os.fchmod(fd, mode)


def _copy_attributes(source: str, fd: int, mode: int) -> None:
    names = _attributes(source)
    if ACL not in names and ACL in _attributes(fd):  # from the default ACL of the directory; the old file has none
        os.removexattr(fd, ACL)
    for name in names:
        if name not in _CERTIFYING:
            value = os.getxattr(source, name, follow_symlinks=False)
            os.setxattr(fd, name, _acl_with_mode(value, mode) if name == ACL else value)


def _attributes(file: str | int) -> list[str]:
    """Return the names of the extended attributes; empty where the filesystem supports none."""
    with suppress(OSError):
        return os.listxattr(file) if isinstance(file, int) else os.listxattr(file, follow_symlinks=False)
    return []


def _acl_with_mode(acl: bytes, mode: int) -> bytes:
    """Return ``acl`` changed as chmod(2) with ``mode`` would change it."""
    bits = {_USER: mode >> 6 & 7, _MASK: mode >> 3 & 7, _OTHER: mode & 7}
    entries = _ENTRY.iter_unpack(acl[_HEADER:])
    return acl[:_HEADER] + b"".join(_ENTRY.pack(tag, bits.get(tag, old), id_) for tag, old, id_ in entries)
