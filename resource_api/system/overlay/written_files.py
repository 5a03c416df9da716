"""List and compare the files written on an overlay, from its upper layers, and store them in a directory outside.

Files are compared by kind, mode, owner and a digest of their contents. To be stored, they are packed inside into an
open archive, and unpacked outside. A deleted file becomes an empty file ``.wh.NAME``, as in layers of container images.
The archive is untrusted: it was written inside.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, OTHERS_WRITE, Directories, canonical_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    #: Path → the written file, and the digest of its content.
    Contents = Mapping[str, tuple["Written", str]]

Kind = Literal["file", "directory", "deleted"]
#: The device number by which an overlay marks a deleted file.
_WHITEOUT: Final = 0


class Written(NamedTuple):
    """A file in an upper layer."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    #: The time of the last change of its content, in nanoseconds; 0 for a directory.
    modified: int
    #: Inode and change time: differs after every change, also of the owner.
    version: tuple[int, int]


def read(layers: int) -> Mapping[str, Written]:
    """Return the files in the upper layers by their paths on the overlay. ``layers`` is ``Overlay.layers``."""
    written: dict[str, Written] = {}
    base = f"/proc/self/fd/{layers}"
    for number in os.listdir(base):
        lower = os.readlink(f"{base}/{number}/lower").rstrip("/")
        written.update(_walk(f"{base}/{number}/upper", lower))
    return written


def is_full(layers: int) -> bool:
    """Return whether the file system of the upper layers is full."""
    status = os.statvfs(layers)
    return status.f_bavail == 0 or status.f_favail == 0


def _walk(directory: str, lower: str) -> Iterator[tuple[str, Written]]:
    """Yield the files beneath a directory of a layer, with their paths on the overlay, beneath ``lower``."""
    waiting = [(directory, lower)]
    while waiting:
        directory, lower = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, PermissionError):  # removed by a running program, or forbidden
            continue
        for entry in entries:
            path = f"{lower}/{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, _written(status)
            if stat.S_ISDIR(status.st_mode):
                waiting.append((entry.path, path))


def _written(status: os.stat_result) -> Written:
    """Return the ``Written`` of a file in an upper layer, where a character device 0:0 stands for a deletion."""
    mode_and_owner = status.st_mode, status.st_uid, status.st_gid
    if stat.S_ISDIR(status.st_mode):
        # No version: writing a file in a directory changes the directory's times too.
        return Written("directory", *mode_and_owner, size=0, modified=0, version=(0, 0))
    kind: Kind = "deleted" if stat.S_ISCHR(status.st_mode) and status.st_rdev == _WHITEOUT else "file"
    version = status.st_ino, status.st_ctime_ns
    return Written(kind, *mode_and_owner, size=status.st_size, modified=status.st_mtime_ns, version=version)


#: Files up to this size are compared by content, and up to that size by lines in any order.
_COMPARED: Final = 64 * 1024 * 1024
_COMPARED_BY_LINE: Final = 1024 * 1024
#: The separators between the members of lists and mappings depend on their order.
_SPACES: Final = bytes.maketrans(b",;[]{}", b"      ")
#: The header that crontab(1) writes above a table, with the time of its installation.
_CRONTAB: Final = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")


def read_contents(layers: int, former: Contents | None = None) -> Contents:
    """Return the comparable contents of the upper layers; files unchanged since ``former`` are not read again."""
    former = former or {}
    contents = {}
    for path, written in read(layers).items():
        same = path in former and former[path][0] == written
        contents[path] = former[path] if same else (written, digest(path) if written.kind == "file" else "")
    return contents


def comparable(entry: Any) -> tuple[Any, ...] | None:
    """Return kind, mode, owner, group and digest of a path, from values or a JSON document, or None for nothing."""
    if entry is None:
        return None
    (kind, mode, uid, gid, *_), content = entry
    return kind, mode, uid, gid, content


def differing_paths(first: Contents, second: Contents) -> set[str]:
    """Return the paths at which two contents differ."""
    paths = first.keys() | second.keys()
    return {path for path in paths if comparable(first.get(path)) != comparable(second.get(path))}


def describe_differing(paths: Sequence[str]) -> str:
    """Return the message that paths differ: the first one is named, the rest is counted."""
    return f"{paths[0]} and {len(paths) - 1} more differ" if len(paths) > 1 else f"{paths[0]} differs"


def digest(path: str) -> str:
    """Return a digest of a file, or the target of a link; empty where it cannot be read or is too large.

    The digest of a text is followed by a space and a digest of its words in any order.
    """
    try:
        if os.path.islink(path):
            return os.readlink(path)
        if not os.path.isfile(path) or (size := os.path.getsize(path)) > _COMPARED:
            return ""
        with open(path, "rb") as file:
            if size > _COMPARED_BY_LINE:
                return hashlib.file_digest(file, "blake2b").hexdigest()
            content = _CRONTAB.sub(b"", file.read())
    except OSError:
        return ""
    whole = _digest(content)
    return whole if b"\0" in content else f"{whole} {_digest(b' '.join(sorted(content.translate(_SPACES).split())))}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()


def in_any_order(digest: str) -> str:
    """Return the part of a digest that does not depend on the order of lines and members, if it has one."""
    return digest.rpartition(" ")[2]


_FORMAT: Final = tarfile.PAX_FORMAT
_DELETED: Final = ".wh."
#: Files, directories and links.
_KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)


class LayerError(ResourceAPIError):
    """The written files cannot be stored."""


@contextmanager
def stored(path: str) -> Iterator[int | None]:
    """Yield a descriptor of a file to ``pack`` into, and unpack that into a directory after the ``with`` block.

    Yield None for an empty path. Raise ``UsageError`` for an unusable directory, and ``LayerError``.
    """
    if not path:
        yield None
        return
    directory = _make_directory(path)
    try:
        with tempfile.TemporaryFile(dir=f"/proc/self/fd/{directory}") as file:
            yield file.fileno()
            file.seek(0)
            _unpack(file, directory)
    finally:
        os.close(directory)


def _make_directory(path: str) -> int:
    """Return a descriptor of a new or empty directory that only this user can enter. Raise ``UsageError``."""
    try:
        with Directories() as directories:
            parent, name = directories.place(canonical_path(os.path.abspath(path)))
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent.fd)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent.fd)
    except OSError as error:
        msg = f"--keep {path}: {error.strerror}"
        raise UsageError(msg) from error
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & OTHERS_WRITE:
        msg = f"--keep {path}: it belongs to another user, or others may write to it"
    elif os.listdir(descriptor):
        msg = f"--keep {path}: it is not empty"
    else:
        os.fchmod(descriptor, 0o700)
        return descriptor
    os.close(descriptor)
    raise UsageError(msg)


def pack(layers: int, target: int) -> None:
    """Write the files of the upper layers into the archive ``target``, except sockets, pipes and devices."""
    with open(target, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w", format=_FORMAT) as archive:
        for path, written in sorted(read(layers).items()):
            directory, _, name = path.rpartition("/")
            if written.kind == "deleted":
                archive.addfile(tarfile.TarInfo(f"{directory}/{_DELETED}{name}".lstrip("/")), io.BytesIO())
                continue
            with suppress(OSError):  # removed meanwhile
                _add(archive, path)


def _add(archive: tarfile.TarFile, path: str) -> None:
    """Add a file, directory or symbolic link of the writable layer to an archive."""
    member = archive.gettarinfo(path, path.lstrip("/"))
    if member is None:  # a socket, whatever the annotation says
        return
    if member.islnk():  # another name of the same file: each name is stored as a file
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.lstat(path).st_size
    if member.isreg():
        with open(path, "rb") as content:
            archive.addfile(member, content)
    elif member.type in _KINDS:
        archive.addfile(member)


def _unpack(file: IO[bytes], directory: int) -> None:
    """Unpack into the directory of a descriptor, and nowhere else. Raise ``LayerError``."""
    target = f"/proc/self/fd/{directory}"
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            # Python before 3.11.4 has no filters; each member is checked right before it is written. It keeps its mode:
            # no other user can enter the directory.
            archive.extraction_filter = lambda member, _directory: member
            archive.extractall(target, _checked(archive, target), numeric_owner=True)  # noqa: S202 - see above
    except (tarfile.TarError, OSError, ValueError) as error:
        msg = f"what was written cannot be kept: {error}"
        raise LayerError(msg) from error


def _checked(archive: tarfile.TarFile, target: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members. Raise ``LayerError`` for one that ``pack`` cannot have written, such as a second of a name."""
    names, base = set(), os.path.realpath(target)
    for member in archive:
        beneath = os.path.realpath(os.path.join(target, member.name)).startswith(f"{base}/")
        if member.type not in _KINDS or member.name in names or not beneath:
            msg = f"{member.name} was not written by the rehearsal"
            raise LayerError(msg)
        names.add(member.name)
        yield member
