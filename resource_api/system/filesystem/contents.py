"""Contents read: files that are seen to be what they were, directories listed, archives opened member by member.

Files are read in parts and never held. What a manifest says of contents is not known here, nor which members an
archive may have.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from functools import partial
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.assets import Archive, Asset, Content, Limits, Member, link_stays_inside
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    #: What is beneath a directory, each file with its digest.
    Listing = tuple[tuple[Member, str], ...]

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def digest(raw: bytes) -> str:
    """Give the SHA-256 of bytes."""
    return sha256(raw).hexdigest()


def digest_of(path: str) -> str:
    """Give the SHA-256 of a file, read in parts. Raises ``OSError``."""
    with _open(path) as file:
        return file_digest(file, "sha256").hexdigest()


def digest_told(told: list[list[Any]]) -> str:
    """Give the SHA-256 of what is told of the members of an archive that is no file."""
    return digest(json.dumps(told, separators=(",", ":")).encode())


def held(raw: bytes) -> BinaryIO:
    """Open bytes that are in memory."""
    return io.BytesIO(raw)


def _open(path: str) -> io.FileIO:
    """Open a regular file; what could block, or never ends, is refused."""
    fd = os.open(path, _READ)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(fd, "rb", buffering=0)


def _changed(path: str) -> ResourceError:
    return ResourceError(f"{path} has changed since it was looked at for this run")


class Verified(io.RawIOBase):
    """A file whose end is only given if all that was read up to it is what was looked at."""

    def __init__(self, path: str, wanted: str) -> None:
        """Open the file that had the digest ``wanted``."""
        super().__init__()
        self._file = _open(path)
        self._path = path
        self._wanted = wanted
        self._seen = sha256()

    def readable(self) -> bool:
        """Say so."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes. Raises ``ResourceError`` at the end of a file that has changed."""
        count = self._file.readinto(buffer) or 0
        self._seen.update(memoryview(buffer)[:count])
        if not count and len(buffer) and self._seen.hexdigest() != self._wanted:
            raise _changed(self._path)
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def whole(path: str, wanted: str) -> BinaryIO:
    """Open a file that is read in no order: all of it is looked at before."""
    file = _open(path)
    if file_digest(file, "sha256").hexdigest() != wanted:
        file.close()
        raise _changed(path)
    file.seek(0)
    return file


def _opened(path: str, wanted: str) -> BinaryIO:
    return Verified(path, wanted)  # type: ignore[return-value] # all that reading needs


def _parts(opened: Callable[[], BinaryIO]) -> Iterator[bytes]:
    with opened() as file:
        while part := file.read(archives.PART):
            yield part


def unpacked(opened: Callable[[], BinaryIO], limits: Limits) -> Iterator[Member]:
    """Give the members of an archive that is a file."""
    with opened() as file:
        yield from archives.members(file, limits)


def members_named(files: Sequence[tuple[str, Content]], limits: Limits) -> Iterator[Member]:
    """Give the members of an archive that is a map of names to contents."""
    return archives.bounded(_nested(files, limits), limits)


def _nested(files: Sequence[tuple[str, Content]], limits: Limits) -> Iterator[Member]:
    for name, content in files:
        if isinstance(content, Archive):
            yield Member(name, "directory", archives.DIRECTORY_MODE)
            for member in content.members(limits):
                yield member._replace(name=f"{name}/{member.name}")
        elif isinstance(content, Asset):
            yield Member(name, "file", archives.FILE_MODE, parts=_parts(content.open))


def listed(top: str) -> Iterator[tuple[Member, str]]:
    """Give what is beneath a directory, sorted, each file with its digest."""
    todo = [""]
    while todo:
        inner = todo.pop()
        with os.scandir(os.path.join(top, inner)) as entries:  # noqa: PTH118 - text
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = f"{inner}/{entry.name}" if inner else entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            if entry.is_symlink():
                target = os.readlink(entry.path)  # noqa: PTH115 - text
                if not link_stays_inside(name, target):
                    msg = f"the link '{name}' leads out of {top}, or up behind a name: {target}"
                    raise ResourceError(msg)
                yield Member(name, "link", 0o777, target), ""
            elif entry.is_dir():
                todo.append(name)
                yield Member(name, "directory", archives.directory_mode(mode)), ""
            else:
                yield Member(name, "file", archives.file_mode(mode)), digest_of(entry.path)


def members_listed(top: str, listing: Listing, limits: Limits) -> Iterator[Member]:
    """Give the members of an archive that is a directory, as it was listed."""
    return archives.bounded((_from_list(top, *each) for each in listing), limits)


def _from_list(top: str, member: Member, wanted: str) -> Member:
    if member.kind != "file":
        return member
    path = os.path.join(top, member.name)  # noqa: PTH118 - text
    return member._replace(parts=_parts(partial(_opened, path, wanted)))
