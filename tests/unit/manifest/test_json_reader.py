"""JSON text becomes plain data under the limits that hold for YAML."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resource_api.manifest import json_reader
from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, Problem
from tests.sampling import times
from tests.unit.manifest.strategies import DATA, KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

PIECES = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            '"a"',
            '"b":',
            "\\",
            "\\u0000",
            "\\ud800",
            "\\udc00",
            "\\n",
            "\n",
            " ",
            "1",
            "-",
            "0",
            ".",
            "e9",
            "NaN",
            "Infinity",
            "-Infinity",
            "true",
            "null",
            "nul",
            "é",
            "\x00",
            "\x7f",
            "\\u009f",
        ]
    ),
    max_size=25,
).map("".join)


def load(text: str | bytes) -> Any:
    """Read one text."""
    return json_reader.read(text.encode() if isinstance(text, str) else text, "site.json").data


def problems(text: str | bytes) -> list[Problem]:
    """Return all problems of an invalid text."""
    with pytest.raises(ManifestError) as caught:
        load(text)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("", "not valid JSON: expecting value", 1, 1),
        ("  \n", "not valid JSON: expecting value", 2, 1),
        ('{"a": 1\n "b": 2}', "expecting ',' delimiter", 2, 2),
        ('{"a": [1 2]}', "expecting ',' delimiter", 1, 10),
        ('{"a" 1}', "expecting ':' delimiter", 1, 6),
        ("{a: 1}", "expecting property name enclosed in double quotes", 1, 2),
        ('{"a": 1, 2}', "expecting property name enclosed in double quotes", 1, 10),
        ("[1, x]", "expecting value", 1, 5),
        ('{"a": hunter2}', "expecting value", 1, 7),
        ('{"a": 1} x', "extra data", 1, 10),
        ("{} {}", "extra data", 1, 4),
        ("01", "extra data", 1, 2),
        ('{"a": "b', "unterminated string", 1, 7),
        ('{"a": "b\nc"}', "invalid control character", 1, 9),
        ('{"a": "\\q"}', "invalid \\escape", 1, 8),
        ('{"a": "\\u12"}', "invalid \\uXXXX escape", 1, 9),
        ('{"a": NaN}', "infinity and not-a-number are not allowed", 1, 7),
        ('{"a":\n -Infinity}', "infinity and not-a-number are not allowed", 2, 2),
        ('{"a": 1e999}', "too large for a float", 1, 7),
        ('{"a": 9223372036854775808}', "does not fit 64 bits", 1, 7),
        ('{"a": -9223372036854775809}', "does not fit 64 bits", 1, 7),
        ('{"a": ' + "9" * 5000 + "}", "does not fit 64 bits", 1, 7),
        ('{"a": "\\u0000"}', "cannot hold the control character U+0000", 1, 7),
        ('{"a\\nb": 1}', "cannot hold the control character U+000A", 1, 2),
        ('{"\\u009b": 1}', "cannot hold the control character U+009B", 1, 2),
        ('{"a": "\\ud800"}', "a lone surrogate is no character", 1, 7),
        ('{"a": "\\udc00\\ud800"}', "a lone surrogate is no character", 1, 7),
        ('{"\\ud800x": 1}', "a lone surrogate is no character", 1, 2),
        ('{"a": "\x7f"}', "control character U+007F", 1, 8),
        (b'{"a": "\xff"}', "not UTF-8", 1, 8),
        (b"\xef\xbb\xbf{}", "byte order mark", 1, 1),
        ("{}".encode("utf-16"), "byte order mark", 1, 1),
        ("{}".encode("utf-16-le"), "control character U+0000", 1, 2),
        ("[" * 101 + "]" * 101, "nested deeper than 100", 1, 101),
        ("[" * 1_000_000, "nested deeper than 100", 1, 101),
        ('{"a":' * 25_000 + "1" + "}" * 25_000, "nested deeper than 100", 1, 501),
    ],
)
def test_each_problem_has_a_position(text: str | bytes, message: str, line: int, column: int) -> None:
    """Line and column count from 1, and no message repeats the text."""
    problem = problems(text)[0]
    assert message in problem.message
    assert (problem.file, problem.line, problem.column) == ("site.json", line, column)
    assert "hunter2" not in str(problem)


def test_all_problems_are_reported_at_once() -> None:
    """Duplicate keys have both positions; a syntax error ends the list."""
    result = problems('{"a": 1,\n "a": NaN, "b": {"c": 1, "\\u0063": 2}, "d": }')
    assert [(p.line, p.column, p.message, p.hint) for p in result] == [
        (2, 2, "duplicate key 'a'", "first at line 1, column 2"),
        (2, 7, "infinity and not-a-number are not allowed", ""),
        (2, 26, "duplicate key 'c'", "first at line 2, column 18"),
        (2, 45, "not valid JSON: expecting value", ""),
    ]


def test_a_hundred_problems_and_a_syntax_error_are_enough() -> None:
    """A megabyte of them is refused in a second, and nobody reads more."""
    result = problems("{" + '"a": 1, ' * 120_000)
    assert [p.code for p in result] == ["duplicate"] * 100 + ["syntax"]


@pytest.mark.parametrize("text", ['{"a": 1,}', "[1,]", "[,1]", "{,}", "[1 , , 2]"])
def test_a_comma_too_many_is_a_syntax_error(text: str) -> None:
    """Its exact position differs between versions of Python."""
    assert [(p.code, p.line) for p in problems(text)] == [("syntax", 1)]


@pytest.mark.parametrize("text", ['{"a": "NaN 1e999 \\q"}', '{"a": "NaN 1e999', '{"NaN \\q": 1}'])
def test_the_inside_of_a_broken_string_is_not_read_as_data(text: str) -> None:
    """Only the syntax error is reported."""
    assert [p.code for p in problems(text)] == ["syntax"]


def test_suspect_text_that_is_valid_is_accepted() -> None:
    """A pair of surrogates, an escaped backslash before ``ud800``, and a wide space in a key are valid."""
    text = '{"a": "\\ud83d\\ude00", "b": "\\\\ud800", "c\u00a0d": "\\\\u0000", "e": "\\u001b[0m"}'
    assert load(text) == {"a": "\U0001f600", "b": "\\ud800", "c\u00a0d": "\\u0000", "e": "\x1b[0m"}
    assert load("[" * 100 + "]" * 100)


def test_numbers_keep_their_kind() -> None:
    """An integer is not a float; the limits of 64 bits are accepted."""
    document = load("[1, 1.0, -0, 1e2, 9223372036854775807, -9223372036854775808]")
    assert [type(item) for item in document] == [int, float, int, float, int, int]


@given(DATA, st.booleans(), st.sampled_from([None, 0, 2]))
def test_what_is_dumped_reads_back(data: Any, ascii_only: bool, indent: int | None) -> None:  # noqa: FBT001 - hypothesis gives it
    """In every layout, the check of the tokens finds no problem in it."""
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    assert load(text) == data
    assert json_reader._problems(text, "f") == []


@given(st.binary(max_size=200) | PIECES.map(str.encode))
@example(b'{"\\u005c": 1}')
@settings(max_examples=times(4))
def test_any_bytes_give_data_or_our_error(raw: bytes) -> None:
    """Within a second; a text is refused exactly when the check of the tokens finds a problem."""
    begun = time.process_time()
    found_wrong: Sequence[Problem] = ()
    try:
        text = json_reader.read(raw, "f")
    except ManifestError as error:
        found_wrong = error.problems
    else:
        assert text.data == json.loads(raw)
        assert json_reader._problems(raw.decode(), "f") == []
    assert all(p.line and p.column for p in found_wrong)
    assert time.process_time() - begun < 1


@given(st.dictionaries(KEYS, DATA, min_size=1, max_size=4), st.sampled_from([None, 0, 2]))
def test_every_position_points_at_its_key(data: dict[str, Any], indent: int | None) -> None:
    """In texts of one line or of many."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    content, lines = json_reader.read(text.encode(), "f"), text.split("\n")

    def check(value: Any, path: tuple[str | int, ...]) -> None:
        steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in steps:
            line, column = content.position((*path, key))
            spelt = json.dumps(key if isinstance(key, str) else inner, ensure_ascii=False, indent=indent).split("\n")[0]
            assert lines[line - 1][column - 1 :].startswith(spelt)
            line, column = content.position((*path, key), value=True)
            spelt = json.dumps(inner, ensure_ascii=False, indent=indent).split("\n")[0]
            assert lines[line - 1][column - 1 :].startswith(spelt)
            check(inner, (*path, key))

    check(data, ())


def test_a_file_beyond_the_limit_of_size_is_refused() -> None:
    """It is refused before it is parsed."""
    assert "larger than 100 MB" in problems(b" " * (document.MAX_BYTES + 1))[0].message
