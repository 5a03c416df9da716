"""Text of the command line as a value of the attribute's data type.

Values in manifests are never coerced; a command line has only text. The rules are those of ``puppet resource``:
integers (decimal or hexadecimal), floats with a point, ``true`` and ``false``; where the data type has no such value,
the text itself. In addition to Puppet, arrays and hashes may be written as JSON, and where the data type accepts the
text too, only a number that is written as it is printed is one: ``9`` is, ``0644`` and ``1.10`` are text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.datatypes import messages
from resource_api.model.values.start_up import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.datatypes.datatype import DataType

#: Python does not convert more digits at once.
_INTEGER: Final = regex(r"[+-]?[0-9]{1,4000}\Z")
_HEXADECIMAL: Final = regex(r"([+-]?)0[xX]([0-9a-fA-F]{1,3000})\Z")
_FLOAT: Final = regex(r"[+-]?[0-9]{1,400}\.[0-9]{1,400}([eE][+-]?[0-9]{1,4})?\Z")
_LONG: Final = regex(r"[0-9]{19}")
#: The result of a reader for a text that is no value of its kind.
_NOTHING: Final = object()


def coerce(datatype: DataType, text: str, words: str = "") -> Any:
    """Return the value that ``text`` represents in ``datatype``; for ``Sensitive[T]`` the content without a wrapper.

    Each alternative of the data type reads the text in turn: ``5`` is a number wherever a number is accepted, and the
    text itself is the last choice. Raises ``ValueError`` with a sentence, without the text of a secret. ``words``
    describe the values of a ``Pattern``.
    """
    is_text = datatype.accepts(text)
    for branch in datatype.leaves:
        for read in _READERS.get(branch.kind, ()):
            value = read(text)
            # Where a text is accepted too, ``0644`` stays a text: the number would lose its zero.
            is_spelt_otherwise = is_text and type(value) in {int, float} and str(value) != text
            if value is not _NOTHING and branch.accepts(value) and not is_spelt_otherwise:
                return value
    if is_text:
        return text
    raise ValueError(_refusal(datatype, text, words))


def _refusal(datatype: DataType, text: str, words: str) -> str:
    """Return the reason that a text is refused, as the end of a sentence.

    If the data type accepts lists or mappings and the text is JSON, the reason is the problem of the first wrong part;
    otherwise the requirement of the data type, with advice on the spelling. ``words`` as for ``coerce``.
    """
    advice, requirement = _advice(datatype.leaves, text), messages.requirement(datatype, words)
    value = _json(text) if any(_json in _READERS.get(leaf.kind, ()) for leaf in datatype.leaves) else _NOTHING
    if value is not _NOTHING and (problem := messages.first_problem(datatype, value, words)):
        return problem
    if datatype.sensitive:
        return f"{requirement}, not the text{advice and '; '}{advice}"
    if hint := messages.word_suggestion(datatype, text):
        return f"{requirement}; {hint}"
    return f"{requirement}, not {messages.quote_value(text)}{advice and '; '}{advice}"


def _integer(text: str) -> Any:
    """Return a decimal or hexadecimal integer of at most 64 bits, or ``_NOTHING``: then another reader is tried."""
    if _INTEGER.match(text):
        value = int(text)
    elif match := _HEXADECIMAL.match(text):
        value = int(match[1] + match[2], 16)  # sign and digits, without ``0x``
    else:
        return _NOTHING
    return value if -(2**63) <= value < 2**63 else _NOTHING


def _float(text: str) -> Any:
    """Return a number with a point, or ``_NOTHING``."""
    return float(text) if _FLOAT.match(text) else _NOTHING


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text, _NOTHING)


def _json(text: str) -> Any:
    """Return an array or a hash that is written as JSON, or ``_NOTHING`` for invalid JSON and for a duplicate key."""
    if not text.lstrip().startswith(("[", "{")):
        return _NOTHING
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_json_integer)
    except (ValueError, RecursionError):
        return _NOTHING


def _unique(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    """Return a JSON object. Raise ``ValueError`` for a duplicate key, of which Python would keep the last silently."""
    mapping = dict(pairs)
    return mapping if len(mapping) == len(pairs) else _refuse("a key twice")


def _json_integer(text: str) -> Any:
    """Return an integer in JSON. Raise ``ValueError`` for one of more than 64 bits."""
    return _refuse(text) if (value := _integer(text)) is _NOTHING else value


def _refuse(part: str) -> NoReturn:
    """Raise ``ValueError`` for a refused ``part``, after which ``_json`` takes the text for no JSON."""
    raise ValueError(part)


_SCALAR: Final = (_boolean, _integer, _float)
#: Data type → the functions that read its values; each returns ``_NOTHING`` for a text that is none.
_READERS: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "Integer": (_integer,),
    "Float": (_float,),
    "Numeric": (_integer, _float),
    "Boolean": (_boolean,),
    "Array": (_json,),
    "Tuple": (_json,),
    "Hash": (_json,),
    "Struct": (_json,),
    "Scalar": _SCALAR,
    "Any": (*_SCALAR, _json),
    "Data": (*_SCALAR, _json),
}


def _advice(branches: Sequence[DataType], text: str) -> str:
    """Return, for an error, the spelling of a value of these data types on the command line, or ""."""
    kinds = {branch.kind for branch in branches}
    if kinds & _READERS.keys() - {"Boolean"} and _LONG.search(text):  # all other readers accept integers, also in JSON
        return "an integer must fit 64 bits"
    if "Float" in kinds and _INTEGER.match(text):
        return "write a float with a point, 1.0"
    if kinds & {"Array", "Tuple"}:
        return 'write it as JSON, ["a", "b"]'
    if kinds & {"Hash", "Struct"}:
        return 'write it as JSON, {"a": "b"}'
    return "write true or false" if "Boolean" in kinds else ""
