"""Predicates over values, composed once for each data type and then called for every value.

Each function is a predicate or returns one. Types are exact (``True`` is no integer, a subclass of ``str`` no string),
and values that JSON cannot represent are refused. Explanations are in ``messages``.
"""

from __future__ import annotations

import re
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import parser
from resource_api.model.values.assets import Archive, Asset
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    Check = Callable[[Any], bool]

#: Values that are nested deeper are refused, as in manifests.
DEPTH: Final = 100
#: The deepest value that a data type can accept: its own nesting, and then ``DEPTH``.
_DEEPEST: Final = 2 * DEPTH
_INFINITE: Final = float("inf")
_HOLDERS: Final = frozenset({Sensitive, list, dict})
_TEXT: Final = frozenset({str})
#: The types whose values JSON can represent, whatever they are.
_PLAIN: Final = frozenset({str, int, bool, type(None)})

TIMESTAMP: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?" + parser.END
)
TIMESPAN: Final = r"^-?(([0-9]+-)?([0-9]{1,2}:)?[0-9]{1,2}:[0-9]{1,2}|[0-9]+)(\.[0-9]+)?" + parser.END
_FEBRUARY: Final = 2
_SHORT_MONTHS: Final = (4, 6, 9, 11)


def ignoring_wrappers(check: Check) -> Check:
    """Return a predicate that accepts a value as ``check`` does, with or without sensitive wrappers in it.

    A secret has to fit the data type of its attribute like any other value.
    """

    def accepts(value: object) -> bool:
        # Most values have no wrapper, and need no copy without it.
        return check(value) or (type(value) in _HOLDERS and check(unwrap(value)))

    return accepts


def unwrap(value: object, depth: int = 0) -> Any:
    """Return ``value`` without ``Sensitive`` at any depth; a part too deep becomes a value that no type accepts."""
    if type(value) is Sensitive:
        return unwrap(value.reveal(), depth)
    if depth > _DEEPEST:
        return NotImplemented  # of no accepted class
    if type(value) is list:
        return [unwrap(item, depth + 1) for item in value]
    if type(value) is dict:
        return {key: unwrap(item, depth + 1) for key, item in value.items()}
    return value


def is_json(value: Any, depth: int = 0) -> bool:
    """Return whether JSON can represent ``value``: string keys, finite numbers, at most ``DEPTH`` levels."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return floating(value)
    if depth < DEPTH and kind is list:
        return _are_json(value, depth)
    if depth < DEPTH and kind is dict:
        return _TEXT.issuperset(map(type, value)) and _are_json(value.values(), depth)
    return False


def _are_json(items: Iterable[Any], depth: int) -> bool:
    """Return whether ``is_json`` accepts all parts of a value that is nested ``depth`` levels deep."""
    for item in items:  # noqa: SIM110 - ``all`` with a generator takes twice as long
        if type(item) not in _PLAIN and not is_json(item, depth + 1):
            return False
    return True


def scalar(value: object) -> bool:
    """Return whether ``value`` is a string, a number or a boolean."""
    return type(value) in {str, int, bool} or floating(value)


def numeric(value: object) -> bool:
    """Return whether ``value`` is an integer or a finite float."""
    return type(value) is int or floating(value)


def floating(value: object) -> bool:
    """Return whether ``value`` is a finite float."""
    return type(value) is float and -_INFINITE < value < _INFINITE


def absent(value: object) -> bool:
    """Return whether ``value`` is None."""
    return value is None


def identity(value: object) -> bool:
    """Return whether ``value`` can be the value of a namevar."""
    return type(value) is int or (type(value) is str and value != "")


def string(low: float | None, high: float | None) -> Check:
    """Return the predicate that accepts strings of ``low`` to ``high`` characters; None: no limit."""
    if low is None and high is None:
        return lambda value: type(value) is str
    least, most = _bounds(low, high)
    return lambda value: type(value) is str and least <= len(value) <= most


def integer(low: float | None, high: float | None) -> Check:
    """Return the predicate that accepts integers from ``low`` to ``high``; None: no limit."""
    if low is None and high is None:
        return lambda value: type(value) is int
    least, most = _bounds(low, high)
    return lambda value: type(value) is int and least <= value <= most


def real(low: float | None, high: float | None) -> Check:
    """Return the predicate that accepts finite floats from ``low`` to ``high``; None: no limit."""
    if low is None and high is None:
        return floating
    least, most = _bounds(low, high)
    return lambda value: floating(value) and least <= value <= most


def one_of(kind: type, allowed: Collection[object]) -> Check:
    """Accept the values in ``allowed``, which are of one Python type."""
    return lambda value: type(value) is kind and value in allowed


def matching(regexes: Sequence[re.Pattern[str]]) -> Check:
    """Return the predicate that accepts strings in which one of the regular expressions matches somewhere."""
    if len(regexes) == 1:
        search = regexes[0].search
        return lambda value: type(value) is str and search(value) is not None
    return lambda value: type(value) is str and any(regex.search(value) for regex in regexes)


def optional(check: Check) -> Check:
    """Accept None, too."""
    return lambda value: value is None or check(value)


def not_undef(check: Check) -> Check:
    """Accept the values of ``check`` except None."""
    return lambda value: value is not None and check(value)


def any_of(checks: Sequence[Check]) -> Check:
    """Return the predicate that accepts the values of any of ``checks``, the alternatives of a ``Variant``."""
    if len(checks) == 2:  # noqa: PLR2004 - the usual number, for which a loop costs more
        first, second = checks
        return lambda value: first(value) or second(value)
    return lambda value: any(check(value) for check in checks)


def array(element: Check, low: float | None, high: float | None) -> Check:
    """Accept lists of ``element`` with ``low`` to ``high`` elements."""
    least, most = _bounds(low, high)
    return lambda value: type(value) is list and least <= len(value) <= most and all(map(element, value))


def tuple_(elements: Sequence[Check], low: float, high: float | None) -> Check:
    """Return the predicate that accepts lists of ``low`` to ``high`` elements.

    ``elements``: the predicates of the elements in their order, of which the last one repeats.
    """
    least, most = _bounds(low, high)

    def check(value: object) -> bool:
        """Return whether a value is a list of an accepted length with such elements."""
        if type(value) is not list or not least <= len(value) <= most:
            return False
        pattern = chain(elements, repeat(elements[-1]))
        return all(element(item) for element, item in zip(pattern, value, strict=False))

    return check


def mapping(key: Check, item: Check, low: float | None, high: float | None) -> Check:
    """Return the predicate that accepts dicts of ``low`` to ``high`` members; ``key``, ``item``: of keys and values."""
    least, most = _bounds(low, high)

    def check(value: object) -> bool:
        if type(value) is not dict or not least <= len(value) <= most:
            return False
        return all(map(key, value)) and all(map(item, value.values()))

    return check


def struct(members: Mapping[str, Check], required: set[str]) -> Check:
    """Return the predicate that accepts dicts with the keys of ``members`` (key → predicate of its value).

    Keys that are not ``required`` may be missing.
    """

    def check(value: object) -> bool:
        if type(value) is not dict or not required <= value.keys() <= members.keys():
            return False
        return all(members[key](item) for key, item in value.items())

    return check


def timestamp(value: object) -> bool:
    """Return whether ``value`` is a valid ISO 8601 date, or date and time."""
    if type(value) is not str or not re.match(TIMESTAMP, value):
        return False
    year, month, day = int(value[:4]), int(value[5:7]), int(value[8:10])
    if month == _FEBRUARY:
        is_leap_year = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if is_leap_year else 28)
    return day <= (30 if month in _SHORT_MONTHS else 31)


def timespan(value: object) -> bool:
    """Return whether ``value`` is a number of seconds, or Puppet's text of a timespan."""
    return numeric(value) or (type(value) is str and re.match(TIMESPAN, value) is not None)


def regexp(value: object) -> bool:
    """Return whether ``value`` is the text of a regular expression: the check of the data type ``Regexp``."""
    try:
        return type(value) is str and parser.translate(value) is not None
    except parser.PatternError:
        return False


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Return both limits as numbers, infinity for no limit: then a predicate compares without a test for None."""
    return (-_INFINITE if low is None else low), (_INFINITE if high is None else high)


#: Data types that take no parameters.
PREDICATES: Final[Mapping[str, Check]] = {
    "Any": is_json,
    "Archive": lambda value: type(value) is Archive,
    "Asset": lambda value: type(value) is Asset,
    "Data": is_json,
    "Undef": absent,
    "Numeric": numeric,
    "Scalar": scalar,
    "Regexp": regexp,
    "Timestamp": timestamp,
    "Timespan": timespan,
}
