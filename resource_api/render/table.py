"""Render resources as a table, and as CSV (RFC 4180) for programs."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.text import escape, escape_lines
from resource_api.render.columns import cut, padded, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

#: Columns of a value that a table of a certain width shows.
_WIDEST: Final = 40
_GAP: Final = "  "


def table(rows: Sequence[Row], room: int | None) -> Iterator[str]:
    """Yield the lines of a table of ``rows`` of plain values, in their order.

    Each key with a value in any row has a column, in the order of their first appearance. So that every row fits a line
    of the terminal, a long value is cut, and columns beyond its width ``room`` are left out and named in the last line.
    If ``room`` is None, for a program, everything is shown.
    """
    if not rows:
        return
    names, widest = _columns(rows), None if room is None else _WIDEST
    # Rows of other hosts may have any names, so that the header is escaped too.
    header = [_cell(name, widest) for name in names]
    cells = [header, *([_cell(row.get(name), widest) for name in names] for row in rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    count = len(widths)
    # At least the first column, the key, stays.
    while room is not None and count > 1 and sum(widths[:count]) + len(_GAP) * (count - 1) > room:
        count -= 1
    for line in cells:
        yield _GAP.join(map(padded, line[:count], widths)).rstrip()
    if count < len(names):
        yield f"# not shown: {', '.join(header[count:])}"


def comma_separated(rows: Sequence[Row], *, terminal: bool) -> Iterator[str]:
    """Yield the lines of ``rows`` of plain values as CSV: a header with all keys, then the values.

    A missing value is empty; lists and mappings are JSON. Control characters are escaped on a ``terminal`` only: a
    program needs the exact values.
    """
    names = _columns(rows)
    # One by one: a value may contain a line break, so that the text of all could not be split into rows.
    for values in (names, *([_value(row.get(name)) for name in names] for row in rows)):
        written = StringIO()
        end = "\r\n"  # a value that contains it is quoted
        csv.writer(written, lineterminator=end).writerow(values)
        line = written.getvalue().removesuffix(end)
        yield escape_lines(line) if terminal else line


def _columns(rows: Sequence[Row]) -> list[str]:
    """Return the keys that have a value in any row, in the order in which they come first."""
    return list(dict.fromkeys(name for row in rows for name, value in row.items() if value is not None))


def _cell(value: object, widest: int | None) -> str:
    """Return the text of a cell on one line, cut to ``widest`` columns with an ellipsis; None: whole."""
    text = escape(_value(value))
    return text if widest is None else cut(text, widest)


def _value(value: object) -> str:
    """Return the text of a value in a table or in CSV: None is empty, a value that is no text is JSON, ``true``."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
