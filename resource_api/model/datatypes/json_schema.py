"""Data types as JSON Schema, for editors and for programs that write manifests.

A schema accepts at least the values of its data type; where Puppet is stricter, as with ``1.0``, the predicates decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.datatypes import messages, predicates
from resource_api.model.datatypes.parser import END
from resource_api.model.values.assets import ORIGINS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.datatypes.datatype import DataType

    Schema = dict[str, Any]
    Dialect = Literal["2020-12", "draft-07"]

_DIGEST: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}" + END}


def _content_schema(word: str) -> Schema:
    """Return the schema of an asset or archive in a manifest: one origin, with ``sha256`` if it is a URL."""
    origins: dict[str, Schema] = {key: {"type": "string"} for key in ORIGINS[word]}
    if "files" in origins:
        origins["files"] = {"type": "object", "additionalProperties": {"type": "object"}}
    # ``oneOf``: exactly one of the origins.
    ways = [{"required": [key, "sha256"] if key == "url" else [key]} for key in origins]
    members = {**origins, "sha256": _DIGEST}
    body = {"type": "object", "properties": members, "additionalProperties": False, "oneOf": ways}
    return {"type": "object", "properties": {word: body}, "required": [word], "additionalProperties": False}


_PLAIN: Final[Mapping[str, Schema]] = {
    "Any": {},
    "Archive": _content_schema("archive"),
    "Asset": _content_schema("asset"),
    "Data": {},
    "Undef": {"type": "null"},
    "Numeric": {"type": "number"},
    "Reference": {"type": ["string", "integer"], "minLength": 1},
    "Scalar": {"type": ["string", "number", "boolean"]},
    "Regexp": {"type": "string", "format": "regex"},
    "Timestamp": {"type": "string", "pattern": predicates.TIMESTAMP},
    "Timespan": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": predicates.TIMESPAN}]},
}


def schema(datatype: DataType, *, draft7: bool = False) -> Schema:
    """Return ``datatype`` as JSON Schema 2020-12 or draft-07; a secret has the schema of its content."""
    return _schema(datatype, "draft-07" if draft7 else "2020-12")


def _schema(datatype: DataType, dialect: Dialect) -> Schema:
    """Return the schema of a data type, new in each call: the caller may add keywords to it."""
    build = _BUILDERS.get(datatype.kind)
    return dict(_PLAIN[datatype.kind]) if build is None else build(datatype, dialect)


def _limits(datatype: DataType, low: str, high: str) -> Schema:
    """Return the limits of a number or a size under their keywords ``low`` and ``high``, as ``minLength``."""
    limits = {low: datatype.low, high: datatype.high}
    return {word: limit for word, limit in limits.items() if limit is not None}


def _number(datatype: DataType, _: Dialect) -> Schema:
    return {"type": "integer" if datatype.kind == "Integer" else "number", **_limits(datatype, "minimum", "maximum")}


def _pattern(datatype: DataType, _: Dialect) -> Schema:
    patterns = [{"pattern": pattern} for pattern in datatype.patterns]
    return {"type": "string", **(patterns[0] if len(patterns) == 1 else {"anyOf": patterns})}


def _alternatives(datatype: DataType, dialect: Dialect) -> Schema:
    return {"anyOf": [_schema(branch, dialect) for branch in datatype.branches]}


def _array(datatype: DataType, dialect: Dialect) -> Schema:
    items = _schema(datatype.parts[0], dialect)
    return {"type": "array", "items": items, **_limits(datatype, "minItems", "maxItems")}


def _tuple(datatype: DataType, dialect: Dialect) -> Schema:
    """Return the schema of a Tuple; its last type repeats up to the size, under another keyword in each dialect."""
    parts = [_schema(part, dialect) for part in datatype.parts]
    first, rest = ("items", "additionalItems") if dialect == "draft-07" else ("prefixItems", "items")
    return {"type": "array", first: parts, rest: parts[-1], **_limits(datatype, "minItems", "maxItems")}


def _hash(datatype: DataType, dialect: Dialect) -> Schema:
    """Return the schema of a Hash, with a schema of its keys only if these can be strings, since JSON has no others.

    With a schema of integers for its keys, a Hash would only accept an empty object.
    """
    key, item = datatype.parts
    mapping: Schema = {"type": "object", "additionalProperties": _schema(item, dialect)}
    if any(messages.is_meant_for(branch, str) for branch in key.branches):
        mapping["propertyNames"] = _schema(key, dialect)
    return {**mapping, **_limits(datatype, "minProperties", "maxProperties")}


def _struct(datatype: DataType, dialect: Dialect) -> Schema:
    """Return the schema of a Struct, a mapping with exactly its declared keys."""
    return {
        "type": "object",
        "properties": {name: _schema(part, dialect) for name, part in datatype.members.items()},
        "required": [name for name, required in datatype.fields if required],
        "additionalProperties": False,
    }


_BUILDERS: Final[Mapping[str, Callable[[DataType, Dialect], Schema]]] = {
    "String": lambda datatype, _: {"type": "string", **_limits(datatype, "minLength", "maxLength")},
    "Integer": _number,
    "Float": _number,
    "Boolean": lambda datatype, _: {"type": "boolean", **({"enum": list(datatype.words)} if datatype.words else {})},
    "Enum": lambda datatype, _: {"type": "string", "enum": list(datatype.words)},
    "Pattern": _pattern,
    "Optional": _alternatives,
    "Variant": _alternatives,
    "NotUndef": lambda datatype, dialect: {"not": {"type": "null"}, "allOf": [_schema(datatype.parts[0], dialect)]},
    "Sensitive": lambda datatype, dialect: _schema(datatype.parts[0], dialect),
    "Array": _array,
    "Tuple": _tuple,
    "Hash": _hash,
    "Struct": _struct,
}
