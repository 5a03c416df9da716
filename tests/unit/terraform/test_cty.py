"""Values of Terraform in MessagePack and in the JSON of a state."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import UNKNOWN, Sensitive
from resource_api.terraform import cty

SCALARS = {
    "string": st.text(),
    "number": st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False, width=32),
    "bool": st.booleans(),
}
NAMES = st.sampled_from(["a", "b", "c"])


def types() -> st.SearchStrategy[Any]:
    """Return a strategy for types without ``dynamic``."""
    return st.recursive(
        st.sampled_from(sorted(SCALARS)),
        lambda inner: (
            st.tuples(st.sampled_from(["list", "set", "map"]), inner)
            | st.tuples(st.just("tuple"), st.lists(inner, max_size=3))
            | st.tuples(st.just("object"), st.dictionaries(NAMES, inner, max_size=3))
        ),
        max_leaves=6,
    )


def values(kind: Any, *, unknown: bool) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type as they are read, perhaps with unknown parts."""
    special = [st.none(), *([st.just(UNKNOWN)] if unknown else [])]
    if isinstance(kind, str):
        plain = SCALARS[kind].map(
            lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
        )
        return st.one_of(plain, *special)
    word, inner = kind
    if word == "object":
        members: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {n: values(k, unknown=unknown) for n, k in inner.items()}
        )
    elif word == "tuple":
        members = st.tuples(*(values(k, unknown=unknown) for k in inner)).map(list)
    elif word == "map":
        members = st.dictionaries(NAMES, values(inner, unknown=unknown), max_size=3)
    else:
        members = st.lists(values(inner, unknown=unknown), max_size=3)
    if word == "set":
        members = members.map(cty.in_order)
    return st.one_of(members, *special)


@given(data=st.data())
def test_a_value_survives_messagepack(data: st.DataObject) -> None:
    """Any value of any type, with nulls and unknowns at any depth."""
    kind = data.draw(types())
    value = data.draw(values(kind, unknown=True))
    assert cty.from_dynamic(kind, cty.to_dynamic(kind, value)) == value


@given(data=st.data())
def test_a_known_value_survives_the_json_of_a_state(data: st.DataObject) -> None:
    """Any known value of any type."""
    kind = data.draw(types())
    value = data.draw(values(kind, unknown=False))
    assert cty.from_json(kind, cty.to_json(kind, value)) == value


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        ("a", [b'"string"', "a"]),
        ([1, True], [b'["tuple", ["number", "bool"]]', [1, True]]),
        ({"a": None}, [b'["object", {"a": "string"}]', {"a": None}]),
        (Sensitive("s"), [b'"string"', "s"]),
    ],
)
def test_a_dynamic_value_carries_its_type(value: Any, packed: Any) -> None:
    """The pair of the type in JSON and the value."""
    assert msgpack.unpackb(cty.to_dynamic("dynamic", value)["msgpack"]) == packed


def test_an_unknown_value_with_refinements_is_unknown() -> None:
    """Its extension has another code and content."""
    refined = msgpack.packb(msgpack.ExtType(12, b"\x81\x01\xc2"))
    assert cty.from_dynamic("string", {"msgpack": refined}) is UNKNOWN


@pytest.mark.parametrize("content", [b"\xc1", b"\xa1", b"\x01"])
def test_bytes_that_do_not_fit_the_schema_are_refused(content: bytes) -> None:
    """The error is a ``ValueError``, whatever is wrong."""
    with pytest.raises(ValueError, match="does not fit its schema"):
        cty.from_dynamic(("object", {"a": "string"}), {"msgpack": content})


@pytest.mark.parametrize(
    "value",
    [{"msgpack": b"\x01"}, {"msgpack": b"\xc1"}, {"json": b"[]"}, {"json": b"{"}, {"json": b'{"a":{"type":5}}'}],
)
def test_a_value_that_does_not_fit_is_an_error_in_either_form(value: dict[str, bytes]) -> None:
    """A program may answer anything."""
    with pytest.raises(ValueError, match=r"^a value of the provider does not fit its schema$"):
        cty.from_dynamic(("object", {"a": "dynamic"}), value)
