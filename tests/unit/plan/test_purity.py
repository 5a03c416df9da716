"""Planning and applying change none of the values that they are given, and planning twice gives the same plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.values import Sensitive
from resource_api.plan import planner
from tests.lifecycle.world import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.options import Options
    from resource_api.model.provider_functions import PlannerQueries
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.prior.match import Prior

_ATOMS: Final = (str, int, float, bool, bytes, type(None))


def structure(value: Any, observed: dict[int, Any] | None = None) -> Any:
    """Return a deep copy of a value that can be compared: of values of ours every field, of functions the name."""
    observed = {} if observed is None else observed
    if isinstance(value, _ATOMS):
        return type(value).__name__, value
    if id(value) in observed:
        return observed[id(value)]
    observed[id(value)] = f"circle through {type(value).__name__}"
    result: Any
    if isinstance(value, Sensitive):
        result = structure(value.reveal(), observed)
    elif isinstance(value, dict):
        # A list of pairs, because the order counts.
        result = [(structure(key, observed), structure(item, observed)) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        result = [structure(entry, observed) for entry in value]
    elif isinstance(value, (set, frozenset)):
        result = sorted(map(repr, value))
    elif isinstance(value, TypeDefinition) or not type(value).__module__.startswith("resource_api."):
        result = getattr(value, "__qualname__", "")
    else:
        fields = getattr(value, "__dict__", None) or {name: getattr(value, name) for name in value.__slots__}
        result = [(name, structure(field, observed)) for name, field in fields.items()]
    observed[id(value)] = type(value).__name__, result
    return observed[id(value)]


class TwicePlanner:
    """Plans twice instead of once, and keeps every plan with its structure at that time."""

    def __init__(self) -> None:
        """Begin without a plan."""
        self.plans: list[tuple[ExecutionPlan, Any]] = []
        self._plan = planner.plan

    def plan(
        self, catalog: Catalog, prior: Prior, selected: set[int] | None, queries: PlannerQueries, options: Options
    ) -> ExecutionPlan:
        """Plan twice; compare the plans, and what was passed in with what it was before."""
        arguments = structure((catalog, prior, selected, options))
        first = self._plan(catalog, prior, selected, queries, options)
        planned = structure(first)
        second = self._plan(catalog, prior, selected, queries, options)
        assert structure((catalog, prior, selected, options)) == arguments
        assert structure(first) == planned
        assert structure(second) == planned
        self.plans.append((first, planned))
        return first

    def check(self) -> None:
        """Compare every plan with what it was when it was made."""
        for plan, planned in self.plans:
            assert structure(plan) == planned


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Yield a bench on which every run plans twice; after the test, no plan has changed."""
    twice = TwicePlanner()
    monkeypatch.setattr("resource_api.plan.planner.plan", twice.plan)
    yield Bench()
    assert twice.plans
    twice.check()


_ENGINE: Final[Mapping[str, Any]] = {"Engine[b]": {"size": 2, "subscribe": "Thing[a]"}}


def test_creating_updating_and_deleting(bench: Bench) -> None:
    """With refreshes, drift and pruning."""
    bench.apply({"Thing[a]": {"size": 1}, **_ENGINE})
    bench.world.things["thing"]["a"]["size"] = 5
    bench.apply({"Thing[a]": {"size": 2}, **_ENGINE})
    bench.apply({"Thing[a]": {"size": 2}}, prune=True)
    bench.destroy({})
    assert bench.names() == []


def test_values_that_become_known(bench: Bench) -> None:
    """An imperative resource is asked with a value that was read, and its entry keeps the unknown one."""
    bench.put("thing", a={"size": 3})
    resources = {
        "Thing[a]": {"colour": "red"},
        "Thing[b]": {"colour": "${Thing[a].serial}"},
        "Job[c]": {"size": "${Thing[a].size}"},
    }
    bench.apply(resources)
    assert bench.world.things["job"]["c"] == {"size": 3}
    bench.apply(resources)


def test_replacing(bench: Bench) -> None:
    """For an attribute, a trigger, a former name and other namevars."""
    lifecycle = {"replace": "delete_first"}
    trigger = {"Thing[b]": {"lifecycle": {**lifecycle, "replace_triggered_by": ["Thing[a]"]}}}
    bench.apply({"Thing[a]": {"image": "one", "lifecycle": lifecycle}, **trigger})
    bench.apply({"Thing[a]": {"image": "two", "lifecycle": lifecycle}, **trigger})
    bench.apply({"Thing[a]": {"name": "c", "lifecycle": lifecycle}, **trigger})
    moved = {"Thing[e]": {"name": "e", "lifecycle": {**lifecycle, "aliases": ["b"]}}}
    bench.apply({"Thing[a]": {"name": "c", "lifecycle": lifecycle}, **moved}, replace=("Thing[a]",))
    assert bench.names() == ["c", "e"]


def test_orphans_that_are_found_by_reading(bench: Bench) -> None:
    """The new resource of a replacement exists already, so the old one becomes an orphan while planning."""
    lifecycle = {"replace": "delete_first"}
    bench.apply({"Thing[a]": {"lifecycle": lifecycle}})
    bench.put("thing", b={})
    report = bench.apply({"Thing[a]": {"name": "b", "lifecycle": lifecycle}})
    assert (report.summary.deleted, bench.names()) == (1, ["b"])


def test_failures(bench: Bench) -> None:
    """A step that fails in the plan, and one that fails in the run."""
    bench.apply({"Thing[a]": {"image": "one"}})
    with bench.troubled(b="raise"):
        bench.apply({"Thing[a]": {"image": "two"}, "Thing[b]": {}, "Thing[c]": {"require": "Thing[b]"}})
    assert bench.names() == ["a"]
