"""Keep what was written on an overlay: packed inside into an open file, unpacked outside into a directory.

The directory then holds what was written by its path. What was deleted is an empty file ``.wh.NAME``, as in layers of
container images. What is packed may be anything, as it was written inside.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, OTHERS_WRITE, Directories, canonical_path
from resource_api.system.overlay import written_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_FORMAT: Final = tarfile.PAX_FORMAT
_DELETED: Final = ".wh."
#: Files, directories and links.
_KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)


class KeptLayerError(ResourceAPIError):
    """What was written cannot be kept."""


@contextmanager
def kept(path: str) -> Iterator[int | None]:
    """Yield a descriptor of a file to pack into in the ``with`` block, and unpack it into a directory afterwards.

    None for an empty path. Raise ``UsageError`` for a directory that cannot be used, ``KeptLayerError``.
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
        for path, written in sorted(written_files.read(descriptor).items()):
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
    """Unpack into the directory of a descriptor, and nowhere else. Raise ``KeptLayerError``."""
    place = f"/proc/self/fd/{directory}"
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            # Python before 3.11.4 has no filters; each member is checked when it is about to be written.
            archive.extraction_filter = _unchanged
            archive.extractall(place, _checked(archive, place), numeric_owner=True)  # noqa: S202 - see above
    except (tarfile.TarError, OSError, ValueError) as error:
        msg = f"what was written cannot be kept: {error}"
        raise KeptLayerError(msg) from error


def _checked(archive: tarfile.TarFile, place: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members that ``pack`` can have written, beneath ``place``; a second one of a name is none."""
    seen, base = set(), os.path.realpath(place)
    for member in archive:
        beneath = os.path.realpath(os.path.join(place, member.name)).startswith(f"{base}/")
        if member.type not in _KINDS or member.name in seen or not beneath:
            msg = f"{member.name} was not written by the rehearsal"
            raise KeptLayerError(msg)
        seen.add(member.name)
        yield member


def _unchanged(member: tarfile.TarInfo, _directory: str) -> tarfile.TarInfo:
    """Return a member with its mode: nobody else can enter the directory."""
    return member
