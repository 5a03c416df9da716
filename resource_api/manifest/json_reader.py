"""JSON text → plain data, and a program's own mapping → the same: one set of limits for both.

The standard library decides; whatever it or the limits refuse is read once more by a scanner that says where.
What a manifest means does not enter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined] # not in typeshed; the decoder's own, in C
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import yaml_scalar as scalar
from resource_api.model.values import document
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.document import Document, Node
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.values.document import Position

_HIGH: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SUSPECT: Final = regex(rf"\\u0000|{_HIGH}(?!{_LOW})|(?<!\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F]){_LOW}")
_SPACE: Final = regex(r"[ \t\n\r]*")
_NUMBER: Final = regex(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = regex(r"-?[A-Za-z]+")
_WORDS: Final = frozenset({"null", "true", "false"})
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class _Stop(Exception):  # noqa: N818 - never leaves this module
    """The text is no JSON from here on."""


def read(text: bytes, file: str) -> Document:
    """Give the data of a JSON text.

    Raises ``ManifestError`` for everything that is no JSON, names a key twice, passes a limit, or holds what
    only looks like text or a number.
    """
    decoded = document.decode(text, file)
    try:
        data, doubtful = _fast(decoded)
    except (ValueError, RecursionError):
        data, doubtful = None, True
    if doubtful:
        _Scanner(decoded, file).check()
    # The bytes are kept anyway: for the few whose places are asked for they are decoded once more.
    return Document(data, file, text, lambda: _Scanner(document.decode(text, file), file).document())


def read_trusted(text: bytes, file: str) -> Document:
    """Give the data of a text that ``read`` has accepted, without another look at it. Raises ``ValueError``."""
    data = json.loads(text, parse_int=scalar.integer, parse_float=scalar.finite, parse_constant=_refuse)
    return Document(data, file, text, lambda: _Scanner(text.decode(), file).document())


def adopt(data: Mapping[Any, Any], file: str, index: Callable[[], Node] | None = None) -> Document:
    """Copy a program's mapping into plain data; its tuples become lists, sensitive values stay wrapped.

    ``index`` tells where what is in it was said. Raises ``ManifestError`` for what JSON could not carry; it names the
    keys on the way there.
    """
    copier = _Copier(Document(None, file, b"", index))
    copied = copier.copy(data, ())
    if copier.problems:
        raise ManifestError(copier.problems)
    # Wrapped values spell themselves <sensitive>: no secret enters the bytes.
    return Document(copied, file, json.dumps(copied, default=str).encode(), index)


def _fast(decoded: str) -> tuple[Any, bool]:
    """Give the data and whether the scanner must look at the text too."""
    keys: set[str] = set()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError
        keys.update(found)
        return found

    data = json.loads(
        decoded, object_pairs_hook=pairs, parse_int=scalar.integer, parse_float=scalar.finite, parse_constant=_refuse
    )
    # A space that is no blank is not printable either: the scanner tells it from a control character.
    doubtful = not "".join(keys).isprintable() or _deep(data)
    return data, doubtful or ("\\u" in decoded and _SUSPECT.search(decoded) is not None)


def _refuse(_: str) -> Any:
    raise ValueError


def _deep(data: Any) -> bool:
    level = [data] if type(data) in (dict, list) else []
    for _ in range(document.MAX_DEPTH):
        level = [
            part
            for each in level
            for part in (each.values() if type(each) is dict else each)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return False
    return True


class _Scanner:
    """Reads JSON slowly, for the place of everything in it and of everything that is wrong with it."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._line, self._start, self._seen = 1, 0, 0
        self._problems: list[Problem] = []

    def check(self) -> None:
        """Raise ``ManifestError`` when anything is wrong."""
        with suppress(_Stop):
            self.document()
        if self._problems:
            raise ManifestError(self._problems)

    def document(self) -> Node:
        """Give the places of everything."""
        node, end = self._value(self._skip(0), 0)
        end = self._skip(end)
        if end != len(self._text):
            raise self._stop(end, "text after the end of the data")
        return node

    def _skip(self, offset: int) -> int:
        found = _SPACE.match(self._text, offset)
        return found.end() if found else offset

    def _place(self, offset: int) -> Position:
        """Count lines from where the last question left off: offsets nearly always grow."""
        if offset < self._seen:
            self._line, self._start, self._seen = 1, 0, 0
        newlines = self._text.count("\n", self._seen, offset)
        if newlines:
            self._line += newlines
            self._start = self._text.rfind("\n", self._seen, offset) + 1
        self._seen = offset
        return self._line, offset - self._start + 1

    def _add(self, offset: int, code: str, message: str) -> None:
        self._problems.append(document.problem(self._file, self._place(offset), code, message))

    def _stop(self, offset: int, message: str, code: str = "syntax") -> _Stop:
        self._add(offset, code, message if code != "syntax" else f"not valid JSON: {message}")
        return _Stop()

    def _value(self, offset: int, depth: int) -> tuple[Node, int]:
        first = self._text[offset : offset + 1]
        if first in ("{", "["):
            if depth >= document.MAX_DEPTH:
                raise self._stop(offset, f"nested deeper than {document.MAX_DEPTH}", "limit")
            return (self._object if first == "{" else self._array)(offset, depth + 1)
        node = Node(self._place(offset), {})
        if first == '"':
            return node, self._string(offset, key=False)[1]
        return node, self._number(offset) or self._word(offset)

    def _object(self, offset: int, depth: int) -> tuple[Node, int]:
        node = Node(self._place(offset), {})
        offset = self._skip(offset + 1)
        if self._text[offset : offset + 1] == "}":
            return node, offset + 1
        while True:
            if self._text[offset : offset + 1] != '"':
                raise self._stop(offset, "expected a key in double quotes")
            key, end = self._string(offset, key=True)
            place = self._place(offset)
            if key in node.children:
                self._problems.append(document.duplicate_key(self._file, place, node.children[key][0], key))
            end = self._skip(end)
            if self._text[end : end + 1] != ":":
                raise self._stop(end, "expected ':' after a key")
            value, end = self._value(self._skip(end + 1), depth)
            node.children.setdefault(key, (place, value))
            offset, more = self._next(end, "}")
            if not more:
                return node, offset

    def _array(self, offset: int, depth: int) -> tuple[Node, int]:
        node = Node(self._place(offset), {})
        offset = self._skip(offset + 1)
        if self._text[offset : offset + 1] == "]":
            return node, offset + 1
        while True:
            item, end = self._value(offset, depth)
            node.children[len(node.children)] = item.position, item
            offset, more = self._next(end, "]")
            if not more:
                return node, offset

    def _next(self, offset: int, close: str) -> tuple[int, bool]:
        offset = self._skip(offset)
        found = self._text[offset : offset + 1]
        if found == close:
            return offset + 1, False
        if found != ",":
            raise self._stop(offset, f"expected ',' or '{close}'")
        return self._skip(offset + 1), True

    def _string(self, offset: int, *, key: bool) -> tuple[str, int]:
        try:
            value, end = scanstring(self._text, offset + 1, True)  # noqa: FBT003 - a C function, by position only
        except json.JSONDecodeError as error:
            # The library's words name the fault alone, never the text.
            raise self._stop(error.pos, error.msg[:1].lower() + error.msg[1:].removesuffix(" at")) from None
        message = document.character_problem(value, key=key)
        if message:
            self._add(offset, "encoding", message)
        return value, end

    def _number(self, offset: int) -> int:
        found = _NUMBER.match(self._text, offset)
        if not found:
            return 0
        convert: Callable[[str], Any] = scalar.finite if found[1] or found[2] else scalar.integer
        try:
            convert(found[0])
        except ValueError as error:
            self._add(offset, "value", str(error))
        return found.end()

    def _word(self, offset: int) -> int:
        found = _WORD.match(self._text, offset)
        if found and found[0] in _NOT_FINITE:
            self._add(offset, "value", "infinity and not-a-number are not allowed")
        elif not found or found[0] not in _WORDS:
            raise self._stop(offset, "expected a value" if offset < len(self._text) else "the text ends too early")
        return found.end()


class _Copier:
    """Copies nested values, bounded as a text would be, and collects what is wrong with them."""

    def __init__(self, said: Document) -> None:
        self._said = said
        self._weight = 0
        self.problems: list[Problem] = []

    def copy(self, value: Any, path: tuple[str, ...]) -> Any:
        """Give plain data; ``path`` are the keys above ``value``."""
        self._weight += document.NODE_WEIGHT
        if isinstance(value, (list, tuple, Mapping)):
            if len(path) >= document.MAX_DEPTH or self._weight > document.MAX_EXPANSION:
                if self._weight <= document.MAX_EXPANSION:
                    self._add(path[:3], "limit", f"nested deeper than {document.MAX_DEPTH}")
                elif not any(each.code == "limit" for each in self.problems):
                    self._add((), "limit", "the data is larger than the limit")
                return None
            if isinstance(value, (list, tuple)):
                return [self.copy(item, (*path, str(number))) for number, item in enumerate(value)]
            return {self._key(key, path): self.copy(value[key], (*path, str(key))) for key in value}
        return self._leaf(value, path)

    def _key(self, key: Any, path: tuple[str, ...]) -> str:
        message = document.character_problem(key, key=True) if isinstance(key, str) else "a key must be a string"
        if message:
            self._add(path, "encoding", message, str(key))
        return str(key)

    def _leaf(self, value: Any, path: tuple[str, ...]) -> Any:
        message = ""
        if isinstance(value, str):
            value = str(value)
            message = document.character_problem(value, key=False)
        elif isinstance(value, float):
            message = "" if value - value == 0 else "infinity and not-a-number are not allowed"
        elif isinstance(value, int):
            if not scalar.MIN_INTEGER <= value <= scalar.MAX_INTEGER:
                message = "the integer does not fit 64 bits; in quotes it is a string"
        elif value is not None and not isinstance(value, Sensitive):
            message = f"a manifest cannot hold a value of the type {type(value).__name__}"
        if message:
            self._add(path, "value", message)
        return value

    def _add(self, path: tuple[str, ...], code: str, message: str, *key: str) -> None:
        where, place = ".".join(path), self._said.position((*path, *key))
        message = f"{where}: {message}" if where else message
        self.problems.append(document.problem(self._said.file, place, code, message))
