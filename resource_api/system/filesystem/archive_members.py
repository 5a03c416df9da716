"""Read tar, gzipped tar and zip files member by member, and check each member.

Names, links, sizes and headers of an archive are untrusted input. Memory use does not grow with the size of a member.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.archive_rules import Limits, Member, checked_members, member_name
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem.permissions import (
    DIRECTORY_MODE,
    FILE_MODE,
    packed_directory_mode,
    packed_file_mode,
)
from resource_api.system.filesystem.reading import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Bytes of a tar block. A complete tar file ends with an empty one.
_BLOCK: Final = 512
#: Fields of a header in a tar file (tar(5)): the size in octal digits, the kind, and a constant.
_SIZE, _KIND, _MAGIC = slice(124, 136), slice(156, 157), slice(257, 262)
#: Kinds of headers in a tar file: those that describe the next header, and those that are followed by content.
_EXTENSIONS: Final = (b"x", b"g", b"L", b"K", b"X")
_WITH_CONTENT: Final = (b"0", b"\0", b"7")
#: Largest single read: valid headers are shorter.
_LARGEST_READ: Final = 1 << 20
#: Bytes of headers per member, on average.
_HEADERS_PER_MEMBER: Final = 4096
_LONGEST_TARGET: Final = 4096
#: "Version made by" of zip attributes that are Unix modes (APPNOTE.TXT 4.4.2).
_UNIX: Final = 3
_ENCRYPTED: Final = 1
#: Methods that the library decompresses in parts; it expands a whole read of any other, to a gigabyte if that is zeros.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def members(file: BinaryIO, limits: Limits) -> Iterator[Member]:
    """Yield the members of an open tar, gzipped tar or zip file, in its order. Raise as ``checked_members`` does.

    Its first bytes determine the format, because the name of a file or URL need not show it.
    """
    start = file.read(4)
    file.seek(0)
    if start[:2] == b"PK":
        return checked_members(_zip(file, limits), limits)
    if start[:2] == b"\x1f\x8b":
        return checked_members(_tar(gzip.GzipFile(fileobj=file), limits), limits)
    return checked_members(_tar(file, limits), limits)


class _Bounded:
    """A file for the parsing libraries that refuses reads larger than a valid archive needs."""

    def __init__(self, file: Any, largest_read: int, headers: int) -> None:
        """Wrap a file for a parsing library, with limits for a hostile archive: bytes of a read and of all headers."""
        self._file = file
        self._largest_read = largest_read
        self._headers_left = headers
        #: Whether headers are being read, not the content of a member.
        self.in_headers = True
        #: The bytes of the last read: those of a complete tar file are an empty block.
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        """Read for the parsing library. Raise ``ResourceError`` for a huge read, which a malicious header causes."""
        # One byte above the limit shows that there is more.
        self.last = self._file.read(min(size, self._largest_read + 1) if size >= 0 else self._largest_read + 1)
        if self.in_headers:
            self._headers_left -= len(self.last)
        if size > self._largest_read or len(self.last) > self._largest_read or self._headers_left < 0:
            raise ResourceError("its headers are too long")
        return self.last

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def seekable(self) -> bool:
        return True


@contextmanager
def _parsed() -> Iterator[None]:
    """Raise ``ResourceError`` for any error of the parsing libraries, as malformed archives cause many kinds."""
    try:
        yield
    except (
        *(tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile),
        *(EOFError, ValueError, LookupError, OverflowError, NotImplementedError, RuntimeError),
    ) as error:
        msg = f"it is no tar, gzipped tar or zip file, or a damaged one: {str(error) or type(error).__name__}"
        raise ResourceError(msg) from error


def _tar(file: BinaryIO | gzip.GzipFile, limits: Limits) -> Iterator[Member]:
    """Yield the members of a tar file. Raise ``ResourceError`` if it exceeds the limits or is truncated.

    The members are counted in a first, fast pass, so that a huge archive is refused before anything is unpacked.
    """
    with _parsed():
        _refuse_many(file, limits)
    stream: Any = _Bounded(file, _LARGEST_READ, _LARGEST_READ + limits.members * _HEADERS_PER_MEMBER)
    size = 0
    with _parsed(), tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined] # tarfile would keep all of them
            size += info.size
            if size > limits.size:
                raise ResourceError(f"its files are larger than {limits.size} bytes together")
            stream.in_headers = False
            yield _from_tar(archive, info)
            stream.in_headers = True
        # The end is an empty block, at which the library stops reading.
        if len(stream.last) != _BLOCK or stream.last.strip(b"\0"):
            raise ResourceError("it breaks off in the middle")


def _refuse_many(file: BinaryIO | gzip.GzipFile, limits: Limits) -> None:
    """Raise ``ResourceError`` for a tar file with too many members, before the thirty times slower checks of each.

    Only headers are read and counted. Counting ends at an uncommon header, and where the contents exceed the limit: the
    later checks refuse such an archive, and the rest need not be decompressed. The file is at its beginning afterwards.
    """
    count = size = 0
    while len(header := file.read(_BLOCK)) == _BLOCK and header[_MAGIC] == b"ustar":
        kind, digits = header[_KIND], header[_SIZE].strip(b" \0")
        count += kind not in _EXTENSIONS
        if count > limits.members:
            raise ResourceError(f"it has more than {limits.members} members")
        if kind in _WITH_CONTENT or kind in _EXTENSIONS:
            if digits.strip(b"01234567"):
                break
            blocks = -(-int(digits or b"0", 8) // _BLOCK)  # rounded up
            size += blocks * _BLOCK
            if size > limits.size + limits.members * _HEADERS_PER_MEMBER:
                break
            file.seek(blocks * _BLOCK, os.SEEK_CUR)
    file.seek(0)


def _from_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    """Return the member of a tar header. Raise ``ResourceError`` for a kind unsafe to unpack, such as a device."""
    name = _name(info.name)
    if info.isdir():
        return Member(name, "directory", packed_directory_mode(info.mode))
    if info.issym():
        return Member(name, "link", 0o777, info.linkname)
    if info.islnk():
        raise ResourceError(f"'{info.name}' is a hard link; pack it with tar --hard-dereference")
    if not info.isreg() or info.sparse is not None:
        raise ResourceError(f"'{info.name}' is neither a file, a directory nor a link")
    return Member(name, "file", packed_file_mode(info.mode), parts=_parts(partial(archive.extractfile, info)))


def _parts(opener: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of a member; ``opener`` returns its stream. Raise ``ResourceError`` if it is damaged."""
    with _parsed():
        yield from parts(opener)


def _zip(file: BinaryIO, limits: Limits) -> Iterator[Member]:
    """Yield the members of a zip file.

    The library reads the list of all members, at the end of the file, in one piece: a limit for its size refuses a
    hostile archive that would fill the memory.
    """
    headers = _LARGEST_READ + limits.members * _HEADERS_PER_MEMBER
    stream: Any = _Bounded(file, headers, headers)
    with _parsed(), zipfile.ZipFile(stream) as archive:
        stream.in_headers = False  # the list of members has been read: what follows are contents
        for info in archive.infolist():
            yield _from_zip(archive, info)


def _from_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    """Return the member of a zip header. Raise ``ResourceError`` for encryption and a kind unsafe to unpack."""
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    name, kind = _name(info.filename), stat.S_IFMT(mode)
    if info.flag_bits & _ENCRYPTED:
        raise ResourceError(f"'{info.filename}' is encrypted")
    if info.compress_type not in _METHODS:
        raise ResourceError(f"'{info.filename}' is compressed by another method than deflate; pack it with zip")
    if info.is_dir():
        return Member(name, "directory", packed_directory_mode(mode or DIRECTORY_MODE))
    if kind == stat.S_IFLNK and info.file_size <= _LONGEST_TARGET:
        # Part by part: a read of the whole would expand it all before it is cut to the size that it claims.
        target = b"".join(_parts(partial(archive.open, info)))
        return Member(name, "link", 0o777, target.decode("utf-8", "surrogateescape"))
    if kind not in {0, stat.S_IFREG}:
        raise ResourceError(f"'{info.filename}' is neither a file, a directory nor a link")
    return Member(name, "file", packed_file_mode(mode or FILE_MODE), parts=_parts(partial(archive.open, info)))


def _name(raw: str) -> str:
    """Return the name of a member without ``./``. Raise ``ResourceError`` for one that leads out of the archive."""
    try:
        return member_name(raw)
    except ValueError as error:
        raise ResourceError(str(error)) from None
