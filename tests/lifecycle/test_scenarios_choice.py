"""Which resources a run selects, and which it must not delete."""

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
    ("options", "created"),
    [
        ({"targets": ("Thing[b]",)}, ["b"]),
        ({"targets": ("Thing[b]",), "with_dependencies": True}, ["a", "b"]),
        ({"targets": ("Thing[b]",), "with_dependents": True}, ["b", "c"]),
        ({"targets": ("thing",)}, ["a", "b", "c"]),
        ({"targets": ("Thing[?]",), "excludes": ("Thing[b]",)}, ["a"]),
        ({"excludes": ("Thing[a]",)}, []),
        ({"excludes": ("Thing[c]",)}, ["a", "b"]),
        ({"targets": ("Thing[a]",), "tags": frozenset({"thing"})}, ["a"]),
        ({"skip_tags": frozenset({"b"})}, ["a", "c"]),
    ],
)
def test_exactly_the_targets_are_applied(bench: Bench, options: dict[str, Any], created: list[str]) -> None:
    """Dependencies are added only on request, while Terraform adds them; the plan reports that it is not complete.

    What needs an excluded resource that does not exist is left out with it.
    """
    assert bench.plan(CHAIN, **options).complete is False
    bench.apply(CHAIN, **options)
    assert bench.names() == created


@pytest.mark.parametrize(
    ("names", "waits"), [("a", {}), ("ab", {1: [0]}), ("bc", {1: [0]}), ("ac", {1: [0]}), ("abc", {1: [0], 2: [1]})]
)
def test_only_selected_resources_wait_for_each_other(bench: Bench, names: str, waits: dict[int, list[int]]) -> None:
    """They also wait for each other through excluded ones."""
    plan = bench.plan(CHAIN, targets=tuple(f"Thing[{name}]" for name in names))
    assert {number: list(before) for number, before in plan.waits.items() if before} == waits


def test_among_several_the_first_that_failed_is_named(bench: Bench) -> None:
    """In the order of the declaration, in a whole run and in a partial one."""
    both = {"require": ["Thing[b]", "Thing[a]"]}
    site = {"Thing[a]": {}, "Thing[b]": {}, "Thing[c]": both, "Thing[d]": {"require": "Thing[c]"}}
    for targets in ((), ("Thing[a]", "Thing[b]", "Thing[c]")):
        with bench.troubled(a="raise", b="raise"):
            bench.apply(site, targets=targets)
        assert "warning: Thing[c]: skipped because Thing[b] failed" in bench.lines


def test_a_target_that_matches_nothing_is_wrong_usage(bench: Bench) -> None:
    """A typing mistake must not look like a success."""
    for option in ("targets", "excludes"):
        with pytest.raises(UsageError, match="matches no resource"):
            bench.apply(CHAIN, **{option: ("Thing[x]",)})


def test_a_resource_that_is_no_target_keeps_its_record(bench: Bench) -> None:
    """Byte for byte, also if its declaration has changed or was removed."""
    bench.apply({**CHAIN, "Thing[d]": {}})
    before = {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"}
    site = {"Thing[a]": {"size": 5}, "Thing[c]": {"size": 6}}
    bench.apply(site, targets=("Thing[a]",))
    assert {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"} == before
    bench.apply(site, excludes=("Thing[c]", "Thing[a]"))
    assert {key: repr(record) for key, record in bench.state.records.items() if key[1] != "a"} == before


def test_an_undeclared_target_is_pruned_and_the_others_stay(bench: Bench) -> None:
    """Only the named orphan is deleted."""
    bench.apply(CHAIN)
    bench.apply({}, prune=True, targets=("Thing[c]",))
    assert bench.names() == ["a", "b"]


def test_destroy_deletes_a_target_alone_or_with_its_dependents(bench: Bench) -> None:
    """The recorded dependencies determine the dependents."""
    bench.apply(CHAIN)
    bench.destroy(CHAIN, targets=("Thing[c]",))
    assert bench.names() == ["a", "b"]
    bench.destroy(CHAIN, targets=("Thing[a]",), with_dependents=True)
    assert bench.names() == []


@pytest.mark.parametrize("options", [{"targets": ("Thing[a]",)}, {"excludes": ("Thing[b]", "Thing[c]")}])
@pytest.mark.parametrize("run", ["destroy", "prune", "plan", "declared", "noop"])
def test_a_target_with_recorded_dependents_is_not_deleted_alone(
    bench: Bench, options: dict[str, Any], run: str
) -> None:
    """Direct and indirect dependents are named with the option that adds them; nothing is changed."""
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


def test_deleted_with_makes_a_dependent_of_a_target(bench: Bench) -> None:
    """B is deleted with A: A is not deleted while B is recorded; with its dependents both are, in one call."""
    site = {"Thing[a]": {}, "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}}}
    bench.apply(site)
    with pytest.raises(UsageError, match=r"Thing\[b\]"):
        bench.destroy(site, targets=("Thing[a]",))
    assert acted(bench.destroy(site, targets=("Thing[a]",), with_dependents=True)) == {
        "Thing[a]": ("delete", "success"),
        "Thing[b]": ("forget", "success"),
    }


def test_the_dependents_of_a_pruned_target_are_the_recorded_ones(bench: Bench) -> None:
    """B is still declared, no longer with A: it is changed first, and then A is deleted."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"size": 1, "require": "Thing[a]"}})
    bench.apply({"Thing[b]": {"size": 2}}, prune=True, targets=("Thing[a]",), with_dependents=True)
    assert [(verb, name) for verb, _, name in bench.world.calls] == [("update", "b"), ("delete", "a")]


def test_a_target_that_is_only_forgotten_needs_no_dependents(bench: Bench) -> None:
    """A stays on the system or does not exist; B was deleted or does not exist: no dependent is left without A."""
    bench.put("thing", a={})
    bench.apply(CHAIN)
    assert acted(bench.destroy(CHAIN, targets=("Thing[a]",))) == {"Thing[a]": ("forget", "success")}
    bench.destroy({})
    bench.world.things["thing"].clear()
    bench.apply(CHAIN)
    bench.apply({**CHAIN, "Thing[b]": {"ensure": "absent"}, "Thing[c]": {"ensure": "absent"}})
    assert acted(bench.destroy(CHAIN, targets=("Thing[a]",))) == {"Thing[a]": ("delete", "success")}


def test_destroy_deletes_in_reverse_order(bench: Bench) -> None:
    """Dependents before their dependencies, and otherwise the last created first."""
    bench.apply({**CHAIN, "Thing[d]": {}})
    bench.destroy({})
    order = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert order == ["d", "c", "b", "a"]


def test_destroy_needs_only_the_records(bench: Bench) -> None:
    """The records are sufficient, also if the order of the manifest was reversed since."""
    bench.apply(CHAIN)
    bench.destroy({"Thing[c]": {}, "Thing[b]": {"require": "Thing[c]"}})
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["c", "b", "a"]


def test_a_failed_deletion_keeps_its_dependencies(bench: Bench) -> None:
    """B cannot be deleted: A, on which it depends, stays; C is deleted. The next run deletes the rest."""
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
    """A resource that cannot be created cannot be deleted."""
    bench.put("setting", s={"value": 1})
    bench.apply({"Setting[s]": {"value": 2}})
    assert acted(bench.destroy({})) == {"Setting[s]": ("forget", "success")}
    assert bench.world.things["setting"] == {"s": {"value": 2}}


def test_a_job_is_forgotten_by_destroy_and_not_run(bench: Bench) -> None:
    """An imperative resource cannot be undone."""
    bench.apply({"Job[j]": {}})
    assert acted(bench.destroy({})) == {"Job[j]": ("forget", "success")}
    assert bench.world.calls == []


PROTECTED = {"Thing[a]": {"lifecycle": {"protect": True}}, "Thing[b]": {"lifecycle": {"protect": True}}, "Thing[c]": {}}


def test_all_protected_resources_are_named_at_once(bench: Bench) -> None:
    """Unprotected resources are deleted."""
    bench.apply(PROTECTED)
    report = bench.destroy({})
    assert acted(report) == {
        "Thing[a]": ("delete", "failed"),
        "Thing[b]": ("delete", "failed"),
        "Thing[c]": ("delete", "success"),
    }
    assert bench.names() == ["a", "b"]


def test_protection_remains_without_its_declaration(bench: Bench) -> None:
    """Removing the line does not end it, nor does removing the resource; only ``false`` does."""
    bench.apply(PROTECTED)
    assert acted(bench.apply({"Thing[a]": {"ensure": "absent"}})) == {"Thing[a]": ("delete", "failed")}
    assert acted(bench.apply({}, prune=True))["Thing[a]"] == ("delete", "failed")
    hint = "set lifecycle.protect to false first"
    assert bench.apply({"Thing[a]": {}}, replace=("Thing[a]",)).steps[0].error.endswith(f"would be replaced; {hint}")
    gone = {"Thing[a]": {"ensure": "absent", "lifecycle": {"protect": False}}}
    assert acted(bench.apply(gone)) == {"Thing[a]": ("delete", "success")}


def test_a_requested_replacement_does_not_override_protection(bench: Bench) -> None:
    """Removing the protection and replacing in one run is allowed."""
    bench.apply(PROTECTED)
    assert acted(bench.apply(PROTECTED, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "failed")}
    site = {**PROTECTED, "Thing[a]": {"lifecycle": {"protect": False}}}
    assert acted(bench.apply(site, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "success")}


def test_a_protected_resource_keeps_its_dependencies(bench: Bench) -> None:
    """B is protected and depends on A: A stays, and nothing of the chain is changed."""
    site = {"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]", "lifecycle": {"protect": True}}}
    bench.apply(site)
    assert acted(bench.destroy({})) == {"Thing[b]": ("delete", "failed"), "Thing[a]": ("delete", "skipped")}
    assert bench.world.calls == []


def test_a_retained_resource_is_forgotten(bench: Bench) -> None:
    """Undeclared, destroyed or declared absent: no call."""
    site = {"Thing[a]": {"lifecycle": {"retain": True}}}
    bench.apply(site)
    assert acted(bench.apply({}, prune=True)) == {"Thing[a]": ("forget", "success")}
    bench.apply(site)
    assert acted(bench.destroy({})) == {"Thing[a]": ("forget", "success")}
    assert (bench.names(), bench.state.records) == (["a"], {})


def test_what_is_forgotten_is_logged_with_the_reason(bench: Bench) -> None:
    """Who destroys learns what stays on the system, and under noop what would stay."""
    bench.put("thing", there={"size": 1})
    bench.apply({"Thing[there]": {}, "Thing[kept]": {"lifecycle": {"retain": True}}, "Thing[gone]": {}})
    del bench.world.things["thing"]["gone"]
    reasons = {"there": "it was there before us", "kept": "retained", "gone": "it is gone already"}
    for options, end in (({"noop": True}, " (noop)"), ({}, "")):
        bench.destroy({}, **options)
        assert sorted(bench.lines) == sorted(
            f"notice: Thing[{n}]: forgotten: {reason}{end}" for n, reason in reasons.items()
        )


def test_a_retained_resource_stays_when_it_is_replaced(bench: Bench) -> None:
    """Under a new name the new resource is created, and the old one stays on the system and is forgotten."""
    lifecycle = {"retain": True, "replace": "create_first"}
    bench.apply({"Thing[web]": {"name": "w1", "lifecycle": lifecycle}})
    bench.apply({"Thing[web]": {"name": "w2", "lifecycle": lifecycle}})
    assert bench.names() == ["w1", "w2"]
    assert [key[1] for key in bench.state.records] == ["w2"]


def test_deleted_with_needs_no_call(bench: Bench) -> None:
    """A chain of three: one call; without the first, each is deleted separately."""
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


def test_deleted_with_a_resource_that_stays_keeps_the_record(bench: Bench) -> None:
    """A could not be deleted, so B was not deleted with it."""
    site = {"Thing[a]": {}, "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}}}
    bench.apply(site)
    with bench.troubled(a="raise"):
        bench.destroy({})
    assert sorted(key[1] for key in bench.state.records) == ["a", "b"]


def test_noop_reports_what_a_run_would_do(bench: Bench) -> None:
    """The same steps with the status ``noop``; nothing is changed or written."""
    messages = bench.apply(CHAIN, noop=True)
    assert acted(messages) == {f"Thing[{name}]": ("create", "noop") for name in "abc"}
    assert messages.summary.created == 3
    assert bench.world.calls == []


def test_a_noop_resource_blocks_no_dependents(bench: Bench) -> None:
    """One that only requires it is applied; one that needs a value that applying it would yield is noop too."""
    site = {
        "Thing[a]": {"noop": True},
        "Thing[b]": {"require": "Thing[a]"},
        "Thing[c]": {"colour": "${Thing[a].serial}"},
        "Thing[d]": {"colour": "${Thing[b].serial}", "require": "Thing[a]"},
    }
    assert acted(bench.apply(site)) == {
        "Thing[a]": ("create", "noop"),
        "Thing[b]": ("create", "success"),
        "Thing[c]": ("create", "noop"),
        "Thing[d]": ("create", "success"),
    }
    assert bench.names() == ["b", "d"]


def test_a_project_that_is_only_a_file_name_cannot_be_pruned_from_another_file(bench: Bench) -> None:
    """It may be another user's state."""
    source = manifest(CHAIN)
    del source["project"]
    bench.runtime.project = None
    bench.runtime.apply(source)
    assert bench.names() == ["a", "b", "c"]
    assert planned(bench.runtime.plan(source)) == {}
