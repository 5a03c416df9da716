"""Messages about refused values: ``expects an Integer[0, 100] value, got 101``.

The words are those of Puppet's type checker; in addition, the value is shown where that helps and it is not secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.assets import ORIGINS, Archive, Asset
from resource_api.model.values.text import escape, show
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.datatypes.datatype import DataType

_LONGEST_SHOWN: Final = 80
_NAMES: Final[Mapping[type, str]] = {
    str: "String",
    int: "Integer",
    float: "Float",
    bool: "Boolean",
    type(None): "Undef",
    list: "Array",
    dict: "Hash",
    Asset: "Asset",
    Archive: "Archive",
}
#: Python type → the data types that are meant for it.
_KIN: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset({"String", "Enum", "Pattern", "Reference", "Regexp", "Timestamp", "Timespan"}),
    int: frozenset({"Integer", "Numeric", "Reference", "Timespan"}),
    float: frozenset({"Float", "Numeric", "Timespan"}),
    bool: frozenset({"Boolean"}),
    list: frozenset({"Array", "Tuple"}),
    dict: frozenset({"Hash", "Struct"}),
    Asset: frozenset({"Asset"}),
    Archive: frozenset({"Archive"}),
}


def meant_for(datatype: DataType, kind: type) -> bool:
    """Return whether a data type without alternatives is meant for values of this Python type."""
    return datatype.kind in _KIN.get(kind, ())


def is_value_type(kind: type) -> bool:
    """Return whether attributes may have plain values of this Python type."""
    return kind in _NAMES


def refusal(datatype: DataType, value: Any) -> str:
    """Return the message that ``datatype`` does not accept ``value``, with advice where there is some."""
    return f"expects {datatype.expected}, got {describe_value(datatype, value)}{_advice(datatype, value)}"


def describe_value(datatype: DataType, value: Any) -> str:
    """Return ``value`` itself if its type was right and it is not secret, else the name of its type."""
    if type(value) is Sensitive:
        return f"Sensitive[{kind_of(value.reveal())}]"
    if datatype.kind == "Sensitive":
        return f"Sensitive[{kind_of(value)}]"
    scalar = type(value) in {str, int, float, bool}
    if not scalar or datatype.sensitive or not any(meant_for(branch, type(value)) for branch in datatype.branches):
        return kind_of(value)
    shown = quote_value(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}...'"


def quote_value(value: Any) -> str:
    """Return a value on one line; a string always in quotes, so that ``'5'`` and ``5`` differ."""
    return f"'{escape(value)}'" if type(value) is str else show(value)


def kind_of(value: Any) -> str:
    """Return Puppet's name of the value's type, or the name of a Python class that has none."""
    return _NAMES.get(type(value)) or type(value).__name__


def _advice(datatype: DataType, value: Any) -> str:
    """Return advice to quote what YAML reads as a number or boolean (``mode: 0644``), or how to write an asset."""
    contents = [branch.kind.lower() for branch in datatype.branches if branch.kind.lower() in ORIGINS]
    if contents and type(value) in {str, dict}:
        return f"; write {' or '.join(f'{{{word}: {{{ORIGINS[word][-2]}: ...}}}}' for word in contents)}"
    value = value.reveal() if type(value) is Sensitive else value
    if type(value) not in {int, float, bool}:
        return ""
    content = datatype.parts[0] if datatype.kind == "Sensitive" else datatype
    branches = content.branches
    wants_text = any(
        branch.kind in {"String", "Pattern"} or (branch.kind == "Enum" and quote_value(value) in branch.words)
        for branch in branches
    )
    wants_it = type(value) is not bool and any(meant_for(b, int) or meant_for(b, float) for b in branches)
    return "; write it in quotes" if wants_text and not wants_it else ""


def size_problem(datatype: DataType, value: Any) -> str:
    """Return the message that an array or a hash has too few or too many elements."""
    low, high = datatype.low, datatype.high
    if low == high:
        wanted = f"{low}"
    elif low is not None and high is not None:
        wanted = f"between {low} and {high}"
    else:
        wanted = f"at least {low}" if high is None else f"at most {high}"
    return f"expects size to be {wanted}, got {len(value)}"


def key_problems(datatype: DataType, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each key of a Struct that is missing, and for each that it does not have."""
    for name, required in datatype.fields:
        if required and name not in value:
            yield f"expects a value for key {quote_value(name)}"
    known = dict(datatype.fields)
    yield from (f"unrecognized key {quote_value(name)}" for name in value if name not in known)
