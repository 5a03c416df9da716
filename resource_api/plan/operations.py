"""Steps → operations in the order of execution, and what each waits for.

Without a removal this is the order of the catalog. A replacement is two operations; what is removed goes in reverse
recorded dependencies, dependents before what they depend on, and after everything else where it may. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog import graph
from resource_api.catalog.graph import Edge, reverse
from resource_api.model.change import Action
from resource_api.model.step import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api.model.step import Step


def arrange(
    steps: Sequence[Step], requires: Mapping[int, Sequence[int]], orphans: Collection[int]
) -> tuple[list[Operation], Mapping[int, Sequence[int]]]:
    """Give the operations, and for each (by index) the operations that must have succeeded before it.

    ``steps`` stand in the order of the catalog, orphans last; ``requires`` and ``orphans`` know them by entry.
    """
    if not orphans and not any(step.decision.action is Action.REPLACE for step in steps):
        if not steps or steps[-1].entry.index < len(steps):
            # Nothing is left out before the last one: each has its entry's number, and waits for what that requires.
            if max(requires, default=0) >= len(steps):
                requires = {index: before for index, before in requires.items() if index < len(steps)}
            return [Operation(step.entry.index, step) for step in steps], requires
        place = {step.entry.index: index for index, step in enumerate(steps)}
        waits = {place[i]: [place[j] for j in _through(i, requires, place)] for i in place}
        return [Operation(index, step) for index, step in enumerate(steps)], waits
    return _rearrange(steps, requires, orphans)


def _rearrange(
    steps: Sequence[Step], requires: Mapping[int, Sequence[int]], orphans: Collection[int]
) -> tuple[list[Operation], dict[int, list[int]]]:
    nodes = list(_nodes(steps, orphans))
    edges = list(_edges(nodes, requires))
    edges = _spared(nodes, edges)
    order = graph.order(len(nodes), edges)
    if order.cycles:
        order = graph.order(len(nodes), [edge for edge in edges if not edge.automatic])
    place = {number: index for index, number in enumerate(order.sequence)}
    operations = [Operation(index, nodes[number][0], nodes[number][1]) for index, number in enumerate(order.sequence)]
    waits: dict[int, list[int]] = {}
    for edge in order.edges:
        waits.setdefault(place[edge.then], []).append(place[edge.first])
    return operations, waits


def _spared(nodes: Sequence[tuple[Step, bool]], edges: list[Edge]) -> list[Edge]:
    """Let what goes with something else wait for that: who waited for the former waits for what came before it."""
    places = {str(step.reference): number for number, (step, removal) in enumerate(nodes) if removal}
    hosts = {}
    for number, (step, removal) in enumerate(nodes):
        host = places.get(step.entry.meta.lifecycle.deleted_with or "")
        if host is not None and host != number and _goes_with(step, nodes[host][0], removal=removal):
            hosts[number] = host
    for number in hosts:
        earlier = [edge.first for edge in edges if edge.then == number]
        later = [edge.then for edge in edges if edge.first == number and nodes[edge.then][1]]
        edges = [edge for edge in edges if edge.first != number or edge.then not in later]
        edges += [Edge(first, then, automatic=True) for first in earlier for then in later]
    return edges + [Edge(host, number) for number, host in hosts.items()]


def _goes_with(step: Step, host: Step, *, removal: bool) -> bool:
    """Whether what is removed vanishes with its host: it is forgotten then, or found gone when its turn comes."""
    if step.action is Action.REPLACE:
        return removal and not (step.decision.error or host.create_first)
    return step.action is Action.FORGET


def _nodes(steps: Sequence[Step], orphans: Collection[int]) -> Iterator[tuple[Step, bool]]:
    """Give (step, whether it is a removal) in the order that holds where nothing else is said."""
    late = []
    for step in steps:
        if step.entry.index in orphans:
            continue
        if step.action is Action.REPLACE and _late(step):
            late.append(step)
        elif step.action is Action.REPLACE:
            yield step, True
        yield step, False
    yield from ((step, True) for step in reversed(late))
    yield from ((step, True) for step in steps if step.entry.index in orphans)


def _late(step: Step) -> bool:
    """Whether the old one goes last; where the step fails, nothing of it is done, and what comes first is kept too."""
    return step.create_first and not step.decision.error


def _edges(nodes: Sequence[tuple[Step, bool]], requires: Mapping[int, Sequence[int]]) -> Iterator[Edge]:
    puts = {step.entry.index: number for number, (step, removal) in enumerate(nodes) if not removal}
    removals = {step.entry.index: number for number, (step, removal) in enumerate(nodes) if removal}
    present = puts.keys() | removals.keys()
    for index, number in puts.items():
        yield from (Edge(puts[before], number) for before in _through(index, requires, present) if before in puts)
    for index, number in removals.items():
        if index in puts:
            step = nodes[number][0]
            yield Edge(puts[index], number) if _late(step) else Edge(number, puts[index])
    yield from _whole(nodes, puts, removals, requires)
    yield from _recorded(nodes, puts, removals, requires)


def _whole(
    nodes: Sequence[tuple[Step, bool]],
    puts: Mapping[int, int],
    removals: Mapping[int, int],
    requires: Mapping[int, Sequence[int]],
) -> Iterator[Edge]:
    """Let nothing go before all is there that its new one needs, save what can only come when it has gone."""
    after: dict[int, list[int]] = {}
    for index, before in requires.items():
        for other in before:
            after.setdefault(other, []).append(index)
    halves = {i for i, number in removals.items() if i in puts and not nodes[number][0].create_first}
    unsettled = graph.descendants(halves, after)
    for index in halves:
        for other in requires.get(index, ()):
            if other in puts and other not in unsettled:
                yield Edge(puts[other], removals[index], automatic=True)


def _recorded(
    nodes: Sequence[tuple[Step, bool]],
    puts: Mapping[int, int],
    removals: Mapping[int, int],
    requires: Mapping[int, Sequence[int]],
) -> Iterator[Edge]:
    """What depended on something that goes, goes before it, or is brought to not depend on it before."""
    present = puts.keys() | removals.keys()
    by_reference = {}
    for index, number in removals.items():
        record = nodes[number][0].record
        by_reference[str(record.reference if record else nodes[number][0].reference)] = index
    for step, removal in nodes:
        index = step.entry.index
        if removal or index not in removals:
            needed = {
                by_reference[name] for name in (step.record.requires if step.record else ()) if name in by_reference
            }
            needed |= {before for before in _through(index, requires, present) if before in removals}
            for other in needed - {index}:
                if removal:
                    yield Edge(removals[index], removals[other], automatic=True)
                elif other not in puts or nodes[removals[other]][0].create_first:
                    yield Edge(puts[index], removals[other], automatic=True)


def _through(index: int, requires: Mapping[int, Sequence[int]], present: Collection[int]) -> list[int]:
    """Give what something needs among those that the run is about, also by way of those that it leaves alone."""
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [*requires.get(index, ())]
    while waiting:
        other = waiting.pop()
        if other in present:
            found.add(other)
        elif other not in seen:
            seen.add(other)
            waiting += requires.get(other, ())
    return sorted(found)


def by_entry(operations: Sequence[Operation]) -> dict[int, list[int]]:
    """Give the operations of each entry: one, or the two of a replacement."""
    found: dict[int, list[int]] = {}
    for operation in operations:
        found.setdefault(operation.step.entry.index, []).append(operation.number)
    return found


def blocked(operations: Sequence[Operation], waits: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Give what cannot be done because a step failed in the plan: by its entry's index, that step's reference.

    A replacement goes whole or not at all: when its second half cannot be done, its first half is not begun.
    """
    causes = {o.number: str(o.step.reference) for o in operations if o.step.decision.error}
    if not causes:
        return {}
    after, halves = reverse(waits), by_entry(operations)
    waiting = list(causes)
    while waiting:
        number = waiting.pop()
        twins = halves[operations[number].step.entry.index]
        for other in (*after.get(number, ()), *twins):
            if other not in causes:
                causes[other] = causes[number]
                waiting.append(other)
    steps = ((operations[number].step, cause) for number, cause in causes.items())
    return {step.entry.index: cause for step, cause in steps if not step.decision.error}
