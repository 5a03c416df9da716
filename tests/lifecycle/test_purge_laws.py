"""The laws of ``purge`` for any world: it deletes what both lists have and nobody declares, and never anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api import Runtime
from resource_api.model.values.errors import ManifestError
from resource_api.system.log import Log
from tests.lifecycle.world import PROJECT, Bench

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NAMES = "abcdef"
SOME = st.sets(st.sampled_from(NAMES))
LIFECYCLES = st.sampled_from([{}, {"protect": True}, {"retain": True}, {"external": True}])


def _site(declared: Collection[str], **entry: Any) -> dict[str, Any]:
    resources = {f"Thing[{name}]": {} for name in sorted(declared)}
    return {"project": PROJECT, "resources": resources, "purge": [{"type": "Thing", **entry}]}


def _record(bench: Bench, lifecycles: Mapping[str, Mapping[str, Any]]) -> None:
    """Record things of this stack with their lifecycles; each exists already, or is created."""
    resources = {f"Thing[{name}]": {"lifecycle": dict(lifecycle)} for name, lifecycle in lifecycles.items()}
    for name, lifecycle in lifecycles.items():
        if "external" in lifecycle:
            bench.put("thing", **{name: {}})
    assert bench.runtime.apply({"project": PROJECT, "resources": resources}).exit_code == 0


def _record_elsewhere(bench: Bench, names: Collection[str]) -> None:
    runtime = Runtime(bench.registry, state=bench.store, project="other", log=Log("err", lambda _line: None))
    assert runtime.apply({"resources": {f"Thing[{name}]": {} for name in sorted(names)}}).exit_code == 0


@settings(max_examples=60, deadline=None)
@given(
    present=SOME,
    declared=SOME,
    recorded=st.dictionaries(st.sampled_from(NAMES), LIFECYCLES),
    elsewhere=SOME,
    exceptions=SOME,
    vanished=SOME,
    added=SOME,
    parallel=st.sampled_from([1, 3]),
)
def test_only_strays_of_both_lists_go(
    *,
    present: set[str],
    declared: set[str],
    recorded: dict[str, dict[str, bool]],
    elsewhere: set[str],
    exceptions: set[str],
    vanished: set[str],
    added: set[str],
    parallel: int,
) -> None:
    """What is declared, recorded elsewhere, protected, retained, only read or excepted stays; so does what is new."""
    bench = Bench()
    bench.put("thing", **{name: {} for name in sorted(present)})
    _record(bench, recorded)
    _record_elsewhere(bench, elsewhere)
    stored = {name for name, lifecycle in recorded.items() if lifecycle}
    spared = declared | stored | elsewhere | exceptions
    before = set(bench.names())
    gone = vanished - declared

    def between(_plan: Any) -> None:
        for name in gone:
            bench.world.things["thing"].pop(name, None)
        bench.put("thing", **{name: {} for name in sorted(added)})

    site = _site(declared, at_most=len(NAMES), **({"except": sorted(exceptions)} if exceptions else {}))
    bench.world.calls.clear()
    report = bench.runtime.apply(site, on_plan=between, parallel=parallel)
    assert report.exit_code == 0
    planned = before - spared
    expected = planned & ((before - gone) | added)
    deletions = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert sorted(deletions) == sorted(expected)
    assert set(bench.names()) == ((before - gone) | added | declared) - expected
    names = {record.name for record in bench.state.records.values()}
    assert names.isdisjoint(expected)
    assert declared <= names


@settings(max_examples=30, deadline=None)
@given(present=SOME, declared=SOME, at_most=st.integers(0, 6))
def test_the_limit_is_all_or_nothing(present: set[str], declared: set[str], at_most: int) -> None:
    """Beyond ``at_most`` nothing at all is changed; within it everything goes; a second run has nothing to do."""
    bench = Bench()
    bench.put("thing", **{name: {} for name in sorted(present)})
    before, site = bench.world.copy(), _site(declared, at_most=at_most)
    if len(present - declared) > at_most:
        with pytest.raises(ManifestError) as refused:
            bench.runtime.apply(site)
        assert (refused.value.exit_code, bench.world.things) == (1, before)
        return
    report = bench.runtime.apply(site)
    assert (report.summary.deleted, set(bench.names())) == (len(present - declared), declared)
    assert not bench.runtime.apply(site).changed


@settings(max_examples=30, deadline=None)
@given(present=SOME, trouble=st.sampled_from(["raise", "fail", "lie"]), parallel=st.sampled_from([1, 4]))
def test_a_failure_keeps_everything(present: set[str], trouble: str, parallel: int) -> None:
    """However a declared resource fails."""
    bench = Bench()
    bench.put("thing", **{name: {} for name in sorted(present)})
    bench.world.trouble = {("engine", "x"): trouble}
    site = _site(set(), at_most=9)
    site["resources"] = {"Engine[x]": {"size": 1}}
    report = bench.runtime.apply(site, parallel=parallel)
    assert (report.exit_code, set(bench.names())) == (1, present)
    assert report.summary.skipped == len(present)
