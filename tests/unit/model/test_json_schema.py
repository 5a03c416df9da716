"""The laws of schemas: predicates and schemas accept the same values, and messages are clear and without secrets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.datatypes import json_schema as schemas
from resource_api.model.datatypes.messages import explain
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown, reveal
from tests.sampling import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.datatypes.datatype import DataType


class Text(str):
    """A subclass of str."""

    __slots__ = ()


WORDS = ("a", "b", "absent", "c d", "5", "true")
PATTERNS = {r"\Aa+\z": "aa", r"b$": "xb", r"^[0-9]{2}": "12x", r"c": "c"}

sizes = st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda pair: f"{pair[0]}, {sum(pair)}")
ranges = st.tuples(st.integers(-3, 3), st.integers(0, 4)).map(lambda pair: f"{pair[0]}, {sum(pair)}")
limited = st.one_of(st.just(""), sizes.map("[{}]".format))
leaves = st.one_of(
    st.sampled_from(
        ["Any", "Data", "Undef", "Numeric", "Scalar", "Regexp", "Timestamp", "Timespan", "Boolean", "NotUndef"]
    ),
    st.sampled_from(
        ["Boolean[true]", "Boolean[false]", "String[1]", "Sensitive", "Hash", "Array", "Hash[Integer, Any]"]
    ),
    limited.map("String{}".format),
    st.one_of(st.just(""), ranges.map("[{}]".format)).map("Integer{}".format),
    st.one_of(st.just(""), ranges.map("[{}]".format)).map("Float{}".format),
    st.lists(st.sampled_from([f"'{word}'" for word in WORDS]), min_size=1, max_size=3).map(
        lambda words: f"Enum[{', '.join(words)}]"
    ),
    st.lists(st.sampled_from(sorted(PATTERNS)), min_size=1, max_size=2).map(
        lambda value: f"Pattern[{', '.join(f'/{pattern}/' for pattern in value)}]"
    ),
)


def branches(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return the types that contain others."""
    several = st.lists(inner, min_size=1, max_size=3).map(", ".join)
    size = st.one_of(st.just(""), sizes.map(", {}".format))
    key = st.sampled_from(["{}", "Optional[{}]", "NotUndef[{}]"])
    pair = st.tuples(key, inner)
    struct = st.lists(pair, max_size=3).map(
        lambda pairs: ", ".join(f"{k.format('abc'[i])} => {t}" for i, (k, t) in enumerate(pairs))
    )
    return st.one_of(
        inner.map("Optional[{}]".format),
        inner.map("NotUndef[{}]".format),
        inner.map("Sensitive[{}]".format),
        several.map("Variant[{}]".format),
        st.tuples(inner, size).map(lambda value: f"Array[{value[0]}{value[1]}]"),
        st.tuples(several, size).map(lambda value: f"Tuple[{value[0]}{value[1]}]"),
        st.tuples(leaves, inner, size).map(lambda value: f"Hash[{value[0]}, {value[1]}{value[2]}]"),
        struct.map("Struct[{{{}}}]".format),
    )


types = st.recursive(leaves, branches, max_leaves=5).map(datatypes.parse)
odd = st.sampled_from(
    [float("nan"), float("inf"), 1.0, True, (1,), Text("a"), b"a", object(), {1: 2}, {True: 1}, "a\n"]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 8),
    st.floats(-5, 8),
    st.sampled_from([*WORDS, *PATTERNS.values(), ""]),
    odd,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return the values that contain others, wrapped ones included."""
    return st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "d", 1]), inner, max_size=3),
        inner.map(Sensitive),
    )


anything = st.recursive(scalars, containers, max_leaves=5)


def sized(datatype: DataType) -> dict[str, Any]:
    """Return the limits of a size for a strategy."""
    low = int(datatype.low or 0)
    return {"min_size": low, "max_size": low + 2 if datatype.high is None else int(datatype.high)}


def structs(datatype: DataType) -> st.SearchStrategy[Any]:
    """Return values with the keys of a Struct."""
    given_ = {name: matching(part) for (name, _), part in zip(datatype.fields, datatype.parts, strict=True)}
    required: dict[str, Any] = {name: given_[name] for name, must in datatype.fields if must}
    return st.fixed_dictionaries(required, optional={n: s for n, s in given_.items() if n not in required})


def tuples(datatype: DataType) -> st.SearchStrategy[Any]:
    """Return lists for a Tuple."""
    parts = [matching(part) for part in datatype.parts]
    bounds = sized(datatype)
    lengths = st.integers(bounds["min_size"], bounds["max_size"])
    return lengths.flatmap(lambda n: st.tuples(*[parts[min(i, len(parts) - 1)] for i in range(n)]).map(list))


MATCHING: dict[str, Callable[[DataType], st.SearchStrategy[Any]]] = {
    "Undef": lambda _: st.none(),
    "Integer": lambda t: st.integers(*(bound if bound is None else int(bound) for bound in (t.low, t.high))),
    "Float": lambda t: st.floats(t.low, t.high, allow_nan=False, allow_infinity=False),
    "Boolean": lambda t: st.sampled_from(t.words or (True, False)),
    "String": lambda t: st.text("ab", **sized(t)),
    "Enum": lambda t: st.sampled_from(t.words),
    "Pattern": lambda _: st.sampled_from(sorted(PATTERNS.values())),
    "Timestamp": lambda _: st.datetimes().map(lambda value: value.isoformat() if value.year > 999 else "2026-01-01"),
    "Timespan": lambda _: st.sampled_from([5, 1.5, "1-00:00:00"]),
    "Optional": lambda t: st.none() | matching(t.parts[0]),
    "NotUndef": lambda t: matching(t.parts[0]),
    "Sensitive": lambda t: matching(t.parts[0]) | matching(t.parts[0]).map(Sensitive),
    "Variant": lambda t: st.one_of(*map(matching, t.parts)),
    "Array": lambda t: st.lists(matching(t.parts[0]), **sized(t)),
    "Tuple": tuples,
    "Hash": lambda t: st.dictionaries(
        matching(t.parts[0]).filter(lambda key: key.__hash__ is not None and not is_secret(key)),
        matching(t.parts[1]),
        max_size=3,
    ),
    "Struct": structs,
}


def matching(datatype: DataType) -> st.SearchStrategy[Any]:
    """Return values that a data type accepts, except for a few that exceed a limit."""
    result = MATCHING.get(datatype.kind)
    return result(datatype) if result else scalars


def replaced(value: Any, key: Any, new: Any) -> Any:
    """Return a copy of a list or a dict with one element replaced."""
    result = value.copy()
    result[key] = new
    return result


def spoiled(value: Any) -> st.SearchStrategy[Any]:
    """Return a value that differs from ``value`` in one part: of another type, additional, or missing."""
    if type(value) is list:
        here = [tuple(value), [*value, None], value[:-1], value[1:], dict(enumerate(value))]
        within = [spoiled(item).map(partial(replaced, value, i)) for i, item in enumerate(value)]
        return st.one_of(st.sampled_from(here), *within)
    if type(value) is dict:
        here = [
            {**value, "zz": 1},
            list(value.items()),
            *({k: v for k, v in value.items() if k != key} for key in value),
        ]
        inside = [spoiled(item).map(partial(replaced, value, key)) for key, item in value.items()]
        return st.one_of(st.sampled_from(here), *inside)
    if type(value) is str:
        return st.sampled_from([Text(value), f"{value}\n", f"{value}{value}{value}c", "", value.encode(), 5])
    if type(value) in {bool, int} or (type(value) is float and -1e300 < value < 1e300):
        return st.sampled_from([int(value), float(value), bool(value), value + 100, value - 100, str(value)])
    return st.sampled_from([value, False, 0, ""])


def any_case(datatype: DataType) -> st.SearchStrategy[tuple[DataType, Any]]:
    """Return a data type with values that are valid, nearly valid, or arbitrary."""
    return st.tuples(st.just(datatype), matching(datatype) | matching(datatype).flatmap(spoiled) | anything)


cases = types.flatmap(any_case)


@settings(max_examples=times(6))
@given(cases)
@example((datatypes.parse("Integer"), 1.0))
@example((datatypes.parse("Enum[a]"), []))
@example((datatypes.parse("Pattern[/a$/]"), "a\n"))
def test_predicates_and_schemas_accept_the_same_values(case: tuple[DataType, Any]) -> None:
    """Exactly the refused values are explained."""
    datatype, value = case
    assert datatype.accepts(value) == (explain(datatype, value) == [])


@settings(max_examples=times(3))
@given(cases)
def test_a_wrapper_makes_no_difference(case: tuple[DataType, Any]) -> None:
    """A secret is accepted where its content is."""
    datatype, value = case
    assert datatype.accepts(Sensitive(value)) == datatype.accepts(value) == datatype.accepts(reveal(value))


def holed(value: Any) -> st.SearchStrategy[Any]:
    """Return ``value`` with some parts unknown."""
    if type(value) is list:
        return st.just(UNKNOWN) | st.tuples(*map(holed, value)).map(list)
    if type(value) is dict:
        return st.just(UNKNOWN) | st.fixed_dictionaries({key: holed(item) for key, item in value.items()})
    return st.sampled_from([UNKNOWN, value])


@settings(max_examples=times(3))
@given(cases.flatmap(lambda case: st.tuples(st.just(case), holed(case[1]))))
def test_unknown_values_are_accepted(drawn: tuple[tuple[DataType, Any], Any]) -> None:
    """A valid value stays valid when parts of it are unknown."""
    (datatype, value), partly = drawn
    if datatype.accepts(value):
        assert explain(datatype, partly) == []
    elif not is_unknown(partly):
        assert explain(datatype, partly) != []


@settings(max_examples=times(3))
@given(cases)
def test_the_published_schema_accepts_the_values_of_the_type(case: tuple[DataType, Any]) -> None:
    """An editor never marks a valid manifest; JSON has string keys and no wrappers."""
    datatype, value = case
    if datatype.accepts(value):
        plain = by_text(reveal(value))
        Draft202012Validator(schemas.schema(datatype)).validate(plain)
        Draft7Validator(schemas.schema(datatype, draft7=True)).validate(plain)


def by_text(value: Any) -> Any:
    """Return ``value`` with its keys as JSON has them."""
    if isinstance(value, dict):
        return {str(key): by_text(item) for key, item in value.items()}
    return [by_text(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=times(2))
@given(types)
def test_a_published_schema_is_valid(datatype: DataType) -> None:
    """Both drafts accept it as a schema, and it contains only JSON."""
    Draft202012Validator.check_schema(schemas.schema(datatype))
    Draft7Validator.check_schema(schemas.schema(datatype, draft7=True))
    assert datatypes.parse("Data").accepts(schemas.schema(datatype))


EXPLAINED: list[tuple[str, Any, list[tuple[tuple[str | int, ...], str]]]] = [
    ("Integer", "a", [((), "must be an integer, not a string")]),
    ("String", None, [((), "must be a string, not nothing")]),
    ("String", (1,), [((), "must be a string, not tuple")]),
    ("Float", 1, [((), "must be a float such as 1.0, not an integer")]),
    ("Float", float("nan"), [((), "must be a float such as 1.0, not nan")]),
    ("Enum[absent, present]", "c", [((), "must be one of absent, present, not 'c'")]),
    ("Integer[0, 100]", 101, [((), "must be an integer from 0 to 100, not 101")]),
    ("String[1]", "", [((), "must be a string that is not empty, not ''")]),
    ("Pattern[/^a/]", "b", [((), "must be a string that matches /^a/, not 'b'")]),
    ("String[default, 9]", "x" * 500, [((), f"must be a string of at most 9 characters, not '{'x' * 79}...'")]),
    ("Variant[Integer, String]", 1.5, [((), "must be an integer or a string, not a float")]),
    ("Variant[Integer, Float, Undef]", "x", [((), "must be an integer or a float such as 1.0, not a string")]),
    ("Optional[Integer]", "x", [((), "must be an integer, not a string")]),
    ("Optional[Enum[a]]", "c", [((), "must be a, not 'c'")]),
    ("NotUndef", None, [((), "must be a value, not nothing")]),
    ("Array[Integer]", [1, "x", "y"], [((i,), "must be an integer, not a string") for i in (1, 2)]),
    ("Array[String]", "x", [((), "must be a list, not a string")]),
    ("Array[String, 1]", [], [((), "must have at least 1 element, not 0")]),
    ("Array[String, default, 1]", ["a", "b"], [((), "must have at most 1 element, not 2")]),
    ("Array[String, 1, 2]", ["a"] * 3, [((), "must have 1 to 2 elements, not 3")]),
    ("Tuple[String, Integer]", ["a"], [((), "must have 2 elements, not 1")]),
    ("Tuple[String, Integer]", ["a", "b"], [((1,), "must be an integer, not a string")]),
    ("Hash[String, Integer]", {"a": "x"}, [(("a",), "must be an integer, not a string")]),
    ("Hash[Integer, String]", {"a": "x"}, [((), "has a key that must be an integer, not a string")]),
    ("Hash[String, Integer, 1]", {}, [((), "must have at least 1 key, not 0")]),
    ("Struct[{a => Integer}]", {}, [((), "needs the key 'a'")]),
    ("Struct[{a => Integer}]", {"a": 1, "c": 1}, [((), "has the unknown key 'c'; known are a")]),
    ("Struct[{a => Array[Integer]}]", {"a": [1, True]}, [(("a", 1), "must be an integer, not a boolean")]),
    ("Optional[Array[Integer]]", [1, "x"], [((1,), "must be an integer, not a string")]),
    ("Any", [1, {"a": float("inf")}], [((1, "a"), "must be a value that JSON can carry, not inf")]),
    ("Data", {"a": {1: 2}}, [(("a",), "must have strings as keys, not an integer")]),
    ("Timestamp", "2026-02-30", [((), "must be a date such as 2026-02-28 or 2026-02-28T12:00:00Z, not '2026-02-30'")]),
    # What YAML read as a number was meant as text.
    ("String", 644, [((), "must be a string, not an integer; write it in quotes")]),
    ("Pattern[/[0-7]/]", 644, [((), "must be a string that matches /[0-7]/, not an integer; write it in quotes")]),
    ("Optional[String]", 1.5, [((), "must be a string, not a float; write it in quotes")]),
    ("Enum['5', 'true']", True, [((), "must be one of 5, true, not a boolean; write it in quotes")]),
    ("Enum[a]", 5, [((), "must be a, not an integer")]),
    ("Hash[String, Any]", {5: 1}, [((), "has a key that must be a string, not an integer; write it in quotes")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "problems"), EXPLAINED, ids=[f"{i}-{r[0]}" for i, r in enumerate(EXPLAINED)])
def test_a_message_names_path_expectation_and_value(text: str, value: Any, problems: list[Any]) -> None:
    """Messages use the words of people who write manifests."""
    assert explain(datatypes.parse(text), value) == problems


@settings(max_examples=times(3))
@given(cases.flatmap(lambda case: st.tuples(st.just(case), holed(case[1]))))
def test_a_partly_unknown_value_is_explained_where_its_known_parts_are_refused(
    drawn: tuple[tuple[DataType, Any], Any],
) -> None:
    """Unknown parts are accepted, wherever they are."""
    (datatype, _), partly = drawn
    assert datatype.accepts_known(partly) == (explain(datatype, partly) == [])


def test_all_problems_of_a_value_are_reported_at_once() -> None:
    """A user can correct all of them before the next run."""
    datatype = datatypes.parse("Struct[{a => Integer, b => String, c => Array[Integer]}]")
    assert explain(datatype, {"a": "x", "c": [1, "y"], "z": 1}) == [
        ((), "needs the key 'b'"),
        ((), "has the unknown key 'z'; known are a, b, c"),
        (("a",), "must be an integer, not a string"),
        (("c", 1), "must be an integer, not a string"),
    ]


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("Sensitive[String[9]]", SECRET, ((), "must be a string of at least 9 characters, not a sensitive string")),
        ("Sensitive[Integer]", Sensitive(SECRET), ((), "must be an integer, not a sensitive string")),
        (
            "Sensitive[Hash[String, Integer]]",
            {SECRET: SECRET},
            ((), "must fit the data type Sensitive[Hash[String, Integer]], which this mapping does not"),
        ),
        (
            "Variant[Array[Integer], Array[Boolean]]",
            [1, True],
            ((), "must fit the data type Variant[Array[Integer], Array[Boolean]], which this list does not"),
        ),
        ("Enum[a]", Sensitive(SECRET), ((), "must be a, not a sensitive string")),
        ("Array[Enum[a]]", ["a", Sensitive(SECRET)], ((1,), "must be a, not a sensitive string")),
        (
            "Array[Enum[a]]",
            Sensitive(["a", SECRET]),
            ((), "must fit the data type Array[Enum[a]], which this list does not"),
        ),
        (
            "Struct[{a => Integer}]",
            Sensitive({SECRET: 1}),
            ((), "must fit the data type Struct[{a => Integer}], which this mapping does not"),
        ),
        ("Array[Sensitive[Enum[a]]]", [SECRET], ((0,), "must be a, not a sensitive string")),
        ("Variant[Enum[a], Sensitive[Enum[b]]]", SECRET, ((), "not a string")),
        ("Optional[Sensitive[Enum[b]]]", SECRET, ((), "not a string")),
        ("Hash[Sensitive[Enum[b]], Any]", {SECRET: 1}, ((), "has a key that must be b")),
        (
            "Hash[Sensitive[String], Array[Integer]]",
            {SECRET: ["a"]},
            ((), "has a value that must be an integer"),
        ),
        ("Any", [Sensitive([(SECRET,)])], ((0,), "must be a value that JSON can carry, not a sensitive list")),
    ],
)
def test_a_secret_is_not_shown(text: str, value: Any, problem: tuple[Any, str]) -> None:
    """Whether by type or by wrapper: neither the value, nor the path within it, nor one of its keys."""
    (path, message), *rest = explain(datatypes.parse(text), value)
    assert path == problem[0]
    assert problem[1] in message
    assert SECRET not in repr((path, message, rest))


def test_excessive_nesting_is_refused_and_explained() -> None:
    """A value nested without end is refused with a message, not with RecursionError."""
    value: Any = "x"
    for _ in range(900):
        value = [value]
    for text in ("Any", "Array[Any]", "Optional[Data]", "Sensitive"):
        datatype = datatypes.parse(text)
        assert not datatype.accepts(value)
        assert explain(datatype, value)


def test_drafts_differ_in_tuples_only() -> None:
    """Draft-07 has ``items`` for a tuple's types."""
    datatype = datatypes.parse("Tuple[String, Sensitive[Integer[1]], 1]")
    members = [{"type": "string"}, {"type": "integer", "minimum": 1}]
    assert schemas.schema(datatype) == {"type": "array", "prefixItems": members, "items": members[1], "minItems": 1}
    assert schemas.schema(datatype, draft7=True) == {
        "type": "array", "items": members, "additionalItems": members[1], "minItems": 1
    }  # fmt: skip
