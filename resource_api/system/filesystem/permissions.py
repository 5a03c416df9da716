"""Change owner, mode, ACL and extended attributes of an open file without granting extra access on the way.

At no instant has a user a right that neither the old nor the new permissions grant. All operations use a descriptor.
Which permissions a file should have must not be decided here.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.filesystem.directories import ROOT, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Modes of new files and directories, independent of the umask.
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o755

#: Flags to open a file of any kind for nothing but its status and attributes.
PATH_FLAGS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
ACL: Final = "system.posix_acl_access"
#: Extended attributes that certify the content of a file, and must not be copied to new content.
_CERTIFYING: Final = frozenset({"security.capability", "security.ima", "security.evm"})
#: Attributes that grant access or rights, and that the owner of a file may have set.
_CLEARED: Final = frozenset({ACL, "system.posix_acl_default", "security.capability"})
#: An ACL entry (acl(5), linux/posix_acl_xattr.h): tag, permissions, id; after a header of four bytes.
_ENTRY: Final = struct.Struct("<HHI")
_HEADER: Final = 4
_USER, _GROUP, _MASK, _OTHER = 0x01, 0x04, 0x10, 0x20


class Permissions(NamedTuple):
    """Wanted mode, owner and group; None keeps the present one."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None

    @property
    def ids(self) -> tuple[int, int]:
        """Owner and group as arguments of chown(2)."""
        return -1 if self.uid is None else self.uid, -1 if self.gid is None else self.gid

    def end_attributes(self, owner: int) -> bool:
        """Return whether ACL and extended attributes of a file of ``owner`` end with it.

        They do where another user has set them, or where owner and mode are declared to be all rights.
        """
        return self.uid is not None and (self.mode is not None or self.uid != owner)


def gives_away(wanted: Permissions, now: os.stat_result) -> bool:
    """Return whether a file of root or the caller gets another owner or group or more rights, or another's a new owner.

    That must not be done where another user may have put the file: it may be any file that he can move, not read. Nor
    may his content be executed with the rights of root, by a set-id bit on a file that is taken over.
    """
    own = {*ROOT, os.geteuid()}
    if now.st_uid not in own:
        set_id = stat.S_ISREG(now.st_mode) and bool((wanted.mode or 0) & 0o6000)
        return wanted.uid not in {None, now.st_uid} and (set_id or wanted.uid not in own)
    wider = wanted.mode is not None and wanted.mode & ~now.st_mode & 0o7777
    return bool(wider) or wanted.uid not in {None, *own} or wanted.gid not in {None, now.st_gid}


def _is_taken_over(wanted: Permissions, now: os.stat_result) -> bool:
    """Return whether the owner changes from another user, who has chosen the group and the mode."""
    return wanted.uid is not None and now.st_uid not in {*ROOT, os.geteuid(), wanted.uid}


def _without_planted_rights(wanted: Permissions, now: os.stat_result) -> tuple[Permissions, int]:
    """Return what is wanted and the mode to begin with; a former owner's group and rights for others are not kept."""
    mode = stat.S_IMODE(now.st_mode)
    if not _is_taken_over(wanted, now):
        return wanted, mode
    return wanted._replace(gid=os.getegid() if wanted.gid is None else wanted.gid), mode & 0o755


def directory_mode(mode: int) -> int:
    """Return the mode of a directory for the mode of its files: who may read it may also search it, as in Puppet."""
    return mode | (mode & 0o444) >> 2


def change_permissions(fd: int, now: os.stat_result, wanted: Permissions, *, clear: bool) -> None:
    """Change the permissions of an open file or directory whose status is ``now``.

    The owner changes while the mode is the intersection of the old and the new one; then the mode is set. ``clear``
    removes ACLs and what users have attached: after the change of owner, as the old owner could attach it again.
    """
    wanted, kept = _without_planted_rights(wanted, now)
    old = stat.S_IMODE(now.st_mode)
    mode = kept if wanted.mode is None else wanted.mode
    new_owner = wanted.uid not in {None, now.st_uid} or wanted.gid not in {None, now.st_gid}
    shared = clear and ACL in attributes(fd)
    if shared and wanted.mode is None:
        mode = _mode_without_acl(mode, os.getxattr(fd, ACL))
        mode &= 0o7777 if stat.S_ISDIR(now.st_mode) else 0o1777
    # With an ACL, the group's bits of the mode are what the ACL grants at most; without it they are the group's.
    narrow = old & mode & (0o707 if shared else 0o777)
    if (new_owner or shared) and narrow != old & 0o777:
        os.fchmod(fd, narrow)
    if new_owner:
        os.fchown(fd, *wanted.ids)
    if clear:
        _clear_attributes(fd)
    if shared or old != mode or (wanted.mode is not None and new_owner):
        os.fchmod(fd, mode)


def change_link_owner(directory: int, name: str, wanted: Permissions) -> None:
    """Change owner and group of the symbolic link ``name`` in the open ``directory``.

    Raise ``OSError``: EAGAIN when another kind of file has replaced it, which must not get a new owner.
    """
    with opened(name, PATH_FLAGS, directory) as fd:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            raise _replaced(name)
        os.chown(f"/proc/self/fd/{fd}", *wanted.ids)  # leads to the open link itself, and not further


def set_directory_permissions(fd: int, wanted: Permissions, parent: int) -> None:
    """Set the permissions of a new directory that will be in the open directory ``parent``."""
    created = os.fstat(fd)
    mode = DIRECTORY_MODE | created.st_mode & stat.S_ISGID if wanted.mode is None else wanted.mode
    wanted = wanted._replace(mode=mode, gid=_inherited_group(wanted, parent))
    change_permissions(fd, created, wanted, clear=not _may_inherit(fd, wanted, parent))


def set_new_permissions(fd: int, old: os.stat_result | None, wanted: Permissions, directory: int, name: str) -> None:
    """Set the permissions of a new file (mode 0600) that will replace the ``old`` one, if there is one.

    The old file is ``name`` in the open ``directory``. What ``wanted`` leaves open is copied from it, also its ACL and
    extended attributes unless they end, but not set-id bits: they were granted to the old content. The order is owner,
    ACL (with the new mode in it), mode: a mode before the ACL would give the group permissions that the ACL denies.
    Raise ``OSError``: EAGAIN when the old file is replaced meanwhile.
    """
    if old is None:
        _set_owner(fd, Permissions(None, wanted.uid, _inherited_group(wanted, directory)))
        if not _may_inherit(fd, wanted, directory):
            _clear_attributes(fd)
        os.fchmod(fd, FILE_MODE if wanted.mode is None else wanted.mode)
        return
    ended = wanted.end_attributes(old.st_uid)
    (mode, uid, gid), kept = _without_planted_rights(wanted, old)
    with _opened_checked(directory, name, old) as source:
        place = f"/proc/self/fd/{source}"
        names = attributes(place)
        if mode is None:
            mode = kept & 0o1777
            mode = _mode_without_acl(mode, os.getxattr(place, ACL)) if ended and ACL in names else mode
        _set_owner(fd, Permissions(None, old.st_uid if uid is None else uid, old.st_gid if gid is None else gid))
        if ended or ACL not in names:  # one from the default ACL of the directory
            _clear_attributes(fd)
        if not ended:
            _copy_attributes(place, names, fd, mode)
    os.fchmod(fd, mode)


def _set_owner(fd: int, wanted: Permissions) -> None:
    if wanted.ids != (-1, -1):
        now = os.fstat(fd)
        if wanted.uid not in {None, now.st_uid} or wanted.gid not in {None, now.st_gid}:
            os.fchown(fd, *wanted.ids)


def _inherited_group(wanted: Permissions, parent: int) -> int | None:
    """Return the declared group; None for what the system gives, unless another user's directory would decide it."""
    if wanted.gid is None and wanted.uid is not None and _is_taken_over(wanted, os.fstat(parent)):
        return os.getegid()
    return wanted.gid


def _may_inherit(fd: int, wanted: Permissions, parent: int) -> bool:
    """Return whether a new file may keep the ACL that it has from the default ACL of the open directory ``parent``.

    It may not where all rights are given, nor from a directory of another user.
    """
    if wanted.uid is not None and wanted.mode is not None:
        return False
    return ACL not in attributes(fd) or os.fstat(parent).st_uid in {*ROOT, os.geteuid(), wanted.uid}


@contextmanager
def _opened_checked(directory: int, name: str, expected: os.stat_result) -> Iterator[int]:
    """Yield a descriptor for the attributes of the file that has been checked. Raise ``OSError``."""
    with opened(name, PATH_FLAGS, directory) as fd:
        if not os.path.samestat(os.fstat(fd), expected):
            raise _replaced(name)
        yield fd


def _replaced(name: str) -> OSError:
    return OSError(errno.EAGAIN, "it has been replaced meanwhile", name)


def _copy_attributes(source: str, names: Sequence[str], fd: int, mode: int) -> None:
    for name in names:
        if name not in _CERTIFYING:
            value = os.getxattr(source, name)
            os.setxattr(fd, name, _acl_with_mode(value, mode) if name == ACL else value)


def _clear_attributes(fd: int) -> None:
    """Remove ACLs, what users have attached, and file capabilities; labels of the system stay."""
    for name in attributes(fd):
        if name in _CLEARED or name.startswith("user."):
            os.removexattr(fd, name)


def attributes(file: str | int) -> list[str]:
    """Return the names of the extended attributes; empty where the filesystem supports none."""
    try:
        return os.listxattr(file)
    except OSError:
        return []


def read_attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of a file by name, also of one that was opened for its path alone."""
    place = f"/proc/self/fd/{fd}"
    return {name: os.getxattr(place, name) for name in attributes(place)}


def write_attributes(fd: int, values: Mapping[str, bytes | None]) -> None:
    """Set extended attributes, and remove those that are None. Raise ``OSError``, ENOTSUP where there are none."""
    place = f"/proc/self/fd/{fd}"
    present = attributes(place)
    for name, value in values.items():
        if value is not None:
            os.setxattr(place, name, value)
        elif name in present:
            os.removexattr(place, name)


def _mode_without_acl(mode: int, acl: bytes) -> int:
    """Return the mode that grants the owner, the group and others what the ACL does, and no more."""
    group = next((bits for tag, bits, _ in _ENTRY.iter_unpack(acl[_HEADER:]) if tag == _GROUP), 0)
    return mode & ~0o070 | (mode >> 3 & 7 & group) << 3


def _acl_with_mode(acl: bytes, mode: int) -> bytes:
    """Return ``acl`` changed as chmod(2) with ``mode`` would change it."""
    bits = {_USER: mode >> 6 & 7, _MASK: mode >> 3 & 7, _OTHER: mode & 7}
    entries = _ENTRY.iter_unpack(acl[_HEADER:])
    return acl[:_HEADER] + b"".join(_ENTRY.pack(tag, bits.get(tag, old), id_) for tag, old, id_ in entries)
