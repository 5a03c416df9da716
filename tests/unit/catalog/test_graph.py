"""The laws of order: the manifest's, corrected by relationships; cycles are reported whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resource_api.catalog.graph import Edge, descendants, order

COUNT = 12
PAIRS = st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1), st.booleans()), max_size=30)


def edges_of(pairs: list[tuple[int, int, bool]]) -> list[Edge]:
    """Make edges of drawn pairs."""
    return [Edge(first, then, automatic=automatic) for first, then, automatic in pairs]


def test_without_relationships_the_manifest_is_the_order() -> None:
    """Nothing is reordered."""
    assert list(order(4, []).sequence) == [0, 1, 2, 3]


def test_a_prerequisite_is_pulled_forward_and_nothing_else_moves() -> None:
    """``z requires y`` in the manifest z, y, a gives y, z, a."""
    assert list(order(3, [Edge(1, 0)]).sequence) == [1, 0, 2]


@given(PAIRS)
def test_every_edge_that_holds_points_forward(pairs: list[tuple[int, int, bool]]) -> None:
    """In the sequence, the first resource of each edge precedes the second."""
    result = order(COUNT, edges_of(pairs))
    if result.cycles:
        assert list(result.sequence) == []
        return
    path = {number: index for index, number in enumerate(result.sequence)}
    assert sorted(result.sequence) == list(range(COUNT))
    assert all(path[edge.first] < path[edge.then] for edge in result.edges)


@given(PAIRS)
def test_only_automatic_relationships_give_way(pairs: list[tuple[int, int, bool]]) -> None:
    """An explicit relationship holds, or is part of a reported cycle."""
    edges = edges_of(pairs)
    result = order(COUNT, edges)
    assert all(edge.automatic for edge in result.yielded)
    assert set(result.edges) | set(result.yielded) == set(edges)


@given(PAIRS)
def test_a_cycle_is_reported_whole(pairs: list[tuple[int, int, bool]]) -> None:
    """Each step of a reported cycle is an edge, and its first resource is the earliest in the manifest."""
    result = order(COUNT, edges_of(pairs))
    links = {(edge.first, edge.then) for edge in result.edges}
    for cycle in result.cycles:
        assert set(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) <= links
        assert cycle[0] == min(cycle)


def test_a_resource_that_requires_itself_is_a_cycle() -> None:
    """A resource cannot come before itself."""
    assert order(2, [Edge(1, 1)]).cycles == [[1]]


def test_a_cycle_of_automatic_relationships_alone_is_reported() -> None:
    """No explicit relationship decides which of them gives way."""
    result = order(2, [Edge(0, 1, automatic=True), Edge(1, 0, automatic=True)])
    assert result.cycles == [[0, 1]]


def test_an_explicit_relationship_beats_an_automatic_one() -> None:
    """The automatic one gives way and is returned."""
    automatic = Edge(0, 1, automatic=True)
    result = order(2, [automatic, Edge(1, 0)])
    assert (list(result.sequence), list(result.yielded)) == ([1, 0], [automatic])


def test_a_chain_of_a_hundred_thousand_does_not_exhaust_the_stack() -> None:
    """The order is computed iteratively."""
    count = 100_000
    result = order(count, [Edge(index + 1, index) for index in range(count - 1)])
    assert list(result.sequence[:3]) == [count - 1, count - 2, count - 3]


def test_descendants_are_everything_that_comes_after() -> None:
    """Directly or not, and the start itself."""
    assert descendants([0], {0: [1], 1: [2], 3: [4]}) == {0, 1, 2}
