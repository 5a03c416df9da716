"""Predicates over values, composed once when a data type is read and then called for every value of every run.

Each function here gives a predicate, or is one. They judge exact kinds (``True`` is no integer, a subclass of
``str`` no string) and refuse whatever JSON cannot carry. How types are written is not known here, and no predicate
says why: that is the slow path's part.
"""

from __future__ import annotations

import re
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import regex_dialect as patterns
from resource_api.model.values.assets import Archive, Asset
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Check = Callable[[Any], bool]

#: Values nested deeper are refused, as in manifests.
DEPTH: Final = 100
#: No data type accepts what lies deeper: its own nesting, and then ``DEPTH``.
_DEEPEST: Final = 2 * DEPTH
_INFINITE: Final = float("inf")
_HOLDERS: Final = frozenset({Sensitive, list, dict})

TIMESTAMP: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?"
    + patterns.END
)
TIMESPAN: Final = r"^-?(([0-9]+-)?([0-9]{1,2}:)?[0-9]{1,2}:[0-9]{1,2}|[0-9]+)(\.[0-9]+)?" + patterns.END
_FEBRUARY: Final = 2
_SHORT_MONTHS: Final = (4, 6, 9, 11)


def through_wrappers(check: Check) -> Check:
    """Let a secret's wrapper, anywhere in the value, make no difference to ``check``."""

    def accepts(value: Any) -> bool:
        return check(value) or (type(value) in _HOLDERS and check(bare(value)))

    return accepts


def bare(value: Any, depth: int = 0) -> Any:
    """Take the wrappers off ``value`` at any depth; what lies too deep becomes something that no type accepts."""
    if type(value) is Sensitive:
        return bare(value.reveal(), depth)
    if depth > _DEEPEST:
        return NotImplemented
    if type(value) is list:
        return [bare(item, depth + 1) for item in value]
    if type(value) is dict:
        return {key: bare(item, depth + 1) for key, item in value.items()}
    return value


def data(value: Any, depth: int = 0) -> bool:
    """Whether JSON can carry ``value``: strings as keys, finite numbers, at most ``DEPTH`` levels."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return floating(value)
    if depth < DEPTH and kind is list:
        return all(data(item, depth + 1) for item in value)
    if depth < DEPTH and kind is dict:
        return all(type(key) is str and data(item, depth + 1) for key, item in value.items())
    return False


def scalar(value: Any) -> bool:
    """Whether ``value`` is a string, a number or a boolean."""
    return type(value) in {str, int, bool} or floating(value)


def numeric(value: Any) -> bool:
    """Whether ``value`` is an integer or a finite float."""
    return type(value) is int or floating(value)


def floating(value: Any) -> bool:
    """Whether ``value`` is a finite float."""
    return type(value) is float and -_INFINITE < value < _INFINITE


def absent(value: Any) -> bool:
    """Whether ``value`` is None."""
    return value is None


def asset(value: Any) -> bool:
    """Whether ``value`` is a blob with a digest."""
    return type(value) is Asset


def archive(value: Any) -> bool:
    """Whether ``value`` is a map of names to contents with a digest."""
    return type(value) is Archive


def identity(value: Any) -> bool:
    """Whether ``value`` can be what a resource is known by: a namevar's value."""
    return type(value) is int or (type(value) is str and value != "")


def boolean(allowed: Collection[bool]) -> Check:
    """Accept some of the two booleans."""
    return lambda value: type(value) is bool and value in allowed


def string(low: float | None, high: float | None) -> Check:
    """Accept strings of ``low`` to ``high`` characters."""
    if low is None and high is None:
        return lambda value: type(value) is str
    least, most = _bounds(low, high)
    return lambda value: type(value) is str and least <= len(value) <= most


def integer(low: float | None, high: float | None) -> Check:
    """Accept integers within limits."""
    if low is None and high is None:
        return lambda value: type(value) is int
    least, most = _bounds(low, high)
    return lambda value: type(value) is int and least <= value <= most


def real(low: float | None, high: float | None) -> Check:
    """Accept finite floats within limits."""
    if low is None and high is None:
        return floating
    least, most = _bounds(low, high)
    return lambda value: floating(value) and least <= value <= most


def words(allowed: Collection[str]) -> Check:
    """Accept the strings of a set."""
    return lambda value: type(value) is str and value in allowed


def matching(regexes: Sequence[re.Pattern[str]]) -> Check:
    """Accept strings in which any of the regular expressions finds something."""
    if len(regexes) == 1:
        search = regexes[0].search
        return lambda value: type(value) is str and search(value) is not None
    return lambda value: type(value) is str and any(regex.search(value) for regex in regexes)


def optional(check: Check) -> Check:
    """Accept None as well."""
    return lambda value: value is None or check(value)


def given(check: Check) -> Check:
    """Accept all of ``check`` but None."""
    return lambda value: value is not None and check(value)


def either(checks: Sequence[Check]) -> Check:
    """Accept what any of ``checks`` accepts, asked in order."""
    if len(checks) == 2:  # noqa: PLR2004 - the usual number, without a loop
        first, second = checks
        return lambda value: first(value) or second(value)
    return lambda value: any(check(value) for check in checks)


def array(element: Check, low: float | None, high: float | None) -> Check:
    """Accept lists of ``element``."""
    least, most = _bounds(low, high)
    return lambda value: type(value) is list and least <= len(value) <= most and all(map(element, value))


def tuple_(elements: Sequence[Check], low: float, high: float | None) -> Check:
    """Accept lists whose members follow ``elements``, the last of which repeats."""
    least, most = _bounds(low, high)

    def check(value: Any) -> bool:
        if type(value) is not list or not least <= len(value) <= most:
            return False
        pattern = chain(elements, repeat(elements[-1]))
        return all(element(item) for element, item in zip(pattern, value, strict=False))

    return check


def mapping(key: Check, item: Check, low: float | None, high: float | None) -> Check:
    """Accept dicts by their keys and by their values."""
    least, most = _bounds(low, high)

    def check(value: Any) -> bool:
        if type(value) is not dict or not least <= len(value) <= most:
            return False
        return all(map(key, value)) and all(map(item, value.values()))

    return check


def struct(required: Mapping[str, Check], others: Mapping[str, Check]) -> Check:
    """Accept dicts with all the ``required`` keys, perhaps some of the ``others``, and no more."""
    known = {**required, **others}

    def check(value: Any) -> bool:
        if type(value) is not dict or not required.keys() <= value.keys() <= known.keys():
            return False
        return all(known[key](item) for key, item in value.items())

    return check


def timestamp(value: Any) -> bool:
    """Whether ``value`` is an ISO 8601 date, or date and time, that the calendar knows."""
    if type(value) is not str or not re.match(TIMESTAMP, value):
        return False
    year, month, day = int(value[:4]), int(value[5:7]), int(value[8:10])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= (28 + leap if month == _FEBRUARY else 30 if month in _SHORT_MONTHS else 31)


def timespan(value: Any) -> bool:
    """Whether ``value`` is a number of seconds or Puppet's text for a span of time."""
    return numeric(value) or (type(value) is str and re.match(TIMESPAN, value) is not None)


def regexp(value: Any) -> bool:
    """Whether ``value`` is the text of a regular expression."""
    try:
        return type(value) is str and patterns.translate(value) is not None
    except patterns.PatternError:
        return False


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    return (-_INFINITE if low is None else low), (_INFINITE if high is None else high)


#: Data types that take no parameters.
PREDICATES: Final[Mapping[str, Check]] = {
    "Any": data,
    "Archive": archive,
    "Asset": asset,
    "Data": data,
    "Undef": absent,
    "Numeric": numeric,
    "Scalar": scalar,
    "Regexp": regexp,
    "Timestamp": timestamp,
    "Timespan": timespan,
}
