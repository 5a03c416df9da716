"""Validate documents from outside by the published JSON Schemas of ``resource_api/schemas``.

A small check accepts; it needs no library, so hosts have it too. ``jsonschema``, whose import takes longer than a run
without changes, finds the violations of a refused document: docs/decisions/0101-documents-by-schema.md. Each becomes a
sentence here: ``must_be`` in a schema names the accepted values, otherwise its ``type`` or ``enum`` does.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, suggestion
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show
from resource_api.model.values.values import place_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jsonschema import ValidationError

    from resource_api.model.values.document import Document

    Schema = Mapping[str, Any]
    #: A schema, or whether any value is accepted.
    Part = Schema | bool
    KeyPath = tuple[str | int, ...]

#: JSON type → the Python types of its values, and its name in messages.
_TYPES: Final[Mapping[str, tuple[frozenset[type], str]]] = {
    "object": (frozenset({dict}), "a mapping"),
    "array": (frozenset({list}), "a list"),
    "string": (frozenset({str}), "a string"),
    "integer": (frozenset({int}), "an integer"),
    "number": (frozenset({int, float}), "a number"),
    "boolean": (frozenset({bool}), "true or false"),
    "null": (frozenset({type(None)}), "null"),
}
#: Keyword → whether a value obeys it; the third argument is the schema. Without other keywords these decide.
KEYWORDS: Final[Mapping[str, Callable[[Any, Any, Schema], bool]]] = {
    "type": lambda kinds, value, _: any(type(value) in _TYPES[kind][0] for kind in _listed(kinds)),
    "const": lambda constant, value, _: _equal(constant, value),
    "enum": lambda constants, value, _: any(_equal(constant, value) for constant in constants),
    "minimum": lambda least, value, _: type(value) not in _TYPES["number"][0] or value >= least,
    "maximum": lambda most, value, _: type(value) not in _TYPES["number"][0] or value <= most,
    "exclusiveMinimum": lambda least, value, _: type(value) not in _TYPES["number"][0] or value > least,
    "minLength": lambda least, value, _: type(value) is not str or len(value) >= least,
    "pattern": lambda pattern, value, _: type(value) is not str or re.search(pattern, value) is not None,
    "minItems": lambda least, value, _: type(value) is not list or len(value) >= least,
    "prefixItems": lambda parts, value, _: type(value) is not list or all(map(accepts, parts, value)),
    "items": lambda part, value, schema: (
        type(value) is not list or all(accepts(part, item) for item in value[len(schema.get("prefixItems", ())) :])
    ),
    "required": lambda names, value, _: type(value) is not dict or value.keys() >= set(names),
    "properties": lambda parts, value, _: (
        type(value) is not dict or all(accepts(part, value[name]) for name, part in parts.items() if name in value)
    ),
    "propertyNames": lambda part, value, _: type(value) is not dict or all(accepts(part, name) for name in value),
    "additionalProperties": lambda part, value, schema: (
        type(value) is not dict
        or all(accepts(part, value[name]) for name in value.keys() - schema.get("properties", {}).keys())
    ),
    "if": lambda condition, value, schema: accepts(
        schema["then"] if accepts(condition, value) else schema["else"], value
    ),
    "anyOf": lambda alternatives, value, _: any(accepts(part, value) for part in alternatives),
}
_MAX_ERRORS: Final = 100


class SchemaViolation(NamedTuple):
    """A message about one part of a document; ``at_key``: about the last key of its path, not about the value."""

    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False

    def __str__(self) -> str:
        """Return the message behind the key path of the mapping around the part: ``steps[0]: urn is missing``."""
        location = place_text(self.path[: _last_key(self.path)]).removeprefix(".")
        return f"{location}: {self.message}" if location else self.message


def check(name: str, source: Document, code: str) -> None:
    """Raise ``ManifestError`` with every violation of the schema ``name`` in a document, each at its position."""
    problems = []
    for violation in find_violations(name, source.data):
        position = source.position(violation.path, value=not violation.at_key)
        problems.append(document.problem(source.file, position, code, violation.message, violation.hint))
    if problems:
        raise ManifestError(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def find_violations(name: str, data: object) -> list[SchemaViolation]:
    """Return the violations of the schema ``name`` in data, at most one for each part of it.

    Valid data, the usual case, is accepted without the slow import of the library ``jsonschema``, which finds each
    violation in other data. Where it is not installed, one violation for the whole document names the schema.
    """
    if accepts(load(name), data):
        return []
    try:
        from jsonschema import Draft202012Validator, validators
    except ImportError:  # on a host: the machine that sends documents has validated and explained them before
        return [SchemaViolation((), f"it is not as the schema {name} says")]
    # For the library 1.0 is an integer.
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    extend: Any = validators.extend  # untyped
    validator = extend(Draft202012Validator, type_checker=types)(load(name))
    violations: dict[KeyPath, SchemaViolation] = {}
    for error in islice(validator.iter_errors(data), _MAX_ERRORS):
        for violation in _violations(error):
            violations.setdefault(violation.path, violation)
    return list(violations.values())


def accepts(schema: Part, value: object) -> bool:
    """Return whether a value obeys a schema, without the slow import of a library.

    The schema has no references (see ``resolved``), and only keywords of ``KEYWORDS`` count.
    """
    if isinstance(schema, bool):
        return schema
    for word, argument in schema.items():
        obeys = KEYWORDS.get(word)
        if obeys is not None and not obeys(argument, value, schema):
            return False
    return True


@cache
def load(name: str) -> Schema:
    """Return a published schema, with the parts that it refers to in place of the references."""
    schema: Schema = resolved(_read(name), name)
    return schema


@cache
def _read(name: str) -> Any:
    """Return a published schema from its file, which may be in a zip file: the loader of this module reads both."""
    loader: Any = __spec__.loader  # reads a directory and a zip file alike
    package = __file__.rpartition("/")[0].rpartition("/")[0]
    return json.loads(loader.get_data(f"{package}/schemas/{name}.json"))


def resolved(part: object, name: str) -> Any:
    """Return a part of the schema ``name`` with the schemas of its references in place of ``$ref``, for ``accepts``.

    References are relative to ``name``: ``#/$defs/x`` is in the same file, ``other.json`` beside it.
    """
    if isinstance(part, list):
        return [resolved(item, name) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        file, _, definition = part["$ref"].partition("#/$defs/")
        owner = file.removesuffix(".json") or name
        return resolved(_read(owner)["$defs"][definition] if definition else _read(owner), owner)
    return {word: resolved(argument, name) for word, argument in part.items() if word != "$defs"}


def _violations(error: ValidationError) -> Iterator[SchemaViolation]:
    """Yield the violations that an error of the library ``jsonschema`` means, one for each wrong key of a mapping.

    Their messages are ours: the library's show whole documents. The library reports one error for all missing or
    unknown keys of a mapping, so these are computed again.
    """
    path = tuple(error.absolute_path)
    schema: Any = error.schema
    value: Any = error.instance
    if error.validator == "required":
        for name in schema["required"]:
            if name not in value:
                yield SchemaViolation((*path, name), f"{show(name)} is missing", at_key=True)
    elif error.validator == "additionalProperties":
        properties = schema.get("properties", {})
        for name in value.keys() - properties.keys():
            owner = f" of {show(str(path[-1]))}" if path else ""
            hint = suggestion(name, properties) or f"known are {', '.join(properties)}"
            yield SchemaViolation((*path, name), f"unknown key {show(name)}{owner}", hint, at_key=True)
    elif "propertyNames" in error.relative_schema_path:  # then the value is a key
        yield SchemaViolation((*path, value), f"{show(value)} must be {_accepted(schema)}", at_key=True)
    else:
        yield SchemaViolation(path, f"{_subject(path, schema)} must be {_accepted(schema)}")


def _subject(path: KeyPath, schema: Schema) -> str:
    """Return the subject of a message about a part, the last key of its path and the indexes after it: ``'tags'[0]``.

    For the whole document it is the title of the schema, with a small first letter, as all messages begin.
    """
    if not path:
        title = schema["title"]
        return f"{title[:1].lower()}{title[1:]}"
    start = _last_key(path)
    return f"{show(str(path[start]))}{place_text(path[start + 1 :])}"


def _last_key(path: KeyPath) -> int:
    """Return the index of the last key of a mapping in a path, or 0."""
    return max((index for index, step in enumerate(path) if isinstance(step, str)), default=0)


def _accepted(schema: Schema) -> str:
    """Return the end of a message, the accepted values of a schema: ``a string that is not empty``."""
    if "must_be" in schema:
        return str(schema["must_be"])
    if "enum" in schema:
        return f"one of {', '.join(str(constant) for constant in schema['enum'] if constant is not None)}"
    if "const" in schema:
        return json.dumps(schema["const"])
    kinds = _listed(schema["type"])
    least = f" from {schema['minimum']}" if "minimum" in schema else ""
    filled = " that is not empty" if {"minItems", "minLength"} & schema.keys() else ""
    return f"{' or '.join(_TYPES[kind][1] for kind in kinds if kind != 'null' or len(kinds) == 1)}{least}{filled}"


def _listed(kinds: str | Sequence[str]) -> Sequence[str]:
    return [kinds] if isinstance(kinds, str) else kinds


def _equal(constant: object, value: object) -> bool:
    """Return whether two JSON scalars are equal: ``true`` is not 1."""
    return constant == value and (type(constant) is bool) == (type(value) is bool)
