"""The laws of names: references within a catalog, URNs across stacks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.nouns.reference import URN, Reference, parse, parse_urn

TYPES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
QUOTED = re.compile(r"""(['"]).*\1\Z""", re.DOTALL)
TITLES = st.text(min_size=1).filter(lambda title: not (len(title) > 1 and QUOTED.match(title)))
STACKS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True)


@given(TYPES, TITLES)
def test_a_reference_reads_back(type_name: str, title: str) -> None:
    """Whatever the title holds, brackets included."""
    reference = Reference(type_name, title)
    assert parse(str(reference)) == reference


@given(TYPES, TITLES)
def test_the_first_letter_of_a_type_may_be_small(type_name: str, title: str) -> None:
    """People who write types in lower case are understood."""
    assert parse(f"{type_name}[{title}]") == Reference(type_name, title)


@given(STACKS, STACKS, st.lists(TYPES, min_size=1, max_size=4), st.text(min_size=1))
def test_a_urn_reads_back(stack: str, project: str, types: list[str], title: str) -> None:
    """The title comes last and may hold anything, colons included."""
    urn = URN(stack, project, tuple(types), title)
    assert parse_urn(str(urn)) == urn
    assert urn.reference == Reference(types[-1], title)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("File", "is not a reference; write Type[title]"),
        ("File[/a", "is not a reference; write Type[title]"),
        ("[x]", "'' is not the name of a type"),
        ("Fi le[x]", "'Fi le' is not the name of a type"),
        ("File[]", "has an empty title"),
        ("File['/a']", "quotes are no part of a title; write File[/a]"),
        ('File["/a"]', "quotes are no part of a title; write File[/a]"),
    ],
)
def test_what_is_no_reference_is_told_why(text: str, says: str) -> None:
    """The sentence says what to write instead."""
    with pytest.raises(ValueError, match=re.escape(says)):
        parse(text)


@pytest.mark.parametrize(
    "text", ["", "urn:resource:a::b::c", "urn:resource:a::b::C::t", "urn:other:a::b::c::t", "urn:resource:-::b::c::t"]
)
def test_what_is_no_urn_is_refused(text: str) -> None:
    """All four parts are needed, each of its shape."""
    with pytest.raises(ValueError, match="is not a URN"):
        parse_urn(text)
