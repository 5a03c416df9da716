"""The bodies of requests that change an object: declared fields changed, the rest unchanged. Pure.

Declared are fields at any depth; ``None`` is a field that must be empty or missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.values import declared_part, same_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def merged(is_: Any, should: Any) -> Any:
    """Return the whole value with the declared fields: for PUT."""
    if same_value(declared_part(is_, should), should):
        return is_
    if isinstance(is_, dict) and isinstance(should, dict):
        return {**is_, **{name: merged(is_.get(name), value) for name, value in should.items()}}
    return should


def changed_fields(is_: Mapping[str, Any], should: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outer fields that differ, each as a whole: for a PATCH with fields.

    Such a service replaces a field that is an object by the one that it gets, or merges the two: both is right.
    """
    return {
        name: merged(is_.get(name), value)
        for name, value in should.items()
        if not same_value(declared_part(is_.get(name), value), value)
    }


def merge_patch(is_: Mapping[str, Any], should: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Merge Patch (RFC 7396), in which null removes a field."""
    patch: dict[str, Any] = {}
    for name, value in changed_fields(is_, should).items():
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            patch[name] = merge_patch(before, declared)
        else:
            patch[name] = value
    return patch


def json_patch(is_: Mapping[str, Any], should: Mapping[str, Any], path: str = "") -> list[dict[str, Any]]:
    """Return a JSON Patch (RFC 6902): its operations, for the fields beneath ``path``."""
    return list(_operations(is_, should, path))


def _operations(is_: Mapping[str, Any], should: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for name, value in changed_fields(is_, should).items():
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            yield from _operations(before, declared, pointer)
        elif declared is None:
            yield {"op": "remove", "path": pointer}
        else:
            yield {"op": "replace" if name in is_ else "add", "path": pointer, "value": value}
