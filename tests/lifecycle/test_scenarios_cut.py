"""A replacement cut between its halves, a creation that leaves half of something: what the next run does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.world import acted, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

FIRST = {"replace": "delete_first"}


def refuse_to_make(bench: Bench) -> None:
    """Let nothing be made from now on, while what is there can go."""
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if should.get("ensure") == "present" and is_ is None:
            msg = "no more of these"
            raise RuntimeError(msg)
        made(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]


def cut(bench: Bench, site: dict[str, Any]) -> None:
    """Apply a replacement of which the first half succeeds and the second fails."""
    whole = bench.world.change
    refuse_to_make(bench)
    assert bench.apply(site).exit_code == 1
    bench.world.change = whole  # type: ignore[method-assign]


def status(bench: Bench, reference: str) -> str:
    """Give how a resource is recorded to stand."""
    record = bench.record(reference)
    return "" if record is None else record.status


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_cut_replacement_goes_straight_to_its_creation(bench: Bench, name: str) -> None:
    """The old one has gone: nothing is deleted again, under the same name or another, and the reason is said."""
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
    """However often; it is still ours when it comes."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "image": "y", "lifecycle": FIRST}}
    for _ in range(2):
        cut(bench, site)
        assert status(bench, "Thing[a]") == "pending"
    bench.apply(site)
    record = bench.record("Thing[a]")
    assert record is not None
    assert (record.owned, record.name, record.status) == (True, "b", "ready")


def test_a_cut_replacement_that_is_not_declared_any_more_is_dropped(bench: Bench) -> None:
    """Nothing is left of it, so no provider is asked to delete, and ``--prune`` is not needed."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": {}})
    cut(bench, {"Thing[a]": {"image": "y", "lifecycle": FIRST}, "Thing[b]": {}})
    plan = bench.plan({"Thing[b]": {}})
    assert planned(plan) == {"Thing[a]": "forget"}
    assert acted(bench.apply({"Thing[b]": {}})) == {"Thing[a]": ("forget", "success")}
    assert bench.world.calls == []
    assert [key[1] for key in bench.state.records] == ["b"]


def test_what_somebody_else_made_meanwhile_is_not_deleted(bench: Bench) -> None:
    """The old one went under another name, and one of that name is there again: it is not the one that was ours."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "lifecycle": FIRST}}
    cut(bench, site)
    bench.put("thing", a={})
    bench.apply(site, prune=True)
    assert bench.names() == ["a", "b"]
    assert [key[1] for key in bench.state.records] == ["b"]


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_a_kill_while_the_new_one_is_made_is_resolved_by_looking(bench: Bench, trouble: str) -> None:
    """Made or not: it is made once, it is ours, and undeclared it goes with ``--prune`` like any other."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    site = {"Thing[a]": {"name": "b", "lifecycle": FIRST}}
    with bench.troubled(b=trouble):
        bench.killed(site)
    assert bench.apply(site).exit_code == 0
    assert (bench.names(), len(bench.state.records)) == (["b"], 1)
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_a_kill_while_it_is_made_again_leaves_nothing_unknown(bench: Bench, trouble: str) -> None:
    """Under its own name, and declared no more when the next run looks: what was made then is ours to prune."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}})
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if should.get("ensure") == "present":
            bench.world.trouble = {("thing", "a"): trouble}
        made(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]
    bench.killed({"Thing[a]": {"image": "y", "lifecycle": FIRST}})
    bench.world.change, bench.world.trouble = made, {}  # type: ignore[method-assign]
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})


def test_dependents_that_went_with_it_come_back_with_it(bench: Bench) -> None:
    """B and A have gone, A could not be made: the next run makes both, and deletes nothing."""
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
    """It is there, so it is deleted and made by the next run, as if there had been none."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    with bench.troubled(a="raise"):
        bench.apply(site)
    assert status(bench, "Thing[a]") != "pending"
    bench.apply(site)
    assert [verb for verb, _, _ in bench.world.calls] == ["delete", "create"]


def test_two_copies_of_a_name_are_both_destroyed(bench: Bench) -> None:
    """The old one of a creation-first could not go: destroying takes both."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w1="raise"):
        bench.apply(site)
    assert bench.names() == ["w1", "w2"]
    bench.destroy(site)
    assert (bench.names(), bench.state.records) == ([], {})


def test_what_a_failed_creation_left_is_finished_and_the_reason_is_said(bench: Bench) -> None:
    """It is recorded as partial; the next run updates it and says why; then it is ready."""
    with bench.troubled(a="half"):
        bench.apply({"Thing[a]": {"size": 1}})
    assert status(bench, "Thing[a]") == "partial"
    (step,) = bench.plan({"Thing[a]": {"size": 1}}).steps
    assert (str(step.action), step.decision.reasons) == ("update", ("a failed run has left it partial",))
    bench.apply({"Thing[a]": {"size": 1}})
    assert status(bench, "Thing[a]") == "ready"


def test_a_creation_that_failed_and_left_all_of_it_is_ready_when_it_is_read(bench: Bench) -> None:
    """What is there decides: nothing differs, so nothing is called again, and state says so."""
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        made(kind, name, is_, should, context)
        context.failed(name, message="not quite")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 1
    assert status(bench, "Thing[a]") == "partial"
    bench.world.change = made  # type: ignore[method-assign]
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {}
    assert status(bench, "Thing[a]") == "ready"


@pytest.mark.parametrize("first", [{}, {"Thing[a]": {"image": "x", "password": "secret1", "lifecycle": FIRST}}])
def test_what_cannot_be_read_back_is_set_again_after_a_failed_creation(bench: Bench, first: dict[str, Any]) -> None:
    """Nobody knows whether it was set before the creation broke, also where it was set on the one that went."""
    bench.apply(first)
    site = {"Thing[a]": {"image": "y", "size": 1, "password": "secret1", "lifecycle": FIRST}}
    with bench.troubled(a="half") if not first else _half_when_made(bench):
        bench.apply(site)
    (step,) = bench.plan(site).steps
    assert {difference.attribute for difference in step.decision.differences} == {"size", "password"}


class _half_when_made:  # noqa: N801 - used as a function
    """Let a creation break half way, and a deletion succeed."""

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


def test_a_failed_update_keeps_what_was_asked_and_records_what_is(bench: Bench) -> None:
    """Half of it was done: state has the values asked for before, and those that are there now."""
    bench.apply({"Thing[a]": {"size": 1, "colour": "red"}})
    with bench.troubled(a="half"):
        assert bench.apply({"Thing[a]": {"size": 2, "colour": "blue"}}).exit_code == 1
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.should["colour"], record.is_["colour"], record.is_["size"]) == ("red", "blue", 1)
    assert record.status == "partial"


def test_a_provider_that_fails_and_lies_is_quoted_once(bench: Bench) -> None:
    """Its own reason is reported, not that what was asked is missing too."""
    with bench.troubled(a="half"):
        (report,) = bench.apply({"Thing[a]": {"size": 1}}).steps
    assert report.error == "a broke half way"
    assert sum("Thing[a]" in line for line in bench.lines) == 1


@pytest.mark.parametrize("trouble", ["kill", "late"])
def test_protection_holds_from_the_moment_of_creation(bench: Bench, trouble: str) -> None:
    """The run is killed while it makes what is protected: it stays if it is there."""
    with bench.troubled(a=trouble):
        bench.killed({"Thing[a]": {"lifecycle": {"protect": True}}})
    there = bench.names()
    assert acted(bench.apply({"Thing[a]": {"ensure": "absent"}})) == (
        {"Thing[a]": ("delete", "failed")} if there else {}
    )
    bench.destroy({})
    assert bench.names() == there


def test_a_refusal_is_said_once(bench: Bench) -> None:
    """A replacement has two halves and one error."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": {**FIRST, "protect": True}}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.apply(site)
    assert sum("is protected" in line for line in bench.lines) == 1


def test_what_came_out_otherwise_is_recorded_as_it_is(bench: Bench) -> None:
    """Made with another size than asked for: failed, recorded as partial with the size that it has, mended later."""
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        made(kind, name, is_, {**should, "size": 9}, context)

    bench.world.change = change  # type: ignore[method-assign]
    (report,) = bench.apply({"Thing[a]": {"size": 1}}).steps
    assert "did not converge: size is 9, should be 1" in report.error
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.is_ is not None
    assert (record.status, record.is_["size"], record.should["size"]) == ("partial", 9, 1)
    bench.world.change = made  # type: ignore[method-assign]
    assert acted(bench.apply({"Thing[a]": {"size": 1}})) == {"Thing[a]": ("update", "success")}


def test_what_cannot_be_read_after_its_creation_is_in_doubt_no_longer_than_that(bench: Bench) -> None:
    """The creation has failed, for nobody can tell what came of it; later it is found, and is ours."""
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        made(kind, name, is_, should, context)
        bench.world.unreadable.add("thing")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({"Thing[a]": {"size": 1}}).exit_code == 1
    assert bench.state.intents
    bench.world.change = made  # type: ignore[method-assign]
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


def test_what_cannot_be_read_after_its_deletion_is_not_taken_for_gone(bench: Bench) -> None:
    """It is still recorded; when it can be read again, it has gone or is deleted once more."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {}})
    made = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if name == "a":
            made(kind, name, is_, should, context)
        bench.world.unreadable.add("thing")

    bench.world.change = change  # type: ignore[method-assign]
    assert bench.apply({}, prune=True).exit_code == 1
    assert sorted(key[1] for key in bench.state.records) == ["a", "b"]
    bench.world.change = made  # type: ignore[method-assign]
    bench.world.unreadable.clear()
    bench.apply({}, prune=True)
    assert (bench.names(), bench.state.records) == ([], {})
    assert not bench.state.intents
