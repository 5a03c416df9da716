"""Render the excerpt under a problem: the source line with its number, and carets under the invalid token.

Columns of a problem count characters of the line, from 1; output counts columns of a terminal, where a character may
take two or none.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.text import escape

#: The columns of a terminal that are shown of a line.
WIDTH: Final = 200
#: How many of them stand before the caret of a line that is longer.
_BEFORE: Final = 80
#: How many characters before and after the caret are looked at: a file may be one line.
_NEAR: Final = 2 * WIDTH
_TAB: Final = "    "

_REFERENCE: Final = r"[A-Za-z]\w*\[.*\](?=\s*(?::\s|:?$))|[A-Za-z]\w*\[[^\]]*\]|\$\{[^}]*\}"
_QUOTED: Final = r"\"(?:\\.|[^\"\\])*\"?|'(?:''|[^'])*'?"
_PLAIN: Final = r"(?:[^\s:,#'\"\[\]{}()]|:(?=\S)|(?<=\S)#|[ ]+(?![#\s:])(?=[^\s,'\"\[\]{}()]))+"
#: Format → the text that begins at a column and is one token.
_TOKENS: Final = {
    "yaml": regex(f"{_QUOTED}|{_REFERENCE}|{_PLAIN}"),
    "json": regex(r"\"(?:\\.|[^\"\\])*\"?|[\w.+-]+"),
    "python": regex(r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[\w.]+"),
}


def excerpt(line: str, number: int, column: int, form: str = "yaml", length: int = 0) -> list[str]:
    """Return a line and its carets; ``number`` 0 is for an argument of the command line, without a number.

    The carets span ``length`` characters, or the token that begins at ``column`` in the syntax of ``form`` (``yaml``,
    ``json`` or ``python``).
    """
    line = line.rstrip("\r\n")
    start = min(max(column, 1), len(line) + 1) - 1
    nearest = max(0, start - _NEAR)
    line, start, far = line[nearest : start + _NEAR], start - nearest, start + _NEAR < len(line)
    end = start + (length or _token_length(line, start, form))
    if line.isascii() and line.isprintable():
        cells, widths = list(line), [1] * len(line)
    else:
        cells = [_TAB if character == "\t" else escape(character) for character in line]
        widths = list(map(width, cells))
    first, last = _window(widths, start)
    before, cut = "…" if first or nearest else "", "…" if far or last < len(cells) else ""
    visible = before + "".join(cells[first:last]) + cut
    caret = width(before + "".join(cells[first:start]))
    span = sum(map(width, cells[start : min(end, last)]))
    gutter = " " * 5 if not number else f"{number:>5}"
    return [f"{gutter} | {visible}".rstrip(), f"{' ' * len(gutter)} | {' ' * caret}{'^' * max(span, 1)}"]


def _token_length(line: str, start: int, form: str) -> int:
    token = _TOKENS[form].match(line, start)
    return len(token[0]) if token else 1


def _window(widths: list[int], start: int) -> tuple[int, int]:
    """Return the index of the first visible character of a line, and the end of the visible part."""
    if sum(widths) <= WIDTH:
        return 0, len(widths)
    first = 0
    room = sum(widths[:start])
    while room > _BEFORE and first < start:
        room -= widths[first]
        first += 1
    last, room = first, WIDTH - 2
    while last < len(widths) and widths[last] <= room:
        room -= widths[last]
        last += 1
    return first, last


def width(text: str) -> int:
    """Return the columns of a terminal that a text takes: none for combining characters, two for wide ones."""
    return sum(map(_width, text)) if not text.isascii() else len(text)


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"} or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
