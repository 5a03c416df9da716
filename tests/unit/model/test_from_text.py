"""The laws of coercion: which value a text of the command line is in a data type."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.datatypes import from_text
from resource_api.model.values.values import same_value

MEANT: list[tuple[str, str, Any]] = [
    ("String", "5", "5"),
    ("String", "", ""),
    ("Optional[String]", "", ""),
    ("Optional[String]", "undef", "undef"),
    ("Integer", "5", 5),
    ("Integer", "-5", -5),
    ("Integer", "+5", 5),
    ("Integer", "0644", 644),
    ("Integer", "0x1F", 31),
    ("Integer", "-0x10", -16),
    ("Optional[Integer]", "5", 5),
    ("Float", "1.0", 1.0),
    ("Float", "-2.5e3", -2500.0),
    ("Numeric", "1", 1),
    ("Numeric", "1.0", 1.0),
    ("Boolean", "true", True),
    ("Optional[Boolean]", "false", False),
    ("Enum[true_, auto]", "auto", "auto"),
    ("Enum['2', auto]", "2", "2"),
    ("Pattern[/^[0-7]+$/]", "0644", "0644"),
    ("Variant[Integer, String]", "5", 5),
    ("Variant[String, Integer]", "5", 5),
    ("Variant[String, Integer]", "x", "x"),
    ("Variant[String, Boolean]", "true", True),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "9", 9),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "1.5", 1.5),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "false", False),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "nine", "nine"),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "0644", "0644"),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "1.10", "1.10"),
    ("Variant[Pattern[/^.*$/], Numeric, Boolean]", "9223372036854775808", "9223372036854775808"),
    ("Variant[Integer, Enum['2', auto]]", "2", 2),
    ("Variant[Integer, String[1]]", "+5", "+5"),
    ("Sensitive[Variant[Integer, Pattern[/7/]]]", "777", 777),
    ("Integer", "-9223372036854775808", -(2**63)),
    ("Variant[Integer[0, 5], Integer[3, 9]]", "4", 4),
    ("Variant[Integer, Enum[auto]]", "auto", "auto"),
    ("Sensitive[Integer]", "5", 5),
    ("NotUndef[Optional[Integer]]", "5", 5),
    ("Array[Integer]", "[1, 2]", [1, 2]),
    ("Variant[String, Array[String]]", '["a"]', ["a"]),
    ("Variant[String, Array[String]]", "a", "a"),
    ("Tuple[String, Integer]", '["a", 1]', ["a", 1]),
    ("Hash[String, Integer]", '{"a": 1}', {"a": 1}),
    ("Struct[{a => Integer}]", ' {"a": 1}', {"a": 1}),
    ("Any", "5", 5),
    ("Any", "five", "five"),
    ("Data", '{"a": [1.5]}', {"a": [1.5]}),
    ("Scalar", "[1]", "[1]"),
    ("NotUndef", "true", True),
    ("Timestamp", "2026-11-21", "2026-11-21"),
    ("Timespan", "90", "90"),
]


@pytest.mark.parametrize(("text", "given_", "value"), MEANT)
def test_text_becomes_a_value_of_the_type(text: str, given_: str, value: Any) -> None:
    """Integers, floats with a point, true and false; a string if nothing else fits, or is written otherwise."""
    result = from_text.coerce(datatypes.parse(text), given_)
    assert same_value(result, value)


REFUSED = [
    ("Integer", "1.0", "must be an integer, not '1.0'"),
    ("Integer", "1\n", "must be an integer"),
    ("Integer", "\u0665", "must be an integer"),
    ("Integer", "9" * 5000, "must be an integer"),
    ("Integer[0, 10]", "11", "must be an integer from 0 to 10, not '11'"),
    ("Float", "1", "write a float with a point"),
    ("Float", "1.0e999", "must be a float"),
    ("Float", "nan", "must be a float"),
    ("Boolean", "yes", "did you mean 'true'? No other"),
    ("Boolean", "True", "did you mean 'true'?"),
    ("Enum[a, b]", "c", "must be one of a, b, not 'c'"),
    ("Optional[Integer]", "", "must be an integer, not ''"),
    ("Undef", "undef", "must be left out"),
    ("Array[Integer]", "1", 'write it as JSON, ["a", "b"]'),
    ("Array[Integer]", '["1"]', "is wrong at [0]: it must be an integer, not a string"),
    ("Hash[String, Struct[{a => Boolean}]]", '{"x": {"a": 1}}', "is wrong at .x.a: it must be true or false, not an"),
    ("Array", '{"a": 1}', "must be a list, not a mapping"),
    ("Array", "[NaN]", "must be a list"),
    ("Array", "[" * 100000, "must be a list"),
    ("Hash", '{"a": 1, "a": 2}', 'write it as JSON, {"a": "b"}'),
    ("Integer", "9223372036854775808", "must be an integer, not '9223372036854775808'; an integer must fit 64 bits"),
    ("Integer", "-0x8000000000000001", "must be an integer"),
    ("Array[Integer]", "[9223372036854775808]", "an integer must fit 64 bits"),
]


@pytest.mark.parametrize(("text", "given_", "message"), REFUSED, ids=[f"{r[0]}-{r[1][:9]!r}" for r in REFUSED])
def test_invalid_text_is_refused_with_advice(text: str, given_: str, message: str) -> None:
    """Nothing is guessed, and the sentence contains how to write it."""
    with pytest.raises(ValueError, match=r"must be") as caught:
        from_text.coerce(datatypes.parse(text), given_)
    assert message in str(caught.value)


def test_a_list_of_another_length_is_refused_as_such() -> None:
    """It is a list, and written as JSON."""
    with pytest.raises(ValueError, match=r"^must have at least 1 element, not 0$"):
        from_text.coerce(datatypes.parse("Array[Integer, 1]"), "[]")


@pytest.mark.parametrize(
    "text", ["Sensitive[Integer]", "Variant[Boolean, Sensitive[Integer]]", "Array[Sensitive[Any]]"]
)
def test_secret_text_is_not_shown(text: str) -> None:
    """A refused secret is not in the message."""
    with pytest.raises(ValueError, match="not the text") as caught:
        from_text.coerce(datatypes.parse(text), "hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "written", "message"),
    [
        (
            "Hash[String, Sensitive[Integer]]",
            '{"a": "hunter2"}',
            "is wrong at .a: it must be an integer, not a sensitive string",
        ),
        ("Array[Sensitive[Integer]]", '["hunter2"]', "is wrong at [0]: it must be an integer, not a sensitive string"),
        (
            "Sensitive[Hash[String, Integer]]",
            '{"hunter2": "x"}',
            "must fit the data type Sensitive[Hash[String, Integer]]",
        ),
        (
            "Sensitive[Hash[Integer, Integer]]",
            '{"hunter2": 1}',
            "must fit the data type Sensitive[Hash[Integer, Integer]]",
        ),
        ("Hash[Sensitive[Integer], Any]", '{"hunter2": 1}', "must be"),
        ("Sensitive[Struct[{a => Enum[b]}]]", '{"a": "hunter2"}', "must fit"),
    ],
)
def test_a_wrong_part_of_a_secret_is_named_and_not_shown(text: str, written: str, message: str) -> None:
    """Its position is in the message where keys are no secrets, its value never."""
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        from_text.coerce(datatypes.parse(text), written)
    assert "hunter2" not in str(caught.value)


TYPES = [
    "Any",
    "String",
    "Integer",
    "Float",
    "Optional[Boolean]",
    "Variant[Integer, Enum['5']]",
    "Array[Integer]",
    "Hash",
]


@given(st.sampled_from(TYPES).map(datatypes.parse), st.text('0123456789.-+exE[]{}",:atrue \n', max_size=12))
@example(datatypes.parse("Variant[Integer, Enum['5']]"), "5")
def test_coerced_values_are_accepted(datatype: datatypes.DataType, text: str) -> None:
    """The result is always accepted by the type; what the type accepts as text is never refused."""
    try:
        value = from_text.coerce(datatype, text)
    except ValueError:
        assert not datatype.accepts(text)
    else:
        assert datatype.accepts(value)
