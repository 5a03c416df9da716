"""What ``--prune`` deletes, and when it does not: nothing is pruned after a failure, except by ``--prune-always``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.render import plan as plan_text
from tests.lifecycle.world import acted

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

OLD: dict[str, Any] = {"Thing[old]": {"size": 1}, "Engine[old]": {"size": 1}}
NEW: dict[str, Any] = {"Thing[new]": {"size": 2}}
SKIPPED = {"Thing[old]": ("delete", "skipped"), "Engine[old]": ("delete", "skipped")}


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("trouble", ["raise", "fail", "lie"])
def test_nothing_is_pruned_after_a_failure(bench: Bench, trouble: str, parallel: int) -> None:
    """The successor could not be created: its predecessor stays, of the same type or another, until the next run."""
    bench.apply(OLD)
    with bench.troubled(new=trouble):
        report = bench.apply(NEW, prune=True, parallel=parallel)
    assert acted(report) == {"Thing[new]": ("create", "failed"), **SKIPPED}
    assert (bench.names(), bench.names("engine"), report.exit_code) == (["old"], ["old"], 1)
    reason = "skipped because Thing[new] failed; --prune-always deletes it all the same"
    assert f"warning: Thing[old]: {reason}" in bench.lines
    assert bench.apply(NEW, prune=True, parallel=parallel).exit_code == 0
    assert (bench.names(), bench.names("engine")) == (["new"], [])


@pytest.mark.parametrize("parallel", [1, 4])
def test_prune_always_deletes_after_a_failure(bench: Bench, parallel: int) -> None:
    """It implies ``--prune``."""
    bench.apply(OLD)
    with bench.troubled(new="raise"):
        report = bench.apply(NEW, prune_always=True, parallel=parallel)
    assert acted(report)["Thing[old]"] == ("delete", "success")
    assert (bench.names(), bench.names("engine"), report.exit_code) == ([], [], 1)


def test_the_plan_shows_that_nothing_would_be_pruned(bench: Bench) -> None:
    """A step that fails in the plan already; the counts of plan and run are the same."""
    bench.apply({**OLD, "Thing[new]": {"image": "x"}})
    site = {"Thing[new]": {"image": "y"}}
    plan = bench.plan(site, prune=True)
    assert "- Thing[old] (no longer declared; skipped because Thing[new] fails)" in list(plan_text.lines(plan))
    assert plan.summary._replace(noop=False) == bench.apply(site, prune=True).summary
    assert (plan.summary.deleted, plan.summary.skipped, plan.summary.failed) == (0, 2, 1)
    assert bench.plan(site, prune_always=True).summary.deleted == 2
    assert bench.names() == ["new", "old"]


def test_nothing_is_pruned_where_a_declared_resource_is_skipped(bench: Bench) -> None:
    """An earlier deletion under ``removed`` or a failure of anything declared counts, and so does what was skipped."""
    bench.apply({"Thing[old]": {}, "Setting[s]": {"value": 1}} | {"Engine[e]": {"size": 1}})
    bench.world.trouble = {("engine", "e"): "raise"}
    site = {"Engine[e]": {"size": 2}, "Thing[new]": {"require": "Engine[e]"}}
    report = bench.apply(site, prune=True)
    assert acted(report)["Thing[new]"] == ("create", "skipped")
    assert acted(report)["Thing[old]"] == ("delete", "skipped")


def test_orphans_that_would_be_forgotten_are_kept_too(bench: Bench) -> None:
    """Their records, with the ownership, still exist when the error is corrected."""
    bench.apply({"Thing[old]": {"lifecycle": {"retain": True}}})
    with bench.troubled(new="raise"):
        report = bench.apply(NEW, prune=True)
    assert acted(report)["Thing[old]"] == ("forget", "skipped")
    reason = "skipped because Thing[new] failed; --prune-always forgets it all the same"
    assert f"warning: Thing[old]: {reason}" in bench.lines
    assert bench.record("Thing[old]") is not None


def test_a_deletion_that_fails_keeps_only_what_it_depends_on(bench: Bench) -> None:
    """B cannot be deleted: A stays because B needs it, and C goes."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {}, "Engine[e]": {}})
    with bench.troubled(b="raise"):
        report = bench.apply(NEW, prune=True)
    assert acted(report) == {
        "Thing[new]": ("create", "success"),
        "Thing[c]": ("delete", "success"),
        "Thing[b]": ("delete", "failed"),
        "Thing[a]": ("delete", "skipped"),
        "Engine[e]": ("delete", "success"),
    }
    assert bench.names() == ["a", "b", "new"]


def test_a_protected_orphan_keeps_no_other_orphan(bench: Bench) -> None:
    """Its deletion fails in the plan, and it is not declared: the others are deleted."""
    bench.apply({"Thing[old]": {}, "Thing[kept]": {"lifecycle": {"protect": True}}})
    report = bench.apply(NEW, prune=True)
    assert acted(report)["Thing[kept]"] == ("delete", "failed")
    assert bench.names() == ["kept", "new"]


def test_a_noop_resource_does_not_prevent_pruning(bench: Bench) -> None:
    """It has neither failed nor been skipped."""
    bench.apply(OLD)
    bench.apply({"Thing[new]": {"noop": True}}, prune=True)
    assert (bench.names(), bench.names("engine")) == ([], [])


@pytest.mark.parametrize("parallel", [1, 4])
def test_an_orphan_that_a_replacement_waits_for_is_deleted_before_it(bench: Bench, parallel: int) -> None:
    """B depends on A, which is replaced: B is deleted first; other orphans are deleted after all declared resources."""
    lifecycle = {"replace": "delete_first"}
    bench.apply(
        {"Thing[a]": {"image": "x", "lifecycle": lifecycle}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {}}
    )
    site = {"Thing[a]": {"image": "y", "lifecycle": lifecycle}, "Engine[e]": {}}
    bench.apply(site, prune=True, parallel=parallel)
    result = [(verb, name) for verb, _, name in bench.world.calls]
    assert result.index(("delete", "b")) < result.index(("delete", "a")) < result.index(("delete", "c"))
    assert result[-1] == ("delete", "c")
    bench.apply({"Thing[a]": {"image": "y", "lifecycle": lifecycle}, "Thing[b]": {"require": "Thing[a]"}})
    site = {"Engine[new]": {}, "Thing[a]": {"image": "z", "lifecycle": lifecycle}}
    bench.world.trouble = {("engine", "new"): "raise"}
    report = bench.apply(site, prune=True)
    assert acted(report)["Thing[b]"] == ("delete", "skipped")
    assert acted(report)["Thing[a]"] == ("replace", "skipped")
    assert bench.names() == ["a", "b"]


@pytest.mark.parametrize("parallel", [1, 4])
def test_orphans_are_deleted_after_all_declared_resources(bench: Bench, parallel: int) -> None:
    """Also in parallel runs without a relationship between them."""
    bench.apply({f"{kind}[{name}]": {} for kind in ("Thing", "Engine") for name in "abc"})
    bench.apply(
        {f"{kind}[{name}]": {} for kind in ("Engine", "Thing") for name in "xyz"}, prune=True, parallel=parallel
    )
    verbs = [verb for verb, _, _ in bench.world.calls]
    assert verbs == ["create"] * 6 + ["delete"] * 6
