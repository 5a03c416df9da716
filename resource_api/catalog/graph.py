"""The graph of relationships: the order of execution, cycles and descendants.

The order is the manifest's, corrected by relationships; an automatic relationship gives way to explicit ones that
contradict it. Nodes are numbers. Pure and iterative: the length of a chain is not limited by the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Edge(NamedTuple):
    """``first`` comes before ``then``, and refreshes it if ``refresh``; ``automatic`` gives way to explicit edges.

    ``on_failure``: ``then`` does not need the success of ``first``, but its failure.
    """

    first: int
    then: int
    refresh: bool = False
    automatic: bool = False
    on_failure: bool = False


class Order(NamedTuple):
    """The sequence of execution, or the cycles that prevent one; the remaining edges, and the yielded ones."""

    sequence: Sequence[int]
    edges: Sequence[Edge]
    cycles: Sequence[Sequence[int]] = ()
    yielded: Sequence[Edge] = ()


def order(count: int, edges: Iterable[Edge]) -> Order:
    """Return the order of ``count`` resources, which are numbered in the order of the manifest."""
    remaining = list(dict.fromkeys(edges))
    yielded: list[Edge] = []
    while True:
        if all(edge.first < edge.then for edge in remaining):
            return Order(range(count), remaining, yielded=yielded)
        sequence, stuck = _sequence(count, remaining)
        if not stuck:
            return Order(sequence, remaining, yielded=yielded)
        cycles = _cycles(stuck, remaining)
        between: dict[tuple[int, int], list[Edge]] = {}
        for edge in remaining:
            between.setdefault((edge.first, edge.then), []).append(edge)
        yielding = {edge for cycle in cycles for edge in _contradicted(cycle, between)}
        if not yielding:
            return Order((), remaining, cycles=cycles, yielded=yielded)
        yielded += [edge for edge in remaining if edge in yielding]
        remaining = [edge for edge in remaining if edge not in yielding]


def _sequence(count: int, edges: Iterable[Edge]) -> tuple[list[int], set[int]]:
    """Return a topological sequence (Kahn), in the manifest's order where possible, and the indices in cycles."""
    from heapq import heappop, heappush  # a library in C that only edges against the manifest's order need

    after: dict[int, list[int]] = {}
    waiting = [0] * count
    for first, then in {(edge.first, edge.then) for edge in edges}:
        after.setdefault(first, []).append(then)
        waiting[then] += 1
    ready = [index for index in range(count) if not waiting[index]]
    sequence = []
    while ready:
        index = heappop(ready)
        sequence.append(index)
        for then in after.get(index, ()):
            waiting[then] -= 1
            if not waiting[then]:
                heappush(ready, then)
    return sequence, {index for index in range(count) if waiting[index]}


def _cycles(stuck: set[int], edges: Iterable[Edge]) -> list[list[int]]:
    """Return one cycle for each strongly connected component, from its first resource in the manifest."""
    before: dict[int, list[int]] = {}
    for edge in edges:
        if edge.first in stuck and edge.then in stuck:
            before.setdefault(edge.then, []).append(edge.first)
    cycles: list[list[int]] = []
    visited: set[int] = set()
    for start in sorted(stuck):
        path: list[int] = []
        positions: dict[int, int] = {}
        node = start
        while node not in visited and node not in positions:
            positions[node] = len(path)
            path.append(node)
            node = min(before[node])
        if node in positions:
            cycle = path[positions[node] :][::-1]
            least = cycle.index(min(cycle))
            cycles.append(cycle[least:] + cycle[:least])
        visited.update(path)
    return cycles


def _contradicted(cycle: Sequence[int], between: Mapping[tuple[int, int], Sequence[Edge]]) -> list[Edge]:
    """Return the automatic edges of a cycle that explicit ones contradict; none if all are automatic.

    ``between`` has the edges by their two ends.
    """
    inside = [edge for step in zip(cycle, [*cycle[1:], cycle[0]], strict=True) for edge in between.get(step, ())]
    explicit = {(edge.first, edge.then) for edge in inside if not edge.automatic}
    return [edge for edge in inside if edge.automatic and (edge.first, edge.then) not in explicit] if explicit else []


def descendants(start: Iterable[int], after: Mapping[int, Iterable[int]]) -> set[int]:
    """Return ``start`` and everything after it, directly or indirectly."""
    reached = set(start)
    waiting = list(reached)
    while waiting:
        for index in after.get(waiting.pop(), ()):
            if index not in reached:
                reached.add(index)
                waiting.append(index)
    return reached


def reverse(requires: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """Return the reverse of a relation: index → the indices that require it."""
    after: dict[int, list[int]] = {}
    for index, before in requires.items():
        for first in before:
            after.setdefault(first, []).append(index)
    return after
