"""Directories with what came from an archive: made so, seen to be so, and taken away without what did not come from it.

A record beside the directory says what came from where. It is on disk before anything is touched, so that no crash
leaves something that nobody knows. Which archive it should be, and who may say so, is not decided here. Linux only.
"""

from __future__ import annotations

import errno
import os
import stat
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import Member
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.archives import DIRECTORY_MODE
from resource_api.system.filesystem.directories import LISTING, Directories
from resource_api.system.filesystem.unpacked import Part, Unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api.model.values.assets import Archive, Limits

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
#: So many names are told; more help nobody.
_TOLD: Final = 20
_FEW: Final = 3


class Wanted(NamedTuple):
    """How an archive is to be unpacked; None: as it is packed, or as it is.

    ``mode`` is that of files; who may read a directory may enter it, and run what its owner may. ``force``: what is
    there already and came from elsewhere makes way.
    """

    limits: Limits
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    force: bool = False


def altered(path: str, known: Unpacked) -> list[str]:
    """Give the names beneath ``path`` that are not as they were unpacked, the first ones. Raises ``OSError``."""
    found: list[str] = []
    with Directories() as held:
        for name, part in known.members.items():
            if not _as_unpacked(held, path, name, part, known):
                found.append(name or ".")
                if len(found) >= _TOLD:
                    break
    return found


def unpack(path: str, archive: Archive, wanted: Wanted, known: Unpacked | None) -> None:
    """Make the directory at ``path`` hold what is in ``archive``, and no longer what came from another one before.

    Nothing is touched when the archive is refused or something else is in the way. What is cut is found by its record.
    Raises ``OSError`` and ``ResourceError``.
    """
    before = known or Unpacked()
    members = {member.name: _part(member, wanted) for member in _members(archive, wanted)}
    with Directories() as held:
        _make_sure(held, path, members, before, force=wanted.force)
        inner = {name for name, part in members.items() if part.kind == "directory"}
        new = {name for name in inner if (seen := _seen(held, path, name)) is None or not stat.S_ISDIR(seen.st_mode)}
    now = Unpacked(archive.sha256, wanted.mode, wanted.uid, wanted.gid, members, before.made | new)
    now._replace(sha256="", members={**before.members, **members}).write(path)
    gone = [name for name in before.members if name not in members]
    with files.Batch() as batch:
        turned = [name for name, part in members.items() if _turned(batch.held, path, name, part)]
        _clear(batch, path, [*turned, *(name for name in gone if _beneath(name, turned))], before.made)
        for member in _members(archive, wanted):
            _put(batch, path, member, now)
        for failed, error in batch.flush():
            error.filename = failed
            raise error
        _clear(batch, path, gone, before.made)
    now._replace(made=now.made & inner).write(path)


def remove(path: str, known: Unpacked) -> None:
    """Remove what came from an archive; directories that hold something else, or were there before, stay."""
    with files.Batch() as batch:
        _clear(batch, path, known.members, known.made)
    Unpacked.forget(path)


def _members(archive: Archive, wanted: Wanted) -> Iterator[Member]:
    """Give the directory itself, then what is in the archive."""
    yield Member("", "directory", DIRECTORY_MODE)
    yield from archive.members(wanted.limits)


def _part(member: Member, wanted: Wanted) -> Part:
    """Look at a member: what it must be like on disk."""
    mode = member.mode
    if wanted.mode is not None and member.kind != "link":
        mode = wanted.mode
        if member.kind == "directory" or member.mode & 0o100:
            mode |= (mode & 0o444) >> 2
    if member.kind != "file":
        return Part(member.kind, mode, member.target)
    digest = sha256()
    for part in member.parts:
        digest.update(part)
    return Part("file", mode, digest.hexdigest())


def _make_sure(held: Directories, path: str, members: Mapping[str, Part], before: Unpacked, *, force: bool) -> None:
    """Refuse what would destroy something that did not come from an archive."""
    wrong: list[str] = []
    for name, part in members.items():
        seen = _seen(held, path, name)
        kind = part.kind if seen is None else _kind(seen)
        ours = force or name in before.members
        if seen is None or (kind == part.kind == "directory"):
            continue
        if kind == "directory":
            if name not in before.made or _others(held, path, name, before):
                wrong.append(f"'{name}' is a directory and should be a {part.kind}")
        elif kind not in {"file", "link"} or (part.kind == "directory" and not ours):
            wrong.append(f"'{name or path}' is a {kind} and should be a {part.kind}")
        elif not ours and (kind != part.kind or _told(held, path, name, seen) != part.told):
            wrong.append(f"'{name}' is there already and did not come from an archive; with force it is replaced")
    if wrong:
        more = f"; and {len(wrong) - _FEW} more" if len(wrong) > _FEW else ""
        msg = f"{'; '.join(wrong[:_FEW])}{more}"
        raise ResourceError(msg)


def _others(held: Directories, path: str, name: str, before: Unpacked) -> bool:
    """Whether a directory of ours holds something that did not come from the archive, at any depth."""
    todo = [name]
    while todo:
        inner = todo.pop()
        fd = os.open(".", LISTING, dir_fd=held.reach(_at(path, inner)).fd)
        try:
            with os.scandir(fd) as entries:
                found = [(f"{inner}/{entry.name}", entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(fd)
        if any(each not in before.members for each, _ in found):
            return True
        todo += [each for each, is_directory in found if is_directory]
    return False


def _turned(held: Directories, path: str, name: str, part: Part) -> bool:
    """Whether something stands where a directory should be, or a directory where none should be."""
    seen = _seen(held, path, name)
    return seen is not None and stat.S_ISDIR(seen.st_mode) != (part.kind == "directory")


def _beneath(name: str, tops: Iterable[str]) -> bool:
    return any(name.startswith(f"{top}/") for top in tops)


def _clear(batch: files.Batch, path: str, names: Iterable[str], made: Collection[str]) -> None:
    """Remove names, the deepest first; of directories those that we have made and that are empty by then."""
    for name in sorted(names, key=lambda each: (each.count("/") + bool(each), each), reverse=True):
        seen = _seen(batch.held, path, name)
        if seen is None or (stat.S_ISDIR(seen.st_mode) and name not in made):
            continue
        try:
            batch.remove(_at(path, name))
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EBUSY, errno.ENOENT} or not stat.S_ISDIR(seen.st_mode):
                raise


def _put(batch: files.Batch, path: str, member: Member, now: Unpacked) -> None:
    """Bring one member to its place; what is as it should be is not written."""
    name, part, place = member.name, now.members[member.name], _at(path, member.name)
    seen = _seen(batch.held, path, name)
    mode = None if part.kind == "link" else part.mode
    if part.kind == "directory":
        if seen is None:
            batch.make_directory(place, mode=mode, uid=now.uid, gid=now.gid)
        elif name in now.made and not _rights(seen, part, now):
            batch.set_mode_owner(place, mode=mode, uid=now.uid, gid=now.gid)
    elif seen is None or _kind(seen) != part.kind or _told(batch.held, path, name, seen) != part.told:
        if part.kind == "link":
            batch.make_link(place, part.told, uid=now.uid, gid=now.gid)
        else:
            batch.replace(place, member.parts, mode=mode, uid=now.uid, gid=now.gid)
    elif not _rights(seen, part, now):
        batch.set_mode_owner(place, mode=mode, uid=now.uid, gid=now.gid)


def _at(path: str, name: str) -> str:
    return f"{path}/{name}" if name else path


def _kind(seen: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(seen.st_mode), "special file")


def _seen(held: Directories, path: str, name: str) -> os.stat_result | None:
    try:
        directory, last = held.place(_at(path, name))
        return os.lstat(last, dir_fd=directory.fd)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _told(held: Directories, path: str, name: str, seen: os.stat_result) -> str:
    """Give what tells a file or link from another: the digest of its bytes, or where it leads."""
    directory, last = held.place(_at(path, name))
    if stat.S_ISLNK(seen.st_mode):
        return os.readlink(last, dir_fd=directory.fd)
    fd = os.open(last, _READ, dir_fd=directory.fd)
    with open(fd, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        return file_digest(file, "sha256").hexdigest()


def _rights(seen: os.stat_result, part: Part, now: Unpacked) -> bool:
    owned = now.uid in {None, seen.st_uid} and now.gid in {None, seen.st_gid}
    return owned and (part.kind == "link" or stat.S_IMODE(seen.st_mode) == part.mode)


def _as_unpacked(held: Directories, path: str, name: str, part: Part, known: Unpacked) -> bool:
    seen = _seen(held, path, name)
    if seen is None or _kind(seen) != part.kind:
        return False
    if part.kind == "directory":
        return name not in known.made or _rights(seen, part, known)
    return _rights(seen, part, known) and _told(held, path, name, seen) == part.told
