"""Read what has been written on an overlay from its upper layers."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, OTHERS_WRITE, Directories, canonical_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

Kind = Literal["file", "directory", "deleted"]
#: The device number with which an overlay marks what is deleted.
_WHITEOUT: Final = 0


class Written(NamedTuple):
    """What an upper layer holds at a path."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    #: When its content was changed, in nanoseconds; 0 for a directory.
    modified: int
    #: Differs after every change, also one of the owner.
    version: tuple[int, int]


def read(layers: int) -> Mapping[str, Written]:
    """Return what the upper layers hold, by the path that it has on the overlay; ``layers`` as of ``Overlay``."""
    found: dict[str, Written] = {}
    base = f"/proc/self/fd/{layers}"
    for number in os.listdir(base):
        place = os.readlink(f"{base}/{number}/place").rstrip("/")
        found.update(_walk(f"{base}/{number}/upper", place))
    return found


def is_full(layers: int) -> bool:
    """Return whether nothing more can be written."""
    about = os.statvfs(layers)
    return about.f_bavail == 0 or about.f_favail == 0


def _walk(directory: str, place: str) -> Iterator[tuple[str, Written]]:
    """Yield each path beneath a directory of a layer, as a path on the overlay, and what it is."""
    waiting = [(directory, place)]
    while waiting:
        directory, place = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, PermissionError):  # something that still runs has removed it, or this user may not
            continue
        for entry in entries:
            path = f"{place}/{entry.name}"
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, _written(about)
            if stat.S_ISDIR(about.st_mode):
                waiting.append((entry.path, path))


def _written(about: os.stat_result) -> Written:
    version = (about.st_ino, about.st_ctime_ns)
    if stat.S_ISDIR(about.st_mode):
        # What is written in a directory changes the times of the directory too.
        return Written("directory", about.st_mode, about.st_uid, about.st_gid, 0, 0, (0, 0))
    deleted = stat.S_ISCHR(about.st_mode) and about.st_rdev == _WHITEOUT
    kind: Kind = "deleted" if deleted else "file"
    return Written(kind, about.st_mode, about.st_uid, about.st_gid, about.st_size, about.st_mtime_ns, version)


_FORMAT: Final = tarfile.PAX_FORMAT
_DELETED: Final = ".wh."
#: Files, directories and links.
_KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)


class LayerError(ResourceAPIError):
    """What was written cannot be kept."""


@contextmanager
def kept(path: str) -> Iterator[int | None]:
    """Yield a descriptor of a file to pack into in the ``with`` block, and unpack it into a directory afterwards.

    None for an empty path. Raise ``UsageError`` for a directory that cannot be used, ``LayerError``.
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
    """Return a descriptor of a new or empty directory, which only this user can enter. Raise ``UsageError``."""
    try:
        with Directories() as directories:
            parent, name = directories.place(canonical_path(os.path.abspath(path)))
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent.fd)
            descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent.fd)
    except OSError as error:
        msg = f"--keep {path}: {error.strerror}"
        raise UsageError(msg) from error
    about = os.fstat(descriptor)
    if about.st_uid != os.geteuid() or about.st_mode & OTHERS_WRITE:
        msg = f"--keep {path}: it belongs to another user, or others may write to it"
    elif os.listdir(descriptor):
        msg = f"--keep {path}: it is not empty"
    else:
        os.fchmod(descriptor, 0o700)
        return descriptor
    os.close(descriptor)
    raise UsageError(msg)


def pack(descriptor: int, kept: int) -> None:
    """Write what the layers of a descriptor hold into a file; sockets, pipes and devices are left out."""
    with open(kept, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w", format=_FORMAT) as archive:
        for path, written in sorted(read(descriptor).items()):
            directory, _, name = path.rpartition("/")
            if written.kind == "deleted":
                archive.addfile(tarfile.TarInfo(f"{directory}/{_DELETED}{name}".lstrip("/")), io.BytesIO())
                continue
            with suppress(OSError):  # it is gone
                _add(archive, path)


def _add(archive: tarfile.TarFile, path: str) -> None:
    member = archive.gettarinfo(path, path.lstrip("/"))
    if member is None:  # a socket, whatever the annotation says
        return
    if member.islnk():  # another name of the same file: each is kept on its own
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.lstat(path).st_size
    if member.isreg():
        with open(path, "rb") as content:
            archive.addfile(member, content)
    elif member.type in _KINDS:
        archive.addfile(member)


def _unpack(file: IO[bytes], directory: int) -> None:
    """Unpack into the directory of a descriptor, and nowhere else. Raise ``LayerError``."""
    place = f"/proc/self/fd/{directory}"
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            # Python before 3.11.4 has no filters; each member is checked when it is about to be written.
            archive.extraction_filter = _unchanged
            archive.extractall(place, _checked(archive, place), numeric_owner=True)  # noqa: S202 - see above
    except (tarfile.TarError, OSError, ValueError) as error:
        msg = f"what was written cannot be kept: {error}"
        raise LayerError(msg) from error


def _checked(archive: tarfile.TarFile, place: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members that ``pack`` can have written, beneath ``place``; a second one of a name is none."""
    seen, base = set(), os.path.realpath(place)
    for member in archive:
        beneath = os.path.realpath(os.path.join(place, member.name)).startswith(f"{base}/")
        if member.type not in _KINDS or member.name in seen or not beneath:
            msg = f"{member.name} was not written by the rehearsal"
            raise LayerError(msg)
        seen.add(member.name)
        yield member


def _unchanged(member: tarfile.TarInfo, _directory: str) -> tarfile.TarInfo:
    """Return a member with its mode: nobody else can enter the directory."""
    return member
