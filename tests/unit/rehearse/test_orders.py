"""Other orders of a catalog: each pair is reversed, and exactly the relationships that are missing are found."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from resource_api.rehearse.orders import Relationships, Search, Tried, orders
from resource_api.rehearse.result import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pair = tuple[int, int]

COUNT = 9
PAIRS = st.sets(st.sampled_from(list(combinations(range(COUNT), 2))), max_size=14)


def closed(pairs: set[Pair]) -> set[Pair]:
    """Return the pairs that relationships order, directly or not."""
    ordered = set(pairs)
    while more := {(first, last) for first, then in ordered for middle, last in ordered if then == middle} - ordered:
        ordered |= more
    return ordered


@given(PAIRS)
def test_each_pair_without_a_relationship_is_reversed(pairs: set[Pair]) -> None:
    """One order for each resource is enough; each is new, and every relationship holds in it."""
    relationships, reversed_pairs, earlier = Relationships(COUNT, pairs), set(), [list(range(COUNT))]
    for order in orders(relationships, COUNT):
        assert sorted(order) == list(range(COUNT))
        rank = {index: number for number, index in enumerate(order)}
        assert all(rank[first] < rank[then] for first, then in pairs)
        assert order not in earlier
        earlier.append(order)
        relationships.record(order)
        reversed_pairs |= {(first, then) for first, then in combinations(range(COUNT), 2) if rank[then] < rank[first]}
    assert reversed_pairs | closed(pairs) == set(combinations(range(COUNT), 2))
    assert relationships.untried == 0


def search(pairs: set[Pair], missing: set[Pair], fails: object) -> set[Pair]:
    """Return the relationships that a search finds; ``missing`` ones are needed, and a wrong order fails or differs."""

    def attempt(order: Sequence[int]) -> Tried:
        wrong = [(first, then) for first, then in missing if order.index(then) < order.index(first)]
        return Tried({str(then): "no" for _, then in wrong if fails}, {f"/{wrong}": 1} if wrong and not fails else {})

    def finding_for(first: int, then: int, _worse: Tried, _changed: Sequence[str]) -> Finding:
        return Finding(f"{first} {then}", "")

    tried = Search(Relationships(COUNT, pairs), Tried({}, {}), attempt, finding_for)
    return {(int(first), int(then)) for first, then in (finding.reference.split() for finding in tried.run(COUNT))}


@given(PAIRS, PAIRS, st.booleans())
def test_the_missing_relationships_are_found_and_no_other(pairs: set[Pair], missing: set[Pair], fails: object) -> None:
    """Each finding is a needed relationship; with all findings, every needed one holds."""
    added = search(pairs, missing, fails)
    assert added <= missing
    assert closed(pairs | added) >= missing


def test_what_differs_whenever_it_is_tried_is_no_finding() -> None:
    """A path with a time or a random number in it is left out."""
    numbers = iter(range(1_000))

    def attempt(_order: Sequence[int]) -> Tried:
        return Tried({}, {"/stamp": next(numbers)})

    def found(*_: object) -> Finding:
        raise AssertionError

    assert Search(Relationships(3, []), attempt(()), attempt, found).run(4) == []
