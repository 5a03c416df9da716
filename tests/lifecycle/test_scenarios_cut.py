"""The run after an interrupted replacement or a partial creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.world import FIRST, acted, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def refuse_to_make(bench: Bench) -> None:
    """Make all creations fail from now on; deletions succeed."""
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if should.get("ensure") == "present" and is_ is None:
            raise RuntimeError("no more of these")
        created(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]


def cut(bench: Bench, site: dict[str, Any]) -> None:
    """Apply a replacement whose first half succeeds and whose second half fails."""
    whole = bench.world.change
    refuse_to_make(bench)
    assert bench.apply(site).exit_code == 1
    bench.world.change = whole  # type: ignore[method-assign]


def status(bench: Bench, reference: str) -> str:
    """Return the recorded status of a resource."""
    record = bench.record(reference)
    return "" if record is None else record.status


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_interrupted_replacement_continues_with_the_creation(bench: Bench, name: str) -> None:
    """The old resource is gone: nothing is deleted again, under the same name or another, and the reason is shown."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": name, "image": "y", "lifecycle": FIRST}}
    cut(bench, site)
    assert (bench.names(), status(bench, "Thing[a]")) == ([], "pending")
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "create"}
    assert plan.steps[0].decision.reasons == ("its replacement was interrupted, and the old one is gone",)
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    assert [verb for verb, _, _ in bench.world.calls] == ["create"]
    assert (status(bench, "Thing[a]"), len(bench.state.records)) == ("ready", 1)
    assert planned(bench.plan(site)) == {}
    bench.destroy({})
    assert bench.names() == []


def test_a_replacement_that_fails_again_stays_pending(bench: Bench) -> None:
    """Any number of times; it is still ours when it is created."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "image": "y", "lifecycle": FIRST}}
    for _ in range(2):
        cut(bench, site)
        assert status(bench, "Thing[a]") == "pending"
    bench.apply(site)
    record = bench.record("Thing[a]")
    assert record is not None
    assert (record.owned, record.name, record.status) == (True, "b", "ready")


def test_a_pending_replacement_without_a_declaration_is_dropped(bench: Bench) -> None:
    """It does not exist, so no provider is called, and ``--prune`` is not needed."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": {}})
    cut(bench, {"Thing[a]": {"image": "y", "lifecycle": FIRST}, "Thing[b]": {}})
    plan = bench.plan({"Thing[b]": {}})
    assert planned(plan) == {"Thing[a]": "forget"}
    assert acted(bench.apply({"Thing[b]": {}})) == {"Thing[a]": ("forget", "success")}
    assert bench.world.calls == []
    assert [key[1] for key in bench.state.records] == ["b"]


def test_a_resource_that_another_user_created_meanwhile_is_not_deleted(bench: Bench) -> None:
    """The old resource was deleted, and another one of its name exists now: it is not ours."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "lifecycle": FIRST}}
    cut(bench, site)
    bench.put("thing", a={})
    bench.apply(site, prune=True)
    assert bench.names() == ["a", "b"]
    assert [key[1] for key in bench.state.records] == ["b"]


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_a_kill_during_the_second_half_is_resolved_by_reading(bench: Bench, trouble: str) -> None:
    """It is created once, it is ours, and without a declaration it is pruned like any other."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "lifecycle": FIRST}}
    with bench.troubled(b=trouble):
        bench.killed(site)
    assert bench.apply(site).exit_code == 0
    assert (bench.names(), len(bench.state.records)) == (["b"], 1)
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_a_kill_during_a_repeated_creation_keeps_the_ownership(bench: Bench, trouble: str) -> None:
    """Under its own name, and no longer declared in the next run: the created resource is ours and pruned."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if should.get("ensure") == "present":
            bench.world.trouble = {("thing", "a"): trouble}
        created(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]
    bench.killed({"Thing[a]": {"image": "y", "lifecycle": FIRST}})
    bench.world.change, bench.world.trouble = created, {}  # type: ignore[method-assign]
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})


def test_dependents_of_a_pending_replacement_are_created_again(bench: Bench) -> None:
    """B and A were deleted, A could not be created: the next run creates both, and deletes nothing."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].serial}", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    cut(bench, site)
    assert (status(bench, "Thing[a]"), status(bench, "Thing[b]")) == ("pending", "pending")
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success"), "Thing[b]": ("create", "success")}
    assert [verb for verb, _, _ in bench.world.calls] == ["create", "create"]
    assert planned(bench.plan(site)) == {}


def test_a_deletion_that_fails_leaves_nothing_pending(bench: Bench) -> None:
    """The resource exists, so the next run deletes and creates it, as if there had been no failure."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    with bench.troubled(a="raise"):
        bench.apply(site)
    assert status(bench, "Thing[a]") != "pending"
    bench.apply(site)
    assert [verb for verb, _, _ in bench.world.calls] == ["delete", "create"]


def test_destroy_deletes_both_resources_of_one_title(bench: Bench) -> None:
    """The old one of a create-first replacement could not be deleted: destroy deletes both."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w1="raise"):
        bench.apply(site)
    assert bench.names() == ["w1", "w2"]
    bench.destroy(site)
    assert (bench.names(), bench.state.records) == ([], {})


def test_a_partial_creation_is_completed_with_its_reason(bench: Bench) -> None:
    """It is recorded as partial; the next run updates it and shows the reason; then it is ready."""
    with bench.troubled(a="half"):
        bench.apply({"Thing[a]": {"size": 1}})
    assert status(bench, "Thing[a]") == "partial"
    (step,) = bench.plan({"Thing[a]": {"size": 1}}).steps
    assert (str(step.action), step.decision.reasons) == ("update", ("left partial",))
    bench.apply({"Thing[a]": {"size": 1}})
    assert status(bench, "Thing[a]") == "ready"


def test_a_failed_creation_that_left_everything_is_completed_and_then_ready(bench: Bench) -> None:
    """Nothing can be seen to differ; its provider is called all the same, and the resource counts as updated."""
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        created(kind, name, is_, should, context)
        context.failed(name, message="not quite")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 1
    assert status(bench, "Thing[a]") == "partial"
    bench.world.change = created  # type: ignore[method-assign]
    assert "~ Thing[a] (left partial)" in str(bench.plan({"Thing[a]": {"size": 1}}))
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {"Thing[a]": ("update", "success")}
    assert "notice: Thing[a]: completed: left partial" in bench.lines
    assert status(bench, "Thing[a]") == "ready"
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_failed_update_that_changed_nothing_leaves_nothing_partial(bench: Bench, *, recorded: bool) -> None:
    """The resource is as it was, also one that existed before us; the next plan shows the same update."""
    if recorded:
        bench.apply({"Thing[a]": {"size": 1}})
    else:
        bench.put("thing", a={"size": 1})
    with bench.troubled(a="raise"):
        assert bench.apply({"Thing[a]": {"size": 2}}).exit_code == 1
    assert (status(bench, "Thing[a]") == "ready") if recorded else not bench.state.records
    assert "~ Thing[a]\n" in str(bench.plan({"Thing[a]": {"size": 2}}))
    assert acted(bench.apply({"Thing[a]": {"size": 2}})) == {"Thing[a]": ("update", "success")}


@pytest.mark.parametrize("first", [{}, {"Thing[a]": {"image": "x", "password": "secret1", "lifecycle": FIRST}}])
def test_a_write_only_value_is_set_again_after_a_failed_creation(bench: Bench, first: dict[str, Any]) -> None:
    """It is unknown whether it was set before the failure, also if it was set on a replaced resource."""
    bench.apply(first)
    site = {"Thing[a]": {"image": "y", "size": 1, "password": "secret1", "lifecycle": FIRST}}
    with bench.troubled(a="half") if not first else _half_when_made(bench):
        bench.apply(site)
    (step,) = bench.plan(site).steps
    assert {difference.attribute for difference in step.decision.differences} == {"size", "password"}


class _half_when_made:  # noqa: N801 - used as a function
    """Make a creation fail in the middle, and a deletion succeed."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __enter__(self) -> None:
        self.made = self.bench.world.change

        def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
            self.bench.world.trouble = {} if should.get("ensure") == "absent" else {("thing", name): "half"}
            self.made(kind, name, is_, should, context)

        self.bench.world.change = change  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        self.bench.world.change, self.bench.world.trouble = self.made, {}  # type: ignore[method-assign]


def test_a_failed_update_keeps_the_former_inputs_and_records_the_new_state(bench: Bench) -> None:
    """A part was done: state has the values declared before, and those that exist now."""
    bench.apply({"Thing[a]": {"size": 1, "colour": "red"}})
    with bench.troubled(a="half"):
        assert bench.apply({"Thing[a]": {"size": 2, "colour": "blue"}}).exit_code == 1
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.should["colour"], record.is_["colour"], record.is_["size"]) == ("red", "blue", 1)
    assert record.status == "partial"


def test_a_failed_provider_is_reported_with_its_own_reason_only(bench: Bench) -> None:
    """The missing values are not reported too."""
    with bench.troubled(a="half"):
        (report,) = bench.apply({"Thing[a]": {"size": 1}}).steps
    assert report.error == "a broke half way"
    assert sum("Thing[a]" in line for line in bench.lines) == 1


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_protection_applies_from_the_creation_on(bench: Bench, trouble: str) -> None:
    """The run is killed while it creates a protected resource: if it exists, it stays."""
    with bench.troubled(a=trouble):
        bench.killed({"Thing[a]": {"lifecycle": {"protect": True}}})
    there = bench.names()
    assert acted(bench.apply({"Thing[a]": {"ensure": "absent"}})) == (
        {"Thing[a]": ("delete", "failed")} if there else {}
    )
    bench.destroy({})
    assert bench.names() == there


def test_an_error_of_a_replacement_is_reported_once(bench: Bench) -> None:
    """A replacement has two halves and one error."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": {**FIRST, "protect": True}}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.apply(site)
    assert sum("is protected" in line for line in bench.lines) == 1


def test_a_creation_with_other_values_is_recorded_as_it_is(bench: Bench) -> None:
    """Created with another size than declared: failed, recorded as partial with its real size, corrected later."""
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        created(kind, name, is_, {**should, "size": 9}, context)

    bench.world.change = change  # type: ignore[method-assign]
    (report,) = bench.apply({"Thing[a]": {"size": 1}}).steps
    assert "did not converge: size is 9, should be 1" in report.error
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.status, record.is_["size"], record.should["size"]) == ("partial", 9, 1)
    bench.world.change = created  # type: ignore[method-assign]
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {"Thing[a]": ("update", "success")}


def test_an_unreadable_creation_is_in_doubt_until_it_can_be_read(bench: Bench) -> None:
    """The creation has failed, because its result is unknown; later the resource is found, and is ours."""
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        created(kind, name, is_, should, context)
        bench.world.unreadable.add("thing")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 1
    assert bench.state.intents
    bench.world.change = created  # type: ignore[method-assign]
    bench.world.unreadable.clear()
    assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 0
    doubt = "in doubt: the last run did not see the outcome of its create; it is read again"
    assert f"notice: Thing[a]: {doubt}" in bench.lines
    assert planned(bench.plan({"Thing[a]": {"size": 1}})) == {}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.status == "ready"
    assert record.owned
    assert not bench.state.intents


def test_an_unreadable_deletion_keeps_the_record(bench: Bench) -> None:
    """When the type can be read again, the resource is gone or deleted once more."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {}})
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if name == "a":
            created(kind, name, is_, should, context)
        bench.world.unreadable.add("thing")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({}, prune=True).exit_code == 1
    assert sorted(key[1] for key in bench.state.records) == ["a", "b"]
    bench.world.change = created  # type: ignore[method-assign]
    bench.world.unreadable.clear()
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})
    assert not bench.state.intents


def test_a_tainted_resource_is_replaced_delete_first_whatever_is_declared(bench: Bench) -> None:
    """``create_first`` needs another name; the same name is deleted and created."""
    site = {"Thing[a]": {"size": 1, "lifecycle": {"replace": "create_first"}}}
    bench.apply(site)
    bench.mend(("thing", "a"), "taint")
    assert "-/+ Thing[a] (tainted)" in str(bench.plan(site))
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success")}
    assert [verb for verb, _, _ in bench.world.calls] == ["delete", "create"]
    assert status(bench, "Thing[a]") == "ready"
