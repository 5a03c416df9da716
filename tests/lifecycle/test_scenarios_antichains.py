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
        name: draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        for index, name in enumerate(names)
    }


def site(graph: Mapping[str, Sequence[str]], **values: Any) -> dict[str, Any]:
    """Return the manifest of a graph."""
    return {
        f"Thing[{name}]": {**values, "require": [f"Thing[{second}]" for second in needed]}
        for name, needed in graph.items()
    }


def antichains(graph: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """Return Pulumi's lists: repeatedly the resources that depend on no remaining one, in reverse."""
    remaining, batches = dict(graph), []
    while remaining:
        batch = {name for name, needed in remaining.items() if not set(needed) & remaining.keys()}
        batches.append(batch)
        remaining = {name: needed for name, needed in remaining.items() if name not in batch}
    return batches[::-1]


def before(plan: ExecutionPlan) -> dict[str, set[str]]:
    """Return what each deletion waits for, directly or not, by name."""
    entries: dict[int, set[int]] = {}
    for operation in plan.operations:
        direct = plan.waits.get(operation.number, ())
        entries[operation.number] = set(direct).union(*(entries[number] for number in direct))
    name = {operation.number: str(operation.step.name) for operation in plan.operations}
    return {name[number]: {name[second] for second in rest} for number, rest in entries.items()}


def beneath(graph: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the direct and indirect dependents of each resource."""
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[second] for second in direct))
    return {name: {key for key, needed in needs.items() if name in needed} for name in graph}


@given(graph=graphs())
def test_a_deletion_waits_for_exactly_its_dependents(graph: dict[str, list[str]]) -> None:
    """So the members of a list do not wait for each other, and no list waits for a later one."""
    bench = Bench()
    bench.apply(site(graph))
    plan = bench.plan({}, prune=True)
    waits = before(plan)
    assert waits == beneath(graph)
    lists = antichains(graph)
    path = {name: number for number, names in enumerate(lists) for name in names}
    for name, wait in waits.items():
        assert all(path[second] < path[name] for second in wait)
    assert {str(operation.step.name) for operation in plan.operations} == set(graph)


@given(graph=graphs(), data=st.data())
def test_deletions_around_an_excluded_resource_keep_their_order(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """An indirect dependent is deleted first, although the resource between them is excluded.

    That is refused while the excluded one exists, unless it depends on nothing.
    """
    stored = data.draw(st.sampled_from(sorted(graph)))
    bench = Bench()
    bench.apply(site(graph))
    if graph[stored]:
        with pytest.raises(UsageError, match=rf"Thing\[{stored}\]"):
            bench.plan({}, prune=True, excludes=(f"Thing[{stored}]",))
        away = bench.state.records["thing", stored]._replace(is_=None)
        bench.store.commit(StackName(PROJECT, "default"), Commit(put=[away]))
    waits = before(bench.plan({}, prune=True, excludes=(f"Thing[{stored}]",)))
    expected = {name: rest - {stored} for name, rest in beneath(graph).items() if name != stored}
    assert waits == expected


@given(graph=graphs())
def test_replacements_delete_in_reverse_and_create_in_order(graph: dict[str, list[str]]) -> None:
    """Each resource is deleted after its dependents and created after its dependencies."""
    bench = Bench()
    lifecycle = {"replace": "delete_first"}
    bench.apply(site(graph, image="x", lifecycle=lifecycle))
    plan = bench.plan(site(graph, image="y", lifecycle=lifecycle))
    waits = {
        (str(operation.step.name), operation.removal): {
            (str(plan.operations[second].step.name), plan.operations[second].removal)
            for second in plan.waits.get(operation.number, ())
        }
        for operation in plan.operations
    }
    for name, needed in graph.items():
        assert waits[name, False] >= {(name, True), *((another, False) for another in needed)}
        for peer in needed:
            assert (name, True) in waits[peer, True]
    bench.apply(site(graph, image="y", lifecycle=lifecycle))
    gone = [name for verb, _, name in bench.world.calls if verb == "delete"]
    calls = [name for verb, _, name in bench.world.calls if verb == "create"]
    assert sorted(gone) == sorted(calls) == sorted(graph)
    for name, needed in graph.items():
        assert all(
            gone.index(name) < gone.index(neighbour) and calls.index(neighbour) < calls.index(name)
            for neighbour in needed
        )


@given(graph=graphs(), data=st.data())
def test_creations_around_an_excluded_resource_keep_their_order(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """A target waits for an indirect dependency through a resource that exists and is no target."""
    stored = data.draw(st.sampled_from(sorted(graph)))
    bench = Bench()
    bench.put("thing", **{stored: {}})
    plan = bench.plan(site(graph), excludes=(f"Thing[{stored}]",))
    needs: dict[str, set[str]] = {}
    for name, direct in graph.items():
        needs[name] = set(direct).union(*(needs[second] for second in direct))
    assert before(plan) == {name: need - {stored} for name, need in needs.items() if name != stored}
