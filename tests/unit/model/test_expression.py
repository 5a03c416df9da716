"""The laws of references in values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.values.expression import (
    ChosenKey,
    Expression,
    ExpressionPath,
    Index,
    evaluate,
    find_paths,
    follow_keys,
    parse,
    with_choices,
)
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import UNKNOWN, Sensitive, literal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text(alphabet="${}.a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
KNOWN = {"inputs": {"a": 1, "s": Sensitive("x"), "list": [1], "none": None, "yes": True}}


def resolve(path: ExpressionPath) -> object:
    """Return the value of an input; everything else is unknown."""
    return KNOWN["inputs"][path.keys[0]] if path.root == "inputs" else UNKNOWN


@given(st.text())
def test_escaped_text_parses_to_itself(text: str) -> None:
    """For any text: ``$${`` stands for ``${``."""
    assert parse(text.replace("${", "$${")) == text


@given(st.lists(st.text(alphabet="ab$ ]}["), max_size=3), st.text(alphabet="/ab.:[ ", min_size=1))
def test_an_expression_parses_from_its_text(texts: list[str], title: str) -> None:
    """The text of an expression parses to the expression."""
    parts: list[str | ExpressionPath] = []
    for text in texts:
        parts += [text + ".", ExpressionPath(Reference("file", title), ("content",))]
    expression = Expression(tuple(parts))
    if parts and "${" not in "".join(texts):
        assert parse(str(expression)) == expression


def test_a_title_ends_at_the_first_attribute() -> None:
    """Brackets within a title are part of it."""
    assert parse("${File[/a[1]/b].content}") == Expression(
        (ExpressionPath(Reference("file", "/a[1]/b"), ("content",)),)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${inputs.a}", 1),
        ("n=${inputs.a}", "n=1"),
        ("${inputs.a}${inputs.a}", "11"),
        ("${inputs.yes}!", "true!"),
        ("${inputs.s}", Sensitive("x")),
        ("p=${inputs.s}", Sensitive("p=x")),
        ("${File[x].serial}", UNKNOWN),
        ("a${File[x].serial}", UNKNOWN),
        ("$${inputs.a}", "${inputs.a}"),
    ],
)
def test_a_single_reference_keeps_the_type_and_text_is_formatted(text: str, value: object) -> None:
    """Secrets stay secret and unknown values unknown, also within text."""
    assert evaluate(text, resolve) == value
    assert evaluate({"k": [text]}, resolve) == {"k": [value]}


def test_a_looked_up_value_is_never_parsed() -> None:
    """A value that looks like a reference is not parsed."""
    assert evaluate("${facts.x}", lambda _path: "${inputs.a}") == "${inputs.a}"


@pytest.mark.parametrize("rest", ["", "${File[/a].mode}"])
@pytest.mark.parametrize("name", ["list", "none"])
def test_only_scalars_can_be_part_of_a_text(name: str, rest: str) -> None:
    """The message names the reference, also where another part of the text is not known yet."""
    with pytest.raises(ValueError, match="cannot be part of a text"):
        evaluate(f"x${{inputs.{name}}}{rest}", resolve)


@pytest.mark.parametrize(
    "text", ["${", "${}", "${inputs}", "${inputs.}", "${File[x]}", "${File[x].a", "${unknown.x}", "${ inputs.x }"]
)
def test_an_invalid_reference_is_refused_with_advice(text: str) -> None:
    """Also for a literal."""
    with pytest.raises(ValueError, match=r"is not a reference; write .* or \$\$\{ for a literal"):
        parse(text)


@pytest.mark.parametrize("text", ["${inputs.x", "a ${File[/x].a", "${facts.os and ${inputs.x}", "${stacks.a.outputs.b"])
def test_a_reference_without_its_end_is_refused_with_what_it_lacks(text: str) -> None:
    """No other word is offered for its first one, which is right; nor is it where the mistake is further behind."""
    with pytest.raises(ValueError, match="write the } that it lacks, or") as refused:
        parse(text)
    assert "did you mean" not in str(refused.value)


def test_a_known_scope_is_not_offered_again() -> None:
    """Only a word that is none is answered with the nearest."""
    with pytest.raises(ValueError, match="is not a reference") as refused:
        parse("${inputs.a b}")
    assert "did you mean" not in str(refused.value)
    with pytest.raises(ValueError, match="did you mean 'inputs'"):
        parse("${input.a}")


KEYS = st.text(max_size=5) | st.integers(-99, 99).map(Index)


@given(
    st.lists(
        KEYS | st.builds(lambda keys: ChosenKey(ExpressionPath("inputs", ("k", *keys))), st.lists(KEYS, max_size=2))
    )
)
def test_a_path_that_chooses_a_key_parses_from_its_text(keys: list[str]) -> None:
    """``${values.m[inputs.k]}``: the paths within are found, and equal those written."""
    path = ExpressionPath("values", ("m", *keys))
    assert parse(str(path)) == Expression((path,))
    choices = [key.path for key in keys if isinstance(key, ChosenKey)]
    assert list(find_paths(str(path))) == [path, *choices]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${values.m[inputs.k]}", 1),
        ("${values.m['a.b']}", 1),
        ('${values.m["a.b"]}', 1),
        ('${values.m["it\'s"]}', 2),
        ("${values.m['it''s']}", 2),
        ('${values.m["a""b"]}', 3),
        ("${values.l[-1]}", "z"),
        ("${values.l[inputs.n]}", "z"),
        ("${values.l[inputs.ns[0]]}", "y"),
        ("${values.m[inputs.unknown]}", UNKNOWN),
    ],
)
def test_a_key_is_quoted_chosen_or_counted(text: str, value: object) -> None:
    """Both quotes, a key from a reference, and an index from the end."""
    inputs = {"k": "a.b", "n": -1, "ns": [1], "unknown": UNKNOWN}
    values = {"m": {"a.b": 1, "it's": 2, 'a"b': 3}, "l": ["x", "y", "z"]}

    def of(path: ExpressionPath) -> object:
        chosen, _ = with_choices(path, of)
        data = inputs if path.root == "inputs" else values
        return UNKNOWN if chosen is None else follow_keys(data, path, chosen.keys)

    assert evaluate(text, of) == value


def test_two_choices_are_equal_only_if_their_paths_are() -> None:
    """Results that are kept by path are not mixed up."""
    one, second = (ExpressionPath("values", ("m", ChosenKey(ExpressionPath("inputs", (name,))))) for name in "ab")
    assert one != second
    assert one == parse("${values.m[inputs.a]}").parts[0]  # type: ignore[union-attr] # it is no text
    assert {ChosenKey(one, "x"): 1}["x"] == 1


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_every_key_parses_from_its_text(keys: list[str]) -> None:
    """Whatever it holds: one that is no name is written in quotes."""
    path = ExpressionPath("values", ("x", *keys))
    assert parse(str(path)) == Expression((path,))
    assert [*map(type, parse(str(path)).parts[0].keys)] == [str, *map(type, keys)]


def test_a_key_chooses_an_element() -> None:
    """Of a mapping whatever it holds, and of a list counted from either end."""
    value = {"a.b": [1, 2, 3], "it's": {"}": 4}}
    expected = {"${inputs.x['a.b'][-1]}": 3, "${inputs.x['a.b'][0]}": 1, "${inputs.x['it''s']['}']}": 4}
    for text, row in expected.items():
        assert evaluate(text, lambda path: follow_keys({"x": value}, path, path.keys)) == row
    with pytest.raises(ValueError, match=r"it has 3 elements, from \[0\] to \[2\]"):
        evaluate("${inputs.x['a.b'][-4]}", lambda path: follow_keys({"x": value}, path, path.keys))


@pytest.mark.parametrize("value", [{"${inputs.a}": 1}, [{"x": {"a ${inputs.a}": 1}}], Sensitive({"${": 1})])
def test_a_key_of_a_mapping_holds_no_reference(value: object) -> None:
    """At any depth; the message has the remedy."""
    for check in (lambda: evaluate(value, resolve), lambda: list(find_paths(value))):
        with pytest.raises(ValueError, match=r"of a mapping cannot hold \$\{...\}; make .* under values") as refused:
            check()
        assert "write $${ for a literal ${" in str(refused.value)
    assert evaluate({"$${x}": 1}, resolve) == {"${x}": 1}


def test_references_are_found_at_any_depth() -> None:
    """In lists, mappings and secrets."""
    value = {"a": ["${inputs.a}", {"b": Sensitive("${facts.os}")}]}
    assert [str(path) for path in find_paths(value)] == ["${inputs.a}", "${facts.os}"]


@given(VALUES)
def test_a_literal_value_evaluates_to_itself(value: object) -> None:
    """Whatever texts it holds; secrets stay wrapped."""
    for item in (value, {"secret": Sensitive(value)}):
        assert evaluate(literal(item), resolve) == item
