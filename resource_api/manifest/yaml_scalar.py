"""The scalars of YAML 1.2's core schema (chapter 10.3), quotes, and hints for references that lack quotes.

The readers convert unquoted scalars, the YAML renderer decides whether a text needs quotes. A hint contains the text to
paste where that can be determined. Only texts that look like references are repeated: other texts may be secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.start_up import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.values.document import Document, Position


MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
CORE: Final = "tag:yaml.org,2002:"
WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A scalar that begins with another character, and is none of ``WORDS``, is text.
NUMERIC: Final = frozenset("0123456789+-.")

_INTEGER: Final = regex(r"[-+]?[0-9]+\Z")
_BASED: Final = regex(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = regex(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = regex(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_BASES: Final = {"0o": 8, "0x": 16}
_LONGEST: Final = 64
#: A whole number of fewer digits fits 64 bits.
_SURE: Final = 19
_TAGS: Final = {CORE + "null": type(None), CORE + "bool": bool, CORE + "int": int, CORE + "float": float}


def plain(text: str) -> Any:
    """Return the value of an unquoted scalar.

    Raises ``ValueError``, with a message for users, for values that JSON cannot hold: integers beyond 64 bits,
    infinity, not-a-number.
    """
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMERIC:
        return text
    if _INTEGER.match(text) or _BASED.match(text):
        return integer(text)
    if _FLOAT.match(text):
        return finite(text)
    if _NOT_FINITE.match(text):
        msg = "infinity and not-a-number are not allowed"
        raise ValueError(msg)
    return text


def integer(text: str) -> int:
    """Return the integer of ``text`` (decimal, ``0o``, ``0x``). Raises ``ValueError`` beyond 64 bits."""
    if len(text) < _SURE and text.isdecimal():
        return int(text)  # several times faster, and nearly all integers are such
    base = _BASES.get(text[:2], 10)
    digits = (text[2:] if text[:2] in _BASES else text.lstrip("+-")).lstrip("0")
    # Python refuses to convert very long decimals, with a message of its own; they are too large anyway.
    number = int(digits or "0", base) if len(digits) <= _LONGEST else MAX_INTEGER + 1
    number = -number if text[0] == "-" else number
    if not MIN_INTEGER <= number <= MAX_INTEGER:
        msg = "the integer does not fit 64 bits; in quotes it is a string"
        raise ValueError(msg)
    return number


def finite(text: str) -> float:
    """Return the float of ``text``. Raises ``ValueError`` if it would become infinite."""
    number = float(text)
    if number - number != 0:
        msg = "the number is too large for a float; in quotes it is a string"
        raise ValueError(msg)
    return number


def tagged(text: str, tag: str) -> Any:
    """Return the value of ``text`` under an explicit tag. Raises ``ValueError`` for other tags, and other values."""
    if tag in ("!", CORE + "str"):
        return text
    if tag not in _TAGS:
        msg = "this tag is not allowed; only !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are"
        raise ValueError(msg)
    value = plain(text)
    if type(value) is int and _TAGS[tag] is float:
        return float(value)
    if type(value) is not _TAGS[tag]:
        msg = f"the value is not what its tag !!{tag.removeprefix(CORE)} says"
        raise ValueError(msg)
    return value


QUOTING: Final = "a reference inside [...] or {...}, or with ': ' or ' #' in its title, needs quotes"

# A longer line is not written by hand, and a hostile one must not cost more.
_LONGEST_LINE: Final = 1000
_WORD: Final = regex(r"(?<!\w)[A-Za-z]\w*\[")
# A capital letter marks a reference; other texts of this form may be secrets.
_PASTABLE: Final = regex(r"(?<![\w\"':])(?:\$\{|[A-Z][a-z0-9_]*\[)")

#: The title of a reference in quotes, as Puppet writes it.
_QUOTED_TITLE: Final = regex(r"\[(['\"])(.*)\1\]\Z")


def quoting_hint_at(document: Document, line: int) -> str:
    """Return the hint for a line of a document, counted from 1, with a reference without its end; 0: unknown line."""
    lines = document.raw.splitlines()[line - 1 : line] if line else []
    return next(filter(None, (quoting_hint(line.decode(errors="replace")) for line in lines)), QUOTING)


def quoting_hint(line: str) -> str:
    """Return the hint for a line of YAML with a reference that may lack quotes, or an empty string."""
    line = line[:_LONGEST_LINE]
    starts = [match.start() for match in _PASTABLE.finditer(line) if not _inside_quotes(line[: match.start()])]
    pastable = [cut for cut in (_balanced(line, start) for start in starts) if cut]
    # A reference within another one is part of its text.
    pastable = [cut for cut in pastable if not any(cut != outer and cut in outer for outer in pastable)]
    if not pastable and not _WORD.search(line):
        return ""
    plain = dict.fromkeys(_QUOTED_TITLE.sub(r"[\2]", cut) for cut in pastable)
    return f"{QUOTING}: write {', '.join(map(quote, plain))}" if plain else QUOTING


def first_quoting_hint(lines: Sequence[str], near: Sequence[int]) -> tuple[Position | None, str]:
    """Return the hint for the first of the lines ``near``, numbered from 1, that may lack quotes.

    A line in which a comment cuts a reference off comes first, and its position is returned.
    """
    numbers = [number for number in dict.fromkeys(near) if 0 < number <= len(lines)]
    for number in numbers:
        if column := _cut_by_comment(lines[number - 1]):
            return (number, column), quoting_hint(lines[number - 1])
    return None, next(filter(None, (quoting_hint(lines[number - 1]) for number in numbers)), "")


def _cut_by_comment(line: str) -> int:
    """Return the column, from 1, of a reference that a comment cuts off; 0 if there is none."""
    line = line[:_LONGEST_LINE]
    for match in _PASTABLE.finditer(line):
        start = match.start()
        comment = line.find(" #", start)
        if not _inside_quotes(line[:start]) and 0 < comment < start + len(_balanced(line, start)):
            return start + 1
    return 0


def _inside_quotes(before: str) -> bool:
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _balanced(line: str, start: int) -> str:
    """Return the text from ``start`` to the bracket that closes the first one, or an empty string."""
    depth = 0
    for offset in range(start, len(line)):
        depth += (line[offset] in "[{") - (line[offset] in "]}")
        if depth == 0 and line[offset] in "]}":
            return line[start : offset + 1]
    return ""


def quote(text: str) -> str:
    """Return a text in quotes, in which YAML reads it as it is."""
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'
