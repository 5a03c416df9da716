"""The effects of a failure, a false report or a crash on other resources, on state, and on the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.world import FIRST, acted, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

SIX = {
    "Thing[a]": {},
    "Thing[b]": {"require": "Thing[a]"},
    "Thing[c]": {"require": "Thing[b]"},
    "Thing[d]": {},
    "Thing[e]": {"require": "Thing[d]"},
    "Thing[f]": {"require": ["Thing[b]", "Thing[d]"]},
}


@pytest.mark.parametrize("trouble", ["fail", "raise"])
def test_a_failure_skips_its_dependents_and_nothing_else(bench: Bench, trouble: str) -> None:
    """Independent resources, and their dependents, are applied; the next run does the rest."""
    with bench.troubled(b=trouble):
        report = bench.apply(SIX)
    status = {reference: status for reference, (_, status) in acted(report).items()}
    assert status == {
        "Thing[a]": "success",
        "Thing[b]": "failed",
        "Thing[c]": "skipped",
        "Thing[d]": "success",
        "Thing[e]": "success",
        "Thing[f]": "skipped",
    }
    assert (report.exit_code, report.summary.failed, report.summary.skipped) == (1, 1, 2)
    assert bench.apply(SIX).exit_code == 0
    assert planned(bench.plan(SIX)) == {}


@pytest.mark.parametrize("before", [{}, {"b": {"size": 1}}])
def test_a_resource_left_out_of_a_call_keeps_its_record(bench: Bench, before: dict[str, dict[str, int]]) -> None:
    """Its prerequisite failed in the same call: it was not created, and its record does not change."""
    resources = {"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}}
    if before:
        bench.apply(resources | {"Thing[b]": before["b"]})
    recorded = bench.record("Thing[b]")
    with bench.troubled(a="fail"):
        report = bench.apply({"Thing[a]": {"size": 5}, "Thing[b]": {"size": 2, "require": "Thing[a]"}})
    assert acted(report)["Thing[b]"][1] == "skipped"
    assert bench.record("Thing[b]") == recorded


def test_a_dependent_in_the_call_of_a_false_report_is_applied(bench: Bench) -> None:
    """The failure is detected only after the call; later calls skip dependents."""
    with bench.troubled(b="lie"):
        report = bench.apply(SIX | {"Engine[e]": {"require": "Thing[c]"}, "Engine[f]": {"require": "Thing[b]"}})
    status = {reference: status for reference, (_, status) in acted(report).items()}
    assert status["Thing[b]"] == "failed"
    assert (status["Thing[c]"], status["Thing[f]"]) == ("success", "success")
    assert (status["Engine[e]"], status["Engine[f]"]) == ("success", "skipped")


def test_fail_fast_skips_everything_after_the_first_failure(bench: Bench) -> None:
    """``--fail-fast``: later steps are skipped, and the reason is shown."""
    with bench.troubled(a="raise"):
        report = bench.apply({"Thing[a]": {}, "Engine[e]": {}}, fail_fast=True)
    assert acted(report)["Engine[e]"] == ("create", "skipped")


def test_a_failed_creation_is_not_recorded(bench: Bench) -> None:
    """Nothing exists, so there is nothing to record."""
    with bench.troubled(a="raise"):
        bench.apply({"Thing[a]": {}})
    assert bench.state.records == {}


def test_a_partial_creation_is_recorded_and_completed_later(bench: Bench) -> None:
    """It is ours and partial; the next run updates it. Terraform taints and replaces it."""
    with bench.troubled(a="half"):
        assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 1
    record = bench.record("Thing[a]")
    assert record is not None
    assert (record.owned, record.status) == (True, "partial")
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {"Thing[a]": ("update", "success")}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.status == "ready"


def test_a_failed_update_keeps_the_former_inputs(bench: Bench) -> None:
    """State contains the present values, and the next run tries again."""
    bench.apply({"Thing[a]": {"size": 1}})
    with bench.troubled(a="raise"):
        bench.apply({"Thing[a]": {"size": 2}})
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.should["size"] == 1
    assert planned(bench.plan({"Thing[a]": {"size": 2}})) == {"Thing[a]": "update"}


def test_a_failed_deletion_keeps_the_record(bench: Bench) -> None:
    """The resource still exists."""
    bench.apply({"Thing[a]": {}})
    with bench.troubled(a="raise"):
        assert acted(bench.destroy({})) == {"Thing[a]": ("delete", "failed")}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.owned


def test_a_false_success_is_detected(bench: Bench) -> None:
    """The declared values must be read back; both values are named."""
    bench.apply({"Thing[a]": {"size": 1}})
    with bench.troubled(a="lie"):
        (report,) = bench.apply({"Thing[a]": {"size": 2}}).steps
    assert "did not converge: size is 1, should be 2" in report.error


def test_a_deletion_without_effect_is_detected(bench: Bench) -> None:
    """The resource still exists, and is still recorded."""
    bench.apply({"Thing[a]": {}})
    with bench.troubled(a="lie"):
        (report,) = bench.destroy({}).steps
    assert "did not converge" in report.error
    assert bench.record("Thing[a]") is not None


def test_a_crash_in_a_provider_ends_the_run_with_state_written(bench: Bench) -> None:
    """Finished steps are recorded, others are skipped, and the next run continues."""
    site = {"Thing[a]": {}, "Engine[e]": {}, "Thing[b]": {}}
    bench.world.trouble = {("engine", "e"): "crash"}
    report = bench.apply(site)
    assert acted(report) == {
        "Thing[a]": ("create", "success"),
        "Engine[e]": ("create", "failed"),
        "Thing[b]": ("create", "skipped"),
    }
    assert report.exit_code == 1
    bench.world.trouble = {}
    assert acted(bench.apply(site)) == {"Engine[e]": ("create", "success"), "Thing[b]": ("create", "success")}


def test_a_crash_in_a_call_keeps_what_the_segment_did_without_a_call(bench: Bench) -> None:
    """What was imported is recorded, and what was forgotten is not: the report says so."""
    bench.apply({"Thing[c]": {"lifecycle": {"retain": True}}})
    bench.put("thing", a={"size": 1})
    with bench.troubled(b="crash"):
        report = bench.apply({"Thing[a]": {"size": 1, "lifecycle": {"import": "a"}}, "Thing[b]": {}})
    assert acted(report) == {"Thing[a]": ("import", "success"), "Thing[b]": ("create", "failed")}
    assert bench.record("Thing[a]") is not None
    with bench.troubled(a="crash"):
        report = bench.apply({}, prune=True)
    assert acted(report) == {"Thing[c]": ("forget", "success"), "Thing[a]": ("delete", "failed")}
    assert bench.record("Thing[c]") is None


@pytest.mark.parametrize("trouble", ["kill", "late"])
@pytest.mark.parametrize("before", [{}, {"Thing[a]": {"size": 1}}])
def test_a_kill_in_a_call_is_resolved_by_reading(bench: Bench, trouble: str, before: dict[str, dict[str, int]]) -> None:
    """Before or after the change, a creation or an update: the next run reads the result, and the resource is ours."""
    bench.apply(before)
    site = {"Thing[a]": {"size": 2}}
    with bench.troubled(a=trouble):
        bench.killed(site)
    assert bench.state.intents
    assert bench.apply(site).exit_code == 0
    assert not bench.state.intents
    assert planned(bench.plan(site)) == {}
    bench.destroy({})
    assert bench.names() == []


@pytest.mark.parametrize("site", [{"ensure": "absent"}, {"image": "new", "lifecycle": FIRST}])
@pytest.mark.parametrize("trouble", ["raise", "kill"])
def test_a_creation_in_doubt_that_cannot_be_deleted_stays_ours(
    bench: Bench, site: dict[str, Any], trouble: str
) -> None:
    """It has no record before: it gets one before its deletion is tried."""
    with bench.troubled(a="late"):
        bench.killed({"Thing[a]": {"image": "old"}})
    with bench.troubled(a=trouble):
        if trouble == "kill":
            bench.killed({"Thing[a]": site})
        else:
            bench.apply({"Thing[a]": site})
    assert bench.names() == ["a"]
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})


def test_a_creation_in_doubt_stays_so_while_its_resource_is_noop(bench: Bench) -> None:
    """Nothing is recorded of it then, and it notifies nobody; the next run finds that it is ours."""
    with bench.troubled(a="late"):
        bench.killed({"Thing[a]": {"size": 1}})
    for size in (1, 2):
        site = {"Thing[a]": {"size": size, "noop": True}, "Engine[e]": {"subscribe": "Thing[a]"}}
        bench.apply(site)
        assert ("refresh", "engine", "e") not in bench.world.calls
    bench.apply({"Thing[a]": {"size": 1}})
    assert not bench.state.intents
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.owned


@pytest.mark.parametrize("fuse", range(8))
def test_a_kill_at_any_write_loses_nothing(bench: Bench, fuse: int) -> None:
    """A replacement, an update, a refresh and a deletion have the result of an uninterrupted run."""
    lifecycle = {"replace": "create_first"}
    first = {"Thing[web]": {"name": "w1", "lifecycle": lifecycle}, "Engine[e]": {"size": 1}, "Thing[gone]": {}}
    bench.apply(first)
    site = {
        "Thing[web]": {"name": "w2", "lifecycle": lifecycle, "notify": "Engine[e]"},
        "Engine[e]": {"size": 2},
    }
    bench.store.fuse = fuse
    try:
        bench.killed(site, prune=True)
    except AssertionError:
        assert fuse > 3
    bench.apply(site, prune=True)
    assert (bench.names(), bench.names("engine")) == (["w2"], ["e"])
    assert planned(bench.plan(site, prune=True)) == {}
    assert {key[1] for key in bench.state.records} == {"w2", "e"}
    assert not bench.state.owed


def test_a_refresh_that_failed_is_owed_until_it_has_succeeded(bench: Bench) -> None:
    """The change is not repeated, the refresh is."""
    site = {"Thing[a]": {"size": 1, "notify": "Engine[e]"}, "Engine[e]": {}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    bench.world.trouble = {("engine", "e"): "raise"}
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success"), "Engine[e]": ("refresh", "failed")}
    assert bench.apply(site).exit_code == 1
    bench.world.trouble = {}
    assert planned(bench.plan(site)) == {"Engine[e]": "refresh"}
    assert acted(bench.apply(site)) == {"Engine[e]": ("refresh", "success")}
    assert planned(bench.plan(site)) == {}


@pytest.mark.parametrize("trouble", ["none", "raise", "target"])
def test_an_owed_refresh_goes_with_a_resource_that_was_renamed(bench: Bench, trouble: str) -> None:
    """It is owed until it has succeeded under the new name, also if that takes several runs."""
    bench.apply({"Thing[a]": {"size": 1}, "Engine[e]": {}})
    bench.world.trouble = {("engine", "e"): "raise"}
    bench.apply({"Thing[a]": {"size": 2, "notify": "Engine[e]"}, "Engine[e]": {}})
    bench.world.things["engine"]["f"] = bench.world.things["engine"].pop("e")
    site = {"Thing[a]": {"size": 2, "notify": "Engine[f]"}, "Engine[f]": {"lifecycle": {"aliases": ["e"]}}}
    assert planned(bench.plan(site)) == {"Engine[f]": "refresh"}
    if trouble != "none":
        bench.world.trouble = {("engine", "f"): "raise"}
        bench.apply(site, **({"targets": ["Thing[a]"]} if trouble == "target" else {}))
        bench.world.trouble = {}
    assert acted(bench.apply(site)) == {"Engine[f]": ("refresh", "success")}
    assert planned(bench.plan(site)) == {}
    assert not bench.state.owed


def test_a_refresh_that_was_skipped_is_owed(bench: Bench) -> None:
    """E depends on a failed resource: a later run does its refresh."""
    site = {
        "Thing[a]": {"size": 1, "notify": "Engine[e]"},
        "Thing[b]": {"size": 1},
        "Engine[e]": {"require": "Thing[b]"},
    }
    bench.apply(site)
    site["Thing[a]"]["size"] = site["Thing[b]"]["size"] = 2
    with bench.troubled(b="raise"):
        assert acted(bench.apply(site))["Engine[e]"][1] == "skipped"
    assert acted(bench.apply(site)) == {"Thing[b]": ("update", "success"), "Engine[e]": ("refresh", "success")}


def test_an_absent_resource_is_not_refreshed(bench: Bench) -> None:
    """An engine that is absent, or is deleted in the same run, is not refreshed, and no refresh is owed."""
    site = {"Thing[a]": {"notify": "Engine[e]"}, "Engine[e]": {"ensure": "absent"}}
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    assert not bench.state.owed
    bench.put("engine", e={})
    site["Thing[a]"] = {"size": 2, "notify": "Engine[e]"}  # type: ignore[dict-item] # a number among texts
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success"), "Engine[e]": ("delete", "success")}
    assert not any(verb == "refresh" for verb, _, _ in bench.world.calls)
    assert not bench.state.owed


def test_an_unchanged_resource_notifies_nobody(bench: Bench) -> None:
    """Neither does a failed or noop one."""
    site = {"Thing[a]": {"size": 1, "notify": "Engine[e]"}, "Engine[e]": {}}
    bench.apply(site)
    site["Thing[a]"].update(size=2, noop=True)
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "noop")}
    site["Thing[a]"].update(noop=False)
    with bench.troubled(a="raise"):
        assert acted(bench.apply(site)) == {"Thing[a]": ("update", "failed"), "Engine[e]": ("refresh", "skipped")}
    assert not bench.state.owed
