"""A mapping that a program gives → the same document as a file would give, under the same limits.

It serves the embedding API, Python manifests and saved plans. What a manifest means does not enter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from resource_api.manifest import yaml_scalar
from resource_api.model.values import document
from resource_api.model.values.document import Document
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.values.document import Node, Position


def read(
    data: Mapping[Any, Any],
    file: str,
    index: Callable[[], Node] | None = None,
    heads: Mapping[str, Mapping[str, Position]] | None = None,
) -> Document:
    """Return a document with a copy of ``data``: tuples become lists, sensitive values stay wrapped.

    ``index`` returns the positions of everything in ``data``; without it only ``heads`` are known. Raises
    ``ManifestError`` with every value that JSON could not carry; the messages name the keys above it.
    """
    copier = _Copier(Document(None, file, b"", index))
    copied = copier.copy(data, ())
    if copier.problems:
        raise ManifestError(copier.problems)
    # The text form of a sensitive value is <sensitive>: no secret enters the bytes.
    return Document(copied, file, json.dumps(copied, default=str).encode(), index, heads)


class _Copier:
    """Copies nested values within the limits of depth and size, and collects problems."""

    def __init__(self, positions: Document) -> None:
        self._positions = positions
        self._weight = 0
        self.problems: list[Problem] = []

    def copy(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return plain data; ``path`` holds the keys above ``value``."""
        self._weight += document.NODE_WEIGHT
        if not isinstance(value, (list, tuple, Mapping)):
            return self._scalar(value, path)
        if self._weight > document.MAX_EXPANSION:
            if not any(each.code == "limit" for each in self.problems):
                self._add((), "limit", "the data is larger than the limit")
            return None
        if len(path) >= document.MAX_DEPTH:
            self._add(path[:3], "limit", f"nested deeper than {document.MAX_DEPTH}")
            return None
        if isinstance(value, Mapping):
            return {(text := self._key(key, path)): self.copy(value[key], (*path, text)) for key in value}
        return [self.copy(item, (*path, str(number))) for number, item in enumerate(value)]

    def _key(self, key: Any, path: tuple[str, ...]) -> str:
        """Return a key as text, another value as it is shown; report what cannot be a key."""
        if isinstance(key, str):
            text, message = str(key), document.character_problem(key, key=True)
        else:
            text, message = f"{key!r:.80}", "a key must be a string"
        if message:
            self._add(path, "encoding", message, text)
        return text

    def _scalar(self, value: Any, path: tuple[str, ...]) -> Any:
        message = ""
        if isinstance(value, str):
            value = str(value)
            message = document.character_problem(value, key=False)
        elif isinstance(value, float):
            message = "" if value - value == 0 else "infinity and not-a-number are not allowed"
        elif isinstance(value, int):
            if not yaml_scalar.MIN_INTEGER <= value <= yaml_scalar.MAX_INTEGER:
                message = "the integer does not fit 64 bits; in quotes it is a string"
        elif value is not None and not isinstance(value, Sensitive):
            message = f"a manifest cannot hold a value of the type {type(value).__name__}"
        if message:
            self._add(path, "value", message)
        return value

    def _add(self, path: tuple[str, ...], code: str, message: str, *key: str) -> None:
        where, position = ".".join(path), self._positions.position((*path, *key))
        message = f"{where}: {message}" if where else message
        self.problems.append(document.problem(self._positions.file, position, code, message))
