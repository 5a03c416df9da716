"""The laws of references in values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.values.expression import Expression, Path, evaluate, find_paths, literal, parse
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import UNKNOWN, Sensitive

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text(alphabet="${}.a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
KNOWN = {"inputs": {"a": 1, "s": Sensitive("x"), "list": [1], "none": None, "yes": True}}


def resolve(path: Path) -> object:
    """Return the value of an input; everything else is unknown."""
    return KNOWN["inputs"][path.keys[0]] if path.root == "inputs" else UNKNOWN


@given(st.text())
def test_escaped_text_parses_to_itself(text: str) -> None:
    """For any text: ``$${`` stands for ``${``."""
    assert parse(text.replace("${", "$${")) == text


@given(st.lists(st.text(alphabet="ab$ ]}["), max_size=3), st.text(alphabet="/ab.:[ ", min_size=1))
def test_an_expression_parses_from_its_text(texts: list[str], title: str) -> None:
    """The text of an expression parses to the expression."""
    parts: list[str | Path] = []
    for text in texts:
        parts += [text + ".", Path(Reference("file", title), ("content",))]
    expression = Expression(tuple(parts))
    if parts and "${" not in "".join(texts):
        assert parse(str(expression)) == expression


def test_a_title_ends_at_the_first_attribute() -> None:
    """Brackets within a title are part of it."""
    assert parse("${File[/a[1]/b].content}") == Expression((Path(Reference("file", "/a[1]/b"), ("content",)),))


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


@pytest.mark.parametrize("name", ["list", "none"])
def test_only_scalars_can_be_part_of_a_text(name: str) -> None:
    """The message names the reference."""
    with pytest.raises(ValueError, match="cannot be part of a text"):
        evaluate(f"x${{inputs.{name}}}", resolve)


@pytest.mark.parametrize(
    "text", ["${", "${}", "${inputs}", "${inputs.}", "${File[x]}", "${File[x].a", "${unknown.x}", "${ inputs.x }"]
)
def test_an_invalid_reference_is_refused_with_advice(text: str) -> None:
    """Also for a literal."""
    with pytest.raises(ValueError, match=r"is not a reference; write .* or \$\$\{ for a literal"):
        parse(text)


def test_references_are_found_at_any_depth() -> None:
    """In lists, mappings and secrets."""
    value = {"a": ["${inputs.a}", {"b": Sensitive("${facts.os}")}]}
    assert [str(path) for path in find_paths(value)] == ["${inputs.a}", "${facts.os}"]


@given(VALUES)
def test_a_literal_value_evaluates_to_itself(value: object) -> None:
    """Whatever texts it holds; secrets stay wrapped."""
    for each in (value, {"secret": Sensitive(value)}):
        assert evaluate(literal(each), resolve) == each
