"""Unpack archives into directories, detect later changes, and remove exactly the unpacked files.

A record beside the directory lists the members of the unpacked archive. It is on disk before any change, so all files
of an interrupted run are recorded. It is not inside the directory, because that may be served, copied or cleaned.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.values.archive_rules import Limits, Member, member_name
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem import files, reading
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, OTHERS_WRITE, ROOT, Directories, opened
from resource_api.system.filesystem.permissions import DIRECTORY_MODE, directory_mode
from resource_api.system.filesystem.trees import mounts_beneath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api.model.values.assets import Archive

_FORMAT: Final = 1
#: Largest record in bytes: that of an archive with a million members.
_LARGEST_RECORD: Final = 1 << 28
_SUFFIX: Final = ".archive~"
#: Longest name in bytes of a directory to unpack into: the name of its record must fit into 255 bytes.
LONGEST_DIRECTORY_NAME: Final = 255 - len(_SUFFIX) - 1
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
#: Most altered members that are reported, and most conflicts in a message.
_MAX_ALTERED: Final = 20
_MAX_CONFLICTS: Final = 3


class UnpackOptions(NamedTuple):
    """The options of unpacking.

    ``max_size`` (bytes of all files together) and ``max_members`` limit the archive. ``mode`` replaces the mode of all
    files, with search and execute permissions added for directories and executable files; None: the archive's modes.
    ``uid`` and ``gid`` of None leave owner and group as they are. With ``force``, files and links that did not come
    from an archive are replaced.
    """

    max_size: int
    max_members: int
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    force: bool = False


class MemberState(NamedTuple):
    """A member on disk. ``content`` is the SHA-256 of a file, the target of a link, empty for a directory.

    ``size`` is that of a file in bytes, -1 in a record of an older version.
    """

    kind: str
    mode: int
    content: str
    size: int = -1


class UnpackRecord(NamedTuple):
    """The record of the archive in a directory.

    ``sha256`` is the archive's, or "" while unpacking or removing is incomplete. ``created`` are the directories that
    unpacking has created. The name of the directory itself is empty.
    """

    sha256: str = ""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    members: Mapping[str, MemberState] = {}
    created: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Return the record of the directory at ``path``, or None if there is none.

        By it the provider compares the directory with the archive. Raise ``OSError``, and ``ResourceError`` for a
        damaged record or one that another user could have written.
        """
        file = _record_path(path)
        try:
            with Directories() as directories:
                status, raw = reading.stat_and_read(directories, file, _LARGEST_RECORD)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if raw is None or status.st_uid not in {*ROOT, os.geteuid()} or status.st_mode & OTHERS_WRITE:
            raise ResourceError(f"{file} cannot be trusted: other users can write it")
        try:
            return cls._decode(json.loads(raw))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            msg = f"{file} is damaged; remove it, and files that are as in the archive are taken over"
            raise ResourceError(msg) from error

    @classmethod
    def _decode(cls, document: Any) -> Self:
        """Return the record that a JSON document of ``write`` describes.

        Raise ``ValueError``, ``LookupError``, ``TypeError`` or ``OverflowError`` for a damaged one.
        """
        if document["format"] != _FORMAT:
            raise ValueError(document["format"])
        members = {
            _checked(name): MemberState(str(kind), int(mode), str(content), *map(int, size))
            for name, kind, mode, content, *size in document["members"]
        }
        numbers = {key: None if document[key] is None else int(document[key]) for key in ("mode", "uid", "gid")}
        created = frozenset(map(_checked, document["made"]))
        return cls(str(document["sha256"]), **numbers, members=members, created=created)

    def write(self, path: str) -> None:
        """Write the record of the directory at ``path`` beside it, for later runs; it is durable on return.

        Raise ``OSError``.
        """
        document = {
            "format": _FORMAT,
            "sha256": self.sha256,
            "mode": self.mode,
            "uid": self.uid,
            "gid": self.gid,
            "members": [[name, *state] for name, state in self.members.items()],
            "made": sorted(self.created),
        }
        files.replace(_record_path(path), json.dumps(document, separators=(",", ":")).encode(), mode=0o600)


def _record_path(path: str) -> str:
    """Return the path of the record beside the directory at ``path``."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}{_SUFFIX}"


def _checked(name: object) -> str:
    """Return the name of a member in a record. Raise ``ValueError`` for one that could lead out of the directory."""
    if not isinstance(name, str) or member_name(name) != name:
        raise ValueError(name)
    return name


def altered_members(path: str, record: UnpackRecord) -> list[str]:
    """Return the names of members at ``path`` that were changed since unpacking, to report them: the first 20.

    Raise ``OSError``.
    """
    altered: list[str] = []
    with Directories() as directories:
        for name in record.members:
            if not _as_unpacked(directories, path, name, record):
                altered.append(name or ".")
                if len(altered) >= _MAX_ALTERED:
                    break
    return altered


def unpack(path: str, archive: Archive, options: UnpackOptions, record: UnpackRecord | None) -> None:
    """Unpack ``archive`` into the directory at ``path``, and remove members that only an earlier archive has.

    ``record``: that of the earlier archive, or None. Unchanged files are not written; others are replaced atomically.
    The archive is read twice: the first time to find conflicts with files that did not come from an archive, before
    anything is changed. A record of the members of both archives is written first, so that another call completes the
    work after an interruption. Raise ``OSError``, and ``ResourceError`` for a conflict, and for an archive that is
    damaged or above the limits.
    """
    before = record or UnpackRecord()
    members = {member.name: _state(member, options) for member in _members(archive, options)}
    with Directories() as directories:
        _check_conflicts(directories, path, members, before, force=options.force)
        inner = {name for name, state in members.items() if state.kind == "directory"}
        new = {name for name in inner if _kind(_stat(directories, path, name)) != "directory"}
    after = UnpackRecord(archive.sha256, options.mode, options.uid, options.gid, members, before.created | new)
    # Before any change, with the members of both archives: another call knows those of an interrupted one.
    after._replace(sha256="", members={**before.members, **members}).write(path)
    gone = [name for name in before.members if name not in members]
    with files.Batch() as batch:
        # The old kind must be removed first, and a directory must be empty to be removed.
        turned = [name for name, state in members.items() if _changes_kind(batch.directories, path, name, state)]
        below = [name for name in gone if any(name.startswith(f"{top}/") for top in turned)]
        _remove_members(batch, path, [*turned, *below], before.created)
        for member in _members(archive, options):
            _write_member(batch, path, member, after)
        for failed, error in batch.flush():  # the first one
            error.filename = failed
            raise error
        _remove_members(batch, path, gone, before.created)
    # From now on only directories of this archive count as created.
    after._replace(created=after.created & inner).write(path)


def _changes_kind(directories: Directories, path: str, name: str, state: MemberState) -> bool:
    """Return whether a directory on disk becomes a file or link, or the reverse."""
    status = _stat(directories, path, name)
    return status is not None and stat.S_ISDIR(status.st_mode) != (state.kind == "directory")


def unpack_new(members: Iterable[Member], directory: str) -> None:
    """Write checked members durably into a new ``directory``, which only the caller can open, without a record.

    It is for content that is used once or replaced as a whole, such as a bundle. Raise ``OSError``, ``ResourceError``.
    """
    with files.Batch() as batch:
        batch.make_directory(directory, mode=0o700)
        for member in members:
            path = f"{directory}/{member.name}"
            if member.kind == "directory":
                with suppress(FileExistsError):  # implied by an earlier name
                    batch.make_directory(path, mode=0o755)
            elif member.kind == "link":
                batch.make_link(path, member.target)
            else:
                batch.replace(path, member.parts, mode=member.mode)


def remove_unpacked(path: str, record: UnpackRecord) -> None:
    """Remove the unpacked members, then their record; other files, and the directories around them, stay."""
    with files.Batch() as batch:
        _remove_members(batch, path, record.members, record.created)
    # In a second batch: as long as members are there, a run that is killed needs the record of them.
    with files.Batch() as batch, suppress(FileNotFoundError):
        batch.remove(_record_path(path))


def _members(archive: Archive, options: UnpackOptions) -> Iterator[Member]:
    """Yield the directory itself, then the members of the archive."""
    yield Member("", "directory", DIRECTORY_MODE)
    yield from archive.members(Limits(options.max_size, options.max_members))


def _state(member: Member, options: UnpackOptions) -> MemberState:
    """Return the state that a member should have on disk, to compare the disk with it and to record it.

    The content of a file is read for its digest. A mode in ``options`` replaces that of the archive; directories and
    executable files then also get the search or execution bit wherever the mode has the read bit.
    """
    mode = member.mode
    if options.mode is not None and member.kind != "link":
        executable = member.kind == "directory" or member.mode & 0o100
        mode = directory_mode(options.mode) if executable else options.mode
    if member.kind != "file":
        return MemberState(member.kind, mode, member.target)
    sizes: list[int] = []
    digest = reading.sha256_of(_measured(member.parts, sizes))
    return MemberState("file", mode, digest, sum(sizes))


def _measured(parts: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    """Yield the parts of a content, and append their sizes to a list: size and digest then need one reading."""
    for part in parts:
        sizes.append(len(part))
        yield part


def _check_conflicts(
    directories: Directories, path: str, members: Mapping[str, MemberState], before: UnpackRecord, *, force: bool
) -> None:
    """Raise ``ResourceError``, before any change, if ``members`` would destroy a file that is not of an archive.

    ``before``: the record of the earlier archive, whose files may be replaced.
    """
    reasons = (_conflict(directories, path, name, state, before, force=force) for name, state in members.items())
    if conflicts := list(filter(None, reasons)):
        more = f"; and {len(conflicts) - _MAX_CONFLICTS} more" if len(conflicts) > _MAX_CONFLICTS else ""
        raise ResourceError(f"{'; '.join(conflicts[:_MAX_CONFLICTS])}{more}")


def _conflict(
    directories: Directories, path: str, name: str, state: MemberState, before: UnpackRecord, *, force: bool
) -> str:
    """Return why a member must not replace the file in its place, or "".

    A file or link may be replaced if it has the same content, is a member of the earlier archive (``before``), or with
    ``force``. A directory may be replaced by a file only if it was made for the earlier archive and contains nothing
    else. Devices and other special files are never replaced. ``name`` and ``state`` are the new member's.
    """
    status = _stat(directories, path, name)
    kind = _kind(status)
    replaceable = force or name in before.members
    if status is None or kind == state.kind == "directory":
        return ""
    if kind == "directory":
        is_removable = name in before.created and not _has_other_content(directories, path, name, before)
        return "" if is_removable else f"'{name}' is a directory and should be a {state.kind}"
    if kind not in {"file", "link"} or (state.kind == "directory" and not replaceable):
        return f"'{name or path}' is a {kind} and should be a {state.kind}"
    if replaceable or (kind == state.kind and _has_content(directories, path, name, status, state)):
        return ""
    return f"'{name}' is there already and did not come from an archive; with force it is replaced"


def _has_other_content(directories: Directories, path: str, name: str, before: UnpackRecord) -> bool:
    """Return whether a directory contains, at any depth, a file that must stay: it is not of the archive ``before``."""
    todo = [name]
    while todo:
        inner = todo.pop()
        directory = directories.reach(_member_path(path, inner))
        with opened(".", DIRECTORY_FLAGS, directory.fd) as fd, os.scandir(fd) as entries:
            content = [(f"{inner}/{entry.name}", entry.is_dir(follow_symlinks=False)) for entry in entries]
        if any(member not in before.members for member, _ in content):
            return True
        todo += [member for member, is_directory in content if is_directory]
    return False


def _remove_members(batch: files.Batch, path: str, names: Iterable[str], created: Collection[str]) -> None:
    """Remove unpacked members from the directory at ``path``, the deepest first.

    A directory is removed only if it was ``created`` by unpacking and is empty; a failure because of further files in
    it, or because it is in use, is ignored. Raise ``OSError`` at a mount, whose files are not those that were unpacked.
    """
    mounted = tuple(f"{point}/" for point in _mounted(batch.directories, path))
    # The depth of "", the directory itself, is 0; that of "a" is 1.
    for name in sorted(names, key=lambda name: (name.count("/") + bool(name), name), reverse=True):
        if mounted and f"{name}/".startswith(mounted):
            raise OSError(errno.EBUSY, "a filesystem is mounted there", _member_path(path, name))
        status = _stat(batch.directories, path, name)
        if status is None or (stat.S_ISDIR(status.st_mode) and name not in created):
            continue
        try:
            batch.remove(_member_path(path, name))
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EBUSY, errno.ENOENT} or not stat.S_ISDIR(status.st_mode):
                raise


def _mounted(directories: Directories, path: str) -> set[str]:
    """Return the mount points in the directory at ``path``: files there are not unpacked ones, and must stay."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return mounts_beneath(directories.reach(path))
    return set()


def _write_member(batch: files.Batch, path: str, member: Member, record: UnpackRecord) -> None:
    """Create or update one member on disk, unless it has the content and permissions of ``record``, the new archive's.

    A file is replaced even if only its permissions differ; a directory gets new permissions.
    """
    state, target = record.members[member.name], _member_path(path, member.name)
    if _as_unpacked(batch.directories, path, member.name, record):
        return
    if state.kind == "link":
        batch.make_link(target, state.content, uid=record.uid, gid=record.gid)
    elif state.kind == "file":
        # Also for permissions alone: another user may have the present file open for writing, or have put it there.
        batch.replace(target, member.parts, mode=state.mode, uid=record.uid, gid=record.gid)
    elif (status := _stat(batch.directories, path, member.name)) is None:
        batch.make_directory(target, mode=state.mode, uid=record.uid, gid=record.gid)
    else:
        batch.set_mode_owner(target, mode=state.mode, uid=record.uid, gid=record.gid, former_uid=status.st_uid)


def _as_unpacked(directories: Directories, path: str, name: str, record: UnpackRecord) -> bool:
    """Return whether a member is on disk as in ``record``, so that it need not be written.

    Of a directory that was there before, the permissions are not compared: it keeps them.
    """
    state, status = record.members[name], _stat(directories, path, name)
    if status is None or _kind(status) != state.kind:
        return False
    if state.kind == "directory":
        return name not in record.created or _has_permissions(status, state, record)
    return _has_permissions(status, state, record) and _has_content(directories, path, name, status, state)


def _member_path(path: str, name: str) -> str:
    """Return the path of a member of the directory at ``path``, whose own name is empty."""
    return f"{path}/{name}" if name else path


def _stat(directories: Directories, path: str, name: str) -> os.stat_result | None:
    """Return the status of a member of the directory at ``path``, found without following links, or None."""
    try:
        directory, last = directories.place(_member_path(path, name))
        return os.lstat(last, dir_fd=directory.fd)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _kind(status: os.stat_result | None) -> str:
    """Return the kind of a file as in ``MemberState``, "special file" for others, "" for a missing one."""
    return "" if status is None else _KINDS.get(stat.S_IFMT(status.st_mode), "special file")


def _has_content(directories: Directories, path: str, name: str, status: os.stat_result, state: MemberState) -> bool:
    """Return whether a file or link has the content of ``state``, by its digest or target.

    The recorded size is compared first, and no more than it is read, as another process may extend the file without
    end. A size of -1 is unknown.
    """
    directory, last = directories.place(_member_path(path, name))
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(last, dir_fd=directory.fd) == state.content
    if state.size not in {-1, status.st_size}:
        return False
    fd = os.open(last, reading.READ_FLAGS, dir_fd=directory.fd)
    parts = reading.parts(lambda: os.fdopen(fd, "rb", buffering=0))
    return reading.sha256_of(parts, inf if state.size < 0 else state.size) == state.content


def _has_permissions(status: os.stat_result, state: MemberState, record: UnpackRecord) -> bool:
    """Return whether a file has the owner and group of the record and the mode of its member; links have no mode."""
    has_owner = record.uid in {None, status.st_uid} and record.gid in {None, status.st_gid}
    return has_owner and (state.kind == "link" or stat.S_IMODE(status.st_mode) == state.mode)
