"""A component adds only names: its resources are applied as if they were in the manifest itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, ComponentDefinition
from tests.lifecycle.world import Bench, acted

DEPTH = 3


class Node(NamedTuple):
    """A thing, or a component that contains others; ``needs`` are the numbers of earlier ones on the same level."""

    inner: tuple[Node, ...] | None
    needs: frozenset[int]


def nodes(depth: int) -> st.SearchStrategy[tuple[Node, ...]]:
    """Generate the nodes of a level, at most ``depth`` levels deep."""
    inner = st.none() if not depth else st.none() | nodes(depth - 1)
    return st.lists(st.builds(Node, inner, st.frozensets(st.integers(0, 3), max_size=2)), max_size=4).map(tuple)


def build(m: Any, level: tuple[Node, ...], depth: int) -> None:
    """Declare a level with the API of manifests; each title contains its position."""
    created: list[Any] = []
    for number, node in enumerate(level):
        require = [created[need] for need in node.needs if need < number]
        if node.inner is None:
            created.append(m.thing(f"t{number}", name=f"{m.inputs.path}{number}", require=require))
        else:
            path = f"{m.inputs.path}{number}"
            created.append(
                m.resource(f"level{depth}", f"c{number}", path=path, made=packed(node.inner), require=require)
            )


def flat(level: tuple[Node, ...], path: str, outer: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the flat resources of a level by the things' names, and all those names."""
    resources: dict[str, Any] = {}
    created: list[list[str]] = []
    for number, node in enumerate(level):
        needs = [*outer, *(name for need in node.needs if need < number for name in created[need])]
        name = f"{path}{number}"
        if node.inner is None:
            resources[f"Thing[{name}]"] = {"require": [f"Thing[{item}]" for item in needs]}
            created.append([name])
        else:
            inner, names = flat(node.inner, name, needs)
            resources |= inner
            created.append(names)
    return resources, [name for names in created for name in names]


def town() -> Bench:
    """Return a bench in which levels can be declared; each level is a component that contains the next."""
    bench = Bench()
    inputs = {"path": Attribute("String", "Where it stands."), "made": Attribute("Any", "What it holds.")}
    for depth in range(DEPTH):
        definition = ComponentDefinition(name=f"level{depth}", docs="A level.", inputs=inputs)

        def made(m: Any, depth: int = depth) -> None:
            build(m, unpacked(m.inputs.made), depth + 1)

        bench.registry.register_component(definition, made)
    return bench


def packed(level: tuple[Node, ...]) -> list[Any]:
    """Return a level as data."""
    return [[None if node.inner is None else packed(node.inner), sorted(node.needs)] for node in level]


def unpacked(data: Any) -> tuple[Node, ...]:
    """Return the level of ``packed`` data."""
    return tuple(Node(None if inner is None else unpacked(inner), frozenset(needs)) for inner, needs in data)


@given(nodes(DEPTH - 1))
def test_a_component_adds_only_names(level: tuple[Node, ...]) -> None:
    """The calls and their order are the same; afterwards the flat manifest finds everything in sync."""
    nested, plain = town(), town()
    site = {"Level0[top]": {"path": "n", "made": packed(level)}}
    resources, names = flat(level, "n", [])
    nested.apply(site)
    plain.apply(resources)
    assert nested.world.calls == plain.world.calls
    assert nested.names() == sorted(names)
    assert acted(nested.apply(site)) == {}
    plan = nested.plan(site)
    assert all(str(step.reference).startswith("Level0[top]/") for step in plan.steps)
    assert acted(nested.apply(resources)) == {}
    assert {str(record.reference) for record in nested.state.records.values()} == set(resources)
    assert acted(nested.apply(site)) == {}
    nested.destroy(site)
    plain.destroy(resources)
    assert nested.world.calls == plain.world.calls
    assert nested.state.records == {}
