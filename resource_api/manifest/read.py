"""A manifest's files, or a program's mapping → one ``Manifest``: its fixed structure checked, nothing interpreted.

All problems of all files are collected and raised once. Types, attributes and where references lead are unknown here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.sections import Gatherer
from resource_api.model.declaration import Manifest
from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from resource_api.model.values.document import Document

    Reader = Callable[[bytes, str], Document]

MAPPING: Final = "<mapping>"


def read(source: str | os.PathLike[str] | Mapping[str, Any], python: Reader | None = None) -> Manifest:
    """Read a manifest from a file (``.yaml``, ``.yml``, ``.json``, ``.py``) or from a mapping like the YAML's.

    ``python`` reads Python manifests, which need inputs and facts.

    Raises ``ManifestError`` with every problem of every file, ``UsageError`` for a suffix that nothing reads.
    """
    if isinstance(source, Mapping):
        from resource_api.manifest import json_reader  # noqa: PLC0415 - only programs come this way

        adopted = json_reader.adopt(source, MAPPING)
        if adopted.data.get("include") is not None:
            message = "include needs a file that it is relative to"
            raise document.manifest_error(MAPPING, (0, 0), "include", message)
        return assemble([adopted])
    documents, problems = load_documents(os.fsdecode(source), python)
    return assemble(documents, problems)


def assemble_without(documents: Iterable[Document], keys: Collection[str]) -> Manifest:
    """Put documents together without the resources that stand there as ``keys``, and defaults for them alone.

    Raises ``ManifestError``.
    """
    kept = []
    for each in documents:
        resources = {key: body for key, body in (each.data.get("resources") or {}).items() if key not in keys}
        types = {key.partition("[")[0].lower() for key in resources}
        defaults = {name: body for name, body in (each.data.get("defaults") or {}).items() if name.lower() in types}
        kept.append(each.holding({**each.data, "resources": resources, "defaults": defaults}))
    return assemble(kept)


def from_texts(files: Iterable[Mapping[str, Any]], root: str = "") -> Manifest:
    """Make a manifest again from what its ``text`` was; places are then not known. Raises ``ManifestError``.

    ``root``: where relative names of files began.
    """
    from resource_api.manifest import json_reader  # noqa: PLC0415 - only saved plans come this way

    return assemble([json_reader.adopt(each["data"], each["file"]) for each in files])._replace(root=root)


def assemble(documents: Sequence[Document], problems: Iterable[Problem] = ()) -> Manifest:
    """Put documents together, the first file's last. Raises ``ManifestError``, for earlier ``problems`` too."""
    gathered = Gatherer(list(problems))
    for each in documents:
        gathered.gather(each, first=each is documents[-1])
    if gathered.problems:
        raise ManifestError(gathered.problems)
    file = documents[-1].file if documents else MAPPING
    return Manifest(
        file=file,
        project=gathered.project or _stem(file),
        project_given=gathered.project is not None,
        inputs=gathered.inputs,
        defaults=gathered.defaults,
        providers=gathered.providers,
        values=gathered.named["values"],
        resources=tuple(gathered.resources),
        moved=tuple(gathered.moved),
        removed=tuple(gathered.removed),
        outputs=gathered.named["outputs"],
        documents=tuple(documents),
    )


def _stem(file: str) -> str:
    """Give the name of a file without its directory and suffix, and without what may stand before a name."""
    if file == MAPPING:
        return MAPPING.strip("<>")
    stem = os.path.splitext(os.path.basename(file))[0]  # noqa: PTH119, PTH122 - pathlib costs more than the file
    return stem.lstrip("-._") or stem


def project(manifest: Manifest) -> str:
    """Give the project of a manifest, under which its state is kept.

    Raises ``ManifestError`` where it has none and no project can be called like its file: made to fit, two files with
    different names would share what is recorded.
    """
    if not STACK_NAME.match(manifest.project):
        message = f"no project can be called {show(manifest.project)}, like this file; write 'project: NAME' into it"
        hint = "a name has 1 to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        raise ManifestError([Problem("project", message, file=manifest.file, code="project", hint=hint)])
    return manifest.project


def _yaml(raw: bytes, file: str) -> Document:
    from resource_api.manifest import yaml_reader  # noqa: PLC0415 - JSON needs no YAML library

    return yaml_reader.read(raw, file)


def _json(raw: bytes, file: str) -> Document:
    from resource_api.manifest import json_reader  # noqa: PLC0415 - YAML needs no JSON library

    return json_reader.read(raw, file)


def _json_trusted(raw: bytes, file: str) -> Document:
    from resource_api.manifest import json_reader  # noqa: PLC0415 - as above

    return json_reader.read_trusted(raw, file)


#: Suffix → what reads such a file; raises ``ManifestError``.
READERS: Final[dict[str, Reader]] = {".yaml": _yaml, ".yml": _yaml, ".json": _json}
#: The same for files that have been read before, as they are; raises ``ValueError`` where they are not.
TRUSTED_READERS: Final[dict[str, Reader]] = {**READERS, ".json": _json_trusted}


def load_documents(
    path: str, python: Reader | None = None, readers: Mapping[str, Reader] = READERS
) -> tuple[list[Document], list[Problem]]:
    """Read ``path`` and all that it includes: included files come before the one that includes them.

    ``python`` reads ``.py`` files, which need what only a run knows. Raises ``UsageError`` for a suffix that nothing
    reads. The list is empty when ``path`` itself cannot be read.
    """
    readers = {**readers, **({".py": python} if python is not None else {})}
    if _suffix(path) not in readers:
        ends = ", ".join(readers)
        msg = f"{path}: a manifest is a file that ends in {ends}; apply also takes a saved plan, whatever it is called"
        raise UsageError(msg)
    loader = _Loader(readers)
    loader.visit(path, path, 0)
    return loader.documents, loader.problems


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 - pathlib costs more than the file


def read_file(path: str) -> tuple[bytes, tuple[int, int]]:
    """Give the bytes of a regular file and what it is on disk; never waits, never reads more than the limit.

    Raises ``OSError`` or ``ValueError`` with a sentence.
    """
    # A named pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            msg = "it is not a regular file"
            raise ValueError(msg)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(document.MAX_BYTES + 1), (found.st_dev, found.st_ino)
    finally:
        os.close(descriptor)


class _Loader:
    """Visits files depth first."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self._seen: set[tuple[int, int]] = set()
        self.documents: list[Document] = []
        self.problems: list[Problem] = []

    def visit(self, path: str, shown: str, depth: int) -> str:
        """Read one file and what it includes; give why it cannot be read, or nothing."""
        try:
            raw, identity = read_file(path)
        except (OSError, ValueError) as error:
            reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            if depth == 0:
                self.problems.append(document.problem(shown, (0, 0), "unreadable", reason))
            return reason
        if identity in self._seen:
            return ""
        self._seen.add(identity)
        try:
            read = self._readers[_suffix(path)](raw, shown)
        except ManifestError as error:
            self.problems.extend(error.problems)
            return ""
        self._include(read, path, depth)
        self.documents.append(read)
        return ""

    def _include(self, read: Document, path: str, depth: int) -> None:
        names = read.data.get("include") if type(read.data) is dict else None
        if names is None:
            return
        if type(names) is not list:
            self._add(read, ("include",), "include must be a list of files", "write include: [other.yaml]")
            return
        root = os.path.dirname(path)  # noqa: PTH120 - as above
        for number, name in enumerate(names):
            reason, hint = _refusal(root, name, depth)
            if not reason:
                target = os.path.join(root, name)  # noqa: PTH118 - as above
                shown = os.path.join(os.path.dirname(read.file), name)  # noqa: PTH118, PTH120 - as above
                reason = self.visit(target, shown, depth + 1)
                reason = reason and f"the included file {reason}"
            if reason:
                self._add(read, ("include", number), reason, hint)

    def _add(self, read: Document, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self.problems.append(document.problem(read.file, read.position(path), "include", message, hint))


def _refusal(root: str, name: Any, depth: int) -> tuple[str, str]:
    """Say why ``name`` may not be included from a file in ``root``, and what to do; nothing when it may."""
    if type(name) is not str or not name:
        return "an included file must be a name", ""
    if "${" in name:
        return "an included file's name cannot hold ${...}", ""
    if _suffix(name) not in READERS:
        return f"an included file ends in {', '.join(READERS)}", ""
    if depth >= document.MAX_DEPTH:
        return f"files include each other more than {document.MAX_DEPTH} deep", ""
    escape = _escape(root, name)
    return escape, "an included file lies beneath the directory of the file that includes it" if escape else ""


def _escape(root: str, name: str) -> str:
    """Say how ``name`` leads out of ``root``, if it does."""
    if os.path.isabs(name) or ".." in name.split("/"):  # noqa: PTH117 - as above
        return "the name leads out of this file's directory"
    real = os.path.realpath(root)
    target = os.path.realpath(os.path.join(real, name))  # noqa: PTH118 - as above
    return "" if os.path.commonpath([real, target]) == real else "a symbolic link leads out of this file's directory"
