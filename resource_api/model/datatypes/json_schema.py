"""Data types as JSON Schema: for editors, and to explain why a value was refused.

The predicates decide; ``explain`` is called for refused values only, and imports jsonschema then; ``refusals`` replaces
that where there is none. Both accept the same
values: the dialect for explaining is stricter than the published drafts where Puppet is (``1.0`` is no Integer), and
does not look into secrets. The messages are those of ``messages``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.datatypes import messages, predicates, refusals
from resource_api.model.datatypes.regex_dialect import END
from resource_api.model.values.assets import ORIGINS
from resource_api.model.values.expression import is_reference_at
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from resource_api.model.datatypes.datatype import DataType

    Schema = dict[str, Any]
    Path = tuple[str | int, ...]
    Dialect = Literal["2020-12", "draft-07", "exact"]
    #: A keyword of jsonschema: (validator, the keyword's value, instance, schema) → errors.
    Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]

_DIGEST: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}" + END}


def _spelt(word: str) -> Schema:
    """Return the schema of an asset or archive in a manifest."""
    spelt: dict[str, Schema] = {key: {"type": "string"} for key in ORIGINS[word]}
    if "files" in spelt:
        spelt["files"] = {"type": "object", "additionalProperties": {"type": "object"}}
    ways = [{"required": [key, "sha256"] if key == "url" else [key]} for key in spelt]
    body = {"type": "object", "properties": {**spelt, "sha256": _DIGEST}, "additionalProperties": False, "oneOf": ways}
    return {"type": "object", "properties": {word: body}, "required": [word], "additionalProperties": False}


_PLAIN: Final[Mapping[str, Schema]] = {
    "Any": {},
    "Archive": _spelt("archive"),
    "Asset": _spelt("asset"),
    "Data": {},
    "Undef": {"type": "null"},
    "Numeric": {"type": "number"},
    "Reference": {"type": ["string", "integer"], "minLength": 1},
    "Scalar": {"type": ["string", "number", "boolean"]},
    "Regexp": {"type": "string", "format": "regex"},
    "Timestamp": {"type": "string", "pattern": predicates.TIMESTAMP},
    "Timespan": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": predicates.TIMESPAN}]},
}
#: Where JSON Schema is not exact enough, the dialect for explaining uses the predicate itself as a type.
_EXACT: Final[Mapping[str, Schema]] = {
    **_PLAIN,
    **{kind: {"type": kind} for kind in ("Any", "Archive", "Asset", "Data", "Regexp", "Timestamp", "Timespan")},
}


def schema(datatype: DataType, draft7: bool = False) -> Schema:  # noqa: FBT001, FBT002 - there are two drafts
    """Return ``datatype`` as JSON Schema 2020-12 or draft-07; a secret has the schema of its content."""
    return _schema(datatype, "draft-07" if draft7 else "2020-12")


def _schema(datatype: DataType, dialect: Dialect) -> Schema:
    build = _BUILDERS.get(datatype.kind)
    if build is not None:
        found = build(datatype, dialect)
    else:
        found = dict((_EXACT if dialect == "exact" else _PLAIN)[datatype.kind])
    return {**found, "datatype": datatype} if dialect == "exact" else found


def _limits(datatype: DataType, low: str, high: str) -> Schema:
    limits = {low: datatype.low, high: datatype.high}
    return {word: limit for word, limit in limits.items() if limit is not None}


def _string(datatype: DataType, _: Dialect) -> Schema:
    return {"type": "string", **_limits(datatype, "minLength", "maxLength")}


def _number(datatype: DataType, dialect: Dialect) -> Schema:
    loose = "integer" if datatype.kind == "Integer" else "number"
    kind = "Float" if datatype.kind == "Float" and dialect == "exact" else loose
    return {"type": kind, **_limits(datatype, "minimum", "maximum")}


def _boolean(datatype: DataType, _: Dialect) -> Schema:
    return {"type": "boolean", **({"enum": list(datatype.words)} if datatype.words else {})}


def _enum(datatype: DataType, _: Dialect) -> Schema:
    return {"type": "string", "enum": list(datatype.words)}


def _pattern(datatype: DataType, _: Dialect) -> Schema:
    found = [{"pattern": pattern} for pattern in datatype.patterns]
    return {"type": "string", **(found[0] if len(found) == 1 else {"anyOf": found})}


def _optional(datatype: DataType, dialect: Dialect) -> Schema:
    return {"anyOf": [_schema(branch, dialect) for branch in datatype.branches]}


def _not_undef(datatype: DataType, dialect: Dialect) -> Schema:
    return {"not": {"type": "null"}, "allOf": [_schema(datatype.parts[0], dialect)]}


def _sensitive(datatype: DataType, dialect: Dialect) -> Schema:
    content = _schema(datatype.parts[0], dialect)
    return {"sensitive": content} if dialect == "exact" else content


def _array(datatype: DataType, dialect: Dialect) -> Schema:
    return {
        "type": "array",
        "items": _schema(datatype.parts[0], dialect),
        **_limits(datatype, "minItems", "maxItems"),
    }


def _tuple(datatype: DataType, dialect: Dialect) -> Schema:
    parts = [_schema(part, dialect) for part in datatype.parts]
    first, rest = ("items", "additionalItems") if dialect == "draft-07" else ("prefixItems", "items")
    return {"type": "array", first: parts, rest: parts[-1], **_limits(datatype, "minItems", "maxItems")}


def _hash(datatype: DataType, dialect: Dialect) -> Schema:
    key, item = datatype.parts
    found: Schema = {"type": "object", "additionalProperties": _schema(item, dialect)}
    if dialect == "exact":
        found["keys"] = _schema(key, dialect)
    elif any(messages.meant_for(branch, str) for branch in key.branches):
        # The names of properties are strings in JSON: a schema for other keys would refuse them all.
        found["propertyNames"] = _schema(key, dialect)
    return {**found, **_limits(datatype, "minProperties", "maxProperties")}


def _struct(datatype: DataType, dialect: Dialect) -> Schema:
    return {
        "type": "object",
        "properties": {name: _schema(part, dialect) for name, part in datatype.members.items()},
        "required": [name for name, required in datatype.fields if required],
        "additionalProperties": False,
    }


_BUILDERS: Final[Mapping[str, Callable[[DataType, Dialect], Schema]]] = {
    "String": _string,
    "Integer": _number,
    "Float": _number,
    "Boolean": _boolean,
    "Enum": _enum,
    "Pattern": _pattern,
    "Optional": _optional,
    "Variant": _optional,
    "NotUndef": _not_undef,
    "Sensitive": _sensitive,
    "Array": _array,
    "Tuple": _tuple,
    "Hash": _hash,
    "Struct": _struct,
}


def explain(datatype: DataType, value: Any, words: str = "", written: Any = None) -> list[tuple[Path, str]]:
    """Return what is wrong with ``value``, as (path within it, message); empty if ``datatype`` accepts it.

    ``words`` describe what a ``Pattern`` in it accepts: ``an absolute path``. ``written`` is the value with its
    references.

    Unknown values are accepted everywhere. No message shows a value or key that is sensitive by its type or its
    wrapper: a problem within it is reported for the whole.
    """
    if value is UNKNOWN:
        return []
    try:
        errors = _validator(datatype).iter_errors(value)
    except ModuleNotFoundError:
        problems = dict.fromkeys(refusals.problems(datatype, value, words, written))
    else:
        problems = {problem: None for error in errors for problem in _problems(error, words, written)}
    return sorted(problems, key=lambda problem: [str(step) for step in problem[0]])


def _problems(error: ValidationError, words: str, written: Any) -> Iterator[tuple[Path, str]]:
    """Yield an error of jsonschema as our messages; among alternatives, only those of the one that was meant."""
    datatype: DataType = error.schema["datatype"]  # type: ignore[index] # each schema of ours is a mapping that has it
    value: Any = error.instance
    path, kind = tuple(error.absolute_path), type(value)
    if kind in {list, dict} and error.context:
        meant = [index for index, branch in enumerate(datatype.branches) if messages.meant_for(branch, kind)]
        if len(meant) == 1:
            causes = [cause for cause in error.context if cause.schema_path[0] == meant[0]]
            yield from (problem for cause in causes for problem in _problems(cause, words, written))
            return
    if datatype.kind in {"Any", "Data"}:
        yield refusals.misfit(datatype, value, path)
    elif error.validator == "keys":
        yield path, f"has a key that {messages.refusal(datatype, value, words)}"
    elif error.validator in _SIZES and kind in {list, dict}:
        yield path, messages.size_problem(datatype, value)
    elif error.validator in {"required", "additionalProperties"} and kind is dict:
        yield from ((path, message) for message in messages.key_problems(datatype, value))
    else:
        yield path, messages.refusal(datatype, value, words, referred=is_reference_at(written, path))


_SIZES: Final = frozenset({"minItems", "maxItems", "minProperties", "maxProperties"})


@cache
def _validator(datatype: DataType) -> Validator:
    """Return the validator of a data type; cached, because making one costs more than its use."""
    return _validator_class()(_schema(datatype, "exact"))


@cache
def _validator_class() -> type[Validator]:
    """Return a validator that is strict about types, accepts unknown values, and hides secrets."""
    from jsonschema import Draft202012Validator, validators

    def predicate(check: Callable[[Any], bool]) -> Callable[[object, Any], bool]:
        return lambda _, value: check(value)

    kinds: dict[str, Callable[[Any], bool]] = {
        **predicates.PREDICATES,
        "null": predicates.absent,
        "boolean": predicates.boolean((True, False)),
        "string": predicates.string(None, None),
        "integer": predicates.integer(None, None),
        "number": predicates.numeric,
        "array": lambda value: type(value) is list,
        "object": lambda value: type(value) is dict,
        "Float": predicates.floating,
        **dict.fromkeys(("Any", "Data"), lambda value: predicates.is_json(refusals.known(predicates.unwrap(value)))),
    }
    checker = Draft202012Validator.TYPE_CHECKER.redefine_many({k: predicate(v) for k, v in kinds.items()})
    keywords = {**Draft202012Validator.VALIDATORS, "keys": _keys, "sensitive": _content}
    guarded = {word: _guarded(run) for word, run in keywords.items()}
    strict: type[Validator] = validators.extend(Draft202012Validator, guarded, type_checker=checker)  # type: ignore[no-untyped-call]
    return strict


def _guarded(keyword: Keyword) -> Keyword:
    """Return a keyword that checks known, plain values only; problems within a wrapper become one error."""
    from jsonschema.exceptions import ValidationError as Found

    def run(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if type(instance) is Sensitive:
            if any(True for _ in run(validator, wanted, instance.reveal(), schema)):
                yield Found("within a secret")
        elif messages.is_value_type(type(instance)):
            yield from keyword(validator, wanted, instance, schema) or ()
        elif instance is not UNKNOWN:
            yield Found("no kind of data")

    return run


def _keys(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check the keys of a hash, which need not be strings."""
    from jsonschema.exceptions import ValidationError as Found

    for key in instance if type(instance) is dict else ():
        if type(key) is Sensitive or any(True for _ in validator.descend(key, wanted)):
            yield Found("key", validator="keys", instance=key, schema=wanted)


def _content(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check a value that is secret by its data type; report only that it is wrong."""
    from jsonschema.exceptions import ValidationError as Found

    if any(True for _ in validator.descend(instance, wanted)):
        yield Found("secret")
