"""The basics of planning: one resource and its neighbours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.record import Commit
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import UNKNOWN
from resource_api.runtime.import_resources import import_resources
from resource_api.runtime.state_refresh import refresh
from resource_api.state.store import StackName
from tests.lifecycle.world import PROJECT, acted, manifest, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def test_an_empty_manifest_on_an_empty_state_does_nothing(bench: Bench) -> None:
    """Nothing is printed, and nothing is recorded."""
    assert bench.apply({}).exit_code == 0
    assert bench.state.records == {}


def test_a_new_resource_is_created_once(bench: Bench) -> None:
    """The second plan is empty, and the second run writes nothing."""
    site = {"Thing[a]": {"size": 1}}
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    assert planned(bench.plan(site)) == {}
    serial = bench.state.serial
    bench.apply(site)
    assert bench.state.serial == serial


def test_a_changed_property_is_an_update(bench: Bench) -> None:
    """Read-only values stay, and state contains the new value."""
    bench.apply({"Thing[a]": {"size": 1}})
    assert acted(bench.apply({"Thing[a]": {"size": 2}})) == {"Thing[a]": ("update", "success")}
    assert bench.world.things["thing"]["a"] == {"size": 2, "serial": "S-a"}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.should["size"], record.is_["size"]) == (2, 2)


def test_an_attribute_without_a_line_is_not_managed(bench: Bench) -> None:
    """The value stays as it is, is no drift and no change; Terraform would unset it."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.world.things["thing"]["a"]["size"] = 9
    plan = bench.plan({"Thing[a]": {}})
    assert planned(plan) == {}


def test_an_orphan_stays_until_it_is_pruned(bench: Bench) -> None:
    """It is reported, and no change; ``--prune`` deletes it and shows the reason. Terraform deletes at once."""
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


def test_a_plan_is_applied_to_other_orphans_than_it_was_made_with(bench: Bench) -> None:
    """Those of the earlier plan, and their order, are gone with it."""
    bench.apply({"Thing[z]": {}, "Thing[x]": {}, "Thing[y]": {"require": "Thing[x]"}})
    plan = bench.runtime.plan(manifest({"Thing[z]": {}}), prune=True)
    bench.mend(("thing", "y"), "forget")
    depends_on: list[list[str]] = []
    report = bench.runtime.apply(
        plan, on_plan=lambda new: depends_on.extend(step["depends_on"] for step in new.to_dict()["steps"])
    )
    assert acted(report) == {"Thing[x]": ("delete", "success")}
    assert depends_on == [[], []]


def test_a_missing_orphan_is_only_forgotten(bench: Bench) -> None:
    """The provider is not called to delete it."""
    bench.apply({"Thing[a]": {}})
    bench.world.things["thing"].clear()
    assert acted(bench.apply({}, prune=True)) == {"Thing[a]": ("forget", "success")}
    assert not any(verb == "delete" for verb, _, _ in bench.world.calls)
    assert bench.state.records == {}


def test_a_missing_declared_resource_is_created_again(bench: Bench) -> None:
    """That is drift, and the creation is corrective."""
    site = {"Thing[a]": {"size": 1}}
    bench.apply(site)
    bench.world.things["thing"].clear()
    plan = bench.plan(site)
    assert [(item.reference, [c.attribute for c in item.changes]) for item in plan.drift] == [("Thing[a]", ["ensure"])]
    (report,) = bench.apply(site).steps
    assert (str(report.action), report.corrective) == ("create", True)


def test_a_changed_value_is_drift_and_a_changed_manifest_is_not(bench: Bench) -> None:
    """If the declaration equals the recorded one, the system has changed, and the step is corrective."""
    bench.apply({"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}})
    bench.world.things["thing"]["a"]["size"] = 5
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 2}}
    assert [item.reference for item in bench.plan(site).drift] == ["Thing[a]"]
    assert {step.reference: step.corrective for step in bench.apply(site).steps} == {
        "Thing[a]": True,
        "Thing[b]": False,
    }


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("unseen", [True, False])
def test_a_change_that_undoes_drift_is_corrective_in_every_run(bench: Bench, *, gone: bool, unseen: bool) -> None:
    """Also in a dry run, for a noop resource, and after a refresh."""
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}}
    bench.apply(site)
    if gone:
        bench.world.things["thing"].clear()
    else:
        bench.put("thing", a={"size": 5}, b={"size": 5})
    if not unseen:
        refresh(bench.runtime, manifest(site))
    assert [step.corrective for step in bench.apply(site, noop=True).steps] == [True, True]
    noop = {**site, "Thing[b]": {"size": 1, "noop": True}}
    assert [(item.status, item.corrective) for item in bench.apply(noop).steps] == [("success", True), ("noop", True)]


def test_a_value_that_was_never_set_is_not_corrective(bench: Bench) -> None:
    """An adopted resource that differs has not drifted; nor has a value that a run failed to set."""
    bench.put("thing", a={"size": 5})
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}}
    import_resources(bench.runtime, manifest(site), ["Thing[a]"], None)
    with bench.troubled(b="half"):
        bench.apply({"Thing[b]": {"size": 1}})
    assert [step.corrective for step in bench.apply(site).steps] == [False, False]


def test_an_undeclared_attribute_does_not_drift(bench: Bench) -> None:
    """An attribute that is not managed may change; so may a read-only one."""
    site = {"Thing[a]": {"size": 1}}
    bench.apply(site)
    serial = bench.state.serial
    bench.world.things["thing"]["a"].update(colour="red", serial="S-2")
    plan = bench.plan(site)
    assert (list(plan.drift), planned(plan)) == ([], {})
    bench.apply(site)
    assert bench.state.serial == serial


def test_a_value_of_another_resource_is_unknown_until_its_creation(bench: Bench) -> None:
    """A reference orders; the value is known when it is needed, and in the next plan."""
    site = {"Thing[b]": {"colour": "${Thing[a].serial}"}, "Thing[a]": {}}
    plan = bench.plan(site)
    step = next(step for step in plan.steps if str(step.reference) == "Thing[b]")
    assert step.should["colour"] is UNKNOWN
    assert step.unknown == ("colour",)
    bench.apply(site)
    assert [call[2] for call in bench.world.calls] == ["a", "b"]
    assert bench.world.things["thing"]["b"]["colour"] == "S-a"
    assert planned(bench.plan(site)) == {}


@pytest.mark.parametrize("kind", ["Thing", "Gizmo"])
def test_a_value_of_a_resource_that_is_deleted_is_an_error_of_the_plan(bench: Bench, kind: str) -> None:
    """As it is in the next run, and whether both are changed in one call or not; its declared values are known."""
    value = f"${{{kind}[w].serial}}"
    bench.apply({f"{kind}[w]": {}, "Thing[u]": {"colour": value}})
    absent = {f"{kind}[w]": {"ensure": "absent"}}
    _, step = bench.plan({**absent, "Thing[u]": {"size": 2, "colour": value}}).steps
    assert step.error == f"{value}: {kind}[w] will not exist"
    assert bench.apply({**absent, "Thing[u]": {"size": 2, "colour": f"${{{kind}[w].name}}"}}).exit_code == 0


@pytest.mark.parametrize("kind", ["Thing", "Gizmo"])
def test_a_resource_that_is_declared_absent_needs_no_value_of_another_that_is(bench: Bench, kind: str) -> None:
    """Both are deleted, and then there is nothing left to do."""
    value = f"${{{kind}[w].serial}}"
    bench.apply({f"{kind}[w]": {}, "Thing[u]": {"colour": value}})
    site = {f"{kind}[w]": {"ensure": "absent"}, "Thing[u]": {"ensure": "absent", "colour": value}}
    assert acted(bench.apply(site)) == {f"{kind}[w]": ("delete", "success"), "Thing[u]": ("delete", "success")}
    assert (acted(bench.apply(site)), bench.state.records) == ({}, {})


def test_a_requirement_alone_changes_nothing(bench: Bench) -> None:
    """The required resource is replaced; the dependent uses no value of it and stays the same."""
    site = {"Thing[a]": {"image": "x", "lifecycle": {"replace": "delete_first"}}, "Thing[d]": {"require": "Thing[a]"}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success")}


def test_an_unknown_init_only_value_is_planned_as_a_replacement(bench: Bench) -> None:
    """During apply the value is the same: nothing is replaced. Terraform would replace it."""
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


def test_two_declarations_of_one_resource_are_an_error(bench: Bench) -> None:
    """The identity is type and namevars, whatever the titles."""
    with pytest.raises(ManifestError, match="Thing"):
        bench.apply({"Thing[a]": {}, "Thing[other]": {"name": "a"}})
    assert bench.world.calls == []


def test_outputs_are_unknown_in_the_plan_and_stored_by_the_run(bench: Bench) -> None:
    """A failed run keeps the outputs of the last complete run."""
    outputs = {"number": "${Thing[a].serial}"}
    assert bench.plan({"Thing[a]": {}}, outputs=outputs).outputs["number"] is UNKNOWN
    bench.apply({"Thing[a]": {}}, outputs=outputs)
    assert bench.state.outputs == {"number": "S-a"}
    with bench.troubled(b="fail"):
        bench.apply({"Thing[a]": {}, "Thing[b]": {}}, outputs={"number": "other"})
    assert bench.state.outputs == {"number": "S-a"}
    bench.apply({"Thing[a]": {}, "Thing[b]": {}}, outputs={"number": "other"}, targets=("Thing[a]",))
    assert bench.state.outputs == {"number": "S-a"}


def test_a_write_only_secret_is_compared_by_its_digest(bench: Bench) -> None:
    """It is in no record; a value that cannot be read back is compared with a digest of the last one set."""
    bench.apply({"Thing[a]": {"password": "secret1"}})
    assert planned(bench.plan({"Thing[a]": {"password": "secret1"}})) == {}
    assert planned(bench.plan({"Thing[a]": {"password": "secret2"}})) == {"Thing[a]": "update"}
    bench.apply({"Thing[a]": {"password": "secret2"}})
    assert planned(bench.plan({"Thing[a]": {"password": "secret2"}})) == {}


def test_a_secret_that_was_not_set_is_set_again(bench: Bench) -> None:
    """After a failure the former digest stays: the next run tries again."""
    site = {"Thing[a]": {"password": "secret1"}}
    bench.apply(site)
    site["Thing[a]"]["password"] = "secret2"
    with bench.troubled(a="raise"):
        assert bench.apply(site).exit_code == 1
    assert planned(bench.plan(site)) == {"Thing[a]": "update"}


def test_a_resource_that_cannot_be_read_yet_is_deferred(bench: Bench) -> None:
    """The first resource makes the second readable; without it that is an error of the plan."""
    assert bench.plan({"Gadget[g]": {"size": 1}}).applicable is False
    site = {"Thing[tool]": {}, "Gadget[g]": {"size": 1}}
    plan = bench.plan(site)
    assert plan.applicable
    assert [step.deferred for step in plan.steps] == ["", "cannot look at any gadget"]
    assert acted(bench.apply(site)) == {"Thing[tool]": ("create", "success"), "Gadget[g]": ("create", "success")}
    assert planned(bench.plan(site)) == {}


OUTER: dict[str, Any] = {"lifecycle": {"external": True}}


def made_by_a_job(bench: Bench) -> None:
    """Make the job j create the thing x."""
    touch = bench.world.touch

    def touching(kind: str, name: str, verb: str, context: Any) -> str:
        if (kind, name) == ("job", "j"):
            bench.world.calls.append(("create", "thing", "x"))
            bench.put("thing", x={"serial": "S-x"})
        return touch(kind, name, verb, context)

    bench.world.touch = touching  # type: ignore[method-assign]


@pytest.mark.parametrize("parallel", [1, 3])
def test_an_external_resource_may_be_created_by_an_earlier_step(bench: Bench, parallel: int) -> None:
    """It is read right before the steps that use its values."""
    made_by_a_job(bench)
    site = {"Job[j]": {}, "Thing[x]": {**OUTER, "require": "Job[j]"}, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    plan = bench.plan(site)
    assert plan.applicable
    assert [(str(step.action), step.deferred) for step in plan.steps][1] == ("read", "does not exist yet")
    assert bench.apply(site, parallel=parallel).exit_code == 0
    assert bench.world.things["thing"]["b"]["colour"] == "S-x"


def test_a_missing_external_resource_fails_after_earlier_steps(bench: Bench) -> None:
    """As in the plan if no step precedes it; independent resources are applied."""
    site = {"Thing[a]": {}, "Thing[x]": OUTER, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    report = bench.apply(site)
    assert acted(report)["Thing[x]"] == ("read", "failed")
    assert acted(report)["Thing[b]"] == ("create", "skipped")
    assert "does not exist, and is external" in next(step.error for step in report.steps if step.status == "failed")
    assert bench.names() == ["a"]
    assert bench.plan({"Thing[a]": {}, "Thing[x]": OUTER}).applicable is False


def test_a_noop_run_accepts_a_missing_external_resource(bench: Bench) -> None:
    """An earlier step would create it, so it is shown as planned."""
    made_by_a_job(bench)
    site = {"Job[j]": {}, "Thing[x]": {**OUTER, "require": "Job[j]"}, "Thing[b]": {"colour": "${Thing[x].serial}"}}
    assert bench.apply(site, noop=True).exit_code == 0
    assert bench.names() == []


def test_a_deferred_resource_may_be_unchanged(bench: Bench) -> None:
    """Then nothing is done to it."""
    bench.put("gadget", g={"size": 1})
    report = bench.apply({"Thing[tool]": {}, "Gadget[g]": {"size": 1}})
    assert acted(report) == {"Thing[tool]": ("create", "success")}
    assert bench.record("Gadget[g]") is not None


def test_a_type_that_stays_unreadable_fails_alone(bench: Bench) -> None:
    """Independent resources are applied."""
    bench.world.unreadable = {"engine"}
    report = bench.apply({"Engine[e]": {}, "Thing[a]": {}})
    assert acted(report) == {"Engine[e]": ("update", "failed"), "Thing[a]": ("create", "success")}


def test_a_first_run_that_failed_is_repeated_even_if_it_is_not_due(bench: Bench) -> None:
    """It may have done half of its work, so that nothing seems to be left to do."""
    bench.world.trouble = {("job", "j"): "raise"}
    assert bench.apply({"Job[j]": {}}).exit_code == 1
    bench.world.trouble = {}
    bench.world.undue.add("j")
    assert "~ Job[j] (left partial)" in str(bench.plan({"Job[j]": {}}))
    assert acted(bench.apply({"Job[j]": {}})) == {"Job[j]": ("run", "success")}
    assert acted(bench.apply({"Job[j]": {}})) == {}


def test_the_last_run_of_an_imperative_resource_is_recorded(bench: Bench) -> None:
    """Its time, for a change or a refresh, and its failure; a resource that is not due keeps the former time."""

    def ran() -> tuple[str, bool]:
        """Return its status, and whether it was run just now; then set the recorded time to long ago."""
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
    assert [(str(item.reference), bool(item.last_run), item.owned) for item in bench.state.records.values()] == [
        ("Thing[a]", False, True),
        ("Job[j]", True, True),
    ]
