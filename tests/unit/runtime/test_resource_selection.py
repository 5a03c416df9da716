"""``--filter``: a condition is read by the attribute's data type."""

from __future__ import annotations

from typing import Any, Final

import pytest

from resource_api import Attribute, Sensitive, TypeDefinition
from resource_api.model.values.errors import UsageError
from resource_api.runtime import resource_selection

WIDGET: Final = TypeDefinition(
    name="widget",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "size": Attribute("Optional[Integer[0, 100]]"),
        "colour": Attribute("Optional[String]"),
        "parts": Attribute("Optional[Array[String]]"),
        "mixed": Attribute("Optional[Variant[String, Boolean]]"),
        "weight": Attribute("Optional[Float]"),
        "setting": Attribute(r"Optional[Variant[Pattern[/\A.*\z/], Integer]]"),
        "code": Attribute("Optional[Sensitive[String]]"),
    },
)
ROWS: Final[list[dict[str, Any]]] = [
    {"name": "alpha", "size": 5, "colour": "red", "parts": ["bolt", "nut"]},
    {"name": "beta", "size": 10, "colour": "dark red", "mixed": True},
    {"name": "delta", "size": 50, "colour": Sensitive("red")},
    {"name": "gamma", "weight": 0.5, "setting": "9"},
]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("size = 5", "alpha"),
        ("size != 5", "beta delta gamma"),
        ("size>=10", "beta delta"),
        (" size <= 10 ", "alpha beta"),
        ("weight > 0.1", "gamma"),
        ("colour ~ ^red$|dark", "alpha beta"),
        ("colour = dark red", "beta"),
        ("colour != red", "beta gamma"),
        ("parts ~ ^nut$", "alpha"),
        ('parts = ["bolt", "nut"]', "alpha"),
        ("mixed = true", "beta"),
        ("mixed ~ true", "beta"),
        ("setting = 9", "gamma"),
        ("setting = 09", ""),
        ("name < c", "alpha beta"),
        ("size = 6", ""),
    ],
)
def test_a_filter_keeps_the_resources_that_pass_it(condition: str, names: str) -> None:
    """Numbers are compared as numbers; a value that is secret passes no filter, and none equals no value."""
    test = resource_selection.parse_filter(condition).for_type(WIDGET)
    assert [row["name"] for row in ROWS if test(row)] == names.split()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("size", "write 'ATTR OP VALUE' with one of = != < <= > >= ~"),
        ("size == 1", "did you mean '='?"),
        ("size =~ 1", "did you mean '~'?"),
        ("size = big", "--filter 'size = big': must be an integer from 0 to 100"),
        ("size > ", "--filter 'size > ': must be an integer"),
        ('parts < ["a"]', "parts has no order; compare it with =, != or ~"),
        ("colour ~ (", "this is no regular expression"),
        ("code ~ ^1", "code of Widget is secret; it cannot be compared"),
    ],
)
def test_a_wrong_filter_is_refused(condition: str, message: str) -> None:
    """The message gives the correct form; a secret cannot be guessed by its beginning."""
    with pytest.raises(UsageError) as caught:
        resource_selection.parse_filter(condition).for_type(WIDGET)
    assert message in str(caught.value)
