"""Other values that a data type accepts in place of a declared one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.values import same_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from resource_api.model.datatypes.datatype import DataType

#: What many data types and machines accept: the name of a user and of a group, numbers, a path.
_COMMON: Final = ("daemon", "1", "/", True, False, 1)
_MOST: Final = 12


def other_values(datatype: DataType, value: Any, known: Iterable[Any] = ()) -> list[Any]:
    """Return other values than ``value`` that the data type accepts, the likeliest first, ``known`` ones before."""
    found: list[Any] = []
    words = [word for leaf in datatype.leaves for word in leaf.words]
    for each in (*known, *words, *_near(value), *_COMMON):
        new = each is not None and not same_value(each, value) and not any(same_value(each, other) for other in found)
        if new and datatype.accepts(each):
            found.append(each)
    return found[:_MOST]


def _near(value: Any) -> Iterator[Any]:
    """Yield values that differ from one in a small part."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        yield from _near_text(value)
    elif isinstance(value, list):
        yield from ([[each] for each in _COMMON] if not value else [value[:-1]])
        yield from ([*value[:-1], each] for last in value[-1:] for each in _near(last))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield {other: each for other, each in value.items() if other != key}
            yield from ({**value, key: each} for each in _near(item))


def _near_text(text: str) -> Iterator[str]:
    """Yield texts with another last letter or digit, or one more."""
    for place in range(len(text) - 1, -1, -1):
        if text[place].isalnum():
            other = str((int(text[place]) + 1) % 8) if text[place].isdecimal() else "b" if text[place] == "a" else "a"
            yield f"{text[:place]}{other}{text[place + 1 :]}"
            break
    yield from (f"{text}x", f"x{text}", f"{text}1")
