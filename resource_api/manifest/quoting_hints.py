"""Hints for YAML that is wrong because a reference has no quotes: ``require: [File[/a]]``.

A hint contains the text to paste where that can be determined. Only texts that look like references are repeated:
others may be secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.values._lazy_regex import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.values.document import Document, Position

QUOTING: Final = "a reference inside [...] or {...}, or with ': ' or ' #' in its title, needs quotes"

# A longer line is not written by hand, and a hostile one must not cost more.
_LONGEST_LINE: Final = 1000
_WORD: Final = regex(r"(?<!\w)[A-Za-z]\w*\[")
# A capital letter marks a reference; other texts of this form may be secrets.
_PASTABLE: Final = regex(r"(?<![\w\"'])(?:\$\{|[A-Z][a-z0-9_]*\[)")


def hint_at(document: Document, line: int) -> str:
    """Return the hint for a line of a document, counted from 1, with a reference without its end; 0: unknown line."""
    lines = document.raw.splitlines()[line - 1 : line] if line else []
    return next(filter(None, (hint(each.decode(errors="replace")) for each in lines)), QUOTING)


def hint(line: str) -> str:
    """Return the hint for a line of YAML with a reference that may lack quotes, or an empty string."""
    line = line[:_LONGEST_LINE]
    starts = [found.start() for found in _PASTABLE.finditer(line) if not _inside_quotes(line[: found.start()])]
    pastable = [cut for cut in (_balanced(line, start) for start in starts) if cut]
    # A reference within another one is part of its text.
    pastable = [cut for cut in pastable if not any(cut != other and cut in other for other in pastable)]
    if not pastable and not _WORD.search(line):
        return ""
    return f"{QUOTING}: write {', '.join(map(quote, dict.fromkeys(pastable)))}" if pastable else QUOTING


def first_hint(lines: Sequence[str], near: Sequence[int]) -> tuple[Position | None, str]:
    """Return the hint for the first of the lines ``near``, numbered from 1, that may lack quotes.

    A line in which a comment cuts a reference off comes before all others, and has its position in the result.
    """
    numbers = [number for number in dict.fromkeys(near) if 0 < number <= len(lines)]
    for number in numbers:
        if column := _cut_by_comment(lines[number - 1]):
            return (number, column), hint(lines[number - 1])
    return None, next(filter(None, (hint(lines[number - 1]) for number in numbers)), "")


def _cut_by_comment(line: str) -> int:
    """Return the column, from 1, of a reference that a comment cuts off; 0 if there is none."""
    line = line[:_LONGEST_LINE]
    for found in _PASTABLE.finditer(line):
        start = found.start()
        comment = line.find(" #", start)
        if not _inside_quotes(line[:start]) and 0 < comment < start + len(_balanced(line, start)):
            return start + 1
    return 0


def _inside_quotes(before: str) -> bool:
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _balanced(line: str, start: int) -> str:
    """Return the text from ``start`` to the bracket that closes the first one; empty if none does."""
    depth = 0
    for offset in range(start, len(line)):
        depth += (line[offset] in "[{") - (line[offset] in "]}")
        if depth == 0 and line[offset] in "]}":
            return line[start : offset + 1]
    return ""


def quote(text: str) -> str:
    """Return a text in quotes, in which YAML reads it as it is."""
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'
