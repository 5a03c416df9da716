"""Fields of JSON objects by their path, ``metadata.name``: read, set, removed, and changed by a request's body. Pure.

A dot separates the names of nested fields; a field whose own name has a dot is found where it is a field as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.values import declared_part, same_value

if TYPE_CHECKING:
    from collections.abc import Mapping


def field_at(value: object, path: str) -> object:
    """Return the field at ``path``; None where there is none. An empty path is the value itself."""
    if not path:
        return value
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return field_at(value.get(first), rest) if rest else None


def with_field(value: dict[str, object], path: str, field: object) -> dict[str, object]:
    """Return an object with ``field`` at ``path``; the objects around it are made where they are missing."""
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {**value, path: field}
    inner = value.get(first)
    return {**value, first: with_field(inner if isinstance(inner, dict) else {}, rest, field)}


def without_field(value: dict[str, object], path: str) -> dict[str, object]:
    """Return an object without the field at ``path``."""
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {name: field for name, field in value.items() if name != path}
    inner = value.get(first)
    return {**value, first: without_field(inner, rest)} if isinstance(inner, dict) else value


def merged(is_: object, should: object) -> Any:
    """Return the present value with the declared fields, at any depth: a PUT replaces the whole object."""
    if same_value(declared_part(is_, should), should):
        return is_
    if isinstance(is_, dict) and isinstance(should, dict):
        return {**is_, **{name: merged(is_.get(name), value) for name, value in should.items()}}
    return should


def changed_fields(is_: Mapping[str, object], should: Mapping[str, object]) -> dict[str, object]:
    """Return the outer fields that differ, each as a whole: for a PATCH with fields.

    Such a service replaces a field that is an object by the one that it gets, or merges the two: both is right.
    """
    return {
        name: merged(is_.get(name), value)
        for name, value in should.items()
        if not same_value(declared_part(is_.get(name), value), value)
    }


def merge_patch(is_: Mapping[str, object], should: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON Merge Patch (RFC 7396), in which null removes a field."""
    patch = changed_fields(is_, should)
    for name in patch:
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            patch[name] = merge_patch(before, declared)
    return patch


def json_patch(is_: Mapping[str, object], should: Mapping[str, object], path: str = "") -> list[dict[str, object]]:
    """Return the operations of a JSON Patch (RFC 6902) for changed fields beneath ``path``, nested ones one by one."""
    operations: list[dict[str, object]] = []
    for name, value in changed_fields(is_, should).items():
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            operations += json_patch(before, declared, pointer)
        elif declared is None:
            operations.append({"op": "remove", "path": pointer})
        else:
            operations.append({"op": "replace" if name in is_ else "add", "path": pointer, "value": value})
    return operations
