"""Values of Terraform: the types of cty, and values in MessagePack and in the JSON of a state.

A type is a text (``string``, ``number``, ``bool``, ``dynamic``) or a pair: ``("list", T)``, ``("set", T)``,
``("map", T)``, ``("tuple", [T, ...])``, ``("object", {NAME: T})``. An object has all of its attributes, None where it
has no value. A set is a list in one order, each element once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgpack

from resource_api.model.values.values import UNKNOWN, Sensitive, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.terraform.messages import Message

#: A type of cty, as above.
Type: TypeAlias = Any

#: An unknown value in MessagePack; one with refinements has another content.
_UNKNOWN: Final = msgpack.ExtType(0, b"\0")
#: Integers above are texts in MessagePack, as in cty.
_LARGEST: Final = 1 << 63


def parse_type(constraint: bytes) -> Type:
    """Return the type that a schema declares, as JSON, for an attribute or parameter.

    >>> parse_type(b'["map", ["list", "string"]]')
    ('map', ('list', 'string'))
    """
    return _type_from_json(json.loads(constraint))


def _type_from_json(constraint: Any) -> Type:
    """Return a type of cty from its JSON, in the form of this module: ``["set", "string"]`` → ``("set", "string")``.

    Types then have exactly two parts, without the names of optional attributes, which values do not depend on.
    """
    if isinstance(constraint, str):
        return constraint
    word, inner = constraint[:2]  # a third part names the optional attributes of an object
    if word == "object":
        return word, {name: _type_from_json(member) for name, member in inner.items()}
    return word, [_type_from_json(member) for member in inner] if word == "tuple" else _type_from_json(inner)


def to_dynamic(kind: Type, value: object) -> Message:
    """Return a value of a type of cty in the message by which the protocol passes values; secrets are in clear text."""
    return {"msgpack": msgpack.packb(_packed(kind, value))}


def _packed(kind: Type, value: object) -> object:
    """Return a value of the type ``kind`` in the form that msgpack encodes, for a program, with secrets in clear text.

    As in cty, an integer that MessagePack cannot hold is a text, and a ``dynamic`` value a pair with its own type.
    """
    if isinstance(value, Sensitive):
        value = value.reveal()
    if value is None or value is UNKNOWN:
        return None if value is None else _UNKNOWN
    if kind == "number" and isinstance(value, int) and abs(value) >= _LARGEST:
        return str(value)
    if kind == "dynamic":
        constraint = implied_type(value)
        return [json.dumps(constraint).encode(), _packed(_type_from_json(constraint), value)]
    return value if isinstance(kind, str) else _mapped(kind, value, _packed)


def implied_type(value: object) -> object:
    """Return a value's own type in JSON form, for the type ``dynamic``; a list is a tuple: its members may differ."""
    if isinstance(value, Sensitive):
        value = value.reveal()
    if isinstance(value, dict):
        return ["object", {name: implied_type(member) for name, member in value.items()}]
    if isinstance(value, list):
        return ["tuple", [implied_type(member) for member in value]]
    return "bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "string"


def from_dynamic(kind: Type, value: Message | None) -> Any:
    """Return the value in a message ``DynamicValue`` of the protocol, in MessagePack or JSON, None without one.

    Raise ``ValueError`` for bytes that do not fit the type ``kind``.
    """
    if not value:
        return None
    try:
        if "msgpack" in value:
            return _unpacked(kind, msgpack.unpackb(value["msgpack"], strict_map_key=False))
        return from_json(kind, json.loads(value["json"]))
    except (msgpack.UnpackException, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError("a value of the provider does not fit its schema") from error


def _unpacked(kind: Type, raw: Any) -> Any:
    """Return a value from MessagePack by its type.

    MessagePack's extension values stand for unknown values. Sets get one order, so that equal ones compare as equal.
    """
    if raw is None or isinstance(raw, msgpack.ExtType):
        return None if raw is None else UNKNOWN
    if kind == "dynamic":
        return _unpacked(parse_type(raw[0]), raw[1])
    return _scalar(kind, raw) if isinstance(kind, str) else _ordered(kind, _mapped(kind, raw, _unpacked))


def from_json(kind: Type, raw: Any) -> Any:
    """Return a value of the type ``kind`` from JSON, which a program may return instead of MessagePack."""
    if raw is None:
        return None
    if kind == "dynamic":
        return from_json(_type_from_json(raw["type"]), raw["value"])
    return _scalar(kind, raw) if isinstance(kind, str) else _ordered(kind, _mapped(kind, raw, from_json))


def to_json(kind: Type, value: object) -> Any:
    """Return a known value of the type ``kind`` as JSON, in Terraform's own form, to record the state of a resource.

    Programs convert only recorded states of this form to their present schema.
    """
    if value is None:
        return None
    if kind == "dynamic":
        return {"type": implied_type(value), "value": value}
    return value if isinstance(kind, str) else _mapped(kind, value, to_json)


def _mapped(kind: Type, value: Any, function: Callable[[Type, Any], Any]) -> object:
    """Return a collection with ``function(type, member)`` for each member; an object gets all its attributes."""
    word, inner = kind
    if word == "object":
        return {name: function(member, value.get(name)) for name, member in inner.items()}
    if word == "map":
        return {name: function(inner, member) for name, member in value.items()}
    if word == "tuple":
        return [function(member_type, member) for member_type, member in zip(inner, value, strict=True)]
    return [function(inner, member) for member in value]


def _scalar(kind: str, raw: object) -> object:
    """Return a text, boolean or number as Python has it.

    A program may send the number 5 as ``5``, ``5.0`` or ``"5"``: a whole number is always an integer, as in manifests.
    """
    if kind != "number":
        return raw
    if isinstance(raw, str):
        raw = int(raw) if raw.lstrip("-").isdigit() else float(raw)
    return int(raw) if isinstance(raw, float) and raw.is_integer() else raw


def _ordered(kind: Type, value: Any) -> Any:
    """Return the value of a collection, of a set in one order."""
    return in_order(value) if kind[0] == "set" else value


def in_order(elements: Sequence[object]) -> list[Any]:
    """Return the elements of a set in one order, each once; unknown ones last. Programs return them in any order.

    >>> in_order(["b", "a", "b"])
    ['a', 'b']
    """
    texts = (json.dumps(element, sort_keys=True, default=lambda value: str(reveal(value))) for element in elements)
    # False sorts before True: unknown elements come last.
    keyed = {(element is UNKNOWN, text): element for element, text in zip(elements, texts, strict=True)}
    return [keyed[key] for key in sorted(keyed)]


def without_nulls(value: object) -> Any:
    """Return a value without the members of its mappings that are None, as a manifest would declare it.

    A part without such members is the same object, so that the large states of many resources are not copied.
    """
    if isinstance(value, dict):
        members = {name: without_nulls(member) for name, member in value.items() if member is not None}
        same = len(members) == len(value) and all(member is value[name] for name, member in members.items())
        return value if same else members
    if isinstance(value, list):
        items = [without_nulls(member) for member in value]
        return value if all(item is member for item, member in zip(items, value, strict=True)) else items
    return value
