"""The files of a manifest where the command is given: what a host needs to carry it out without them.

They are parsed here, and what their assets and archives are made from is read here.
"""

from __future__ import annotations

import ast
import glob
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import read as reading
from resource_api.model.values import expression
from resource_api.model.values.assets import ORIGINS
from resource_api.model.values.document import Document
from resource_api.model.values.errors import ManifestError, UsageError
from resource_api.system.filesystem.asset_contents import list_directory, open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Most bytes of all assets and archives of a manifest together.
LARGEST: Final = 64 << 20
_LOCAL: Final = ("file", "directory")


def read(path: str, open_code: Callable[[str], int] | None = None) -> list[Document]:
    """Return the files of a manifest in the order in which they are assembled; a Python manifest is not executed.

    ``open_code`` as for ``manifest.read.read``. Raise ``ManifestError`` with every problem of every file, and
    ``UsageError``.
    """
    documents, problems = reading.load_documents(path, _python_source, open_code)
    if problems:
        raise ManifestError(problems)
    return documents


def contents(documents: Sequence[Document], inputs: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files that the assets and archives of a manifest are made from, by path as the manifest names them.

    A directory is under its path with a slash: the list of its members, whose files are beside it. Where a name has
    ``${...}`` in it, those that it can mean. A file that cannot be read is left out, which the host reports where it is
    declared. Raise ``UsageError`` beyond the largest size.
    """
    found: dict[str, bytes] = {}
    for document in documents:
        data = [document.data, *inputs.values()]
        named = _called(document.raw) if document.file.endswith(".py") else _described(data)
        for pattern in named:
            above = os.path.dirname(document.file)
            for path in glob.iglob(os.path.join(glob.escape(above), pattern)):
                with suppress(OSError):
                    _add(found, path)
    return found


def _python_source(raw: bytes, file: str) -> Document:
    """Return a Python manifest that is not executed: only its ``INCLUDE`` is read, which must be a literal."""
    names: Any = None
    with suppress(SyntaxError, ValueError):
        for statement in ast.parse(raw).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.Assign) and any(
                isinstance(each, ast.Name) and each.id == "INCLUDE" for each in targets
            ):
                names = ast.literal_eval(statement.value)
    return Document({} if names is None else {"include": names}, file, raw)


def _described(value: Any) -> Iterator[str]:
    """Yield the patterns of local files and directories in the descriptions of assets and archives in a value."""
    if isinstance(value, dict):
        word = next(iter(value)) if len(value) == 1 else ""
        body = value[word] if word in ORIGINS else None
        if isinstance(body, dict):
            yield from (_pattern(str(body[key])) for key in _LOCAL if key in body)
        for item in value.values():
            yield from _described(item)
    elif isinstance(value, list):
        for item in value:
            yield from _described(item)


def _pattern(text: str) -> str:
    """Return the pattern of the names that a text with ``${...}`` can mean."""
    try:
        parsed = expression.parse(text)
    except ValueError:
        return glob.escape(text)
    parts = (parsed,) if isinstance(parsed, str) else parsed.parts
    return "".join(glob.escape(part) if isinstance(part, str) else "*" for part in parts)


def _called(raw: bytes) -> Iterator[str]:
    """Yield the patterns of the files in the calls of ``m.asset`` and ``m.archive`` of a Python manifest."""
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(raw)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ORIGINS:
                yield from (_text_pattern(word.value) for word in node.keywords if word.arg in _LOCAL)


def _text_pattern(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return glob.escape(str(node.value))
    parts = node.values if isinstance(node, ast.JoinedStr) else ()
    return "".join(_text_pattern(part) if isinstance(part, ast.Constant) else "*" for part in parts)


def _add(found: dict[str, bytes], path: str) -> None:
    """Add a file, or a directory with its files. Raise ``UsageError``, ``OSError``."""
    if os.path.isdir(path):
        listing = list_directory(path)
        found[f"{path}/"] = json.dumps([[*member[:4], digest] for member, digest in listing]).encode()
        for member, _ in listing:
            if member.kind == "file":
                _add(found, f"{path}/{member.name}")
        return
    with open_regular(path) as file:
        found[path] = file.read(LARGEST + 1)
    if sum(map(len, found.values())) > LARGEST:
        msg = f"{path}: the files of a manifest for other hosts are at most {LARGEST >> 20} MiB together"
        raise UsageError(msg)
