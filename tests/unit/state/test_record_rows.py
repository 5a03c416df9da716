"""Records are written as rows without repetition and read back unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from resource_api.model import codec
from resource_api.model.record import Record
from resource_api.state.stack_rows import pack, unpack
from resource_api.testing import state_compliance

if TYPE_CHECKING:
    from typing import Any


def through(record: Record) -> Record:
    """Return the record that is read from the bytes of a record's row."""
    return unpack(codec.decode(codec.to_bytes(pack(record)).decode("utf-8", "surrogatepass")))


def plain(value: Any) -> Any:
    """Return a value as JSON, in which types of numbers differ."""
    return codec.to_bytes(list(value) if isinstance(value, tuple) else value)


@given(state_compliance.records)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    """Every field is equal, whichever parts repeat each other."""
    assert list(map(plain, through(record))) == list(map(plain, record))


@pytest.mark.parametrize(
    ("inputs", "should", "is_"),
    [
        ({}, {}, None),
        ({"a": 1}, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": None}, {"a": True}, {"a": 1.0, "c": [1]}),
        ({"a": [1], "b": "x"}, {"a": [1], "b": "x", "c": {}}, {"a": [2]}),
        ({}, {"gone": "x"}, {}),
    ],
)
def test_parts_may_repeat_each_other_or_not(
    inputs: dict[str, Any], should: dict[str, Any], is_: dict[str, Any] | None
) -> None:
    """Values that are missing in one part, or equal but of another type, are restored in each."""
    record = Record("thing", ("a", "b"), "t", inputs, should, is_, requires=["File[/a]"], status="tainted")
    assert list(map(repr, through(record))) == list(map(repr, record))


def test_a_row_repeats_nothing() -> None:
    """A text that is declared, wanted and read is in the row once; default options are not in it."""
    values = {"path": "/etc/motd", "content": "x" * 1000}
    record = Record("file", "/etc/motd", "/etc/motd", values, values, values)
    assert codec.to_bytes(pack(record)).count(b"x" * 1000) == 1
    assert pack(record)[3:] == [values, [{}], [{}], False]
