"""Change owner, mode, ACL and extended attributes of an open file without granting extra access on the way.

At no instant has a user a right that neither the old nor the new permissions grant. All operations use a descriptor.
Owners are converted between names and numbers by the name service, uncached.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.code_trust import ACL
from resource_api.system.filesystem.directories import ROOT, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Modes of new files and directories, independent of the umask.
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o755

#: Flags to open a file of any kind for nothing but its status and attributes.
PATH_FLAGS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
#: Extended attributes that certify the content of a file, and must not be copied to new content.
_CERTIFYING: Final = frozenset({"security.capability", "security.ima", "security.evm"})
#: Attributes that grant access or rights, and that the owner of a file may have set.
_CLEARED: Final = frozenset({ACL, "system.posix_acl_default", "security.capability"})
#: An ACL entry (acl(5), linux/posix_acl_xattr.h): tag, permissions, id; after a header of four bytes.
_ENTRY: Final = struct.Struct("<HHI")
_HEADER: Final = 4
_USER, _GROUP, _MASK, _OTHER = 0x01, 0x04, 0x10, 0x20


class Permissions(NamedTuple):
    """A mode, owner and group to set; None keeps the present value."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None

    @property
    def ids(self) -> tuple[int, int]:
        """Owner and group as arguments of chown(2)."""
        return -1 if self.uid is None else self.uid, -1 if self.gid is None else self.gid

    def drop_attributes(self, owner: int) -> bool:
        """Return whether a file of ``owner`` loses its ACL and extended attributes when these permissions are set.

        A new owner must not inherit rights that the old one granted by an ACL. Owner and mode together declare the
        whole permissions, which an ACL would extend.
        """
        return self.uid is not None and (self.mode is not None or self.uid != owner)


def gives_away(should: Permissions, status: os.stat_result) -> bool:
    """Return whether to set these permissions is unsafe where another user may have put the file.

    Another user may have moved a file of root or the caller to the path to get access to it: such a file must not get
    another owner or group, or more rights. A file of another user must not be given to a third one, nor get a set-id
    bit with a new owner, as its content would be executed with the new owner's rights.
    """
    trusted = {*ROOT, os.geteuid()}
    if status.st_uid not in trusted:
        set_id = stat.S_ISREG(status.st_mode) and bool((should.mode or 0) & 0o6000)
        return should.uid not in {None, status.st_uid} and (set_id or should.uid not in trusted)
    wider = should.mode is not None and should.mode & ~status.st_mode & 0o7777
    return bool(wider) or should.uid not in {None, *trusted} or should.gid not in {None, status.st_gid}


def _is_taken_over(should: Permissions, status: os.stat_result) -> bool:
    """Return whether the owner changes from an untrusted user, who has chosen the group and the mode."""
    return should.uid is not None and status.st_uid not in {*ROOT, os.geteuid(), should.uid}


def _without_planted_rights(should: Permissions, status: os.stat_result) -> tuple[Permissions, int]:
    """Return the permissions to set and the present mode, without rights that an untrusted former owner has granted.

    When root or the caller takes over another user's file, that user may have chosen its group and mode. An undeclared
    group is therefore the caller's, and the mode loses set-id bits and the write permission of group and others.
    """
    mode = stat.S_IMODE(status.st_mode)
    if not _is_taken_over(should, status):
        return should, mode
    return should._replace(gid=os.getegid() if should.gid is None else should.gid), mode & 0o755


def directory_mode(mode: int) -> int:
    """Return the mode of a directory for the mode of its files: read permission implies search, as in Puppet."""
    return mode | (mode & 0o444) >> 2


def packed_file_mode(mode: int) -> int:
    """Return the mode of an unpacked file: no set-id bits, write permission for the owner only."""
    mode = mode & 0o755 | 0o600
    return mode if mode & 0o100 else mode & 0o666


def packed_directory_mode(mode: int) -> int:
    """Return the mode of an unpacked directory: no set-id bits, all permissions for the owner, no write for others."""
    return mode & 0o755 | 0o700


def change_permissions(fd: int, status: os.stat_result, should: Permissions, *, clear: bool) -> None:
    """Change the permissions of an open file or directory with this ``status``.

    Before a change of owner or the removal of an ACL, the mode gets only the bits that the old and the new mode have in
    common, so that nobody has more rights meanwhile than before or afterwards; the new mode is set last. ``clear``:
    remove ACLs and users' attributes, after the change of owner, because the old owner could set them again before.
    """
    should, initial_mode = _without_planted_rights(should, status)
    old = stat.S_IMODE(status.st_mode)
    mode = initial_mode if should.mode is None else should.mode
    new_owner = should.uid not in {None, status.st_uid} or should.gid not in {None, status.st_gid}
    had_acl = clear and ACL in attributes(fd)
    if had_acl and should.mode is None:
        mode = _mode_without_acl(mode, os.getxattr(fd, ACL))
        mode &= 0o7777 if stat.S_ISDIR(status.st_mode) else 0o1777
    # With an ACL, the group's bits of the mode limit the ACL; without one they are the group's permissions.
    narrow = old & mode & (0o707 if had_acl else 0o777)
    if (new_owner or had_acl) and narrow != old & 0o777:
        os.fchmod(fd, narrow)
    if new_owner:
        os.fchown(fd, *should.ids)
    if clear:
        _clear_attributes(fd)
    if had_acl or old != mode or (should.mode is not None and new_owner):
        os.fchmod(fd, mode)


def change_link_owner(directory: int, name: str, should: Permissions) -> None:
    """Change the owner of a symbolic link. Raise ``OSError``: EAGAIN if another kind of file has replaced it."""
    with opened(name, PATH_FLAGS, directory) as fd:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            raise _replaced(name)
        os.chown(f"/proc/self/fd/{fd}", *should.ids)  # the open link itself, not its target


def set_directory_permissions(fd: int, should: Permissions, parent: int) -> None:
    """Set the permissions of a new directory, whose final place is in the open ``parent``.

    The mode is by default 0755, with the set-group-ID bit that the system has given it.
    """
    created = os.fstat(fd)
    mode = DIRECTORY_MODE | created.st_mode & stat.S_ISGID if should.mode is None else should.mode
    should = should._replace(mode=mode, gid=_inherited_group(should, parent))
    change_permissions(fd, created, should, clear=not _may_inherit(fd, should, parent))


def set_new_permissions(fd: int, old: os.stat_result | None, should: Permissions, directory: int, name: str) -> None:
    """Set the permissions of a new file (mode 0600) that will replace the ``old`` one, if there is one.

    The old file is ``name`` in the open ``directory``. Permissions of None are copied from it, and so are its ACL and
    extended attributes unless ``drop_attributes`` says otherwise. Set-id bits are not copied, as they were granted to
    the old content. The owner is set first, then the ACL with the new mode in it, then the mode: a mode before the ACL
    would give the group permissions that the ACL denies. Raise ``OSError``: EAGAIN if the old file is replaced
    meanwhile.
    """
    if old is None:
        _set_owner(fd, Permissions(None, should.uid, _inherited_group(should, directory)))
        if not _may_inherit(fd, should, directory):
            _clear_attributes(fd)
        os.fchmod(fd, FILE_MODE if should.mode is None else should.mode)
        return
    dropped = should.drop_attributes(old.st_uid)
    (mode, uid, gid), initial_mode = _without_planted_rights(should, old)
    with opened(name, PATH_FLAGS, directory) as source:
        if not os.path.samestat(os.fstat(source), old):
            raise _replaced(name)
        path = f"/proc/self/fd/{source}"
        names = attributes(path)
        if mode is None:
            mode = initial_mode & 0o1777
            mode = _mode_without_acl(mode, os.getxattr(path, ACL)) if dropped and ACL in names else mode
        _set_owner(fd, Permissions(None, old.st_uid if uid is None else uid, old.st_gid if gid is None else gid))
        if dropped or ACL not in names:  # remove the ACL from the default ACL of the directory
            _clear_attributes(fd)
        if not dropped:
            _copy_attributes(path, names, fd, mode)
    os.fchmod(fd, mode)


def _set_owner(fd: int, should: Permissions) -> None:
    """Change owner and group of an open file only if they differ: chown(2) may be forbidden even without a change."""
    if should.ids != (-1, -1):
        status = os.fstat(fd)
        if should.uid not in {None, status.st_uid} or should.gid not in {None, status.st_gid}:
            os.fchown(fd, *should.ids)


def _inherited_group(should: Permissions, parent: int) -> int | None:
    """Return the group to set for a new file or directory in ``parent``, None for the system's default.

    That default is the directory's group if it has set-group-ID. In another user's directory a file with a declared
    owner gets the caller's group instead: that user must not choose who can read it.
    """
    if should.gid is None and should.uid is not None and _is_taken_over(should, os.fstat(parent)):
        return os.getegid()
    return should.gid


def _may_inherit(fd: int, should: Permissions, parent: int) -> bool:
    """Return whether a new file may keep the ACL that it got from the default ACL of the open directory ``parent``.

    Otherwise the caller removes it: if owner and mode are declared, they are all its permissions, and in a directory of
    an untrusted user the ACL would grant access to that user.
    """
    if should.uid is not None and should.mode is not None:
        return False
    if ACL not in attributes(fd):  # it got none
        return True
    return os.fstat(parent).st_uid in {*ROOT, os.geteuid(), should.uid}


def _replaced(name: str) -> OSError:
    return OSError(errno.EAGAIN, "it has been replaced meanwhile", name)


def _copy_attributes(source: str, names: Sequence[str], fd: int, mode: int) -> None:
    """Copy extended attributes from a file to its successor, whose ACL gets the new ``mode``.

    Those that certify the old content are left out.
    """
    for name in names:
        if name not in _CERTIFYING:
            value = os.getxattr(source, name)
            os.setxattr(fd, name, _acl_with_mode(value, mode) if name == ACL else value)


def _clear_attributes(fd: int) -> None:
    """Remove the extended attributes that may grant rights or are a user's: ACLs, file capabilities and ``user.*``.

    Labels of the system stay.
    """
    for name in attributes(fd):
        if name in _CLEARED or name.startswith("user."):
            os.removexattr(fd, name)


def attributes(file: str | int) -> list[str]:
    """Return the names of the extended attributes; none if the filesystem does not support them."""
    try:
        return os.listxattr(file)
    except OSError:
        return []


def read_attributes(fd: int) -> dict[str, bytes]:
    """Return the extended attributes of a file by name; it may be open with O_PATH."""
    path = f"/proc/self/fd/{fd}"  # fgetxattr(2) refuses O_PATH
    return {name: os.getxattr(path, name) for name in attributes(path)}


def write_attributes(fd: int, values: Mapping[str, bytes | None]) -> None:
    """Set extended attributes, and remove those that are None. Raise ``OSError``: ENOTSUP if unsupported."""
    path = f"/proc/self/fd/{fd}"
    present = attributes(path)
    for name, value in values.items():
        if value is not None:
            os.setxattr(path, name, value)
        elif name in present:
            os.removexattr(path, name)


def _mode_without_acl(mode: int, acl: bytes) -> int:
    """Return ``mode`` with the group's permissions limited to those of the ACL."""
    group = next((bits for tag, bits, _ in _ENTRY.iter_unpack(acl[_HEADER:]) if tag == _GROUP), 0)
    return mode & ~0o070 | (mode >> 3 & 7 & group) << 3


def _acl_with_mode(acl: bytes, mode: int) -> bytes:
    """Return the bytes of an ACL with the permissions of ``mode`` in it, as chmod(2) would change them.

    These are those of owner and others, and the mask, which the group bits of the mode mean in a file with an ACL. A
    new file gets this ACL before its mode, which alone would give the group permissions that the ACL denies.
    """
    bits = {_USER: mode >> 6 & 7, _MASK: mode >> 3 & 7, _OTHER: mode & 7}
    entries = _ENTRY.iter_unpack(acl[_HEADER:])
    return acl[:_HEADER] + b"".join(_ENTRY.pack(tag, bits.get(tag, old), id_) for tag, old, id_ in entries)


#: The largest number of an owner, and its digits; the next number is "unchanged" for chown(2).
_LARGEST_NUMBER: Final = 4294967294
_LONGEST_NUMBER: Final = 10


def user_id(owner: str | int) -> int:
    """Return the number of a user given by name or by number. Raise ``ResourceError`` for an unknown name."""
    return _owner_id(owner, "user", lambda name: pwd.getpwnam(name).pw_uid)


def group_id(owner: str | int) -> int:
    """Return the number of a group given by name or by number. Raise ``ResourceError`` for an unknown name."""
    return _owner_id(owner, "group", lambda name: grp.getgrnam(name).gr_gid)


def _owner_id(owner: str | int, kind: str, find: Callable[[str], int]) -> int:
    """Return an owner's number from a number, digits, or a name that ``find`` looks up.

    Raise ``ResourceError`` for an unknown name. ``kind``: its kind in the message, user or group.
    """
    if (number := owner_number(owner)) is not None:
        return number
    try:
        return find(str(owner))
    except (KeyError, ValueError):  # the latter for a character that no name has, such as NUL
        raise ResourceError(f"there is no {kind} '{owner}'") from None


def user_name(uid: int) -> str:
    """Return the name of a user, or the number as text if it has none: the form in which rows show owners."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group, or the number as text if it has none: the form in which rows show groups."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner_number(owner: object) -> int | None:
    """Return the number of an owner that is declared as number or digits, or None for a name, to be looked up.

    Digits of a number that is too large for an owner count as a name.
    """
    if isinstance(owner, str):
        is_short = owner.isascii() and owner.isdecimal() and len(owner) <= _LONGEST_NUMBER
        return number if is_short and (number := int(owner)) <= _LARGEST_NUMBER else None
    return owner if isinstance(owner, int) else None
