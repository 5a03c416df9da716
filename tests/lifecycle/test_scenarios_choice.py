"""Which resources a run is about, and which must not be deleted by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.errors import UsageError
from tests.lifecycle.world import acted, manifest, planned

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lifecycle.world import Bench

CHAIN = {"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"require": "Thing[b]"}}


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({"targets": ("Thing[b]",)}, ["b"]),
        ({"targets": ("Thing[b]",), "with_dependencies": True}, ["a", "b"]),
        ({"targets": ("Thing[b]",), "with_dependents": True}, ["b", "c"]),
        ({"targets": ("thing",)}, ["a", "b", "c"]),
        ({"targets": ("Thing[?]",), "excludes": ("Thing[b]",)}, ["a", "c"]),
        ({"excludes": ("Thing[a]",)}, ["b", "c"]),
        ({"targets": ("Thing[a]",), "tags": frozenset({"thing"})}, ["a"]),
        ({"skip_tags": frozenset({"b"})}, ["a", "c"]),
    ],
)
def test_exactly_what_is_named_is_done(bench: Bench, options: dict[str, Any], made: list[str]) -> None:
    """No more unless widened, where Terraform widens by itself; the plan says that it is not complete."""
    assert bench.plan(CHAIN, **options).complete is False
    bench.apply(CHAIN, **options)
    assert bench.names() == made


@pytest.mark.parametrize(
    ("names", "waits"), [("a", {}), ("ab", {1: [0]}), ("bc", {1: [0]}), ("ac", {1: [0]}), ("abc", {1: [0], 2: [1]})]
)
def test_what_is_left_out_waits_for_nothing(bench: Bench, names: str, waits: dict[int, list[int]]) -> None:
    """What a run is about waits for what it is about, also by way of what it leaves alone, and for nothing else."""
    plan = bench.plan(CHAIN, targets=tuple(f"Thing[{name}]" for name in names))
    assert {number: list(before) for number, before in plan.waits.items() if before} == waits


def test_among_several_the_first_that_failed_is_named(bench: Bench) -> None:
    """In the order of the declaration, whether the run is about everything or the beginning of it."""
    both = {"require": ["Thing[b]", "Thing[a]"]}
    site = {"Thing[a]": {}, "Thing[b]": {}, "Thing[c]": both, "Thing[d]": {"require": "Thing[c]"}}
    for targets in ((), ("Thing[a]", "Thing[b]", "Thing[c]")):
        with bench.troubled(a="raise", b="raise"):
            bench.apply(site, targets=targets)
        assert "warning: Thing[c]: skipped because Thing[b] failed" in bench.lines


def test_what_matches_nothing_is_wrong_usage(bench: Bench) -> None:
    """A typing mistake must not look like success."""
    for option in ("targets", "excludes"):
        with pytest.raises(UsageError, match="matches no resource"):
            bench.apply(CHAIN, **{option: ("Thing[x]",)})


def test_what_is_not_named_keeps_its_record(bench: Bench) -> None:
    """Byte for byte, also where its declaration has changed or gone."""
    bench.apply({**CHAIN, "Thing[d]": {}})
    before = {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"}
    site = {"Thing[a]": {"size": 5}, "Thing[c]": {"size": 6}}
    bench.apply(site, targets=("Thing[a]",))
    assert {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"} == before
    bench.apply(site, excludes=("Thing[c]", "Thing[a]"))
    assert {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"} == before


def test_an_undeclared_target_is_pruned_and_the_others_stay(bench: Bench) -> None:
    """Only what is named goes."""
    bench.apply(CHAIN)
    bench.apply({}, prune=True, targets=("Thing[c]",))
    assert bench.names() == ["a", "b"]


def test_a_target_of_destroy_goes_alone_or_with_its_dependents(bench: Bench) -> None:
    """Recorded dependencies decide who depends on whom."""
    bench.apply(CHAIN)
    bench.destroy(CHAIN, targets=("Thing[c]",))
    assert bench.names() == ["a", "b"]
    bench.destroy(CHAIN, targets=("Thing[a]",), with_dependents=True)
    assert bench.names() == []


@pytest.mark.parametrize("options", [{"targets": ("Thing[a]",)}, {"excludes": ("Thing[b]", "Thing[c]")}])
@pytest.mark.parametrize("run", ["destroy", "prune", "plan", "declared", "noop"])
def test_nothing_is_deleted_under_what_is_recorded_to_need_it(bench: Bench, options: dict[str, Any], run: str) -> None:
    """Whoever needs it, directly or not, is named with the option that adds it; nothing is touched."""
    bench.apply(CHAIN)
    before = bench.state
    calls: dict[str, Callable[[], object]] = {
        "destroy": lambda: bench.destroy(CHAIN, **options),
        "prune": lambda: bench.apply({}, prune=True, **options),
        "plan": lambda: bench.runtime.plan_destroy(manifest({}), **options),
        # What is still declared, without its requirement, is recorded with it.
        "declared": lambda: bench.apply({"Thing[b]": {}, "Thing[c]": {}}, prune=True, **options),
        "noop": lambda: bench.destroy(CHAIN, noop=True, **options),
    }
    with pytest.raises(UsageError, match=r"Thing\[a\] .* Thing\[b\].*--with-dependents"):
        calls[run]()
    assert (bench.names(), bench.state) == (["a", "b", "c"], before)


def test_what_would_go_with_a_target_is_a_dependent_of_it(bench: Bench) -> None:
    """B lives in A: A is not deleted with B still recorded; with its dependents both go, in one call."""
    site = {"Thing[a]": {}, "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}}}
    bench.apply(site)
    with pytest.raises(UsageError, match=r"Thing\[b\]"):
        bench.destroy(site, targets=("Thing[a]",))
    assert acted(bench.destroy(site, targets=("Thing[a]",), with_dependents=True)) == {
        "Thing[a]": ("delete", "success"),
        "Thing[b]": ("forget", "success"),
    }


def test_dependents_of_a_pruned_target_are_those_that_are_recorded(bench: Bench) -> None:
    """B is still declared, no longer with A: it is changed first, and then A goes."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"size": 1, "require": "Thing[a]"}})
    bench.apply({"Thing[b]": {"size": 2}}, prune=True, targets=("Thing[a]",), with_dependents=True)
    assert [(verb, name) for verb, _, name in bench.world.calls] == [("update", "b"), ("delete", "a")]


def test_what_is_only_forgotten_or_gone_has_nobody_to_ask(bench: Bench) -> None:
    """A stays where it is, or is away already; B has gone, or is away: nobody is left without anything."""
    bench.put("thing", a={})
    bench.apply(CHAIN)
    assert acted(bench.destroy(CHAIN, targets=("Thing[a]",))) == {"Thing[a]": ("forget", "success")}
    bench.destroy({})
    bench.world.things["thing"].clear()
    bench.apply(CHAIN)
    bench.apply({**CHAIN, "Thing[b]": {"ensure": "absent"}, "Thing[c]": {"ensure": "absent"}})
    assert acted(bench.destroy(CHAIN, targets=("Thing[a]",))) == {"Thing[a]": ("delete", "success")}


def test_destroy_goes_in_reverse(bench: Bench) -> None:
    """Dependents before what they depend on, and otherwise the last made first."""
    bench.apply({**CHAIN, "Thing[d]": {}})
    bench.destroy({})
    order = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert order == ["d", "c", "b", "a"]


def test_destroy_needs_no_declaration_and_no_order_of_the_manifest(bench: Bench) -> None:
    """What was recorded is enough, also where the manifest has been turned round since."""
    bench.apply(CHAIN)
    bench.destroy({"Thing[c]": {}, "Thing[b]": {"require": "Thing[c]"}})
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["c", "b", "a"]


def test_what_fails_to_go_keeps_what_it_depends_on(bench: Bench) -> None:
    """B cannot be deleted: A, on which it depends, stays; C has gone. The next run takes the rest."""
    bench.apply(CHAIN)
    with bench.troubled(b="raise"):
        report = bench.destroy({})
    assert acted(report) == {
        "Thing[c]": ("delete", "success"),
        "Thing[b]": ("delete", "failed"),
        "Thing[a]": ("delete", "skipped"),
    }
    assert sorted(key[1] for key in bench.state.records) == ["a", "b"]
    bench.destroy({})
    assert (bench.names(), bench.state.records) == ([], {})


def test_a_setting_is_forgotten_by_destroy(bench: Bench) -> None:
    """What cannot be created cannot be deleted."""
    bench.put("setting", s={"value": 1})
    bench.apply({"Setting[s]": {"value": 2}})
    assert acted(bench.destroy({})) == {"Setting[s]": ("forget", "success")}
    assert bench.world.things["setting"] == {"s": {"value": 2}}


def test_a_job_is_forgotten_by_destroy_and_not_run(bench: Bench) -> None:
    """What was done is done."""
    bench.apply({"Job[j]": {}})
    assert acted(bench.destroy({})) == {"Job[j]": ("forget", "success")}
    assert bench.world.calls == []


PROTECTED = {"Thing[a]": {"lifecycle": {"protect": True}}, "Thing[b]": {"lifecycle": {"protect": True}}, "Thing[c]": {}}


def test_all_that_is_protected_is_named_at_once(bench: Bench) -> None:
    """And what is not protected goes."""
    bench.apply(PROTECTED)
    report = bench.destroy({})
    assert acted(report) == {
        "Thing[a]": ("delete", "failed"),
        "Thing[b]": ("delete", "failed"),
        "Thing[c]": ("delete", "success"),
    }
    assert bench.names() == ["a", "b"]


def test_protection_outlives_the_declaration(bench: Bench) -> None:
    """Taking the line away does not lift it, nor does taking the resource away; only ``false`` does."""
    bench.apply(PROTECTED)
    assert acted(bench.apply({"Thing[a]": {"ensure": "absent"}})) == {"Thing[a]": ("delete", "failed")}
    assert acted(bench.apply({}, prune=True))["Thing[a]"] == ("delete", "failed")
    gone = {"Thing[a]": {"ensure": "absent", "lifecycle": {"protect": False}}}
    assert acted(bench.apply(gone)) == {"Thing[a]": ("delete", "success")}


def test_a_wish_to_replace_does_not_lift_protection(bench: Bench) -> None:
    """Unprotecting and replacing in one run is allowed."""
    bench.apply(PROTECTED)
    assert acted(bench.apply(PROTECTED, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "failed")}
    site = {**PROTECTED, "Thing[a]": {"lifecycle": {"protect": False}}}
    assert acted(bench.apply(site, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "success")}


def test_what_is_protected_keeps_its_dependencies(bench: Bench) -> None:
    """B is protected and depends on A: A stays, and nothing of the chain is touched."""
    site = {"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]", "lifecycle": {"protect": True}}}
    bench.apply(site)
    assert acted(bench.destroy({})) == {"Thing[b]": ("delete", "failed"), "Thing[a]": ("delete", "skipped")}
    assert bench.world.calls == []


def test_what_is_retained_is_forgotten(bench: Bench) -> None:
    """Undeclared, destroyed or declared absent: no call."""
    site = {"Thing[a]": {"lifecycle": {"retain": True}}}
    bench.apply(site)
    assert acted(bench.apply({}, prune=True)) == {"Thing[a]": ("forget", "success")}
    bench.apply(site)
    assert acted(bench.destroy({})) == {"Thing[a]": ("forget", "success")}
    assert (bench.names(), bench.state.records) == (["a"], {})


def test_what_is_retained_survives_its_replacement(bench: Bench) -> None:
    """Under a new name the new one is made, and the old one is left alone and forgotten."""
    lifecycle = {"retain": True, "replace": "create_first"}
    bench.apply({"Thing[web]": {"name": "w1", "lifecycle": lifecycle}})
    bench.apply({"Thing[web]": {"name": "w2", "lifecycle": lifecycle}})
    assert bench.names() == ["w1", "w2"]
    assert [key[1] for key in bench.state.records] == ["w2"]


def test_what_goes_with_another_needs_no_call(bench: Bench) -> None:
    """A chain of three: one call; without the first, each is deleted on its own."""
    site = {
        "Thing[a]": {},
        "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}},
        "Thing[c]": {"lifecycle": {"deleted_with": "Thing[b]"}},
    }
    bench.apply(site)
    report = bench.destroy({})
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["a"]
    assert acted(report)["Thing[c]"] == ("forget", "success")
    bench.world.things["thing"].clear()
    bench.apply(site)
    bench.apply({"Thing[a]": {}, "Thing[b]": site["Thing[b]"]}, prune=True)
    assert bench.names() == ["a", "b"]


def test_what_should_have_gone_with_another_stays_recorded_when_that_stays(bench: Bench) -> None:
    """A could not be deleted, so B has not gone with it."""
    site = {"Thing[a]": {}, "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}}}
    bench.apply(site)
    with bench.troubled(a="raise"):
        bench.destroy({})
    assert sorted(key[1] for key in bench.state.records) == ["a", "b"]


def test_noop_tells_what_a_run_would_do(bench: Bench) -> None:
    """The same steps with the status ``noop``; nothing is touched, nothing written."""
    told = bench.apply(CHAIN, noop=True)
    assert acted(told) == {f"Thing[{name}]": ("create", "noop") for name in "abc"}
    assert told.summary.created == 3
    assert bench.world.calls == []


def test_a_noop_resource_blocks_nobody(bench: Bench) -> None:
    """Who only requires it goes on; who needs a value that only doing it would yield is noop too."""
    site = {
        "Thing[a]": {"noop": True},
        "Thing[b]": {"require": "Thing[a]"},
        "Thing[c]": {"colour": "${Thing[a].serial}"},
    }
    assert acted(bench.apply(site)) == {
        "Thing[a]": ("create", "noop"),
        "Thing[b]": ("create", "success"),
        "Thing[c]": ("create", "noop"),
    }
    assert bench.names() == ["b"]


def test_a_project_that_is_only_a_file_name_cannot_be_pruned_from_another_file(bench: Bench) -> None:
    """It may be somebody else's state."""
    source = manifest(CHAIN)
    del source["project"]
    bench.runtime.project = None
    bench.runtime.apply(source)
    assert bench.names() == ["a", "b", "c"]
    assert planned(bench.runtime.plan(source)) == {}
