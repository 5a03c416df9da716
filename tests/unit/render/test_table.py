"""Resources as a table: what other hosts send is shown as text, whatever it is."""

from __future__ import annotations

import csv

import pytest

from resource_api.render.columns import width
from resource_api.render.table import comma_separated, table


def test_names_and_values_of_other_hosts_are_escaped_and_cut() -> None:
    """A terminal takes nothing in a header, a cell, or the line of what is left out as a command."""
    rows = [{"host": "web1", "ti\x1b[2Jtle": "x\x1b[31m", "n" * 100: 1, "\x1b]0;x": 2}]
    header, values, remaining = table(rows, 20)
    assert header == "host  ti\\x1b[2Jtle"
    assert values == "web1  x\\x1b[31m"
    assert remaining == f"# not shown: {'n' * 39}…, \\x1b]0;x"


def test_a_table_for_a_program_is_whole() -> None:
    """Without the width of a terminal no value is cut and no column left out."""
    row = {"host": "h" * 100, **{f"column{number}": "x" * 50 for number in range(30)}}
    assert list(table([row], None))[1].split() == list(row.values())


def test_cells_below_each_other_begin_in_one_column_of_the_terminal() -> None:
    """A character may take two of them, or none; a value is cut, and a column left out, by them too."""
    rows = [{"name": name, "shell": "sh"} for name in ("a", "\u65e5\u672c\u8a9e", "e\u0301", "\u65e5" * 30)]
    lines = list(table(rows, 46))
    assert {width(line.removesuffix("sh")) for line in lines[1:]} == {width(lines[0].removesuffix("shell"))} == {41}
    assert list(table(rows, 45))[-1] == "# not shown: shell"


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nb", 'a"b', "a,b", "\n", "plain"])
def test_a_program_reads_the_values_back(value: str) -> None:
    """A value with a line break is quoted, whichever of the two characters it has."""
    text = "\n".join(comma_separated([{"title": "x", "content": value}, {"title": "y"}], terminal=False))
    assert list(csv.reader(text.splitlines(keepends=True))) == [["title", "content"], ["x", value], ["y", ""]]
    assert (text == f"title,content\nx,{value}\ny,") == (value == "plain")
