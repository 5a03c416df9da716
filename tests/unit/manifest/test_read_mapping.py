"""A program's mapping becomes plain data under the limits that hold for files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.manifest.read import read_mapping
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import Sensitive
from tests.unit.manifest.strategies import DATA, KEYS


@given(st.dictionaries(KEYS, DATA, max_size=4))
def test_a_mapping_is_copied_as_it_is(data: dict[str, Any]) -> None:
    """The copy is equal and is another object."""
    result = read_mapping(data, "<mapping>").data
    assert result == data
    assert result is not data


def test_a_mapping_may_hold_tuples_and_secrets() -> None:
    """Tuples become lists; a sensitive value stays wrapped and out of the bytes."""
    result = read_mapping({"a": (1, 2), "b": Sensitive("hunter2")}, "<mapping>")
    assert result.data == {"a": [1, 2], "b": Sensitive("hunter2")}
    assert b"hunter2" not in result.raw
    assert result.position(("a",)) == (0, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": {1: 2}}, "a: a key must be a string"),
        ({"a\nb": 2}, "a key cannot hold the control character U+000A"),
        ({"a": {"b": "\0"}}, "a.b: a string cannot hold the control character U+0000"),
        ({"a": "\ud800"}, "a: a lone surrogate is no character"),
        ({"a": [float("nan")]}, "a.0: infinity and not-a-number are not allowed"),
        ({"a": 2**63}, "a: the integer does not fit 64 bits"),
        ({"a": object()}, "a: a manifest cannot hold a value of the type object"),
        ({"a": b"x"}, "a: a manifest cannot hold a value of the type bytes"),
        ({"a": {1, 2}}, "a: a manifest cannot hold a value of the type set"),
    ],
)
def test_a_mapping_that_json_could_not_carry_is_refused(data: dict[Any, Any], message: str) -> None:
    """The message names the keys above the value."""
    with pytest.raises(ManifestError) as caught:
        read_mapping(data, "<mapping>")
    assert caught.value.problems[0].message.startswith(message)
    assert str(caught.value).startswith("<mapping>: ")


def test_a_mapping_that_holds_itself_or_grows_without_end_is_refused() -> None:
    """The limits end the copy before recursion or memory does."""
    knot: dict[str, Any] = {}
    knot["again"] = knot
    bomb: list[Any] = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    for data, message in ((knot, "nested deeper than 100"), ({"a": bomb}, "larger than the limit")):
        with pytest.raises(ManifestError, match=message):
            read_mapping(data, "<mapping>")
