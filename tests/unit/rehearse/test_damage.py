"""Other values of a data type."""

from __future__ import annotations

from typing import Any

import pytest

from resource_api.model.datatypes.datatype import parse
from resource_api.rehearse.damage import other_values


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("Boolean", True),
        ("Enum[a, b]", "a"),
        ("Integer[1, 2]", 1),
        ("Float", 1.5),
        ("String[0, 4]", "four"),
        ("Pattern[/\\A[0-7]{4}\\z/]", "0647"),
        ("Optional[Variant[Boolean, Enum[mask]]]", "mask"),
        ("Array[Enum[a, b], 1]", ["a"]),
        ("Array[String]", []),
        ("Hash[String, Integer]", {"a": 1}),
        ("Struct[{a => Integer, Optional[b] => Boolean}]", {"a": 1, "b": True}),
    ],
)
def test_other_values_are_of_the_data_type_and_other(datatype: str, value: Any) -> None:
    """Each of them is accepted, none is the value itself, and there is one wherever the data type has another."""
    values = other_values(parse(datatype), value)
    assert values
    assert all(parse(datatype).accepts(candidate) and candidate != value for candidate in values)


def test_known_values_come_first() -> None:
    """A provider likelier accepts a value that the machine had before than an invented one."""
    assert other_values(parse("String"), "b", ["b", "a", None])[0] == "a"
