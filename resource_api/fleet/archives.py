"""The archives that hosts receive beside their jobs, named by digest: this package, and the user's modules.

An archive is reproducible: sorted, without owners and times. It is a line of JSON with the name, the end and the mode
of each file, then the contents, compressed as a whole by LZMA. ``fleet/boot`` unpacks it.
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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.fleet.job import libraries_of
from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.plugins.module_path import BUNDLED, PACKAGE
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

#: Parts that are not sent: the command, tests, rehearsals, the agent, pages.
LEFT_OUT: Final = frozenset(
    {
        "packaging/dependency_groups.py",
        "packaging/direct_url.py",
        "packaging/licenses",
        "packaging/metadata.py",
        "packaging/pylock.py",
        "packaging/ranges.py",
        "resource_api/__main__.py",
        "resource_api/agent",
        "resource_api/cli",
        "resource_api/convert",
        "resource_api/manifest/input_files.py",
        "resource_api/model/datatypes/json_schema.py",
        "resource_api/model/json_documents.py",
        "resource_api/model/trace.py",
        "resource_api/rehearse",
        "resource_api/render/columns.py",
        "resource_api/render/describe.py",
        "resource_api/render/fleet.py",
        "resource_api/render/graph.py",
        "resource_api/render/html",
        "resource_api/render/manifest_schema.json",
        "resource_api/render/manifest_schema.py",
        "resource_api/render/junit_and_metrics.py",
        "resource_api/render/run_text.py",
        "resource_api/render/table.py",
        "resource_api/render/yaml_manifest.py",
        "resource_api/runtime/terraform_import.py",
        "resource_api/runtime/terraform_providers.py",
        "resource_api/state/postgresql",
        "resource_api/system/otlp.py",
        "resource_api/system/overlay",
        "resource_api/system/process/descriptor_filter.py",
        "resource_api/system/process/interactive.py",
        "resource_api/terraform",
        "resource_api/testing",
        "structlog/_greenlets.py",
        "structlog/twisted.py",
    }
)
#: Directory → the names of its files that a host needs, without suffix: the others serve commands.
_SENT_MODULES: Final[Mapping[str, Collection[str]]] = {
    "resource_api/fleet": {"__init__", "job"},
    "resource_api/schemas": {"agent-status", "common", "plan", "providers", "run", "state-export"},
}
#: Libraries in pure Python that are sent along.
LIBRARIES: Final = ("packaging", "sh", "structlog")
#: The types in the reference of a resource, of which the last one may be that of a component's member.
_TYPE_NAMES: Final = re.compile(r"(?:^|\]/)(\w+)\[")
#: The settings of LZMA for text: half a character as context, and no alignment.
_LZMA_FILTERS: Final = ({"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0},)
#: The parts of code that may begin with a docstring.
_DOCUMENTED_NODES: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The directories and files of a module path that a host needs.
_MODULE_KINDS: Final = ("components", "lib", "policies", "providers", "types")
_PROVIDER_FILES: Final = ("providers.json", "providers.yaml", "providers.yml")
#: Largest size in bytes, and number of files, of a module path.
LARGEST: Final = 64 << 20
MAX_FILES: Final = 10_000


class SentFile(NamedTuple):
    """The content of a file, and whether it is executable."""

    content: bytes
    executable: bool = False


class SentArchive(NamedTuple):
    """The bytes of an archive and their SHA-256."""

    digest: str
    raw: bytes


class Archives:
    """The archives of one run by their digests."""

    def __init__(self, *archives: SentArchive | None) -> None:
        """Hold the archives, without None."""
        self._archives = {archive.digest: archive.raw for archive in archives if archive is not None}

    def bytes_of(self, digest: str) -> bytes:
        """Return the bytes of an archive. Raise ``KeyError`` for an unknown one."""
        return self._archives[digest]


def needed_libraries(
    data: object,
    programs: Sequence[bytes],
    directories: Sequence[str],
    read: Callable[[str], tuple[bytes, os.stat_result]],
) -> list[str]:
    """Return the Python libraries that a manifest's functions and types need, to send them to hosts that lack them.

    ``data``: the manifest's files and plans as JSON data; ``programs``: its files in Python. All names in them count,
    also names that only resemble a function, type or component: an unnecessary library costs little. ``directories`` of
    the module path and ``read``: as for ``modules_archive``.
    """
    names = set(_used_names(data)).union(*map(_names_in_code, programs))
    components, helpers = _components_and_helpers(directories)
    # Only code imports helpers: Python manifests, and the components, of which one may use others.
    if programs or not names.isdisjoint(components):
        names.update(*(_names_in_code(read(path)[0]) for path in helpers))
    pending = names & components.keys()
    while pending:  # the components that are used, then those that they use, until none is new
        more = set[str]().union(*(_names_in_code(read(components[name])[0]) for name in pending))
        pending = (more - names) & components.keys()
        names |= more
    return libraries_of(names)


def _components_and_helpers(directories: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return component → its path, and the paths of the helpers in ``lib``, to search them for used libraries.

    A component in several directories of the module path is that of the first one.
    """
    components: dict[str, str] = {}
    helpers: list[str] = []
    for directory in directories:
        for name in _modules_in(directory):
            kind, _, file = name.partition("/")
            if kind == "components":
                components.setdefault(file.removesuffix(".py"), f"{directory}/{name}")
            elif kind == "lib" and file.endswith(".py"):
                helpers.append(f"{directory}/{name}")
    return components, helpers


def _names_in_code(program: bytes) -> Iterator[str]:
    """Yield the names in a Python program that may mean a function, type or component, which may need a library.

    These are the attributes, as ``template`` in ``m.template()``, and all texts in lower case up to a bracket, as
    ``file`` of ``"File[/a]"``. A file with a syntax error has none: the error is reported when the host executes it.
    """
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value.partition("[")[0].lower()


def _used_names(data: object) -> Iterator[str]:
    """Yield the names of types, in lower case, and functions in a manifest or plan, as these may need a library.

    ``data``: its JSON data. Each key counts as the name of a type, ``File[/a]`` as ``file``, because an unnecessary
    name costs little.
    """
    if isinstance(data, list):
        for item in data:
            yield from _used_names(item)
    elif isinstance(data, dict):
        for key, value in data.items():
            yield str(key).partition("[")[0].lower()
            if key == "invoke":
                yield str(value)
            elif key == "reference":
                yield from map(str.lower, _TYPE_NAMES.findall(str(value)))
            yield from _used_names(value)


def package_archive(directory: str, needed: Sequence[str] = ()) -> SentArchive:
    """Return the archive of this package with the bundled types and the required libraries, for hosts without it.

    ``needed``: further libraries, which are added if they are installed here. Compression takes seconds, so the archive
    is cached in ``directory``, which only this user can open. The cached file is named by a digest of the names, sizes
    and times of all sent files, and is not used any more when one of them changes.
    """
    more = [name for name in needed if PathFinder.find_spec(name) is not None]
    files = _package_files(more)
    # This module is in the digest, too: another version of it may select other files or write another format.
    listed = [(name, path, os.stat(path)) for name, path in sorted({**files, "": __file__}.items())]
    text = repr([(name, path, status.st_size, status.st_mtime_ns) for name, path, status in listed])
    prefix = "+".join(("package", *more))
    cached = f"{directory}/{prefix}-{sha256(text.encode()).hexdigest()}"
    with suppress(OSError):
        if private_files.is_private_directory(directory) and (raw := private_files.read(cached)):
            return SentArchive(sha256(raw).hexdigest(), raw)
    archive = make_archive(
        {name: SentFile(_sent_content(name, Path(path).read_bytes())) for name, path in files.items()}
    )
    with suppress(OSError):
        _store(directory, prefix, cached, archive.raw)
    return archive


def _sent_content(name: str, content: bytes) -> bytes:
    """Return the content of a file as it is sent: code of this package without docstrings, a fifth of the archive.

    Empty lines take their place, so that the line numbers in a host's tracebacks are those of the source.
    """
    if not (name.startswith("resource_api/") and name.endswith(".py")):
        return content
    lines = content.split(b"\n")
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, _DOCUMENTED_NODES) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            begin, end = text.lineno - 1, text.end_lineno or text.lineno
            # An empty text remains: it may be all that a class or function has.
            lines[begin:end] = [lines[begin][: text.col_offset] + b'""', *[b""] * (end - begin - 1)]
    return b"\n".join(lines)


def _package_files(needed: Sequence[str]) -> dict[str, str]:
    """Return name in the archive → path, of each file that a host needs to run jobs: this package and its libraries.

    ``needed``: the libraries that only this manifest requires.
    """
    files = dict(_tree(PACKAGE, "resource_api"))
    if BUNDLED != PACKAGE:  # in a checkout, where the bundled types stand beside the package
        for kind in _MODULE_KINDS:
            files |= _tree(f"{BUNDLED}/{kind}", f"resource_api/{kind}")
    for library in (*LIBRARIES, *needed):
        files |= _library(library)
    return files


def _store(directory: str, prefix: str, path: str, raw: bytes) -> None:
    """Write an archive to the private cache, and remove the older ones with its ``prefix``. Raise ``OSError``.

    Older ones are of earlier versions of the package's files, and would fill the disk.
    """
    make_directory(directory)
    if private_files.is_private_directory(directory):
        private_files.replace(path, raw)
        for name in os.listdir(directory):
            if name.startswith(f"{prefix}-") and f"{directory}/{name}" != path:
                os.unlink(f"{directory}/{name}")


def modules_archive(
    directories: Sequence[str], read: Callable[[str], tuple[bytes, os.stat_result]]
) -> SentArchive | None:
    """Return the archive of the user's module path, which hosts need to run manifests, or None if it has no modules.

    The directories are named by their index, ``0``, ``1``, as the host needs their order, not their names. ``read``
    returns the content of a file and its status, and raises ``UntrustedCode`` if other users can change it. Raise
    ``UsageError`` beyond the limits, ``OSError``.
    """
    files: dict[str, SentFile] = {}
    size = 0
    for number, directory in enumerate(directories):
        for name in _modules_in(directory):
            content, status = read(f"{directory}/{name}")
            files[f"{number}/{name}"] = SentFile(content, bool(status.st_mode & 0o100))
            size += len(content)
            if size > LARGEST or len(files) > MAX_FILES:
                msg = f"{directory}: the modules for other hosts are at most {MAX_FILES} files and {LARGEST >> 20} MiB"
                raise UsageError(msg)
    return make_archive(files) if files else None


def make_archive(files: Mapping[str, SentFile]) -> SentArchive:
    """Return the archive of files by name, in a format that the short program ``fleet/boot`` can unpack.

    The format is compressed: a line of JSON with name, end and mode of each file, then all contents without separators.
    Files are sorted, so that equal files have an equal digest, by which a host recognizes an archive in its cache.
    """
    index: list[tuple[str, int, int]] = []
    contents = bytearray()
    for name, (content, executable) in sorted(files.items()):
        contents += content
        index.append((name, len(contents), 0o700 if executable else 0o600))
    packed = lzma.compress(json.dumps(index).encode() + b"\n" + contents, filters=_LZMA_FILTERS)
    return SentArchive(sha256(packed).hexdigest(), packed)


@cache
def boot_text() -> str:
    """Return the first program, ``fleet/boot``, as the argument of ``python3 -c`` on each host.

    It is a part of the command line, so it is short: without docstrings and annotations, and compressed.
    """
    with open(f"{PACKAGE}/fleet/boot.py", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    # Indented by one space a level instead of four.
    short = re.sub("(?m)^(?: {4})+", lambda match: " " * (len(match[0]) // 4), ast.unparse(tree))
    text = b85encode(zlib.compress(short.encode(), 9)).decode()
    return f"import base64,zlib;exec(zlib.decompress(base64.b85decode('{text}')))"


def boot_arguments(digests: Iterable[str | None], cache_directory: str) -> list[str]:
    """Return the arguments for a host's Python interpreter to run the first program, ``fleet/boot``.

    The interpreter ignores the host's environment variables and site directories, whose code could change the job.
    ``digests``: those of a job's archives, None for no archive. ``cache_directory``: "" for the default.
    """
    return ["-I", "-S", "-c", boot_text(), cache_directory, *filter(None, digests)]


def _library(name: str) -> dict[str, str]:
    """Return name in the archive → path for the files of an installed library, which are sent to hosts.

    Raise ``UsageError`` for a library that is missing here, or whose code is not in files, as in a zip archive.
    """
    # Not ``importlib.util.find_spec``: the library sh, once imported, is an object without a specification.
    spec = PathFinder.find_spec(name)
    origin = None if spec is None else spec.origin
    if origin is None or not os.path.isfile(origin):
        raise UsageError(f"the library {name}, which other hosts need, is not installed as files")
    if origin.endswith("/__init__.py"):
        return dict(_tree(os.path.dirname(origin), name))
    return {os.path.basename(origin): origin}


def _tree(directory: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield name in the archive, beginning with ``prefix``, and path of each file beneath a directory that hosts need.

    Files in ``LEFT_OUT``, such as those of the command line, are omitted, so that the archive is small.
    """
    for name in _names(directory):
        parts = f"{prefix}/{name}".split("/")
        # Of ``resource_api/cli/a.py`` these names are compared: ``resource_api/cli``, ``resource_api/cli/a.py``.
        is_left_out = any("/".join(parts[:end]) in LEFT_OUT for end in range(2, len(parts) + 1))
        stem, suffix = os.path.splitext(parts[-1])
        sent_stems = _SENT_MODULES.get("/".join(parts[:-1]), (stem,))  # by default every file of a directory is sent
        if suffix in {".py", ".json"} and stem in sent_stems and not is_left_out:
            yield f"{prefix}/{name}", f"{directory}/{name}"


def _names(directory: str) -> list[str]:
    """Return the sorted relative names of the files beneath a directory that may be sent to hosts.

    Bytecode and hidden files, such as those of version control, are omitted.
    """
    names: list[str] = []
    for top, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if name != "__pycache__" and name[0] != "."]
        visible = (file for file in files if file[0] != "." and not file.endswith(".pyc"))
        names.extend(os.path.relpath(f"{top}/{file}", directory) for file in visible)
    return sorted(names)


def _modules_in(directory: str) -> Iterator[str]:
    """Yield the relative names of the files in a directory of the module path that a host needs to run manifests."""
    for kind in _MODULE_KINDS:
        yield from (f"{kind}/{name}" for name in _names(f"{directory}/{kind}"))
    yield from (name for name in _PROVIDER_FILES if os.path.isfile(f"{directory}/{name}"))
