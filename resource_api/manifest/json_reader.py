"""JSON text → plain data, under the limits that hold for YAML. What a manifest means does not enter.

``json`` of the standard library reads the values. It keeps no positions and accepts more than a manifest may hold, so a
text is walked once more, token by token, where a position is needed or something in it may be refused.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import yaml_scalar
from resource_api.model.values import document
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.document import Document, Node
from resource_api.model.values.errors import ManifestError, Problem

if TYPE_CHECKING:
    from re import Match

    from resource_api.model.values.document import Position

#: Escapes of NUL and of surrogates. Most surrogates are half of a pair and fine: the tokens tell.
_SUSPECT: Final = regex(r"\\u(?:0000|[dD][89a-fA-F])")
_TOKEN: Final = regex(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}"]|[^][{}:,"\s]+')
#: A whole number of fewer digits fits 64 bits.
_SURE: Final = 19
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class _End(Exception):  # noqa: N818 - never leaves this module
    """There are no more tokens, or no more of them are wanted."""


def read(text: bytes, file: str) -> Document:
    """Return the data of a JSON text.

    Raises ``ManifestError`` with every problem: invalid JSON, duplicate keys, exceeded limits, characters and numbers
    that a manifest cannot hold.
    """
    decoded = document.decode(text, file)
    try:
        data, suspect = _parse(decoded)
    except (ValueError, RecursionError):
        data, suspect = None, True
    if suspect and (problems := _problems(decoded, file)):
        raise ManifestError(problems)
    # Decoded once more for the few whose positions are needed: only the bytes are kept anyway.
    return Document(data, file, text, lambda: _Tokens(text.decode(), file).document())


def _parse(decoded: str) -> tuple[Any, bool]:
    """Return the data, and whether the tokens must be checked too. Raises ``ValueError``, ``RecursionError``."""
    keys: set[str] = set()

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            msg = "duplicate key"
            raise ValueError(msg)
        keys.update(found)
        return found

    data = json.loads(
        decoded,
        object_pairs_hook=unique,
        parse_int=yaml_scalar.integer,
        parse_float=yaml_scalar.finite,
        parse_constant=_refuse_constant,
    )
    # A space other than U+0020 is not printable either: the check of the tokens accepts it.
    suspect = not "".join(keys).isprintable() or _is_deep(data)
    return data, suspect or ("\\u" in decoded and _SUSPECT.search(decoded) is not None)


def _refuse_constant(_: str) -> Any:
    raise ValueError


def _is_deep(data: Any) -> bool:
    """Whether data is nested beyond the limit."""
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


def _problems(decoded: str, file: str) -> list[Problem]:
    """Return everything that is wrong with a text; nothing after a syntax error is looked at."""
    syntax: list[Problem] = []
    end = len(decoded)
    try:
        json.loads(decoded, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        end = error.pos
        # The library's messages never repeat the text, which may hold a secret.
        message = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:].removesuffix(' at').rstrip(': ')}"
        syntax.append(document.problem(file, (error.lineno, error.colno), "syntax", message))
    except RecursionError:
        pass  # the limit of depth is far below
    tokens = _Tokens(decoded[:end], file)
    with suppress(_End):
        tokens.document()
    return [*tokens.problems, *syntax]


class _Tokens:
    """Walks the tokens of a text that is valid JSON up to its end: positions, and problems other than syntax."""

    def __init__(self, text: str, file: str) -> None:
        self._tokens = _TOKEN.finditer(text)
        self._file = file
        self._lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.problems: list[Problem] = []

    def document(self) -> Node:
        """Return the positions of everything. Raises ``_End`` where the text ends early or passes the depth limit."""
        return self._node(self._next(), 0)

    def _next(self) -> Match[str]:
        token = next(self._tokens, None)
        if token is None or token[0] == '"':  # the end of the text cuts a string off
            raise _End
        return token

    def _position(self, token: Match[str]) -> Position:
        line = bisect_right(self._lines, token.start())
        return line, token.start() - self._lines[line - 1] + 1

    def _add(self, token: Match[str], code: str, message: str) -> None:
        self.problems.append(document.problem(self._file, self._position(token), code, message))

    def _node(self, token: Match[str], depth: int) -> Node:
        node = Node(self._position(token), {})
        if token[0] not in ("{", "["):
            self._check_scalar(token)
            return node
        if depth >= document.MAX_DEPTH:
            self._add(token, "limit", f"nested deeper than {document.MAX_DEPTH}")
            raise _End
        fill = self._object if token[0] == "{" else self._array
        fill(node, depth + 1)
        return node

    def _object(self, node: Node, depth: int) -> None:
        while (token := self._next())[0] != "}":
            key, place = json.loads(token[0]), self._position(token)
            if message := document.character_problem(key, key=True):
                self._add(token, "encoding", message)
            if key in node.children:
                self.problems.append(document.duplicate_key(self._file, place, node.children[key][0], key))
            node.children.setdefault(key, (place, self._node(self._next(), depth)))

    def _array(self, node: Node, depth: int) -> None:
        while (token := self._next())[0] != "]":
            item = self._node(token, depth)
            node.children[len(node.children)] = item.position, item

    def _check_scalar(self, token: Match[str]) -> None:
        written = token[0]
        if written[0] == '"':
            if message := document.character_problem(json.loads(written), key=False):
                self._add(token, "encoding", message)
        elif written in _NOT_FINITE:
            self._add(token, "value", "infinity and not-a-number are not allowed")
        elif written[0] in yaml_scalar.NUMERIC and not (len(written) < _SURE and written.isdecimal()):
            try:
                yaml_scalar.plain(written)
            except ValueError as error:
                self._add(token, "value", str(error))
