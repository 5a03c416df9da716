"""The data that is sent to change an object, and the fields at a path: laws over all objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import http
from resource_api.model.values.values import declared_part, same_value

KEYS = st.sampled_from(["a", "b", "c/d", "e~f", "0"])
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"])
VALUES = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner) | st.lists(inner, max_size=2), max_leaves=8)
OBJECTS = st.dictionaries(KEYS, VALUES)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return what RFC 7396, 2 defines."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = apply_merge_patch(target.get(name), value)
    return target


def apply_json_patch(target: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what RFC 6902 defines for ``add``, ``replace`` and ``remove`` in objects."""
    for operation in operations:
        *parents, name = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        path = target
        for parent in parents:
            path = path[parent]
        assert operation["op"] == "add" or name in path
        if operation["op"] == "remove":
            del path[name]
        else:
            path[name] = operation["value"]
    return target


def without_null(value: Any) -> Any:
    """Return a value in whose objects no field is null: a merge patch cannot say that one is."""
    if isinstance(value, dict):
        return {name: without_null(field) for name, field in value.items() if field is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


def copied(value: Any) -> Any:
    """Return a copy."""
    return {k: copied(v) for k, v in value.items()} if isinstance(value, dict) else value


@given(OBJECTS, OBJECTS)
def test_each_form_yields_the_declared_fields_and_keeps_the_others(is_: dict[str, Any], should: dict[str, Any]) -> None:
    """PUT of the whole, PATCH with fields, and JSON Patch."""
    results = [
        http.merged(is_, should),
        {**is_, **http.changed_fields(is_, should)},
        apply_json_patch(copied(is_), http.json_patch(is_, should)),
    ]
    for result in results:
        assert same_value(declared_part(result, should), should)
        assert {name: field for name, field in result.items() if name not in should} == {
            name: field for name, field in is_.items() if name not in should
        }


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_yields_the_declared_fields(is_: dict[str, Any], should: dict[str, Any]) -> None:
    """Of objects that are not within lists a null removes the field."""
    is_, should = without_null(is_), without_null(should)
    result = apply_merge_patch(is_, http.merge_patch(is_, should))
    assert same_value(declared_part(result, should), should)
    assert http.merge_patch({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": 2}}) == {"a": None, "b": {"c": 2}}


@given(OBJECTS, OBJECTS)
def test_what_is_as_declared_needs_no_patch(is_: dict[str, Any], should: dict[str, Any]) -> None:
    """And only then nothing is sent."""
    same = same_value(declared_part(is_, should), should)
    for patch in (http.changed_fields(is_, should), http.merge_patch(is_, should), http.json_patch(is_, should)):
        assert (not patch) == same


def test_a_list_as_declared_keeps_what_the_service_added() -> None:
    """Another one is sent as it is declared."""
    is_ = {"rules": [{"port": 80, "id": 7}], "size": 1}
    assert http.merged(is_, {"rules": [{"port": 80}], "size": 2}) == {"rules": [{"port": 80, "id": 7}], "size": 2}
    assert http.changed_fields(is_, {"rules": [{"port": 81}], "size": 1}) == {"rules": [{"port": 81}]}


@pytest.mark.parametrize(
    ("path", "value"), [("a", {"b": 1}), ("a.b", 1), ("x.y", 2), ("a.c", None), ("a.b.c", None), ("", "all")]
)
def test_a_field_is_found_by_its_path(path: str, value: Any) -> None:
    """Dots separate, unless a field is called so."""
    whole = {"a": {"b": 1}, "x.y": 2}
    assert http.field_at(whole, path) == (whole if value == "all" else value)


@pytest.mark.parametrize("path", ["a", "a.b", "x.y", "a.c", "new.field"])
def test_a_field_that_is_set_can_be_removed(path: str) -> None:
    """The object that was given stays as it was."""
    whole = {"a": {"b": 1}, "x.y": 2}
    changed = http.with_field(whole, path, "set")
    assert http.field_at(changed, path) == "set"
    assert http.field_at(http.without_field(changed, path), path) is None
    assert whole == {"a": {"b": 1}, "x.y": 2}
