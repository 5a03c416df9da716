"""Archives read member by member: tar, gzipped tar and zip files, and what no archive may hold whatever it comes from.

Nothing is written here. What is in an archive is whoever made it's word: names, links, sizes and headers are believed
only as far as they can do no harm, and nothing is held in memory that grows with what a member holds.
"""

from __future__ import annotations

import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.assets import Limits, Member, link_stays_inside, member_name
from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    import tarfile
    import zipfile
    from collections.abc import Iterable, Iterator
    from gzip import GzipFile

PART: Final = 1 << 18
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o755
#: A block of a tar file; the last one that is read of a whole one is empty.
_BLOCK: Final = 512
#: More at once is asked for by no honest header, nor by what reads a file in parts.
_AT_ONCE: Final = 1 << 20
#: What the description of one member may take on the average.
_DESCRIPTION: Final = 4096
_LONGEST_TARGET: Final = 4096
#: The system that zip's attributes are from (APPNOTE.TXT 4.4.2).
_UNIX: Final = 3
_ENCRYPTED: Final = 1


def members(file: BinaryIO, limits: Limits) -> Iterator[Member]:
    """Give what is in an open tar, gzipped tar or zip file, in its order; raises as ``bounded`` does."""
    start = file.read(4)
    file.seek(0)
    if start[:2] == b"PK":
        return bounded(_zip(file, limits), limits)
    if start[:2] == b"\x1f\x8b":
        import gzip  # noqa: PLC0415 - only for such a file

        return bounded(_tar(gzip.GzipFile(fileobj=file), limits), limits)
    return bounded(_tar(file, limits), limits)


def bounded(found: Iterable[Member], limits: Limits) -> Iterator[Member]:
    """Give members whose names and links stay inside, each once, beneath directories alone, and within ``limits``.

    Directories that are only implied come before what they hold; one that is described later comes again. Raises
    ``ResourceError`` for anything else.
    """
    kinds: dict[str, str] = {}
    counter = _Counter(limits)
    for member in found:
        for parent in _above(member.name):
            if parent not in kinds:
                kinds[parent] = "directory"
                yield Member(parent, "directory", DIRECTORY_MODE)
            elif kinds[parent] != "directory":
                msg = f"'{member.name}' is beneath '{parent}', which is a {kinds[parent]}"
                raise ResourceError(msg)
        if not member.name:
            continue
        if kinds.get(member.name, "directory") != "directory" or member.kind != kinds.get(member.name, member.kind):
            msg = f"'{member.name}' is in it twice"
            raise ResourceError(msg)
        if member.kind == "link" and not link_stays_inside(member.name, member.target):
            msg = f"the link '{member.name}' leads out of it, or up behind a name: {member.target}"
            raise ResourceError(msg)
        kinds[member.name] = member.kind
        counter.count(len(kinds))
        yield member._replace(parts=counter.parts(member.parts))


def _above(name: str) -> Iterator[str]:
    """Give the directories that a member is in, the outermost first."""
    slash = name.find("/")
    while slash > 0:
        yield name[:slash]
        slash = name.find("/", slash + 1)


class _Counter:
    """What an archive has come to so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._size = 0

    def count(self, number: int) -> None:
        if number > self._limits.members:
            msg = f"it has more than {self._limits.members} members"
            raise ResourceError(msg)

    def parts(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on a member's bytes as long as all of them together are not too many."""
        for part in parts:
            self._size += len(part)
            if self._size > self._limits.size:
                msg = f"its files are larger than {self._limits.size} bytes together"
                raise ResourceError(msg)
            yield part


class _Bounded:
    """An open file that is never read at once for more than an honest archive needs; for the libraries that parse."""

    def __init__(self, file: Any, at_once: int, described: int) -> None:
        """Read ``file``; descriptions, which is all that is read but for members' parts, take ``described`` bytes."""
        self._file = file
        self._at_once = at_once
        self._described = described
        self.describing = True
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        self.last = self._file.read(min(size, self._at_once + 1) if size >= 0 else self._at_once + 1)
        if self.describing:
            self._described -= len(self.last)
        if size > self._at_once or len(self.last) > self._at_once or self._described < 0:
            msg = "its members are described at a length that nobody needs"
            raise ResourceError(msg)
        return self.last

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def seekable(self) -> bool:
        return True


@contextmanager
def _parsed() -> Iterator[None]:
    """Say in one way what the libraries say in many: that this is no archive, or a damaged one."""
    import tarfile  # noqa: PLC0415 - archives are read by few runs
    import zipfile  # noqa: PLC0415 - the same
    import zlib  # noqa: PLC0415 - the same
    from gzip import BadGzipFile  # noqa: PLC0415 - the same

    try:
        yield
    except (
        *(tarfile.TarError, zipfile.BadZipFile, zlib.error, BadGzipFile),
        *(EOFError, ValueError, LookupError, OverflowError, NotImplementedError, RuntimeError),
    ) as error:
        msg = f"it is no tar, gzipped tar or zip file, or a damaged one: {str(error) or type(error).__name__}"
        raise ResourceError(msg) from error


def _tar(file: BinaryIO | GzipFile, limits: Limits) -> Iterator[Member]:
    """Give the members of a tar file, which must end as one does: what breaks off is not taken for all of it."""
    import tarfile  # noqa: PLC0415 - archives are read by few runs

    stream: Any = _Bounded(file, _AT_ONCE, _AT_ONCE + limits.members * _DESCRIPTION)
    size = 0
    with _parsed(), tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # they would all be kept
            size += info.size
            if size > limits.size:
                msg = f"its files are larger than {limits.size} bytes together"
                raise ResourceError(msg)
            stream.describing = False
            yield _from_tar(archive, info)
            stream.describing = True
        if len(stream.last) != _BLOCK or stream.last.strip(b"\0"):
            msg = "it breaks off in the middle"
            raise ResourceError(msg)


def _from_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    name = _name(info.name)
    if info.isdir():
        return Member(name, "directory", directory_mode(info.mode))
    if info.issym():
        return Member(name, "link", 0o777, info.linkname)
    if info.islnk():
        msg = f"'{info.name}' is a hard link; pack it with tar --hard-dereference"
        raise ResourceError(msg)
    if not info.isreg() or info.sparse is not None:
        msg = f"'{info.name}' is neither a file, a directory nor a link"
        raise ResourceError(msg)
    return Member(name, "file", file_mode(info.mode), parts=_tar_parts(archive, info))


def _tar_parts(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    with _parsed():
        stream = archive.extractfile(info)
        while stream is not None and (part := stream.read(PART)):
            yield part


def _zip(file: BinaryIO, limits: Limits) -> Iterator[Member]:
    import zipfile  # noqa: PLC0415 - archives are read by few runs

    described = _AT_ONCE + limits.members * _DESCRIPTION
    stream: Any = _Bounded(file, described, described)
    with _parsed(), zipfile.ZipFile(stream) as archive:
        stream.describing = False
        for info in archive.infolist():
            yield _from_zip(archive, info)


def _from_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    name, kind = _name(info.filename), stat.S_IFMT(mode)
    if info.flag_bits & _ENCRYPTED:
        msg = f"'{info.filename}' is encrypted"
        raise ResourceError(msg)
    if info.is_dir():
        return Member(name, "directory", directory_mode(mode or DIRECTORY_MODE))
    if kind == stat.S_IFLNK and info.file_size <= _LONGEST_TARGET:
        return Member(name, "link", 0o777, b"".join(_zip_parts(archive, info)).decode("utf-8", "surrogateescape"))
    if kind not in {0, stat.S_IFREG}:
        msg = f"'{info.filename}' is neither a file, a directory nor a link"
        raise ResourceError(msg)
    return Member(name, "file", file_mode(mode or FILE_MODE), parts=_zip_parts(archive, info))


def _zip_parts(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with _parsed(), archive.open(info) as stream:
        while part := stream.read(PART):
            yield part


def _name(spelt: str) -> str:
    try:
        return member_name(spelt)
    except ValueError as error:
        raise ResourceError(str(error)) from None


def file_mode(mode: int) -> int:
    """Give what of a file's mode is taken over: no set-id bits, nothing that others than the owner could write."""
    mode = mode & 0o755 | 0o600
    return mode if mode & 0o100 else mode & 0o666


def directory_mode(mode: int) -> int:
    """Give what of a directory's mode is taken over."""
    return mode & 0o755 | 0o700
