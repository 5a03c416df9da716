"""Bundles: a manifest and its modules as one archive with a generation and the digest of each file.

The archive of given files is reproducible: uncompressed, sorted, without owners and times, files only. Any other bytes
are refused, by comparison with the archive of the same files. The signature of a bundle is in a file beside it,
``X.bundle.sig``.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from resource_api.agent.trust import IGNORED, LARGEST_SIGNATURE, SIGNATURE_SUFFIX, Untrusted
from resource_api.model.values.archive_rules import MAX_DEPTH, Limits, member_name
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show
from resource_api.system.document_schema import find_violations
from resource_api.system.filesystem import archive_members, reading
from resource_api.system.filesystem.unpack import unpack_new

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

#: The first file of each bundle, and the directory of the module directories outside the manifest's.
INDEX: Final = "bundle.json"
MODULES: Final = ".modules"
#: Largest total size in bytes, and number of files, of a bundle.
LARGEST: Final = 64 << 20
MAX_FILES: Final = 10_000
#: Largest size of a bundle's file, with headers and the index.
LARGEST_FILE: Final = LARGEST + MAX_FILES * 4096
_LIMITS: Final = Limits(LARGEST, 2 * MAX_FILES)
_FORMAT: Final = 1


class BundleFile(NamedTuple):
    """The content of a file, and whether it is executable."""

    content: bytes
    executable: bool


class Bundle(NamedTuple):
    """The contents of a bundle. ``modules``: its directories for the module path, in order.

    ``generation``: a number that grows, so that an agent can refuse an older bundle. ``files``: path in it → file.
    """

    name: str
    generation: int
    modules: Sequence[str]
    files: Mapping[str, BundleFile]

    @property
    def raw(self) -> bytes:
        """The bytes to sign and to compare: an archive of the index, then of the files in the order of their names.

        The order, and an archive without times, make bundles with equal contents have equal bytes.
        """
        index = {
            "format": _FORMAT,
            "name": self.name,
            "generation": self.generation,
            "modules": list(self.modules),
            "files": {name: [sha256(file.content).hexdigest(), file.executable] for name, file in self.files.items()},
        }
        text = json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        return _archive([(INDEX, BundleFile(text.encode(), executable=False)), *sorted(self.files.items())])


def collect(directory: str, module_path: Sequence[str] = (), left_out: Collection[str] = ()) -> Bundle:
    """Return the bundle of a directory and of further module directories, for ``bundle make``.

    The caller adds its name and generation. ``left_out``: real paths of files to skip, such as the bundle to write,
    which would otherwise contain its own earlier content. Raise ``UsageError`` for a link or special file, and for too
    many or too large files.
    """
    modules = {f"{MODULES}/{number}": path for number, path in enumerate(module_path, 1)}
    collected: dict[str, BundleFile] = {}
    size = 0
    for name, path in _named_files(directory, modules, left_out):
        collected[_checked(name, path)] = file = _read(path)
        size += len(file.content)
        if size > LARGEST or len(collected) > MAX_FILES:
            raise UsageError(f"{directory}: a bundle has at most {MAX_FILES} files and {LARGEST >> 20} MiB")
    if not collected:
        raise UsageError(f"{directory}: has no files")
    # An archive of files alone cannot have an empty directory, so an agent refuses an index that lists one.
    filled = [module for module in modules if any(name.startswith(f"{module}/") for name in collected)]
    return Bundle("", 0, filled, collected)


def _named_files(directory: str, modules: Mapping[str, str], left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name in the bundle and the path of each file to pack, first of the manifest's ``directory``.

    ``modules``: name of a directory in the bundle → path of the module directory whose files are packed there. Raise
    ``UsageError`` for a file beside the manifest whose name is that of the index or of a packed module.
    """
    for name, path in _files(directory, left_out):
        if name == INDEX or name.startswith(f"{MODULES}/"):
            raise UsageError(f"{path}: this name is reserved in bundles")
        yield name, path
    for module, top in modules.items():
        for name, path in _files(top, left_out):
            yield f"{module}/{name}", path


def read_signed(path: str) -> tuple[bytes, bytes]:
    """Return the content of a bundle's file, and its signature from the file beside it, which must be verified first.

    Raise ``Untrusted`` without a signature, and ``OSError``.
    """
    raw = reading.read(path, LARGEST_FILE)
    try:
        return raw, reading.read(path + SIGNATURE_SUFFIX, LARGEST_SIGNATURE)
    except FileNotFoundError as error:
        raise Untrusted(f"it is not signed: there is no {path}{SIGNATURE_SUFFIX}") from error
    except OSError as error:
        raise Untrusted(f"its signature cannot be read: {error.strerror}") from error


def read(raw: bytes) -> Bundle:
    """Return the contents of a bundle whose signature is verified. Raise ``Untrusted`` for invalid bytes.

    An archive that a signer packed with another tool can have more than the files of its index, such as owners or
    trailing bytes: bytes that ``Bundle.raw`` would not write for the same files are refused.
    """
    with (
        errors_as(Untrusted, ResourceError),
        errors_as(Untrusted, (ValueError, RecursionError), f"its {INDEX} is damaged: "),
    ):
        content = dict(_members(raw))
        index = content.pop(INDEX, None)
        if index is None:
            raise Untrusted(f"it has no {INDEX}")
        bundle = _described(json.loads(index.content), content)
    if bundle.raw != raw:
        raise Untrusted("its bytes are not those that 'bundle make' writes for its files")
    return bundle


def extract(bundle: Bundle, directory: str) -> None:
    """Write the files of a bundle durably into a new ``directory``; only the caller can open it. Raise ``OSError``."""
    unpack_new(archive_members.members(io.BytesIO(bundle.raw), _LIMITS), directory)


def _members(raw: bytes) -> Iterator[tuple[str, BundleFile]]:
    """Yield path and file of each member of a received archive, for the comparison with its index.

    Raise ``ResourceError`` for a link, which no bundle has, and for a member that would be unpacked elsewhere.
    """
    for member in archive_members.members(io.BytesIO(raw), _LIMITS):
        if member.kind == "link":
            raise ResourceError(f"'{member.name}' is a link")
        if member.kind == "file":
            yield member.name, BundleFile(b"".join(member.parts), bool(member.mode & 0o100))


def _described(index: Any, content: Mapping[str, BundleFile]) -> Bundle:
    """Return the bundle of ``content`` (path → file), after a check against ``index``, the JSON of ``bundle.json``.

    Name, generation and modules of the bundle are those of the index. Raise ``Untrusted`` unless the files that the
    index lists are exactly those of ``content``, by path and digest, and ``ValueError`` for an invalid index.
    """
    if violations := find_violations("bundle-index", index):
        raise ValueError(str(violations[0]))
    listed, modules = index["files"], index["modules"]
    for module in modules:
        if not any(path.startswith(f"{module}/") for path in content):
            raise ValueError(f"it has no files of the module directory {show(module)}")
    for path in sorted(listed.keys() | content.keys()):
        if path not in content:
            raise Untrusted(f"'{path}' is listed and not there")
        if path not in listed:
            raise Untrusted(f"'{path}' is there and not listed")
        if listed[path][0] != sha256(content[path].content).hexdigest():
            raise Untrusted(f"'{path}' has another digest than is listed")
    return Bundle(index["name"], index["generation"], modules, content)


def _archive(members: Iterable[tuple[str, BundleFile]]) -> bytes:
    """Return a tar archive without owners and times, so that equal members have equal bytes, and one signature."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
        for name, (content, executable) in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if executable else 0o644
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _files(top: str, left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name beneath ``top``, and the path, of each file in it that belongs into a bundle.

    Directories of version control and of compiled Python (``IGNORED``) do not, nor do files whose real path is in
    ``left_out``. Raise ``UsageError`` for a link or special file, which could lead out of the bundle.
    """
    todo = [""]
    while todo:
        directory = todo.pop()
        with os.scandir(os.path.join(top, directory)) as listing:
            entries = list(listing)
        for entry in entries:
            name = f"{directory}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in IGNORED:
                    todo.append(f"{name}/")
            elif not entry.is_file(follow_symlinks=False):
                kind = "a link" if entry.is_symlink() else "no file"
                raise UsageError(f"{entry.path}: is {kind}; a bundle has files only")
            elif os.path.realpath(entry.path) not in left_out:
                yield name, entry.path


def _checked(name: str, path: str) -> str:
    """Return the ``name`` of a file in a bundle. Raise ``UsageError`` for a name for which agents refuse the bundle.

    They refuse a name that is not UTF-8, has too many directories, or leads out of the bundle: the author learns it
    here, before signing. ``path``: the path of the file, for the message.
    """
    try:
        name.encode()
        if member_name(name) == name and name.count("/") < MAX_DEPTH:
            return name
    except ValueError:
        pass
    raise UsageError(f"{path!r}: cannot stand in a bundle under this name")


def _read(path: str) -> BundleFile:
    """Return a file to pack. Raise ``OSError`` for a link.

    At most a byte above the limit is read, by which ``collect`` notices that the file is too large.
    """
    # Since it was listed it may have become a link, or a FIFO, at which an ordinary open would wait.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        return BundleFile(file.read(LARGEST + 1), bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR))
