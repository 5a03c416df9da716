"""What a run does with one resource and with its neighbours: the basics of planning."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.record import Commit
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import UNKNOWN
from resource_api.runtime.import_resource import import_resource
from resource_api.runtime.refresh import refresh
from resource_api.state.store import StackName
from tests.lifecycle.world import PROJECT, acted, manifest, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def test_an_empty_manifest_on_an_empty_state_does_nothing(bench: Bench) -> None:
    """There is nothing to say, and nothing is recorded."""
    assert bench.apply({}).exit_code == 0
    assert bench.state.records == {}


def test_what_is_new_is_created_once(bench: Bench) -> None:
    """The second plan is empty, and the second run writes nothing."""
    site = {"Thing[a]": {"size": 1}}
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    assert planned(bench.plan(site)) == {}
    serial = bench.state.serial
    bench.apply(site)
    assert bench.state.serial == serial


def test_a_changed_property_is_an_update_of_the_same_thing(bench: Bench) -> None:
    """What only the thing knows stays, and state has the new value."""
    bench.apply({"Thing[a]": {"size": 1}})
    assert acted(bench.apply({"Thing[a]": {"size": 2}})) == {"Thing[a]": ("update", "success")}
    assert bench.world.things["thing"]["a"] == {"size": 2, "serial": "S-a"}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.should["size"], record.is_["size"]) == (2, 2)


def test_taking_a_line_away_stops_managing_it(bench: Bench) -> None:
    """The value stays as it is, is no drift and no change; Terraform would unset it."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.world.things["thing"]["a"]["size"] = 9
    plan = bench.plan({"Thing[a]": {}})
    assert planned(plan) == {}


def test_what_is_no_longer_declared_stays_until_it_is_pruned(bench: Bench) -> None:
    """It is reported, and no change; with ``--prune`` it goes, and the reason is said. Terraform deletes at once."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {}})
    assert acted(bench.apply({"Thing[b]": {}})) == {}
    assert any("Thing[a]" in line and "no longer declared" in line for line in bench.lines)
    assert bench.names() == ["a", "b"]
    plan = bench.plan({"Thing[b]": {}}, prune=True)
    assert planned(plan) == {"Thing[a]": "delete"}
    assert [step.decision.reasons for step in plan.steps if step.acts] == [("no longer declared",)]
    bench.apply({"Thing[b]": {}}, prune=True)
    assert bench.names() == ["b"]
    assert bench.record("Thing[a]") is None


def test_what_went_by_itself_and_is_not_declared_is_only_forgotten(bench: Bench) -> None:
    """No deletion is asked of the provider."""
    bench.apply({"Thing[a]": {}})
    bench.world.things["thing"].clear()
    assert acted(bench.apply({}, prune=True)) == {"Thing[a]": ("forget", "success")}
    assert not any(verb == "delete" for verb, _, _ in bench.world.calls)
    assert bench.state.records == {}


def test_what_went_by_itself_and_is_declared_is_made_again(bench: Bench) -> None:
    """That is drift, and mending it is corrective."""
    site = {"Thing[a]": {"size": 1}}
    bench.apply(site)
    bench.world.things["thing"].clear()
    plan = bench.plan(site)
    assert [(each.reference, [c.attribute for c in each.changes]) for each in plan.drift] == [("Thing[a]", ["ensure"])]
    (report,) = bench.apply(site).steps
    assert (str(report.action), report.corrective) == ("create", True)


def test_a_changed_value_is_drift_and_a_changed_manifest_is_not(bench: Bench) -> None:
    """What is declared equals what was recorded as asked: then the system has moved, and the step is corrective."""
    bench.apply({"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}})
    bench.world.things["thing"]["a"]["size"] = 5
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 2}}
    assert [each.reference for each in bench.plan(site).drift] == ["Thing[a]"]
    assert {each.reference: each.corrective for each in bench.apply(site).steps} == {
        "Thing[a]": True,
        "Thing[b]": False,
    }


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("unseen", [True, False])
def test_what_mends_a_drift_is_corrective_whoever_has_seen_it_and_also_under_noop(
    bench: Bench, *, gone: bool, unseen: bool
) -> None:
    """A dry run says so of what it would do, as does a resource that is noop, and a refresh takes nothing back."""
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}}
    bench.apply(site)
    if gone:
        bench.world.things["thing"].clear()
    else:
        bench.put("thing", a={"size": 5}, b={"size": 5})
    if not unseen:
        refresh(bench.runtime, manifest(site))
    assert [each.corrective for each in bench.apply(site, noop=True).steps] == [True, True]
    noop = {**site, "Thing[b]": {"size": 1, "noop": True}}
    assert [(each.status, each.corrective) for each in bench.apply(noop).steps] == [("success", True), ("noop", True)]


def test_what_was_never_asked_for_is_not_corrective(bench: Bench) -> None:
    """What is taken over and differs from what is declared has not moved; nor has what a run failed to set."""
    bench.put("thing", a={"size": 5})
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}}
    import_resource(bench.runtime, manifest(site), "Thing[a]", None)
    with bench.troubled(b="half"):
        bench.apply({"Thing[b]": {"size": 1}})
    assert [each.corrective for each in bench.apply(site).steps] == [False, False]


def test_what_is_not_declared_does_not_drift(bench: Bench) -> None:
    """An attribute that nobody manages may change; so may one that only the thing itself tells."""
    site = {"Thing[a]": {"size": 1}}
    bench.apply(site)
    serial = bench.state.serial
    bench.world.things["thing"]["a"].update(colour="red", serial="S-2")
    plan = bench.plan(site)
    assert (list(plan.drift), planned(plan)) == ([], {})
    bench.apply(site)
    assert bench.state.serial == serial


def test_a_value_of_another_resource_is_unknown_until_that_is_made(bench: Bench) -> None:
    """Referring orders; the value is there when it is needed, and the next plan knows it."""
    site = {"Thing[b]": {"colour": "${Thing[a].serial}"}, "Thing[a]": {}}
    plan = bench.plan(site)
    step = next(step for step in plan.steps if str(step.reference) == "Thing[b]")
    assert step.should["colour"] is UNKNOWN
    assert step.unknown == ("colour",)
    bench.apply(site)
    assert [call[2] for call in bench.world.calls] == ["a", "b"]
    assert bench.world.things["thing"]["b"]["colour"] == "S-a"
    assert planned(bench.plan(site)) == {}


def test_a_requirement_alone_changes_nothing(bench: Bench) -> None:
    """What is required is replaced; who requires it stays the same, without a word from its values."""
    site = {"Thing[a]": {"image": "x", "lifecycle": {"replace": "delete_first"}}, "Thing[d]": {"require": "Thing[a]"}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success")}


def test_an_init_only_value_that_may_turn_out_the_same_is_planned_as_a_replacement(bench: Bench) -> None:
    """At its turn it turns out equal: nothing is replaced, for nothing differs. Terraform would replace it."""
    site = {
        "Thing[a]": {"size": 1},
        "Thing[b]": {"image": "${Thing[a].serial}", "lifecycle": {"replace": "delete_first"}},
    }
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert planned(bench.plan(site)) == {"Thing[a]": "update", "Thing[b]": "replace"}
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success")}
    assert bench.world.things["thing"]["b"]["image"] == "S-a"
    assert planned(bench.plan(site)) == {}
    site["Thing[a]"]["size"], site["Thing[b]"]["size"] = 3, 1
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success"), "Thing[b]": ("update", "success")}


def test_two_declarations_of_one_thing_are_refused_before_anything_runs(bench: Bench) -> None:
    """Identity is type and namevars, whatever the titles."""
    with pytest.raises(ManifestError, match="Thing"):
        bench.apply({"Thing[a]": {}, "Thing[other]": {"name": "a"}})
    assert bench.world.calls == []


def test_outputs_are_unknown_in_the_plan_and_stored_by_the_run(bench: Bench) -> None:
    """A run with a failure keeps the outputs that the last whole run gave."""
    outputs = {"number": "${Thing[a].serial}"}
    assert bench.plan({"Thing[a]": {}}, outputs=outputs).outputs["number"] is UNKNOWN
    bench.apply({"Thing[a]": {}}, outputs=outputs)
    assert bench.state.outputs == {"number": "S-a"}
    with bench.troubled(b="fail"):
        bench.apply({"Thing[a]": {}, "Thing[b]": {}}, outputs={"number": "other"})
    assert bench.state.outputs == {"number": "S-a"}
    bench.apply({"Thing[a]": {}, "Thing[b]": {}}, outputs={"number": "other"}, targets=("Thing[a]",))
    assert bench.state.outputs == {"number": "S-a"}


def test_a_secret_is_in_no_record_and_changes_when_it_is_changed(bench: Bench) -> None:
    """What cannot be read back is compared with a digest of what was last set."""
    bench.apply({"Thing[a]": {"password": "secret1"}})
    assert planned(bench.plan({"Thing[a]": {"password": "secret1"}})) == {}
    assert planned(bench.plan({"Thing[a]": {"password": "secret2"}})) == {"Thing[a]": "update"}
    bench.apply({"Thing[a]": {"password": "secret2"}})
    assert planned(bench.plan({"Thing[a]": {"password": "secret2"}})) == {}


def test_a_secret_that_was_not_set_is_set_again(bench: Bench) -> None:
    """A failure records what was asked before: the next run tries again."""
    site = {"Thing[a]": {"password": "secret1"}}
    bench.apply(site)
    site["Thing[a]"]["password"] = "secret2"
    with bench.troubled(a="raise"):
        assert bench.apply(site).exit_code == 1
    assert planned(bench.plan(site)) == {"Thing[a]": "update"}


def test_what_cannot_be_read_yet_is_decided_at_its_turn(bench: Bench) -> None:
    """The first thing makes the second readable; without it that is an error of the plan."""
    assert bench.plan({"Gadget[g]": {"size": 1}}).applicable is False
    site = {"Thing[tool]": {}, "Gadget[g]": {"size": 1}}
    plan = bench.plan(site)
    assert plan.applicable
    assert [step.deferred for step in plan.steps] == ["", "cannot look at any gadget"]
    assert acted(bench.apply(site)) == {"Thing[tool]": ("create", "success"), "Gadget[g]": ("create", "success")}
    assert planned(bench.plan(site)) == {}


OUTER: dict[str, Any] = {"lifecycle": {"external": True}}


def made_by_a_job(bench: Bench) -> None:
    """Let the job j make the thing x."""
    touch = bench.world.touch

    def touching(kind: str, name: str, verb: str, context: Any) -> str:
        if (kind, name) == ("job", "j"):
            bench.world.calls.append(("create", "thing", "x"))
            bench.put("thing", x={"serial": "S-x"})
        return touch(kind, name, verb, context)

    bench.world.touch = touching  # type: ignore[method-assign]


@pytest.mark.parametrize("parallel", [1, 3])
def test_what_is_external_may_be_made_by_an_earlier_step(bench: Bench, parallel: int) -> None:
    """It is looked for at its turn, and its values are known then."""
    made_by_a_job(bench)
    site = {"Job[j]": {}, "Thing[x]": {**OUTER, "require": "Job[j]"}, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    plan = bench.plan(site)
    assert plan.applicable
    assert [(str(step.action), step.deferred) for step in plan.steps][1] == ("read", "does not exist yet")
    assert bench.apply(site, parallel=parallel).exit_code == 0
    assert bench.world.things["thing"]["b"]["colour"] == "S-x"


def test_what_is_external_and_never_made_fails_at_its_turn(bench: Bench) -> None:
    """As in the plan where nothing comes before it; what does not need it is done."""
    site = {"Thing[a]": {}, "Thing[x]": OUTER, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    report = bench.apply(site)
    assert acted(report)["Thing[x]"] == ("read", "failed")
    assert acted(report)["Thing[b]"] == ("create", "skipped")
    assert "does not exist, and is external" in next(each.error for each in report.steps if each.status == "failed")
    assert bench.names() == ["a"]
    assert bench.plan({"Thing[a]": {}, "Thing[x]": OUTER}).applicable is False


def test_a_noop_run_does_not_miss_what_an_earlier_step_would_make(bench: Bench) -> None:
    """It is told as planned."""
    made_by_a_job(bench)
    site = {"Job[j]": {}, "Thing[x]": {**OUTER, "require": "Job[j]"}, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    assert bench.apply(site, noop=True).exit_code == 0
    assert bench.names() == []


def test_what_is_deferred_may_turn_out_to_be_in_order(bench: Bench) -> None:
    """Then nothing is done to it."""
    bench.put("gadget", g={"size": 1})
    report = bench.apply({"Thing[tool]": {}, "Gadget[g]": {"size": 1}})
    assert acted(report) == {"Thing[tool]": ("create", "success")}
    assert bench.record("Gadget[g]") is not None


def test_a_type_that_stays_unreadable_fails_alone(bench: Bench) -> None:
    """What does not need it is done."""
    bench.world.unreadable = {"engine"}
    report = bench.apply({"Engine[e]": {}, "Thing[a]": {}})
    assert acted(report) == {"Engine[e]": ("update", "failed"), "Thing[a]": ("create", "success")}


def test_the_last_run_of_what_cannot_be_read_back_is_recorded(bench: Bench) -> None:
    """When it was, by a change or by a refresh, and that it failed; what is not due keeps the one before."""

    def ran() -> tuple[str, bool]:
        """Give how it stands, and whether it has just been run; then take it back to long ago."""
        record = bench.record("Job[j]")
        assert record is not None
        bench.store.commit(StackName(PROJECT, "default"), Commit([record._replace(last_run="long ago")]))
        return record.status, start <= record.last_run <= datetime.now(UTC).isoformat()

    start = datetime.now(UTC).isoformat(timespec="seconds")
    site: dict[str, Any] = {"Thing[a]": {"size": 1}, "Job[j]": {"subscribe": "Thing[a]"}}
    bench.world.undue.add("j")
    bench.apply(site)
    assert ran() == ("ready", True)
    bench.apply(site)
    assert ran() == ("ready", False)
    bench.world.undue.clear()
    bench.apply(site)
    assert ran() == ("ready", True)
    bench.world.trouble = {("job", "j"): "raise"}
    bench.apply(site)
    assert ran() == ("partial", True)
    assert [(str(each.reference), bool(each.last_run), each.owned) for each in bench.state.records.values()] == [
        ("Thing[a]", False, True),
        ("Job[j]", True, True),
    ]
