"""The files of a manifest: the one that was named and those that it includes, each read once.

Which reader a file gets is decided by its suffix; what its data means, ``include`` apart, does not enter.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.values.document import Document

    Reader = Callable[[bytes, str], Document]


def _yaml(raw: bytes, file: str) -> Document:
    from resource_api.manifest import yaml_reader  # noqa: PLC0415 - JSON needs no YAML library

    return yaml_reader.read(raw, file)


def _json(raw: bytes, file: str) -> Document:
    from resource_api.manifest import json_reader  # noqa: PLC0415 - YAML needs no JSON library

    return json_reader.read(raw, file)


def _json_again(raw: bytes, file: str) -> Document:
    from resource_api.manifest import json_reader  # noqa: PLC0415 - as above

    return json_reader.again(raw, file)


#: Suffix → what reads such a file; raises ``ManifestError``.
READERS: Final[dict[str, Reader]] = {".yaml": _yaml, ".yml": _yaml, ".json": _json}
#: The same for files that have been read before, as they are; raises ``ValueError`` where they are not.
AGAIN: Final[dict[str, Reader]] = {**READERS, ".json": _json_again}


def load(
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


def contents(path: str) -> tuple[bytes, tuple[int, int]]:
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
            raw, identity = contents(path)
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
