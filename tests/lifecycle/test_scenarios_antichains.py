"""In which order what goes may go: lists one after the other, those within a list side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.record import Commit
from resource_api.model.values.errors import UsageError
from resource_api.state.store import StackName
from tests.lifecycle.world import PROJECT, Bench

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.plan.planner import Plan

NAMES = "abcdefgh"


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw who depends on whom: each on some of those before it."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }


def site(graph: Mapping[str, Sequence[str]], **values: Any) -> dict[str, Any]:
    """Give the manifest of a graph."""
    return {
        f"Thing[{name}]": {**values, "require": [f"Thing[{other}]" for other in needed]}
        for name, needed in graph.items()
    }


def antichains(graph: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """Take what depends on nothing that is left, again and again, and turn the list of lists round (Pulumi's way)."""
    left, batches = dict(graph), []
    while left:
        batch = {name for name, needed in left.items() if not set(needed) & left.keys()}
        batches.append(batch)
        left = {name: needed for name, needed in left.items() if name not in batch}
    return batches[::-1]


def before(plan: Plan) -> dict[str, set[str]]:
    """Give what each removal waits for, directly or not, by name."""
    found: dict[int, set[int]] = {}
    for operation in plan.operations:
        direct = plan.waits.get(operation.number, ())
        found[operation.number] = set(direct).union(*(found[number] for number in direct))
    name = {operation.number: str(operation.step.name) for operation in plan.operations}
    return {name[number]: {name[other] for other in others} for number, others in found.items()}


def beneath(graph: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Give who depends on each, directly or not."""
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[other] for other in direct))
    return {name: {other for other, needed in needs.items() if name in needed} for name in graph}


@given(graph=graphs())
def test_what_goes_waits_for_all_that_depends_on_it_and_for_nothing_else(graph: dict[str, list[str]]) -> None:
    """So the members of each list wait for none of their own, and every list waits for nothing that comes later."""
    bench = Bench()
    bench.apply(site(graph))
    plan = bench.plan({}, prune=True)
    waits = before(plan)
    assert waits == beneath(graph)
    lists = antichains(graph)
    place = {name: number for number, names in enumerate(lists) for name in names}
    for name, others in waits.items():
        assert all(place[other] < place[name] for other in others)
    assert {str(operation.step.name) for operation in plan.operations} == set(graph)


@given(graph=graphs(), data=st.data())
def test_what_goes_around_one_that_stays_keeps_its_order(graph: dict[str, list[str]], data: st.DataObject) -> None:
    """One in the middle is left out: what depends on it through others still goes before what it depends on.

    That is refused as long as it exists, unless it depends on nothing.
    """
    kept = data.draw(st.sampled_from(sorted(graph)))
    bench = Bench()
    bench.apply(site(graph))
    if graph[kept]:
        with pytest.raises(UsageError, match=rf"Thing\[{kept}\]"):
            bench.plan({}, prune=True, excludes=(f"Thing[{kept}]",))
        away = bench.state.records["thing", kept]._replace(is_=None)
        bench.store.commit(StackName(PROJECT, "default"), Commit(put=[away]))
    waits = before(bench.plan({}, prune=True, excludes=(f"Thing[{kept}]",)))
    expected = {name: others - {kept} for name, others in beneath(graph).items() if name != kept}
    assert waits == expected


@given(graph=graphs())
def test_all_that_is_replaced_goes_in_lists_and_comes_back_in_order(graph: dict[str, list[str]]) -> None:
    """Every one is deleted after its dependents and made after what it depends on, whatever stands beside."""
    bench = Bench()
    lifecycle = {"replace": "delete_first"}
    bench.apply(site(graph, image="x", lifecycle=lifecycle))
    plan = bench.plan(site(graph, image="y", lifecycle=lifecycle))
    waits = {
        (str(each.step.name), each.removal): {
            (str(plan.operations[other].step.name), plan.operations[other].removal)
            for other in plan.waits.get(each.number, ())
        }
        for each in plan.operations
    }
    for name, needed in graph.items():
        assert waits[name, False] >= {(name, True), *((other, False) for other in needed)}
        for other in needed:
            assert (name, True) in waits[other, True]
    bench.apply(site(graph, image="y", lifecycle=lifecycle))
    gone = [name for verb, _, name in bench.world.calls if verb == "delete"]
    made = [name for verb, _, name in bench.world.calls if verb == "create"]
    assert sorted(gone) == sorted(made) == sorted(graph)
    for name, needed in graph.items():
        assert all(gone.index(name) < gone.index(other) and made.index(other) < made.index(name) for other in needed)


@given(graph=graphs(), data=st.data())
def test_what_is_made_around_one_that_is_left_out_keeps_its_order(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """A target waits for what it needs through one that is no target."""
    kept = data.draw(st.sampled_from(sorted(graph)))
    plan = Bench().plan(site(graph), excludes=(f"Thing[{kept}]",))
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[other] for other in direct))
    assert before(plan) == {name: others - {kept} for name, others in needs.items() if name != kept}
