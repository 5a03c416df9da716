"""The order of deletions: lists one after the other, the members of a list in parallel."""

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

    from resource_api.plan.planner import ExecutionPlan

NAMES = "abcdefgh"


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Generate a graph in which each resource depends on some of the earlier ones."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }


def site(graph: Mapping[str, Sequence[str]], **values: Any) -> dict[str, Any]:
    """Return the manifest of a graph."""
    return {
        f"Thing[{name}]": {**values, "require": [f"Thing[{other}]" for other in needed]}
        for name, needed in graph.items()
    }


def antichains(graph: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """Return Pulumi's lists: repeatedly the resources that depend on no remaining one, in reverse."""
    left, batches = dict(graph), []
    while left:
        batch = {name for name, needed in left.items() if not set(needed) & left.keys()}
        batches.append(batch)
        left = {name: needed for name, needed in left.items() if name not in batch}
    return batches[::-1]


def before(plan: ExecutionPlan) -> dict[str, set[str]]:
    """Return what each deletion waits for, directly or not, by name."""
    found: dict[int, set[int]] = {}
    for operation in plan.operations:
        direct = plan.waits.get(operation.number, ())
        found[operation.number] = set(direct).union(*(found[number] for number in direct))
    name = {operation.number: str(operation.step.name) for operation in plan.operations}
    return {name[number]: {name[other] for other in others} for number, others in found.items()}


def beneath(graph: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the direct and indirect dependents of each resource."""
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[other] for other in direct))
    return {name: {other for other, needed in needs.items() if name in needed} for name in graph}


@given(graph=graphs())
def test_a_deletion_waits_for_exactly_its_dependents(graph: dict[str, list[str]]) -> None:
    """So the members of a list do not wait for each other, and no list waits for a later one."""
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
def test_deletions_around_an_excluded_resource_keep_their_order(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """An indirect dependent is deleted first, although the resource between them is excluded.

    That is refused while the excluded one exists, unless it depends on nothing.
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
def test_replacements_delete_in_reverse_and_create_in_order(graph: dict[str, list[str]]) -> None:
    """Each resource is deleted after its dependents and created after its dependencies."""
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
def test_creations_around_an_excluded_resource_keep_their_order(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """A target waits for an indirect dependency through a resource that exists and is no target."""
    kept = data.draw(st.sampled_from(sorted(graph)))
    bench = Bench()
    bench.put("thing", **{kept: {}})
    plan = bench.plan(site(graph), excludes=(f"Thing[{kept}]",))
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[other] for other in direct))
    assert before(plan) == {name: others - {kept} for name, others in needs.items() if name != kept}
