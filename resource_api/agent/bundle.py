"""Bundles: a manifest and its modules as one archive with a generation and the digest of each file.

There is one archive of given files, byte for byte: it is uncompressed, sorted, without owners and times, and has files
only. Any other is refused, because it is compared with the one that its own files make. Signatures are in ``signing``.
"""

from __future__ import annotations

import io
import json
import os
import stat
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from resource_api.agent.root_only_files import IGNORED, Untrusted
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import Limits, member_name
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.reference import STACK_NAME
from resource_api.system.filesystem import archive_members, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

#: The first file of each bundle, and the directory of those module directories that are not the manifest's own.
INDEX: Final = "bundle.json"
MODULES: Final = ".modules"
#: Most bytes of all files in a bundle together, and most files.
LARGEST: Final = 64 << 20
MOST_FILES: Final = 10_000
#: Largest file of a bundle: with headers and the index.
LARGEST_FILE: Final = LARGEST + MOST_FILES * 4096
#: The greatest generation: it is kept as a signed number of 64 bits.
_LAST_GENERATION: Final = (1 << 63) - 1
_FORMAT: Final = 1
_KEYS: Final = {"format", "name", "generation", "modules", "files"}


class File(NamedTuple):
    """The content of a file, and whether it can be executed."""

    content: bytes
    executable: bool


class Bundle(NamedTuple):
    """What a bundle holds. ``modules``: directories in it that belong on the module path, in this order."""

    name: str
    generation: int
    modules: Sequence[str]
    files: Mapping[str, File]

    @property
    def raw(self) -> bytes:
        """The bytes of the bundle."""
        index = {
            "format": _FORMAT,
            "name": self.name,
            "generation": self.generation,
            "modules": list(self.modules),
            "files": {name: [sha256(each.content).hexdigest(), each.executable] for name, each in self.files.items()},
        }
        text = json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        return _archive([(INDEX, File(text.encode(), executable=False)), *sorted(self.files.items())])


def collect(directory: str, module_path: Sequence[str] = (), left_out: Collection[str] = ()) -> Bundle:
    """Return the bundle of a directory and of further module directories, without name and generation.

    Files whose real path is ``left_out`` are not in it. Raise ``UsageError`` for what no bundle can hold, ``OSError``.
    """
    tops = {"": directory, **{f"{MODULES}/{number}/": place for number, place in enumerate(module_path, 1)}}
    found: dict[str, File] = {}
    size = 0
    for prefix, top in tops.items():
        for name, path in _files(top):
            if os.path.realpath(path) in left_out:
                continue
            if not prefix and (name == INDEX or name.startswith(f"{MODULES}/")):
                msg = f"{path}: this name is reserved in bundles"
                raise UsageError(msg)
            found[_checked(prefix + name, path)] = each = _read(path)
            size += len(each.content)
            if size > LARGEST or len(found) > MOST_FILES:
                msg = f"{directory}: a bundle has at most {MOST_FILES} files and {LARGEST >> 20} MiB"
                raise UsageError(msg)
    if not found:
        msg = f"{directory}: has no files"
        raise UsageError(msg)
    modules = [prefix for prefix in tops if prefix and any(name.startswith(prefix) for name in found)]
    return Bundle("", 0, [prefix.rstrip("/") for prefix in modules], found)


def read(raw: bytes) -> Bundle:
    """Return what a bundle holds. Raise ``Untrusted`` for any bytes that are no bundle."""
    try:
        content = dict(_members(raw))
        index = content.pop(INDEX, None)
        if index is None:
            msg = f"it has no {INDEX}"
            raise Untrusted(msg)
        found = _described(json.loads(index.content), content)
    except ResourceError as error:
        raise Untrusted(str(error)) from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        msg = f"its {INDEX} is damaged"
        raise Untrusted(msg) from error
    if found.raw != raw:
        msg = "its bytes are not those that 'bundle make' writes for its files"
        raise Untrusted(msg)
    return found


def extract(found: Bundle, directory: str) -> None:
    """Write the files of a bundle into a new ``directory``, durably; only the caller can open it. Raise ``OSError``."""
    write_members(archive_members.members(io.BytesIO(found.raw), _limits()), directory)


def write_members(members: Iterable[Any], directory: str) -> None:
    """Write checked members of an archive into a new ``directory``, durably. Raise ``OSError``, ``ResourceError``."""
    with files.Batch() as batch:
        batch.make_directory(directory, mode=0o700)
        for member in members:
            place = f"{directory}/{member.name}"
            if member.kind == "directory":
                with suppress(FileExistsError):  # it was implied by a name before
                    batch.make_directory(place, mode=0o755)
            elif member.kind == "link":
                batch.make_link(place, member.target)
            else:
                batch.replace(place, member.parts, mode=member.mode)


def _limits() -> Limits:
    return Limits(LARGEST, 2 * MOST_FILES)


def _members(raw: bytes) -> Iterator[tuple[str, File]]:
    """Yield the files of an archive. Raise ``ResourceError`` as ``archive_members.members`` does, and for a link."""
    for member in archive_members.members(io.BytesIO(raw), _limits()):
        if member.kind == "link":
            msg = f"'{member.name}' is a link"
            raise ResourceError(msg)
        if member.kind == "file":
            yield member.name, File(b"".join(member.parts), bool(member.mode & 0o100))


def _described(index: Any, content: Mapping[str, File]) -> Bundle:
    """Return the bundle of ``content`` that ``index`` describes.

    Raise ``Untrusted`` for other files than are listed, ``ValueError`` and its like for any other index than ours.
    """
    if set(index) != _KEYS or index["format"] != _FORMAT:
        raise ValueError(_FORMAT)
    name, generation, modules, listed = (index[key] for key in ("name", "generation", "modules", "files"))
    if (
        not (isinstance(name, str) and STACK_NAME.match(name))
        or type(generation) is not int
        or not 1 <= generation <= _LAST_GENERATION
    ):
        raise TypeError(name)
    if not isinstance(listed, dict) or not all(
        any(path.startswith(f"{each}/") for path in content) for each in modules
    ):
        raise ValueError(modules)
    for path in sorted(listed.keys() | content.keys()):
        if path not in content or path not in listed:
            how = "is listed and not there" if path in listed else "is there and not listed"
            msg = f"'{path}' {how}"
            raise Untrusted(msg)
        if listed[path][0] != sha256(content[path].content).hexdigest():
            msg = f"'{path}' has another digest than is listed"
            raise Untrusted(msg)
    return Bundle(name, generation, modules, content)


def _archive(members: Iterable[tuple[str, File]]) -> bytes:
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
        for name, (content, executable) in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if executable else 0o644
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _files(top: str) -> Iterator[tuple[str, str]]:
    """Yield the name beneath ``top`` and the path of each file. Raise ``UsageError`` for what is no file."""
    todo = [""]
    while todo:
        directory = todo.pop()
        with os.scandir(os.path.join(top, directory)) as entries:
            for entry in entries:
                name = f"{directory}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    todo += [] if entry.name in IGNORED else [f"{name}/"]
                elif entry.is_file(follow_symlinks=False):
                    yield name, entry.path
                else:
                    msg = f"{entry.path}: is {'a link' if entry.is_symlink() else 'no file'}; a bundle has files only"
                    raise UsageError(msg)


def _checked(name: str, path: str) -> str:
    try:
        name.encode()
        if member_name(name) == name and name.count("/") < archive_members.MAX_DEPTH:
            return name
    except ValueError:
        pass
    msg = f"{path!r}: cannot stand in a bundle under this name"
    raise UsageError(msg)


def _read(path: str) -> File:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        return File(file.read(LARGEST + 1), bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR))
