"""The laws of differences between two values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.change import Change, Difference, difference_kind, nested_differences
from resource_api.model.values.values import same_value

LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "b"])
VALUES = st.recursive(
    LEAVES, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inside, max_size=3)
)


@pytest.mark.parametrize(
    ("difference", "word"),
    [
        (Difference("size", None, 1), "add"),
        (Difference("size", 1, 2), "update"),
        (Difference("size", 0, ""), "update"),
        (Difference("size", 1, None), "delete"),
        (Difference("ensure", "absent", "present"), "add"),
        (Difference("ensure", "present", "latest"), "update"),
        (Difference("ensure", "present", "absent"), "delete"),
    ],
)
def test_a_difference_has_one_kind(difference: Difference, word: str) -> None:
    """A missing value and ``absent`` are the same: no value."""
    assert difference_kind(difference) == word


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("should", r"write \.should, not \['should'\]"),
        ("is", r"write \.is_, not \['is'\]"),
        ("ensure", r"write \.should\['ensure'\], not \['ensure'\]"),
    ],
)
def test_a_key_of_a_change_is_an_error_that_names_the_field(key: str, words: str) -> None:
    """In Puppet a change is a hash; here it is a pair, and the message says how to write that."""
    change: Any = Change(None, {"ensure": "present"})
    with pytest.raises(TypeError, match=rf"^a change is a pair \(is_, should\), not a mapping: {words}$"):
        change[key]
    with pytest.raises(AttributeError, match=r"^a change is a pair .* it has .is_ and .should, and no .get"):
        change.get(key)
    assert change[0] is None
    assert change[-1:] == ({"ensure": "present"},)


def test_additions_changes_and_removals_within_a_value_are_named() -> None:
    """Each is named by its path and kind; equal parts are not named."""
    is_ = {"a": 1, "b": [1, 2, 3], "c": {"d": 1}, "same": [1]}
    should = {"a": 2, "b": [1, 9], "c": {"d": 1, "e": 2}, "same": [1]}
    assert list(nested_differences(is_, should)) == [
        (("a",), "update"),
        (("b", 1), "update"),
        (("b", 2), "delete"),
        (("c", "e"), "add"),
    ]


@given(is_=VALUES, should=VALUES)
def test_the_paths_name_all_differences(is_: Any, should: Any) -> None:
    """Applying the named changes to one value gives the other; scalars have no paths."""
    differences = list(nested_differences(is_, should))
    if type(is_) is not type(should) or not isinstance(is_, (dict, list)):
        assert not differences
        return
    value = is_
    deletions = [item for item in differences if item[1] == "delete"]
    for path, word in [*(entry for entry in differences if entry not in deletions), *reversed(deletions)]:
        value = _done(value, should, path, word)
    assert same_value(value, should)


def _done(value: Any, should: Any, path: tuple[Any, ...], word: str) -> Any:
    """Return a value in which the part at the end of a path is that of another value."""
    key, rest = path[0], path[1:]
    copy = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    if rest:
        copy[key] = _done(copy[key], should[key], rest, word)
    elif word == "delete":
        del copy[key]
    else:
        assert (word == "update") == (key in copy)
        copy[key] = should[key]
    return copy if isinstance(value, dict) else [copy[index] for index in sorted(copy)]
