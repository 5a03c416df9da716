"""A type as data: ``types/NAME.json`` holds what ``TypeDefinition`` takes, for providers in other languages.

The same checks apply as to a type in Python; only functions that compute titles cannot be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.manifest import json_reader
from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import Function, TypeDefinition
from resource_api.model.values.errors import DefinitionError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def type_from_json(path: str, data: bytes) -> TypeDefinition:
    """Return the type that ``data``, what the file at ``path`` holds, declares. Raise ``DefinitionError``."""
    try:
        document = json_reader.read(data, path).data
    except ManifestError as error:
        raise DefinitionError(str(error)) from error
    fields = dict(_mapping(path, "the type", document))
    for word in ("attributes", "config"):
        if word in fields:
            fields[word] = _made(path, word, fields[word], _attribute)
    if "functions" in fields:
        fields["functions"] = _made(path, "functions", fields["functions"], _function)
    try:
        return TypeDefinition(**fields)
    except (DefinitionError, TypeError) as error:
        msg = f"{path}: {error}"
        raise DefinitionError(msg) from error


def _mapping(path: str, what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        msg = f"{path}: {what} must be an object, not {type(value).__name__}"
        raise DefinitionError(msg)
    return value


def _made(path: str, word: str, values: Any, make: Callable[[str, str, Mapping[str, Any]], Any]) -> dict[str, Any]:
    """Return what ``make`` returns for each member of an object, with errors that name its place."""
    found = {}
    for name, value in _mapping(path, word, values).items():
        place = f"{word}.{name}"
        try:
            found[name] = make(path, place, _mapping(path, place, value))
        except TypeError as error:
            msg = f"{path}: {place}: {error}"
            raise DefinitionError(msg) from error
    return found


def _attribute(_path: str, _place: str, fields: Mapping[str, Any]) -> Attribute:
    return Attribute(**fields)


def _function(path: str, place: str, fields: Mapping[str, Any]) -> Function:
    inputs = _made(path, f"{place}.inputs", fields.get("inputs", {}), _attribute)
    return Function(**{**fields, "inputs": inputs})
