"""Many resources looked at attribute by attribute: of ten thousand nearly all have the same few attributes.

One question then answers for thousands of values; and a thousand are asked all questions before the next ones are, as
what has just been looked at is still near. What the values mean is not known here.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import SCALAR_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

T = TypeVar("T")

_PORTION: Final = 1000


class ColumnGroup(NamedTuple):
    """Resources that have the same attributes: their places among all, and in that order each attribute's values."""

    places: Sequence[int]
    columns: Mapping[str, Sequence[Any]]


def batches(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """Give a thousand after the other."""
    return (many[start : start + _PORTION] for start in range(0, len(many), _PORTION))


def column_groups(resources: Sequence[Mapping[str, Any]]) -> Iterator[ColumnGroup]:
    """Give the resources by what attributes they have."""
    by_shape: dict[tuple[str, ...], list[int]] = {}
    for place, shape in enumerate(map(tuple, resources)):
        found = by_shape.get(shape)
        if found is None:
            by_shape[shape] = [place]
        else:
            found.append(place)
    for shape, places in by_shape.items():
        columns = zip(*[resources[place].values() for place in places], strict=True)
        yield ColumnGroup(places, dict(zip(shape, columns, strict=True)))


def are_flat(resources: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no value of any of the resources holds anything else, as ``is_flat`` tells of one."""
    return SCALAR_TYPES.issuperset(map(type, chain.from_iterable([resource.values() for resource in resources])))
