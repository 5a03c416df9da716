"""Columnar access to many resources: the values of one attribute of all resources that have the same attributes.

Of 10,000 resources nearly all have the same few attributes, so that one check serves thousands of values. Callers
process one batch completely before the next, while its values are in the processor's cache.
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
    """Resources with the same attributes: their indices, and for each attribute its values in that order."""

    indices: Sequence[int]
    columns: Mapping[str, Sequence[Any]]


def batches(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield consecutive batches of a thousand."""
    return (many[start : start + _PORTION] for start in range(0, len(many), _PORTION))


def column_groups(resources: Sequence[Mapping[str, Any]]) -> Iterator[ColumnGroup]:
    """Yield the resources grouped by their attributes."""
    by_shape: dict[tuple[str, ...], list[int]] = {}
    for index, shape in enumerate(map(tuple, resources)):
        group = by_shape.get(shape)
        if group is None:
            by_shape[shape] = [index]
        else:
            group.append(index)
    for shape, indices in by_shape.items():
        columns = zip(*[resources[index].values() for index in indices], strict=True)
        yield ColumnGroup(indices, dict(zip(shape, columns, strict=True)))


def are_flat(resources: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all values of all resources are scalars, as ``is_flat`` does for one resource."""
    return SCALAR_TYPES.issuperset(map(type, chain.from_iterable([resource.values() for resource in resources])))
