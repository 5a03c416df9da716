"""Read JSON text as plain data, under the limits that hold for YAML.

The ``json`` of the standard library keeps no positions and accepts more than a manifest may hold, so the tokens are
walked once more where a position is needed or something may have to be refused.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import yaml_scalar
from resource_api.model.values import document
from resource_api.model.values.document import Document, Node
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.start_up import regex
from resource_api.system.gc_pause import gc_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match

    from resource_api.model.values.document import Position

#: Escapes of NUL and of surrogates. Most surrogates are half of a pair and fine: the tokens tell.
_SUSPECT: Final = regex(r"\\u(?:0000|[dD][89a-fA-F])")
_TOKEN: Final = regex(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}"]|[^][{}:,"\s]+')
_COLON: Final = regex(r"\s*:")
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_MAX_PROBLEMS: Final = 100
#: Closing bracket → kind of collection.
_CLOSED: Final = {"}": "object", "]": "array"}
#: The parts of a scalar.
_NO_PARTS: Final[dict[str | int, tuple[Position, Node]]] = {}


def read(text: bytes, file: str) -> Document:
    """Return the document of a JSON text; ``file`` is its name in problems, positions are computed when needed.

    Most texts are valid and need none. Raise ``ManifestError`` with every problem: invalid JSON, duplicate keys,
    exceeded limits, invalid characters or numbers.
    """
    decoded = document.decode(text, file)
    try:
        data, suspect = _parse(decoded)
    except (ValueError, RecursionError):
        data, suspect = None, True
    if suspect and (problems := _problems(decoded, file)):
        raise ManifestError(problems)
    # Decoded once more for the few whose positions are needed: only the bytes are kept anyway.
    return Document(data, file, text, lambda: _index(text.decode()))


def _parse(decoded: str) -> tuple[Any, bool]:
    """Return the data of a text, and whether it may have a problem, for which the caller checks each token.

    Python's parser is fast, but accepts unprintable keys, any depth, and escapes of invalid characters. The check of
    the tokens is slow and decides. Raise ``ValueError`` or ``RecursionError`` for a text that certainly has a problem.
    """
    keys: set[str] = set()

    def unique(items: list[tuple[str, object]]) -> dict[str, Any]:
        """Return an object as a dictionary. Raise ``ValueError`` for repeated keys: ``json`` would drop all but one."""
        data = dict(items)
        if len(data) != len(items):
            raise ValueError("duplicate key")
        keys.update(data)  # for one check of the characters of all keys
        return data

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
    """Raise ``ValueError`` for NaN and the infinities, which the check of the tokens reports with positions."""
    raise ValueError


def _is_deep(data: Any) -> bool:
    """Return whether data is nested beyond the limit of depth, which Python's parser does not have.

    The collections are visited level by level, at most as many levels as the limit, and so without recursion.
    """
    level = [data] if type(data) in (dict, list) else []  # the collections of one depth
    for _ in range(document.MAX_DEPTH):
        inner = []
        for collection in level:
            parts = collection.values() if type(collection) is dict else collection
            inner += [part for part in parts if type(part) is dict or type(part) is list]
        if not inner:
            return False
        level = inner
    return True


def _problems(decoded: str, file: str) -> list[Problem]:
    """Return the first hundred problems of a text, with their positions; none behind a syntax error."""
    syntax: list[Problem] = []
    end = len(decoded)
    try:
        json.loads(decoded, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        end, reason = _syntax_error(error)
        # The library's messages never repeat the text, which may hold a secret.
        message = f"not valid JSON: {reason[:1].lower()}{reason[1:].removesuffix(' at').rstrip(': ')}"
        syntax.append(document.problem(file, document.position_of(decoded, end), "syntax", message))
    except RecursionError:
        pass  # the limit of depth is far below
    return [*islice(_other_problems(decoded[:end], file), _MAX_PROBLEMS), *syntax]


def _syntax_error(error: json.JSONDecodeError) -> tuple[int, str]:
    """Return the offset and message of a syntax error, the same with each version of Python.

    For a trailing comma, Python before 3.13 reports the bracket behind it: the offset becomes that of the comma, with
    the message of later versions.
    """
    before, after = error.doc[: error.pos].rstrip(" \t\r\n"), error.doc[error.pos : error.pos + 1]
    if before.endswith(",") and after in _CLOSED:
        return len(before) - 1, f"Illegal trailing comma before end of {_CLOSED[after]}"
    return error.pos, error.msg


def _other_problems(text: str, file: str) -> Iterator[Problem]:
    """Yield the problems other than syntax, such as repeated keys, of ``text`` up to the first syntax error.

    The tokens have positions, which the library's data has not.
    """
    position_of = _positions(text)
    # The open collections: an object's keys so far with their positions, or None for an array.
    opened: list[dict[str, Position] | None] = []
    for token in _TOKEN.finditer(text):
        written, position = token[0], position_of(token.start())
        if written == '"':
            return  # the end of the text cuts a string off
        if written in ("{", "["):
            if len(opened) == document.MAX_DEPTH:
                yield document.problem(file, position, "limit", f"nested deeper than {document.MAX_DEPTH}")
                return
            opened.append({} if written == "{" else None)
        elif written in _CLOSED:
            opened.pop()
        elif written[0] == '"':
            keys = opened[-1] if opened and _COLON.match(text, token.end()) else None
            yield from _string_problems(json.loads(written), keys, position, file)
        elif message := _scalar_problem(written):
            yield document.problem(file, position, "value", message)


def _string_problems(string: str, keys: dict[str, Position] | None, position: Position, file: str) -> Iterator[Problem]:
    """Yield the problems of a string: invalid characters, and for the key of an object its repetition.

    ``keys``: the keys so far of the object, with positions, to which this one is added; None for a value.
    """
    if message := document.character_problem(string, key=keys is not None):
        yield document.problem(file, position, "encoding", message)
    if keys is not None and keys.setdefault(string, position) != position:  # the key stands before already
        yield document.duplicate_key(file, position, keys[string], string)


def _scalar_problem(written: str) -> str:
    """Return why a number, ``true``, ``null`` or ``NaN`` of a JSON text is invalid in a manifest, or ""."""
    if written in _NOT_FINITE:
        return yaml_scalar.NOT_FINITE
    if written[0] in yaml_scalar.NUMERIC:
        try:
            yaml_scalar.plain(written)
        except ValueError as error:
            return str(error)
    return ""


def _positions(text: str) -> Callable[[int], Position]:
    """Return the function that computes line and column, from 1, of an offset in a text.

    It uses a table of the lines, which is made once for all positions.
    """
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]  # the offset of each line's first character

    def position(offset: int) -> Position:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    return position


def _index(text: str) -> Node:
    """Return the positions of everything in a text that ``read`` accepted, when a later stage reports a problem."""
    with gc_paused():  # it makes very many objects, and none is garbage
        tokens = _TOKEN.finditer(text)
        return _node(next(tokens), tokens, _positions(text))


def _node(token: Match[str], tokens: Iterator[Match[str]], position: Callable[[int], Position]) -> Node:
    """Return the position of the value that starts with ``token``, and of all in it; take its rest from ``tokens``."""
    kind, start = token[0], position(token.start())
    if kind not in ("{", "["):
        return Node(start, _NO_PARTS)
    children: dict[str | int, tuple[Position, Node]] = {}
    if kind == "{":
        while (token := next(tokens))[0] != "}":
            children[json.loads(token[0])] = position(token.start()), _node(next(tokens), tokens, position)
    else:
        while (token := next(tokens))[0] != "]":
            node = _node(token, tokens, position)
            children[len(children)] = node.position, node
    return Node(start, children)
