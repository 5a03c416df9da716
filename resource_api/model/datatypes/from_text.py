"""Text of the command line as a value of the attribute's data type.

Values in manifests are never coerced; a command line has only text. The rules are those of ``puppet resource``:
integers (decimal or hexadecimal), floats with a point, ``true`` and ``false``; among alternatives, the only one that
fits, and String after all others. In addition to Puppet, arrays and hashes may be written as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values import values
from resource_api.model.values._lazy_regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.datatypes.datatype import DataType

#: Python does not convert more digits at once.
_INTEGER: Final = regex(r"[+-]?[0-9]{1,4000}\Z")
_HEXADECIMAL: Final = regex(r"([+-]?)0[xX]([0-9a-fA-F]{1,3000})\Z")
_FLOAT: Final = regex(r"[+-]?[0-9]{1,400}\.[0-9]{1,400}([eE][+-]?[0-9]{1,4})?\Z")
_NOTHING: Final = object()


def coerce(datatype: DataType, text: str, words: str = "") -> Any:
    """Return the value that ``text`` represents in ``datatype``; for ``Sensitive[T]`` the plain content.

    Raises ``ValueError`` with a sentence for the user if there is no such value, or more than one. The sentence does
    not contain ``text`` if the data type holds secrets. ``words`` describe what a ``Pattern`` in it accepts.
    """
    found = [branch for branch in datatype.leaves if branch.kind != "String"]
    candidates: list[Any] = []
    for branch in found:
        value = _read(branch, text)
        if (
            value is not _NOTHING
            and datatype.accepts(value)
            and not any(values.same_value(value, c) for c in candidates)
        ):
            candidates.append(value)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates and datatype.accepts(text):
        return text
    from resource_api.model.datatypes import messages  # noqa: PLC0415 - only for a refusal

    shown = "the text" if datatype.sensitive else messages.quote_value(text)
    if candidates:
        meanings = "" if datatype.sensitive else f": {' or '.join(map(messages.quote_value, candidates))}"
        msg = f"{shown} is ambiguous for {datatype.text}{meanings}"
        raise ValueError(msg)
    hint, advice = "" if datatype.sensitive else messages.nearest_word(datatype, text), _advice(found, text)
    wanted = messages.requirement(datatype, words)
    msg = f"{wanted}; {hint}" if hint else f"{wanted}, not {shown}{advice and '; '}{advice}"
    raise ValueError(msg)


def _read(branch: DataType, text: str) -> Any:
    """Return the value of ``text`` in one data type, or ``_NOTHING``."""
    for read in _READERS.get(branch.kind, (_text,)):
        value = read(text)
        if value is not _NOTHING and branch.accepts(value):
            return value
    return _NOTHING


def _text(text: str) -> Any:
    return text


def _integer(text: str) -> Any:
    if _INTEGER.match(text):
        return int(text)
    if found := _HEXADECIMAL.match(text):
        return int(found[1] + found[2], 16)
    return _NOTHING


def _float(text: str) -> Any:
    return float(text) if _FLOAT.match(text) else _NOTHING


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text, _NOTHING)


def _json(text: str) -> Any:
    """Return an array or a hash; ``_NOTHING`` for a duplicate key or invalid JSON."""
    import json  # noqa: PLC0415 - few values are written so

    if not text.lstrip().startswith(("[", "{")):
        return _NOTHING
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return _NOTHING


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _no_json("a key twice")
    return found


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


_SCALAR: Final = (_boolean, _integer, _float)
_READERS: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "Integer": (_integer,),
    "Float": (_float,),
    "Numeric": (_integer, _float),
    "Boolean": (_boolean,),
    "Undef": (),
    "Array": (_json,),
    "Tuple": (_json,),
    "Hash": (_json,),
    "Struct": (_json,),
    "Scalar": (*_SCALAR, _text),
    "Any": (*_SCALAR, _json, _text),
    "Data": (*_SCALAR, _json, _text),
}


def _advice(branches: list[DataType], text: str) -> str:
    kinds = {branch.kind for branch in branches}
    if "Float" in kinds and _INTEGER.match(text):
        return "write a float with a point, 1.0"
    if kinds & {"Array", "Tuple"}:
        return 'write it as JSON, ["a", "b"]'
    if kinds & {"Hash", "Struct"}:
        return 'write it as JSON, {"a": "b"}'
    return "write true or false" if "Boolean" in kinds else ""
