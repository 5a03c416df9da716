"""Other orders of a catalog: each pair is turned round, and exactly the relationships that are missing are found."""

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
    found = set(pairs)
    while more := {(first, last) for first, then in found for other, last in found if then == other} - found:
        found |= more
    return found


@given(PAIRS)
def test_each_pair_without_a_relationship_is_turned_round(pairs: set[Pair]) -> None:
    """One order for each resource is enough; each is new, and every relationship holds in it."""
    known, turned, seen = Relationships(COUNT, pairs), set(), [list(range(COUNT))]
    for order in orders(known, COUNT):
        assert sorted(order) == list(range(COUNT))
        place = {index: number for number, index in enumerate(order)}
        assert all(place[first] < place[then] for first, then in pairs)
        assert order not in seen
        seen.append(order)
        known.note(order)
        turned |= {(first, then) for first, then in combinations(range(COUNT), 2) if place[then] < place[first]}
    assert turned | closed(pairs) == set(combinations(range(COUNT), 2))
    assert known.unturned == 0


def search(pairs: set[Pair], missing: set[Pair], fails: object) -> set[Pair]:
    """Return the relationships that are found where ``missing`` ones are needed; what differs fails, or is other."""

    def attempt(order: Sequence[int]) -> Tried:
        wrong = [(first, then) for first, then in missing if order.index(then) < order.index(first)]
        return Tried({str(then): "no" for _, then in wrong if fails}, {f"/{wrong}": 1} if wrong and not fails else {})

    def found(first: int, then: int, _worse: Tried, _changed: Sequence[str]) -> Finding:
        return Finding(f"{first} {then}", "")

    tried = Search(Relationships(COUNT, pairs), Tried({}, {}), attempt, found)
    return {(int(first), int(then)) for first, then in (each.reference.split() for each in tried.run(COUNT))}


@given(PAIRS, PAIRS, st.booleans())
def test_the_missing_relationships_are_found_and_no_other(pairs: set[Pair], missing: set[Pair], fails: object) -> None:
    """Each finding is a relationship that is needed; with those that are found, all that are needed hold."""
    found = search(pairs, missing, fails)
    assert found <= missing
    assert closed(pairs | found) >= missing


def test_what_differs_whenever_it_is_tried_is_no_finding() -> None:
    """A path with a time or a random number in it is left out."""
    numbers = iter(range(1_000))

    def attempt(_order: Sequence[int]) -> Tried:
        return Tried({}, {"/stamp": next(numbers)})

    def found(*_: object) -> Finding:
        raise AssertionError

    assert Search(Relationships(3, []), attempt(()), attempt, found).run(4) == []
