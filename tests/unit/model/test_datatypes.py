"""The laws of the data type language: its syntax, and which values are accepted."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.datatypes import messages
from resource_api.model.datatypes import parser as patterns
from resource_api.model.values.assets import Archive, Asset
from resource_api.model.values.errors import DataTypeError
from resource_api.model.values.values import UNKNOWN, Sensitive

ROOT = Path(__file__).resolve().parents[3]
NAN = float("nan")
INF = float("inf")


class Text(str):
    """A subclass of str."""

    __slots__ = ()


def deep(levels: int) -> list[Any]:
    """Return lists within lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ACCEPTED: list[tuple[str, list[Any], list[Any]]] = [
    ("Any", [None, 1, 1.5, True, "a", [1, {"a": [None]}], deep(99)], [NAN, INF, (1,), {1: 2}, Text("a"), deep(2000)]),
    ("Data", [None, {"a": [1.0]}], [[NAN], {"a": b"x"}, object()]),
    ("Undef", [None], [0, "", False, []]),
    ("String", ["", "a\nb"], [1, None, True, Text("a"), b"a", UNKNOWN]),
    ("String[1]", ["a"], [""]),
    ("String[1, 2]", ["a", "ab"], ["", "abc"]),
    ("String[default, 1]", ["", "a"], ["ab"]),
    ("Integer", [0, -1, 10**400], [True, 1.0, "1", None]),
    ("Integer[1, 10]", [1, 10], [0, 11, True, 5.0]),
    ("Integer[default, 5]", [-100, 5], [6]),
    ("Integer[0x10]", [16], [15]),
    ("Float", [1.0, -0.5], [1, NAN, INF, -INF, True, "1.0"]),
    ("Float[0, 1.5]", [0.0, 1.5], [-0.1, 1.6, 1, NAN]),
    ("Float[0.0]", [1e300], [INF]),
    ("Numeric", [1, 1.5], [True, "1", NAN, None]),
    ("Boolean", [True, False], [0, 1, "true"]),
    ("Boolean[true]", [True], [False, 1]),
    ("Boolean[false]", [False], [True, 0]),
    ("Enum['a b', c, \"d\", x86_64, ssh-rsa, TCP]", ["a b", "c", "d", "x86_64", "ssh-rsa", "TCP"], ["A", 1, []]),
    (r"Enum['it\'s', 'true', 'String']", ["it's", "true", "String"], [True]),
    ("Pattern[/^a/]", ["a", "ab"], ["b", "\na", 1]),
    ("Pattern[/a/, /b/]", ["xa", "bx"], ["c"]),
    ("Reference", ["Disk[a]", "sda", 1], ["", None, True, 1.5, ["sda"]]),
    ("Reference[disk, Slice]", ["sda"], [None]),
    ("Asset", [Asset("0" * 64)], [Archive("0" * 64), "text", {"asset": {"text": "x"}}, None]),
    ("Archive", [Archive("0" * 64)], [Asset("0" * 64), "text", {}, None]),
    ("Regexp", ["^a$", r"\A(0x)?\z"], ["(", "[", 1]),
    ("Optional[Integer]", [None, 1], ["1"]),
    ("Optional['word']", [None, "word"], ["other"]),
    ("NotUndef", ["", 0, False], [None, NAN]),
    ("NotUndef[Optional[String]]", ["a"], [None]),
    ("Variant[Integer, String[1]]", [1, "a"], ["", 1.0]),
    ("Variant[Integer, Boolean, Enum[a]]", [1, True, "a"], ["b"]),
    ("Array", [[], [1, "a"]], [(), {}, [NAN]]),
    ("Array[String]", [[], ["a"]], [["a", 1], "a"]),
    ("Array[String, 1, 2]", [["a"], ["a", "b"]], [[], ["a"] * 3]),
    ("Hash", [{}, {"a": [1]}], [{1: 2}, []]),
    ("Hash[String, Integer]", [{"a": 1}], [{"a": "1"}, {1: 1}]),
    ("Hash[Integer, String]", [{1: "a"}], [{"1": "a"}, {True: "a"}]),
    ("Hash[String, Any, 1, 2]", [{"a": 1}], [{}, {"a": 1, "b": 1, "c": 1}]),
    ("Tuple[String, Integer]", [["a", 1]], [["a"], ["a", 1, 2], [1, "a"], ("a", 1)]),
    ("Tuple[String, Integer, 1]", [["a"], ["a", 1, 2, 3]], [[], ["a", "b"]]),
    ("Tuple[String, Integer, 1, 3]", [["a"], ["a", 1, 2]], [["a", 1, 2, 3]]),
    ("Struct[{a => Integer, 'b c' => String}]", [{"a": 1, "b c": ""}], [{"a": 1}, {"a": 1, "b c": "", "d": 1}, []]),
    ("Struct[{a => Optional[Integer]}]", [{}, {"a": None}], [{"a": "x"}]),
    ("Struct[{Optional[a] => Integer}]", [{}, {"a": 1}], [{"a": None}]),
    ("Struct[{NotUndef[a] => Optional[Integer]}]", [{"a": None}], [{}]),
    ("Sensitive", ["a", Sensitive([1])], [Sensitive(NAN), object()]),
    ("Sensitive[Integer[0, 5]]", [5, Sensitive(5)], [6, Sensitive(6), Sensitive("5")]),
    ("Scalar", ["a", 1, 1.5, True], [None, [], NAN]),
    (
        "Timestamp",
        ["2026-11-21", "2026-11-21T04:00", "2024-02-29 23:59:59.5+01:00", "2026-01-31T00:00:00Z"],
        ["2026-02-29", "2026-04-31", "1900-02-29", "2026-13-01", "2026-11-21T24:00", "2026-11-21\n", 5],
    ),
    ("Timespan", [5, 1.5, "90", "1:30", "10:00:00", "2-10:00:00.25", "-5"], ["", "1:2:3:4", "5\n", True, NAN]),
    # A wrapper makes no difference, wherever it stands.
    ("String[2]", [Sensitive("ab")], [Sensitive("a"), Sensitive(1)]),
    ("Array[Integer]", [[1, Sensitive(2)], Sensitive([Sensitive(1)])], [[Sensitive("a")]]),
    ("Any", [{"a": Sensitive([Sensitive(1)])}], [Sensitive((1,))]),
]


@pytest.mark.parametrize(("text", "good", "bad"), ACCEPTED, ids=[f"{i}-{row[0]}" for i, row in enumerate(ACCEPTED)])
def test_a_type_accepts_exactly_its_values(text: str, good: list[Any], bad: list[Any]) -> None:
    """Types are exact and limits hold."""
    datatype = datatypes.parse(text)
    assert [value for value in good if not datatype.accepts(value)] == []
    assert [value for value in bad if datatype.accepts(value)] == []


WRONG = [
    ("", 1, "got the end"),
    ("integer", 1, "did you mean 'Integer'?"),
    ("Strnig", 1, "did you mean 'String'?"),
    ("str", 1, "write String"),
    ("Collection", 1, "write Variant[Array, Hash]"),
    ("Stdlib::Absolutepath", 1, "unknown data type"),
    ("5", 1, "expected the name of a data type"),
    ("A|B", 2, "unexpected '|'"),
    ("String]", 7, "nothing may follow"),
    ("Optional[String] x", 18, "nothing may follow the type, got 'x'"),
    ("Optional[String", 16, "expected ',' or ']', got the end"),
    ("Optional[Integer, String]", 19, "takes 1 parameter, got 2"),
    ("Optional", 1, "Optional needs parameters"),
    ("Optional[5]", 10, "expected a data type, got the number 5"),
    ("Sensitive['x']", 11, "expected a data type, got 'x'"),
    ("Enum", 1, "Enum needs parameters"),
    ("Enum[]", 5, "the brackets of Enum are empty"),
    ("Enum[,]", 6, "expected a data type or a value, got ','"),
    ("Enum[a b]", 8, "expected ',' or ']', got 'b'"),
    ("Pattern[/a/i]", 12, "nothing follows the '/' that ends a pattern; its start (?i) makes it ignore case"),
    ("Struct[{port: Integer}]", 13, "unexpected ':'; write '=>' between a key and its type"),
    ("Enum[1]", 6, "expected a word, or text in quotes, got the number 1"),
    ("Enum[true]", 6, "write 'true' in quotes"),
    ("Enum[a, String]", 9, "String is a data type"),
    ("Enum['a", 6, "the quote is not closed"),
    ("Any[1]", 5, "takes no parameters"),
    ("Integer[5,1]", 9, "min 5 is greater than max 1"),
    ("Integer[1,2,3]", 13, "takes 2 parameters, got 3"),
    ("Integer[0644]", 9, "leading zero"),
    ("Integer[1.5]", 9, "expected a whole number or default"),
    (f"Integer[{'9' * 500}]", 9, "the number is too long"),
    ("String[{}]", 8, "got braces"),
    ("String[/a/]", 8, "got /a/"),
    ("Pattern[/[[:nope:]]/]", 11, "unknown class '[:nope:]'"),
    ("Float[1e999]", 7, "expected a finite number"),
    (f"Float[{'9' * 400}]", 7, "expected a finite number"),
    ("String[a]", 8, "expected a whole number or default, got 'a'"),
    ("String[-1]", 8, "a size cannot be negative"),
    ("Boolean[maybe]", 9, "expected true or false"),
    ("Pattern[abc]", 9, "expected a regular expression"),
    ("Pattern[/abc]", 9, "no '/' ends this pattern"),
    ("Pattern[/a(/]", 11, "missing )"),
    (r"Pattern[/\Aab\p/]", 14, r"bad escape \p"),
    ("Pattern[/x(?x) a/]", 11, "'(?x)' is not supported"),
    ("Pattern[/x(?i)a/]", 11, "'(?i)' is not supported"),
    ("Pattern[/(?m)a/]", 10, "'(?m)' is not supported"),
    ("Pattern[/(?<x>a)/]", 10, "'(?<x>' is not supported"),
    ("Pattern[/a(?#note)/]", 11, "'(?#' is not supported"),
    ("Pattern[/a(?>b)/]", 11, "'(?>' is not supported"),
    ("Pattern[/ab*+/]", 12, "'*+' means other things"),
    ("Pattern[/[a[b]]/]", 12, "within another"),
    ("Pattern[/[a&&b]/]", 12, "write the character once"),
    (r"Pattern[/\k<a>/]", 10, r"bad escape \k"),
    ("Array[1]", 7, "expected a data type"),
    ("Array[String, 2, 1]", 15, "min 2 is greater"),
    ("Tuple[String, 1, Integer]", 15, "before its size"),
    ("Hash[String]", 6, "the type of its keys and the type of its values"),
    ("Struct[String]", 8, "in braces"),
    ("Struct[{a Integer}]", 11, "expected '=>'"),
    ("Struct[{a => Integer, a => String}]", 23, "given twice"),
    ("Struct[{Variant[a] => Integer}]", 9, "Optional[key] or NotUndef[key]"),
    ("Struct[{a => Integer", 21, "expected ',' or '}'"),
]


@pytest.mark.parametrize(("text", "column", "message"), WRONG, ids=[row[0] or "empty" for row in WRONG])
def test_an_invalid_expression_is_an_error_with_the_column(text: str, column: int, message: str) -> None:
    """The author of a type sees the wrong position and the correct form."""
    with pytest.raises(DataTypeError) as caught:
        datatypes.parse(text)
    assert message in caught.value.message
    assert caught.value.column == column


@given(st.text(alphabet="StringEnumOptional[]{}(),'\"/\\ =>01.-a^$?*|", max_size=40))
def test_any_text_is_parsed_or_raises_data_type_error(text: str) -> None:
    """The parser raises no other exception."""
    try:
        datatype = datatypes.parse(text)
    except DataTypeError as error:
        assert 1 <= error.column <= len(text) + 1  # noqa: PT017 - both outcomes are right
    else:
        assert datatypes.parse(datatype.text) == datatype


@pytest.mark.parametrize("text", ["Optional[" * 5000, "Struct[{a=>" * 5000, "[" * 5000, f"Pattern[/{'(' * 5000}/]"])
def test_hostile_nesting_is_refused(text: str) -> None:
    """The limit of nesting is below that of Python's stack."""
    with pytest.raises(DataTypeError):
        datatypes.parse(text)


def test_the_deepest_type_can_be_used() -> None:
    """Every type that the parser accepts can be used."""
    datatype = datatypes.parse("Array[" * 50 + "String" + "]" * 50)
    assert datatype.accepts(deep(49))
    assert not datatype.accepts("a")


def test_an_expression_must_be_a_string() -> None:
    """A class instead of a text is refused with its name."""
    with pytest.raises(TypeError, match="written as text, not as type"):
        datatypes.parse(str)


CANONICAL = [
    ("Optional[ Enum['absent',\n \"present\"] ]", "Optional[Enum[absent, present]]"),
    ("Integer[default,default]", "Integer"),
    ("Integer[default,5]", "Integer[default, 5]"),
    ("Float[0,1]", "Float[0.0, 1.0]"),
    ("Enum['true', 'it''s']".replace("''", r"\'"), r"Enum['true', 'it\'s']"),
    ("Struct[{'a'=>Integer,Optional['b c']=>Any,}]", "Struct[{a => Integer, Optional['b c'] => Any}]"),
    (r"Pattern[/a\/b/,/[^\/]/]", r"Pattern[/a\/b/, /[^\/]/]"),
    ("Tuple[Any,0,default]", "Tuple[Any, 0]"),
]


@pytest.mark.parametrize(("written", "canonical"), CANONICAL)
def test_a_type_has_one_canonical_text(written: str, canonical: str) -> None:
    """Types are compared by it, and it parses to the same type; an Enum keeps its order."""
    datatype = datatypes.parse(written)
    assert datatype.text == canonical
    assert datatypes.parse(canonical) == datatype
    assert len({datatypes.parse(canonical), datatype}) == 1
    assert datatype != datatypes.parse("Undef")


def test_a_type_is_one_immutable_object() -> None:
    """It is cached per text, survives copies and cannot be changed."""
    datatype = datatypes.parse("Array[String]")
    assert datatypes.parse("Array[String]") is datatype
    assert copy.deepcopy([datatype])[0] is datatype
    assert repr(datatype) == "DataType('Array[String]')"
    with pytest.raises(AttributeError):
        datatype.optional = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "optional", "sensitive"),
    [
        ("String", False, False),
        ("Any", True, False),
        ("Optional[String]", True, False),
        ("Variant[Undef, String]", True, False),
        ("NotUndef[Optional[Sensitive[String]]]", False, True),
        ("Variant[Sensitive[String], Integer]", False, True),
        ("Sensitive[Optional[String]]", True, True),
        ("Array[Sensitive[String]]", False, True),
    ],
)
def test_optional_and_sensitive_types_are_marked(text: str, optional: bool, sensitive: bool) -> None:  # noqa: FBT001 - a table
    """Optional types accept None; sensitive types are wrapped by the catalog."""
    datatype = datatypes.parse(text)
    assert (datatype.optional, datatype.sensitive) == (optional, sensitive)


TRANSLATED = [
    (r"\A(0x)?[0-9a-f]{8}\z", r"^(0x)?[0-9a-f]{8}$(?!\n)", ["0xdeadbeef"], ["deadbeef\n", "\ndeadbeef", "xdeadbeefx"]),
    (r"^a$", r"^a$(?!\n)", ["a"], ["a\n", "a\nb", "b\na"]),
    (r"a\Z", r"a$(?!\n)", ["ba"], ["a\n"]),
    (r"[$]\$\^[\^^]", r"[$]\$\^[\^^]", ["$$^^"], ["$"]),
    (r"a\\z", r"a\\z", [r"a\z"], ["a"]),
    (r"^(a$|b)", r"^(a$(?!\n)|b)", ["a", "bc"], ["a\n"]),
    (r"^a$?b", r"^a(?:$(?!\n))?b", ["ab"], ["a\n"]),
    (r"^\d\w\s$", r"^[0-9][0-9A-Za-z_][ \t\r\n\f\v]$(?!\n)", ["1a "], ["\u0661a ", "1\u00e9 "]),
    (r"^[\w-.]+$", r"^[0-9A-Za-z_\-.]+$(?!\n)", ["a-."], ["a,", "|"]),
    (r"^[+-\d]$", r"^[+\-0-9]$(?!\n)", ["+", "-", "5"], [",", "."]),
    (r"^[[:alpha:]\h]\H$", r"^[A-Za-z0-9a-fA-F][^0-9a-fA-F]$(?!\n)", ["gg"], ["ga"]),
    (r"a\/b[^\/]", r"a/b[^/]", ["a/bc"], ["a/b/"]),
    (r"(a|b)\1", r"(a|b)\1", ["aa"], ["ab"]),
    (r"(?i:a)b", r"(?i:a)b", ["Ab"], ["aB"]),
    (r"(?i)^a|b", r"(?i:^a|b)", ["A", "B"], ["c"]),
    (r"(?<=a)b(?=c)", r"(?<=a)b(?=c)", ["abc"], ["bc", "ab"]),
    (r"[]a]", r"[\]a]", ["]"], ["b"]),
    (r"\-\:\.", r"-:\.", ["-:."], ["-:a"]),
]


@pytest.mark.parametrize(("source", "target", "good", "bad"), TRANSLATED, ids=[row[0] for row in TRANSLATED])
def test_a_pattern_has_one_meaning_in_every_dialect(source: str, target: str, good: list[str], bad: list[str]) -> None:
    """Anchors match at the ends of the value only; escapes and character classes keep their meaning."""
    regex = patterns.translate(source)
    assert regex.pattern == target
    assert [text for text in good if not regex.search(text)] == []
    assert [text for text in bad if regex.search(text)] == []


@pytest.mark.parametrize("repeated", ["{2}+", "{2}?", "{1,3}+", "{2,}+", "{,3}+"])
def test_a_repetition_that_is_repeated_in_ruby_only_is_refused(repeated: str) -> None:
    """Python would take it as possessive or lazy; in groups it is the same everywhere, as are lazy ranges."""
    with pytest.raises(DataTypeError, match=r"write \(\?:\.\.\.\{") as caught:
        datatypes.parse(rf"Pattern[/\Aa{repeated}\z/]")
    assert caught.value.column == 13
    accepts = datatypes.parse(rf"Pattern[/\A(?:a{repeated[:-1]}){repeated[-1]}[{repeated}]a{{1,3}}?\z/]").accepts
    assert accepts(f"aa{repeated[0]}a")


@given(st.text(alphabet="ab^$\\AzZ.[](){}|*+?-:<>imx/d&~\n", max_size=14))
@example("[]&&")  # the bracket is a member: the class is not closed
@example("[^]||")
def test_any_text_is_translated_or_raises_pattern_error(source: str) -> None:
    """An expression for which Python only warns is refused, too."""
    try:
        regex = patterns.translate(source)
    except patterns.PatternError as error:
        assert 0 <= error.offset <= len(source)  # noqa: PT017 - both outcomes are right
    else:
        assert re.compile(regex.pattern) == regex


@given(st.sampled_from([r"\A\w+\z", r"^\w+$", r"\A\w+\Z", r"\A(\w+)$", r"(?i)\A[a-z]+\z"]), st.text("ab\n\r\x0b\u2028"))
def test_an_anchored_pattern_matches_no_additional_line_break(source: str, value: str) -> None:
    """The text between the anchors is the whole value."""
    accepted = datatypes.parse(f"Pattern[/{source}/]").accepts(value)
    assert accepted == (bool(value) and set(value) <= {"a", "b"})


def test_importing_data_types_imports_no_heavy_module() -> None:
    """It is imported at every start."""
    code = (
        "import sys; import resource_api.model.datatypes.datatype as d; d.parse('Optional[Enum[a, b]]');"
        "print(sorted({'jsonschema', 'dataclasses', 'inspect', 'json', 'click', 'sh'} & set(sys.modules)))"
    )
    process = subprocess.run(  # without site, whose hooks import what they like
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("Enum['']", [1], "must be '', not a list"),
        ("Enum['', a]", "b", "must be one of '', a, not 'b'"),
        ("Hash[Boolean, Integer]", {True: "x"}, "is wrong at ['True']: it must be an integer, not a string"),
    ],
)
def test_an_empty_word_and_a_key_that_is_no_text_are_explained(text: str, value: Any, problem: str) -> None:
    """The word is in quotes, and so is the key, which is no name."""
    assert messages.first_problem(datatypes.parse(text), value) == problem
