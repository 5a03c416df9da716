"""Many resources looked at attribute by attribute: of ten thousand nearly all have the same few attributes.

One question then answers for thousands of values. What the values mean is not known here.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from resource_api.nouns.named import NamedTuple
from resource_api.nouns.values import FLAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Sheet(NamedTuple):
    """Resources that have the same attributes: their places among all, and in that order each attribute's values."""

    places: Sequence[int]
    columns: Mapping[str, Sequence[Any]]


def sheets(resources: Sequence[Mapping[str, Any]]) -> Iterator[Sheet]:
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
        yield Sheet(places, dict(zip(shape, columns, strict=True)))


def are_flat(resources: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no value of any of the resources holds anything else, as ``is_flat`` tells of one."""
    return FLAT.issuperset(map(type, chain.from_iterable([resource.values() for resource in resources])))
