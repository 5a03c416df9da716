"""Read assets and archives of manifests: compute the SHA-256 when compiling, open the content when applying.

Files are read in parts and never held in memory. A URL is downloaded when its content is opened.
"""

from __future__ import annotations

import io
import json
import os
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from weakref import finalize

from resource_api.model.values.archive_rules import Limits, Member, checked_members, link_stays_inside
from resource_api.model.values.assets import KINDS, Archive, Asset, Content, ContentSpec
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import archive_members, download, permissions, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.system.filesystem.code_trust import CodeTrust

    #: The members of a directory; each file with its SHA-256.
    Listing = tuple[tuple[Member, str], ...]
    #: A SHA-256, and the function that opens the content.
    Source = tuple[str, Callable[..., object]]

#: Size in bytes of the largest file whose digest is computed: a huge sparse file is free to make.
LARGEST: Final = 8 << 30
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class AssetReader:
    """Build contents from their specifications. Each file and directory is hashed once, each URL downloaded once."""

    def __init__(self, trust: CodeTrust) -> None:
        """Start without any content read; ``trust`` refuses links that other users can change."""
        self._trust = trust
        #: Results that are computed once: digest by path, listing by path, and downloaded file by SHA-256.
        self._digests: dict[str, str] = {}
        self._listings: dict[str, Listing] = {}
        self._downloads: dict[str, BinaryIO] = {}

    def __call__(self, spec: ContentSpec, file: str) -> Content:
        """Return the content of ``spec``; relative paths start at the directory of the manifest ``file``.

        Its SHA-256 is computed now; its bytes are read when it is opened. Raise ``ValueError`` with a message.
        """
        # One method for each origin; it gets the path of the source too.
        find: Callable[[ContentSpec, str], Source] = getattr(self, f"_find_{spec.origin}")
        try:
            digest, read = find(spec, os.path.join(os.path.dirname(file), str(spec.source)))
        except OSError as error:
            raise ValueError(f"{spec.source} cannot be read: {(error.strerror or str(error)).lower()}") from error
        except ResourceError as error:
            raise ValueError(str(error)) from error
        if spec.sha256 and digest != spec.sha256:
            raise ValueError(f"the {spec.word} has the SHA-256 {digest}, not {spec.sha256}")
        return KINDS[spec.word](digest, spec.origin, spec.source, read)

    def _find_text(self, spec: ContentSpec, _path: str) -> Source:
        raw = str(spec.source).encode()
        return sha256(raw).hexdigest(), partial(io.BytesIO, raw)

    def _find_file(self, spec: ContentSpec, path: str) -> Source:
        """Return a file's digest and the function that reads it when applying: an asset's bytes, an archive's members.

        Reading raises ``ResourceError`` if the digest is another by then.
        """
        digest = self._digests.get(path)
        if digest is None:
            digest = self._digests[path] = _digest(path, self._trust)
        if spec.word == "asset":
            return digest, partial(VerifiedFile, path, digest)
        return digest, partial(_file_members, partial(_open_verified, path, digest))

    def _find_url(self, spec: ContentSpec, _path: str) -> Source:
        """Return the declared SHA-256 of a URL and the function that downloads it: nothing is downloaded yet."""
        download.check(spec.source)
        fetch = partial(self._download, spec.source, spec.sha256)
        return spec.sha256, fetch if spec.word == "asset" else partial(_file_members, fetch)

    def _download(self, url: str, digest: str) -> BinaryIO:
        """Return a new stream of the content of a URL, which is downloaded only once for this reader.

        The downloaded file has no name, and is closed together with the reader.
        """
        if digest not in self._downloads:
            file = self._downloads[digest] = download.fetch(url, digest)
            finalize(self, file.close)
        return download.reopen(self._downloads[digest])

    def _find_directory(self, _spec: ContentSpec, path: str) -> Source:
        """Return the digest of a directory as an archive, and the function that yields its members.

        The digest covers names, kinds, modes and contents, so that any change of them is a change of the archive.
        """
        listing = self._listings.get(path)
        if listing is None:
            listing = self._listings[path] = list_directory(path, self._trust)
        digest = _combined_digest([[item.name, item.kind, item.mode, sha or item.target] for item, sha in listing])
        return digest, lambda limits: checked_members(_opened_members(path, listing), limits)

    def _find_files(self, spec: ContentSpec, _path: str) -> Source:
        """Return the source of an archive that the manifest declares as name → content."""
        digest = _combined_digest([[name, content.word, content.sha256] for name, content in spec.source])
        return digest, lambda limits: checked_members(_nested_members(spec.source, limits), limits)


class SentReader(AssetReader):
    """Build contents from files in memory, sent by another machine, and from files beneath some directories.

    The path of a sent directory ends in a slash; its content is the list of the members as JSON.
    """

    def __init__(self, trust: CodeTrust, sent: Mapping[str, bytes], directories: Sequence[str]) -> None:
        """Use the files ``sent`` by the controller, path → content, and those of this machine beneath ``directories``.

        The latter are modules, which were unpacked here.
        """
        super().__init__(trust)
        self._sent = sent
        #: The paths of the unpacked module path, whose files are on this machine.
        self._beneath = tuple(f"{directory}/" for directory in directories)

    def _find_file(self, spec: ContentSpec, path: str) -> Source:
        """Return the digest of a file and the function that reads it: one that was sent, or a module's here."""
        if path.startswith(self._beneath):
            return super()._find_file(spec, path)
        raw = self._content(spec, path)
        read = partial(io.BytesIO, raw)
        return sha256(raw).hexdigest(), read if spec.word == "asset" else partial(_file_members, read)

    def _find_directory(self, spec: ContentSpec, path: str) -> Source:
        """Return the digest of a directory as an archive, and the function that yields its members.

        The controller has sent the files by path, and under the directory's path with ``/`` a list of the members as
        JSON. The digest is computed as for a directory on this machine, so that both mean the same archive.
        """
        if path.startswith(self._beneath):
            return super()._find_directory(spec, path)
        listed = json.loads(self._content(spec, f"{path}/"))
        digest = _combined_digest([[name, kind, mode, sha or target] for name, kind, mode, target, sha in listed])
        members = [
            Member(name, kind, mode, target, [self._sent.get(f"{path}/{name}", b"")])
            for name, kind, mode, target, _ in listed
        ]
        return digest, lambda limits: checked_members(iter(members), limits)

    def _content(self, spec: ContentSpec, path: str) -> bytes:
        """Return a file that the controller has sent. Raise ``ValueError`` for one that it has not."""
        if path not in self._sent:
            msg = f"{spec.source} is not among the files that were sent with the manifest; is it there, and readable?"
            raise ValueError(msg)
        return self._sent[path]


class VerifiedFile(io.RawIOBase):
    """A file whose last read raises an error unless all its bytes have the expected SHA-256."""

    def __init__(self, path: str, digest: str) -> None:
        """Open the regular file at ``path``, whose SHA-256 must be ``digest``, the planned one. Raise ``OSError``."""
        super().__init__()
        self._file = open_regular(path)
        self._path = path
        self._expected = digest
        self._digest = sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes. At the end, raise ``ResourceError`` for another digest: the file changed after planning."""
        count = self._file.readinto(buffer) or 0
        self._digest.update(memoryview(buffer)[:count])
        if not count and len(buffer) and self._digest.hexdigest() != self._expected:
            raise _changed_error(self._path)
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_regular(path: str) -> io.FileIO:
    """Open a regular file. Raise ``OSError`` for other kinds, which may block or be endless."""
    return reading.regular(os.open(path, _READ), path)


def open_trusted(path: str, trust: CodeTrust) -> io.FileIO:
    """Open a regular file to compute its digest, or to send it to hosts.

    Raise ``OSError``, and ``ResourceError`` behind a link that other users can change: they could have root publish a
    file that only root can read.
    """
    file = open_regular(path)
    reason = "it cannot be checked"
    try:
        reason = trust.check_links(path, file.fileno())
    finally:
        if reason:
            file.close()
    if reason:
        raise ResourceError(f"{path} is not read, because others can change a link on its path: {reason}")
    return file


def _open_verified(path: str, digest: str) -> BinaryIO:
    """Open an archive after comparing its SHA-256 with the planned ``digest``. Raise ``OSError``, ``ResourceError``.

    An archive is read in any order, so that a comparison at its end, as by ``VerifiedFile``, is not possible.
    """
    file = open_regular(path)
    if _checked_digest(file, path) != digest:
        file.close()
        raise _changed_error(path)
    file.seek(0)
    return file


def _digest(path: str, trust: CodeTrust) -> str:
    """Return the SHA-256 of a regular file. Raise as ``open_trusted``, and ``ResourceError`` if it is too large."""
    with open_trusted(path, trust) as file:
        return _checked_digest(file, path)


def _checked_digest(file: io.FileIO, path: str) -> str:
    """Return the SHA-256 of an open file. Raise ``ResourceError`` if it is, or becomes, larger than ``LARGEST``."""
    is_small = os.fstat(file.fileno()).st_size <= LARGEST
    if is_small and (digest := reading.sha256_of(reading.parts_of(file), LARGEST)):
        return digest
    raise ResourceError(f"{path} is larger than {LARGEST >> 30} GiB")


def _combined_digest(members: list[list[object]]) -> str:
    """Return the SHA-256 of an archive that is no single file, from the descriptions of its members."""
    return sha256(json.dumps(members, separators=(",", ":")).encode()).hexdigest()


def _changed_error(path: str) -> ResourceError:
    """Return the error for a file whose SHA-256 is not the one that this run has computed before."""
    return ResourceError(f"{path} has changed since this run read it first")


def _file_members(opened: Callable[[], BinaryIO], limits: Limits) -> Iterator[Member]:
    """Yield the members of an archive that is one file, which ``opened`` returns."""
    with opened() as file:
        yield from archive_members.members(file, limits)


def _nested_members(contents: Sequence[tuple[str, Content]], limits: Limits) -> Iterator[Member]:
    """Yield the members of an archive that is declared as a mapping, ``contents``: name → asset or archive.

    An archive in it becomes a directory with its members.
    """
    for name, content in contents:
        if isinstance(content, Archive):
            yield Member(name, "directory", permissions.DIRECTORY_MODE)
            for member in content.members(limits):
                yield member._replace(name=f"{name}/{member.name}")
        elif isinstance(content, Asset):
            yield Member(name, "file", permissions.FILE_MODE, parts=reading.parts(content.open))


def _opened_members(top: str, listing: Listing) -> Iterator[Member]:
    """Yield the members of a directory with their contents, which raise ``ResourceError`` if the file was changed."""
    for member, digest in listing:
        opener = partial(VerifiedFile, os.path.join(top, member.name), digest)
        yield member._replace(parts=reading.parts(opener)) if member.kind == "file" else member


def list_directory(top: str, trust: CodeTrust) -> Listing:
    """Return the members of a directory tree, sorted, with the SHA-256 of files, to use it as an archive.

    The modes are those of unpacked members. Raise ``ResourceError`` for a link out of the tree, which would be another
    file elsewhere, ``OSError``.
    """
    listing = []
    todo = [""]
    while todo:
        directory = todo.pop()
        with os.scandir(os.path.join(top, directory)) as entries:
            members = sorted(entries, key=lambda entry: entry.name)
        for entry in members:
            name = f"{directory}/{entry.name}" if directory else entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            if entry.is_symlink():
                target = os.readlink(entry.path)
                if not link_stays_inside(name, target):
                    raise ResourceError(f"the link '{name}' leads out of {top}, or up behind a name: {target}")
                listing.append((Member(name, "link", 0o777, target), ""))
            elif entry.is_dir():
                todo.append(name)
                listing.append((Member(name, "directory", permissions.packed_directory_mode(mode)), ""))
            else:
                listing.append((Member(name, "file", permissions.packed_file_mode(mode)), _digest(entry.path, trust)))
    return tuple(listing)
