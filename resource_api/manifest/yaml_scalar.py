"""The scalars of YAML 1.2's core schema (chapter 10.3), and quotes.

The readers convert unquoted scalars, the YAML renderer decides whether a text needs quotes.
"""

from __future__ import annotations

from typing import Any, Final

from resource_api.model.values.start_up import regex

_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**63 - 1
#: The reason that a manifest cannot hold some floats.
NOT_FINITE: Final = "infinity and not-a-number are not allowed"
CORE: Final = "tag:yaml.org,2002:"
WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A scalar that begins with another character, and is none of ``WORDS``, is text.
NUMERIC: Final = frozenset("0123456789+-.")

_INTEGER: Final = regex(r"[-+]?[0-9]+\Z")
_BASED: Final = regex(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = regex(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = regex(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_BASES: Final = {"0o": 8, "0x": 16}
_LONGEST: Final = 64
#: A whole number of fewer digits fits 64 bits.
_SURE: Final = 19
_TAGS: Final = {CORE + "null": type(None), CORE + "bool": bool, CORE + "int": int, CORE + "float": float}


def plain(text: str) -> Any:
    """Return the value of an unquoted scalar: null, Boolean or number by its spelling, otherwise text.

    Raise ``ValueError``, with a message for users, beyond JSON: for integers of more than 64 bits, infinity,
    not-a-number.
    """
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMERIC:
        return text
    if _INTEGER.match(text) or _BASED.match(text):
        return integer(text)
    if _FLOAT.match(text):
        return finite(text)
    if _NOT_FINITE.match(text):
        raise ValueError(NOT_FINITE)
    return text


def integer(text: str) -> int:
    """Return the integer of ``text`` (decimal, ``0o``, ``0x``). Raises ``ValueError`` beyond 64 bits."""
    if len(text) < _SURE and text.isdecimal():
        return int(text)  # several times faster, and nearly all integers are such
    base = _BASES.get(text[:2], 10)
    # Without sign, ``0o``, ``0x`` and zeros at the start.
    digits = (text[2:] if text[:2] in _BASES else text.lstrip("+-")).lstrip("0")
    # Python refuses to convert very long decimals, with a message of its own; they are too large anyway.
    number = int(digits or "0", base) if len(digits) <= _LONGEST else _MAX_INTEGER + 1
    number = -number if text[0] == "-" else number
    if problem := number_problem(number):
        raise ValueError(problem)
    return number


def number_problem(number: float) -> str:
    """Return the reason that a number is invalid in a manifest, or ""; state and plans must carry it as JSON."""
    if isinstance(number, float):
        return "" if number - number == 0 else NOT_FINITE  # infinity minus itself is not a number
    fits = _MIN_INTEGER <= number <= _MAX_INTEGER
    return "" if fits else "the integer does not fit 64 bits; in quotes it is a string"


def finite(text: str) -> float:
    """Return the float of ``text``. Raise ``ValueError`` for a text such as ``1e999``, which Python makes infinite."""
    number = float(text)
    if number - number != 0:
        raise ValueError("the number is too large for a float; in quotes it is a string")
    return number


def tagged(text: str, tag: str) -> Any:
    """Return the value of a scalar with a tag, as in ``!!str 22``. Raise ``ValueError`` if either is invalid."""
    if tag in ("!", CORE + "str"):
        return text
    if tag not in _TAGS:
        raise ValueError("this tag is not allowed; only !!str, !!int, !!float, !!bool, !!null, !!map and !!seq are")
    value = plain(text)
    if type(value) is int and _TAGS[tag] is float:
        return float(value)
    if type(value) is not _TAGS[tag]:
        raise ValueError(f"the value is not what its tag !!{tag.removeprefix(CORE)} says")
    return value


def quote(text: str) -> str:
    """Return a text in quotes, for hints; single quotes if double ones would need escapes."""
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'
