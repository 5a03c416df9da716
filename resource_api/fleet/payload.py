"""What a host is sent beside its job: this package, and the user's modules, as archives that their digest names.

The same files always give the same archive: sorted, without owners and times. It is a line of JSON with the name, the
end and the mode of each file, then their contents, compressed as a whole by LZMA. ``fleet/boot`` unpacks it.
"""

from __future__ import annotations

import ast
import json
import lzma
import os
import re
import zlib
from base64 import b85encode
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UsageError
from resource_api.plugins.module_path import BUNDLED, PACKAGE
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: Parts that a host does not need: the command, tests, rehearsals, the agent, pages, carriers.
LEFT_OUT: Final = frozenset(
    {
        "packaging/licenses",
        "packaging/metadata.py",
        "packaging/pylock.py",
        "resource_api/agent",
        "resource_api/cli",
        "resource_api/fleet/carriers",
        "resource_api/rehearse",
        "resource_api/render/describe.py",
        "resource_api/render/explain.py",
        "resource_api/render/fleet.py",
        "resource_api/render/graph.py",
        "resource_api/render/html",
        "resource_api/render/manifest_schema.json",
        "resource_api/render/manifest_schema.py",
        "resource_api/render/run_reports.py",
        "resource_api/system/overlay",
        "resource_api/testing",
        "structlog/_greenlets.py",
        "structlog/twisted.py",
    }
)
#: Of ``fleet``, what a host needs.
_FLEET: Final = frozenset({"__init__", "job", "sent_manifest"})
#: Libraries that are pure Python and needed on a host: ``sh`` runs programs, ``packaging`` compares versions.
LIBRARIES: Final = ("packaging", "sh", "structlog")
#: The directories and files of a module path that a host needs.
_KINDS: Final = ("components", "lib", "policies", "providers", "types")
_DATA: Final = ("providers.json", "providers.yaml", "providers.yml")
#: Most bytes and files of a module path.
LARGEST: Final = 64 << 20
MOST_FILES: Final = 10_000


class File(NamedTuple):
    """The content of a file, and whether it can be executed."""

    content: bytes
    executable: bool = False


class Archive(NamedTuple):
    """Files as they are sent, and the SHA-256 of that."""

    digest: str
    raw: bytes


class Payloads:
    """The archives of one run by their digests."""

    def __init__(self, *archives: Archive | None) -> None:
        """Keep archives; None is none."""
        self._archives = {each.digest: each.raw for each in archives if each is not None}

    def bytes_of(self, digest: str) -> bytes:
        """Return the bytes of an archive. Raise ``KeyError`` for an unknown one."""
        return self._archives[digest]


def package(directory: str) -> Archive:
    """Return the archive of this package, with the bundled types and the libraries that a host needs.

    Making it takes seconds, so it is kept in ``directory``, which only this user can open, until a file of it or what
    makes it changes.
    """
    files = _package_files()
    listed = [(name, path, os.stat(path)) for name, path in sorted({**files, "": __file__}.items())]
    text = repr([(name, path, found.st_size, found.st_mtime_ns) for name, path, found in listed])
    place = f"{directory}/package-{sha256(text.encode()).hexdigest()}"
    with suppress(OSError):
        if private_files.is_private_directory(directory) and (raw := private_files.read(place)):
            return Archive(sha256(raw).hexdigest(), raw)
    made = archive({name: File(_content(path)) for name, path in files.items()})
    with suppress(OSError):
        _keep(directory, place, made.raw)
    return made


def _package_files() -> dict[str, str]:
    """Return the path of each file in the archive of this package."""
    found = dict(_tree(PACKAGE, "resource_api"))
    if BUNDLED != PACKAGE:
        for kind in _KINDS:
            found |= _tree(f"{BUNDLED}/{kind}", f"resource_api/{kind}")
    for library in LIBRARIES:
        found |= _library(library)
    return found


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _keep(directory: str, place: str, raw: bytes) -> None:
    """Write what ``package`` keeps, and remove what it kept before. Raise ``OSError``."""
    make_directory(directory)
    if private_files.is_private_directory(directory):
        private_files.replace(place, raw)
        for name in os.listdir(directory):
            if name.startswith("package-") and f"{directory}/{name}" != place:
                os.unlink(f"{directory}/{name}")


def modules(directories: Sequence[str], read: Callable[[str], tuple[bytes, os.stat_result]]) -> Archive | None:
    """Return the archive of a module path; None where its directories hold no modules.

    Each directory becomes one that is called like its place in the order: ``0``, ``1``. ``read`` returns the content
    of a file and its status, and raises ``UntrustedCode`` where others can change it. Raise ``UsageError`` for more
    than an archive may hold, ``OSError``.
    """
    found: dict[str, File] = {}
    size = 0
    for number, directory in enumerate(directories):
        for name in _modules_in(directory):
            content, status = read(f"{directory}/{name}")
            found[f"{number}/{name}"] = File(content, bool(status.st_mode & 0o100))
            size += len(content)
            if size > LARGEST or len(found) > MOST_FILES:
                msg = f"{directory}: the modules for other hosts are at most {MOST_FILES} files and {LARGEST >> 20} MiB"
                raise UsageError(msg)
    return archive(found) if found else None


def archive(files: Mapping[str, File]) -> Archive:
    """Return the one archive of these files."""
    index: list[tuple[str, int, int]] = []
    end = 0
    listed = sorted(files.items())
    for name, (content, executable) in listed:
        end += len(content)
        index.append((name, end, 0o700 if executable else 0o600))
    contents = (content for _, (content, _) in listed)
    raw = lzma.compress(b"".join((json.dumps(index).encode(), b"\n", *contents)))
    return Archive(sha256(raw).hexdigest(), raw)


@cache
def boot_text() -> str:
    """Return the text of the first program, ``fleet/boot``, without its comments, as an argument of ``python3 -c``."""
    with open(f"{PACKAGE}/fleet/boot.py", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    short = re.sub("(?m)^(?: {4})+", lambda found: " " * (len(found[0]) // 4), ast.unparse(tree))
    text = b85encode(zlib.compress(short.encode(), 9)).decode()
    return f"import base64,zlib;exec(zlib.decompress(base64.b85decode('{text}')))"


def boot_arguments(digests: Iterable[str | None], cache_directory: str) -> list[str]:
    """Return the arguments of an interpreter that runs the first program: without site, and without its environment.

    ``digests``: of the archives in a job. ``cache_directory``: where the host keeps them; empty: the usual place.
    """
    return ["-I", "-S", "-c", boot_text(), cache_directory, *filter(None, digests)]


def _library(name: str) -> dict[str, str]:
    """Return the paths of the files of an installed library. Raise ``UsageError`` where it has no files."""
    spec = PathFinder.find_spec(name)  # sh, once imported, has replaced itself by what has no specification
    origin = None if spec is None else spec.origin
    if origin is None or not os.path.isfile(origin):
        msg = f"the library {name}, which other hosts need, is not installed as files"
        raise UsageError(msg)
    if origin.endswith("/__init__.py"):
        return dict(_tree(os.path.dirname(origin), name))
    return {os.path.basename(origin): origin}


def _tree(directory: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the names in an archive of the files of code beneath a directory, with their paths."""
    for name in _names(directory):
        parts = f"{prefix}/{name}".split("/")
        wanted = not any("/".join(parts[:end]) in LEFT_OUT for end in range(2, len(parts) + 1))
        wanted = wanted and (parts[:-1] != ["resource_api", "fleet"] or parts[-1].removesuffix(".py") in _FLEET)
        if wanted and name.endswith((".py", ".json")):
            yield f"{prefix}/{name}", f"{directory}/{name}"


def _names(directory: str) -> Iterator[str]:
    """Yield the relative names of the files beneath a directory, sorted, without bytecode and hidden ones."""
    found: list[str] = []
    for top, directories, files in os.walk(directory):
        directories[:] = [each for each in directories if each != "__pycache__" and each[0] != "."]
        shown = (file for file in files if file[0] != "." and not file.endswith(".pyc"))
        found.extend(os.path.relpath(f"{top}/{file}", directory) for file in shown)
    return iter(sorted(found))


def _modules_in(directory: str) -> Iterator[str]:
    for kind in _KINDS:
        yield from (f"{kind}/{name}" for name in _names(f"{directory}/{kind}"))
    yield from (name for name in _DATA if os.path.isfile(f"{directory}/{name}"))
