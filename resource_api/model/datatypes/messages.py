"""How a refused value is spoken of: ``expects an Integer[0, 100] value, got 101``.

The words are those of Puppet's type checker, except that the value itself is shown where that helps and where it is
no secret. Which values are refused is not decided here.
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
#: Which kinds of data types are for which Python type.
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


def akin(datatype: DataType, kind: type) -> bool:
    """Whether a data type, which is no alternative of several, is meant for values of Python's ``kind``."""
    return datatype.kind in _KIN.get(kind, ())


def plain(kind: type) -> bool:
    """Whether values of Python's ``kind`` can be the value of an attribute without a wrapper."""
    return kind in _NAMES


def refused(datatype: DataType, value: Any) -> str:
    """Say that ``value`` as a whole is not what ``datatype`` accepts, and what may help."""
    return f"expects {datatype.expected}, got {got(datatype, value)}{_advice(datatype, value)}"


def got(datatype: DataType, value: Any) -> str:
    """Name ``value``: itself where its kind was right and it is no secret, else its kind."""
    if type(value) is Sensitive:
        return f"Sensitive[{kind_of(value.reveal())}]"
    if datatype.kind == "Sensitive":
        return f"Sensitive[{kind_of(value)}]"
    scalar = type(value) in {str, int, float, bool}
    if not scalar or datatype.sensitive or not any(akin(branch, type(value)) for branch in datatype.branches):
        return kind_of(value)
    shown = spell(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}...'"


def spell(value: Any) -> str:
    """Give a value on one line; a string always in quotes, so that ``'5'`` is not ``5``."""
    return f"'{escape(value)}'" if type(value) is str else show(value)


def kind_of(value: Any) -> str:
    """Name the kind of ``value`` as Puppet does; a Python class that is no kind of data by its own name."""
    return _NAMES.get(type(value)) or type(value).__name__


def _advice(datatype: DataType, value: Any) -> str:
    """Advise quotes for what YAML read as something else, ``mode: 0644`` is the integer 644, or a content's form."""
    contents = [branch.kind.lower() for branch in datatype.branches if branch.kind.lower() in ORIGINS]
    if contents and type(value) in {str, dict}:
        return f"; write {' or '.join(f'{{{word}: {{{ORIGINS[word][-2]}: ...}}}}' for word in contents)}"
    value = value.reveal() if type(value) is Sensitive else value
    if type(value) not in {int, float, bool}:
        return ""
    content = datatype.parts[0] if datatype.kind == "Sensitive" else datatype
    branches = content.branches
    wants_text = any(
        branch.kind in {"String", "Pattern"} or (branch.kind == "Enum" and spell(value) in branch.words)
        for branch in branches
    )
    wants_it = type(value) is not bool and any(akin(b, int) or akin(b, float) for b in branches)
    return "; write it in quotes" if wants_text and not wants_it else ""


def size(datatype: DataType, value: Any) -> str:
    """Say that an array or a hash has too few or too many members."""
    low, high = datatype.low, datatype.high
    if low == high:
        wanted = f"{low}"
    elif low is not None and high is not None:
        wanted = f"between {low} and {high}"
    else:
        wanted = f"at least {low}" if high is None else f"at most {high}"
    return f"expects size to be {wanted}, got {len(value)}"


def keys(datatype: DataType, value: Mapping[str, Any]) -> Iterator[str]:
    """Say which keys of a Struct are missing, and which it does not have."""
    for name, required in datatype.fields:
        if required and name not in value:
            yield f"expects a value for key {spell(name)}"
    known = dict(datatype.fields)
    yield from (f"unrecognized key {spell(name)}" for name in value if name not in known)
