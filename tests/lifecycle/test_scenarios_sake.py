"""Steps that another resource causes: not for unchanged resources, and never forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.render import plan as plan_text
from tests.lifecycle.world import acted

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

TRIGGERED: dict[str, Any] = {"size": 1, "lifecycle": {"replace_triggered_by": ["Thing[a]"]}}
AGAIN = {"Thing[b]": ("replace", "success")}


def calls(bench: Bench) -> list[tuple[str, str]]:
    """Return the names that were changed in the last run."""
    return [(verb, name) for verb, _, name in bench.world.calls]


@pytest.mark.parametrize("noop", [True, False])
def test_a_noop_resource_triggers_no_replacement(bench: Bench, noop: bool) -> None:  # noqa: FBT001 - both kinds of run
    """In a real run and in a dry run."""
    bench.apply({"Thing[a]": {"size": 1}, "Thing[b]": TRIGGERED})
    site = {"Thing[a]": {"size": 2, "noop": True}, "Thing[b]": TRIGGERED}
    assert acted(bench.apply(site, noop=noop)) == {"Thing[a]": ("update", "noop")}


def test_an_unchanged_trigger_replaces_nothing(bench: Bench) -> None:
    """Its value was unknown in the plan, and is the same as before during apply."""
    bench.put("thing", src={"size": 1, "serial": "S"})
    site: dict[str, Any] = {
        "Thing[src]": {"size": 1},
        "Thing[a]": {"colour": "${Thing[src].serial}"},
        "Thing[b]": TRIGGERED,
    }
    bench.apply(site)
    bench.apply(site)
    report = bench.apply({**site, "Thing[src]": {"size": 2}})
    assert acted(report) == {"Thing[src]": ("update", "success")}
    assert calls(bench) == [("update", "src")]
    assert report.summary.unchanged == 2


@pytest.mark.parametrize("way", ["skipped", "cut before", "cut within", "not deleted", "not among the targets"])
def test_a_triggered_replacement_that_was_not_done_is_done_later(bench: Bench, way: str) -> None:
    """If the run that changes the trigger cannot replace, for any reason, a later run does it, once."""
    first: dict[str, Any] = {"Thing[a]": {"size": 1}, "Thing[m]": {"size": 1}}
    triggered = {**TRIGGERED, "require": "Thing[m]"}
    bench.apply({**first, "Thing[b]": triggered})
    site = {"Thing[a]": {"size": 2}, "Thing[m]": {"size": 2}, "Thing[b]": triggered}
    if way == "skipped":
        with bench.troubled(m="raise"):
            assert bench.apply(site).summary.skipped == 1
    elif way == "not among the targets":
        bench.apply(site, targets=("Thing[a]", "Thing[m]"))
    elif way == "not deleted":
        with bench.troubled(b="raise"):
            assert acted(bench.apply(site))["Thing[b]"] == ("replace", "failed")
    else:
        # Segments of their own, so that something is written in between.
        site["Engine[e]"] = {"require": "Thing[a]", "before": "Thing[m]"}
        with bench.troubled(**{"m" if way == "cut before" else "b": "kill"}):
            bench.killed(site)
    assert acted(bench.apply(site)).items() >= AGAIN.items()
    assert acted(bench.apply(site)) == {}


def test_what_was_removed_for_a_trigger_is_recorded_as_gone(bench: Bench) -> None:
    """Although it was skipped later, because what it needs could not be created."""
    first = {"replace": "delete_first"}
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": first},
        "Thing[c]": {"image": "${Thing[a].name}", "lifecycle": first},
        "Gizmo[b]": {"require": "Thing[c]", "lifecycle": {"replace_triggered_by": ["Thing[a]"]}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    with bench.troubled(c="unmade"):
        bench.apply(site)
    record = bench.record("Gizmo[b]")
    assert record is not None
    assert (record.is_, record.status, bench.names("gizmo")) == (None, "pending", [])
    bench.apply(site)
    assert (bench.names(), bench.names("gizmo")) == (["a", "c"], ["b"])
    assert acted(bench.apply(site)) == {}


def test_deleted_with_a_noop_resource_is_deleted_itself(bench: Bench) -> None:
    """The other one stays, so it would not vanish with it."""
    stored: dict[str, Any] = {"lifecycle": {"deleted_with": "Thing[a]"}}
    bench.apply({"Thing[a]": {}, "Thing[b]": stored})
    bench.apply({"Thing[a]": {"ensure": "absent", "noop": True}, "Thing[b]": {"ensure": "absent", **stored}})
    assert bench.names() == ["a"]
    assert bench.record("Thing[b]") is None


@pytest.mark.parametrize("options", [{"targets": ("Thing[a]",)}, {"excludes": ("Engine[e]",)}])
def test_a_refresh_of_an_excluded_resource_is_owed(bench: Bench, options: dict[str, Any]) -> None:
    """The next run that selects it refreshes it, once."""
    bench.apply({"Thing[a]": {"size": 1, "notify": "Engine[e]"}, "Engine[e]": {}})
    site: dict[str, Any] = {"Thing[a]": {"size": 2, "notify": "Engine[e]"}, "Engine[e]": {}}
    assert acted(bench.apply(site, **options)) == {"Thing[a]": ("update", "success")}
    assert acted(bench.apply(site)) == {"Engine[e]": ("refresh", "success")}
    assert acted(bench.apply(site)) == {}


def test_a_command_that_needs_a_value_of_a_noop_resource_is_noop_too(bench: Bench) -> None:
    """Its dependents are not blocked."""
    site: dict[str, Any] = {
        "Thing[a]": {"noop": True},
        "Job[j]": {"name": "${Thing[a].name}j", "size": 1, "require": "Thing[a]"},
        "Setting[s]": {"require": "Job[j]"},
    }
    bench.put("setting", s={"value": 1})
    site["Job[j]"] = {"size": 1, "tag": "t"}
    site["Job[j]"]["size"] = "${Thing[a].size}"
    report = bench.apply(site)
    assert report.exit_code == 0
    assert acted(report) == {"Thing[a]": ("create", "noop"), "Job[j]": ("run", "noop")}
    assert calls(bench) == []


def test_an_external_resource_yields_its_present_values(bench: Bench) -> None:
    """Declared values do not count, and are not required."""
    bench.put("thing", a={"size": 1})
    bench.apply({"Thing[a]": {"size": 5, "lifecycle": {"external": True}}, "Thing[b]": {"size": "${Thing[a].size}"}})
    assert bench.world.things["thing"]["b"]["size"] == 1
    assert bench.world.things["thing"]["a"] == {"size": 1}


def test_an_external_resource_is_never_run_refreshed_or_deleted(bench: Bench) -> None:
    """Also if it is notified or declared ``owned``."""
    outer: dict[str, Any] = {"lifecycle": {"external": True, "owned": True}}
    bench.put("thing", x={"size": 1})
    bench.put("engine", e={"size": 1})
    site: dict[str, Any] = {
        "Thing[x]": outer,
        "Engine[e]": outer,
        "Job[j]": outer,
        "Thing[a]": {"notify": ["Engine[e]", "Job[j]"]},
    }
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    bench.destroy(site)
    assert calls(bench) == [("delete", "a")]
    assert bench.names() == ["x"]


def test_nothing_is_deleted_for_a_replacement_that_cannot_be_completed(bench: Bench) -> None:
    """A failed dependency prevents it, also through an unchanged resource."""
    site: dict[str, Any] = {
        "Thing[a]": {"size": 1},
        "Thing[c]": {"require": "Thing[a]"},
        "Engine[d]": {"require": "Thing[c]"},
    }
    bench.apply(site)
    with bench.troubled(a="raise"):
        report = bench.apply({**site, "Thing[a]": {"size": 2}}, replace=("Engine[d]",))
    assert acted(report)["Engine[d]"] == ("replace", "skipped")
    assert bench.names("engine") == ["d"]
    assert ("delete", "d") not in calls(bench)


def test_a_replacement_is_reported_when_it_is_complete(bench: Bench) -> None:
    """With create_first after the deletion of the old one: no replacement is reported that fails later."""
    first = {"lifecycle": {"replace": "create_first"}}
    bench.apply({"Thing[b]": {"name": "b1", **first}})
    with bench.troubled(b1="raise"):
        report = bench.apply({"Thing[b]": {"name": "b2", **first}})
    assert acted(report) == {"Thing[b]": ("replace", "failed")}
    assert not [line for line in bench.lines if line.endswith("replaced")]


def test_fail_fast_starts_nothing_within_a_call(bench: Bench) -> None:
    """With --fail-fast neither in the same call, nor when the rest of a call is tried again."""
    site: dict[str, Any] = {f"Thing[{name}]": {} for name in "abcd"}
    with bench.troubled(b="raise"):
        report = bench.apply(site, fail_fast=True)
    assert bench.names() == ["a"]
    assert acted(report)["Thing[c]"] == acted(report)["Thing[d]"] == ("create", "skipped")
    assert [name for _, name in calls(bench)] == ["a", "b", "b"]


def test_outputs_that_are_not_recorded_are_not_shown(bench: Bench) -> None:
    """A run with failures or targets shows those of the run before."""
    outputs = {"o": "${Thing[a].size}"}
    second: dict[str, Any] = {"Thing[z]": {"size": 1}}
    assert bench.apply({"Thing[a]": {"size": 1}, **second}, outputs=outputs).outputs == {"o": 1}
    changed: dict[str, Any] = {"Thing[a]": {"size": 2}, "Thing[z]": {"size": 2}}
    with bench.troubled(z="raise"):
        assert bench.apply(changed, outputs=outputs).outputs == {"o": 1}
    assert bench.apply(changed, outputs=outputs, targets=("Thing[z]",)).outputs == {"o": 1}
    assert bench.apply(changed, outputs=outputs).outputs == {"o": 2}


def test_a_noop_run_shows_unknown_values_as_planned(bench: Bench) -> None:
    """Its counts are those of its steps."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1}, "Thing[b]": {"colour": "${Thing[a].serial}"}}
    bench.apply(site)
    site = {**site, "Thing[a]": {"size": 2}}
    plan, report = bench.plan(site, noop=True), bench.apply(site, noop=True)
    assert plan.summary.updated == report.summary.updated == 2


def test_ignore_changes_of_ensure_prevents_a_deletion(bench: Bench) -> None:
    """As for any other attribute."""
    bench.put("thing", a={"size": 1})
    site: dict[str, Any] = {"Thing[a]": {"ensure": "absent", "lifecycle": {"ignore_changes": ["ensure"]}}}
    assert acted(bench.apply(site)) == {}
    assert bench.names() == ["a"]


def test_a_plan_shows_steps_that_a_failure_blocks(bench: Bench) -> None:
    """The counts of the plan are those of the run, and no blocked step is shown as planned."""
    bench.apply({"Thing[a]": {"image": "x"}, "Thing[c]": {"require": "Thing[a]"}})
    site: dict[str, Any] = {
        "Thing[a]": {"image": "y"},
        "Thing[b]": {"require": "Thing[a]"},
        "Thing[c]": {"require": "Thing[a]"},
        "Thing[d]": {},
    }
    plan = bench.plan(site)
    assert "+ Thing[b] (skipped because Thing[a] fails)" in list(plan_text.lines(plan))
    assert plan.summary._replace(noop=False) == bench.apply(site).summary
    assert (plan.summary.created, plan.summary.skipped, plan.summary.failed) == (1, 2, 1)


def test_deleted_with_applies_to_an_unrecorded_resource(bench: Bench) -> None:
    """It is replaced with the other, and recorded then."""
    bench.apply({"Thing[a]": {"image": "x"}})
    bench.put("thing", b={"size": 1})
    site: dict[str, Any] = {
        "Thing[a]": {"image": "y", "lifecycle": {"replace": "delete_first"}},
        "Thing[b]": {"size": 1, "lifecycle": {"deleted_with": "Thing[a]"}},
    }
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success"), **AGAIN}


def test_fail_fast_starts_no_refresh_after_a_failure_in_the_same_call(bench: Bench) -> None:
    """Neither of what was in sync nor of what was changed before the failure: both are owed to the next run."""
    site: dict[str, Any] = {
        "Thing[t]": {"size": 1, "notify": ["Engine[a]", "Engine[c]"]},
        "Engine[a]": {"size": 1},
        "Engine[b]": {"size": 1},
        "Engine[c]": {"size": 1},
    }
    bench.apply(site)
    site = {**site, "Thing[t]": {**site["Thing[t]"], "size": 2}, "Engine[a]": {"size": 2}, "Engine[b]": {"size": 2}}
    bench.world.trouble = {("engine", "b"): "raise"}
    report = bench.apply(site, fail_fast=True)
    assert [(name, outcome[1]) for name, outcome in acted(report).items()] == [
        ("Thing[t]", "success"),
        ("Engine[a]", "success"),
        ("Engine[b]", "failed"),
        ("Engine[c]", "skipped"),
    ]
    assert not [name for verb, _, name in bench.world.calls if verb == "refresh"]
    bench.world.trouble = {}
    bench.apply(site)
    assert [name for verb, _, name in bench.world.calls if verb == "refresh"] == ["a", "c"]
