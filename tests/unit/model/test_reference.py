"""The laws of names: references within a catalog, URNs across stacks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.values.reference import (
    MAX_COMPONENTS,
    Reference,
    child_reference,
    component_chain,
    make_urn,
    parse,
    parse_urn,
    split_component,
    title_problem,
)

TYPES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
QUOTED = re.compile(r"""(['"]).*\1\Z""", re.DOTALL)
TITLES = st.text(min_size=1).filter(lambda title: not (len(title) > 1 and QUOTED.match(title)))
COMPONENTS = st.lists(st.tuples(TYPES, TITLES.filter(lambda title: not title_problem(title))), max_size=3)
STACKS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)


@given(TYPES, TITLES)
def test_a_reference_parses_from_its_text(type_name: str, title: str) -> None:
    """For any title, with brackets, too."""
    reference = Reference(type_name, title)
    assert parse(str(reference)) == reference


@given(TYPES, TITLES)
def test_the_first_letter_of_a_type_may_be_in_lower_case(type_name: str, title: str) -> None:
    """Types in lower case are accepted."""
    assert parse(f"{type_name}[{title}]") == Reference(type_name, title)


@given(STACKS, STACKS, COMPONENTS, TYPES, TITLES)
def test_a_urn_parses_from_its_text(
    stack: str, project: str, around: list[tuple[str, str]], type_name: str, title: str
) -> None:
    """The title is last and may contain anything, colons, too."""
    parent = "/".join(str(Reference(*item)) for item in around)
    created = make_urn(stack, project, parent, Reference(type_name, title))
    assert created.qualified == (*(value[0] for value in around), type_name)
    assert parse_urn(str(created)) == created
    assert created.reference == child_reference(parent, type_name, title)


@given(COMPONENTS, TYPES, TITLES)
def test_a_reference_within_components_parses_from_its_text(
    around: list[tuple[str, str]], type_name: str, title: str
) -> None:
    """The components are found again in the text of the reference."""
    parent = "/".join(str(Reference(*item)) for item in around)
    assert component_chain(parent) == around
    result = child_reference(parent, type_name, title)
    assert parse(str(result)) == result
    assert str(result) == f"{parent}/{Reference(type_name, title)}".removeprefix("/")


@given(STACKS, COMPONENTS, COMPONENTS, st.tuples(TYPES, TITLES), st.tuples(TYPES, TITLES))
def test_two_resources_have_two_urns(
    stack: str,
    around: list[tuple[str, str]],
    other: list[tuple[str, str]],
    one: tuple[str, str],
    two: tuple[str, str],
) -> None:
    """Also if their titles joined are equal."""
    parents = ["/".join(str(Reference(*name)) for name in names) for names in (around, other)]
    urns = {
        str(make_urn(stack, "p", parent, Reference(*private)))
        for parent, private in zip(parents, (one, two), strict=True)
    }
    assert (len(urns) == 1) == ([*around, one] == [*other, two])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("File", "is not a reference; write Type[title]"),
        ("File[/a", "is not a reference; write Type[title]"),
        ("aws_instance.web", "is not a reference; write Aws_instance[web]"),
        ("site.yaml", "is not a reference; write Type[title]"),
        ("package{'vim':", "is not a reference; write Package[vim]"),
        ("@@Host[a]", "'@@Host' is not the name of a type; there are no virtual or exported resources"),
        ("[x]", "'' is not the name of a type"),
        ("Fi le[x]", "'Fi le' is not the name of a type"),
        ("File[]", "has an empty title"),
        ("File['/a']", "quotes are no part of a title; write File[/a]"),
        ('File["/a"]', "quotes are no part of a title; write File[/a]"),
    ],
)
def test_an_invalid_reference_is_refused_with_the_reason(text: str, says: str) -> None:
    """The message contains what to write instead."""
    with pytest.raises(ValueError, match=re.escape(says)):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "urn:resource:a::b::c", "urn:resource:a::b::C::t", "urn:other:a::b::c::t", "urn:resource:-::b::c::t"),
        *("urn:resource:a::b::c$d::t", "urn:resource:a::b::c$d::x]::t", "urn:resource:a::b::c$d::::t"),
    ],
)
def test_an_invalid_urn_is_refused(text: str) -> None:
    """All four parts are required in their forms, and a title for each type."""
    with pytest.raises(ValueError, match="is not a URN"):
        parse_urn(text)


@given(COMPONENTS, TYPES, TITLES)
def test_a_name_is_split_from_its_components(around: list[tuple[str, str]], type_name: str, title: str) -> None:
    """By its type, which no component has."""
    outer = [(f"c_{name}", inner) for name, inner in around]
    parent = "/".join(str(Reference(*item)) for item in outer)
    assert split_component(child_reference(parent, f"t_{type_name}", title), f"t_{type_name}") == (
        parent,
        (f"t_{type_name}", title),
    )


def test_components_are_nested_at_most_a_hundred_deep() -> None:
    """A document of a state with more is refused, instead of taking a memory that grows with the square."""
    around = [f"C{number}[a]" for number in range(MAX_COMPONENTS)]
    assert len(component_chain("/".join(around))) == MAX_COMPONENTS
    with pytest.raises(ValueError, match="components are nested deeper than 100"):
        component_chain("/".join([*around, "C[b]"]))
