"""Fields of JSON objects by their path, ``metadata.name``: read, set and removed. Pure.

A dot separates the names of nested fields; a field whose own name has a dot is found where it is a field as a whole.
"""

from __future__ import annotations

from typing import Any


def field_at(value: Any, path: str) -> Any:
    """Return the field at ``path``; None where there is none. An empty path is the value itself."""
    if not path:
        return value
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return field_at(value.get(first), rest) if rest else None


def with_field(value: dict[str, Any], path: str, field: Any) -> dict[str, Any]:
    """Return an object with ``field`` at ``path``; the objects around it are made where they are missing."""
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {**value, path: field}
    inner = value.get(first)
    return {**value, first: with_field(inner if isinstance(inner, dict) else {}, rest, field)}


def without_field(value: dict[str, Any], path: str) -> dict[str, Any]:
    """Return an object without the field at ``path``."""
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {name: field for name, field in value.items() if name != path}
    inner = value.get(first)
    return {**value, first: without_field(inner, rest)} if isinstance(inner, dict) else value
