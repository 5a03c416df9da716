"""A replacement for a value that only the run yields: done at its turn, only if the value has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.render import plan as plan_text
from tests.lifecycle.world import FIRST, acted, calls, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

KINDS = ("Thing", "Gizmo")


def renumber(bench: Bench, *names: str) -> None:
    """Let an update of these give them another number."""
    change = bench.world.change

    def changed(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        change(kind, name, is_, should, context)
        if name in names and is_ is not None and should.get("ensure") == "present":
            bench.world.things[kind][name]["serial"] = f"T-{name}"

    bench.world.change = changed  # type: ignore[method-assign]


def chain(image: str, types: tuple[str, str, str]) -> dict[str, Any]:
    """Return A, which is replaced, D, which is updated with a value of A, and H, which is made from a value of D."""
    a, d, h = types
    source = f"{d}[D].serial"
    return {
        f"{a}[A]": {"image": image, "lifecycle": FIRST},
        f"{d}[D]": {"image": "i", "size": 1 if image == "x" else 2, "require": f"{a}[A]", "lifecycle": FIRST},
        f"{h}[H]": {"image": f"${{{source}}}", "lifecycle": FIRST},
    }


TYPES = [(a, d, h) for a in KINDS for d in KINDS for h in KINDS]


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("types", TYPES)
def test_nothing_is_replaced_for_a_value_that_stays(bench: Bench, types: tuple[str, str, str], parallel: int) -> None:
    """Whatever the types of its neighbours are, and although one of them is replaced."""
    bench.apply(chain("x", types))
    plan = bench.plan(chain("y", types))
    assert planned(plan)[f"{types[2]}[H]"] == "replace"
    report = bench.apply(chain("y", types), parallel=parallel)
    assert calls(bench) == "-A +A ~D"
    assert report.summary.unchanged == 1
    assert planned(bench.plan(chain("y", types))) == {}


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("types", TYPES)
def test_it_is_replaced_for_a_value_that_changes(bench: Bench, types: tuple[str, str, str], parallel: int) -> None:
    """Once the value is known."""
    bench.apply(chain("x", types))
    renumber(bench, "D")
    bench.apply(chain("y", types), parallel=parallel)
    assert calls(bench) == "-A +A ~D -H +H"
    assert bench.world.things[types[2].lower()]["H"]["image"] == "T-D"
    assert planned(bench.plan(chain("y", types))) == {}


def deep(size: int, **more: Any) -> dict[str, Any]:
    """Return D, which is updated, H, which is made from its number, and K, which is made from H by its name."""
    return {
        "Gizmo[D]": {"size": size},
        "Thing[H]": {"image": "${Gizmo[D].serial}", "lifecycle": FIRST},
        "Gizmo[K]": {"image": "${Thing[H].name}", "lifecycle": FIRST, **more},
    }


@pytest.mark.parametrize("parallel", [1, 3])
def test_what_is_made_from_it_stays_or_goes_with_it(bench: Bench, parallel: int) -> None:
    """K is not deleted before it is certain that H is."""
    bench.apply(deep(1))
    bench.apply(deep(2), parallel=parallel)
    assert calls(bench) == "~D"
    renumber(bench, "D")
    bench.apply(deep(3), parallel=parallel)
    assert calls(bench) == "~D -K -H +H +K"
    assert planned(bench.plan(deep(3))) == {}


def test_what_its_own_successor_needs_comes_before_it_goes(bench: Bench) -> None:
    """H needs E, whose change fails: H stays, although D has another number."""
    site = deep(1)
    site["Thing[H]"]["require"] = "Engine[E]"
    bench.apply({"Engine[E]": {"size": 1}, **site})
    renumber(bench, "D")
    bench.world.trouble = {("engine", "E"): "raise"}
    report = bench.apply({"Engine[E]": {"size": 2}, **site, "Gizmo[D]": {"size": 2}})
    assert acted(report)["Thing[H]"] == ("replace", "skipped")
    assert calls(bench).split() == ["~E", "~D"] or "-" not in calls(bench)
    assert bench.world.things["thing"]["H"]["image"] == "S-D"


def test_a_value_of_what_was_only_updated_meanwhile_is_compared_too(bench: Bench) -> None:
    """H keeps its image and is updated; K, which is made from its number, stays as long as that is the same."""
    site = deep(1, image="${Thing[H].serial}")
    bench.apply(site)
    site["Gizmo[D]"]["size"] = site["Thing[H]"]["size"] = 2
    bench.apply(site)
    assert calls(bench) == "~D ~H"
    renumber(bench, "H")
    site["Gizmo[D]"]["size"] = site["Thing[H]"]["size"] = 3
    bench.apply(site)
    assert calls(bench) == "~D ~H -K +K"
    assert bench.world.things["gizmo"]["K"]["image"] == "T-H"
    assert planned(bench.plan(site)) == {}


# What forbids it

FORBIDDEN = [
    (
        {"replace": "delete_first", "protect": True},
        "is protected and would be replaced; set lifecycle.protect to false first",
    ),
    ({"replace": "never"}, "lifecycle.replace is never"),
    ({"replace": "create_first"}, "same name"),
    ({"replace": "delete_first", "retain": True}, "is retained"),
    ({}, "lifecycle.replace: delete_first would replace it"),
]


@pytest.mark.parametrize(("lifecycle", "words"), FORBIDDEN)
def test_what_forbids_a_replacement_forbids_only_a_real_one(
    bench: Bench, lifecycle: dict[str, Any], words: str
) -> None:
    """The plan can be applied; the resource fails only if its value has changed, and is not touched."""
    site = {"Gizmo[D]": {"size": 1}, "Thing[H]": {"image": "${Gizmo[D].serial}", "lifecycle": lifecycle}}
    bench.apply(site)
    site["Gizmo[D]"]["size"] = 2
    assert bench.plan(site).applicable
    assert acted(bench.apply(site)) == {"Gizmo[D]": ("update", "success")}
    renumber(bench, "D")
    site["Gizmo[D]"]["size"] = 3
    report = bench.apply(site)
    assert words in next(step.error for step in report.steps if step.reference == "Thing[H]")
    assert calls(bench) == "~D"


def test_the_plan_says_what_forbids_it(bench: Bench) -> None:
    """And that it matters only if it must be replaced."""
    site = deep(1)
    site["Thing[H]"]["lifecycle"] = {**FIRST, "protect": True}
    bench.apply(site)
    site["Gizmo[D]"]["size"] = 2
    lines = list(plan_text.lines(bench.plan(site)))
    reason = "is protected and would be replaced; set lifecycle.protect to false first"
    assert f"-/+ Thing[H] (only if image changes; fails then: {reason})" in lines


@pytest.mark.parametrize(("lifecycle", "words"), FORBIDDEN)
def test_a_forbidden_dependent_keeps_what_it_was_made_from_only_if_that_goes(
    bench: Bench, lifecycle: dict[str, Any], words: str
) -> None:
    """K must not go: H stays too where its value has changed, and nothing fails where it has not."""
    bench.apply(deep(1, lifecycle=lifecycle))
    assert bench.apply(deep(2, lifecycle=lifecycle)).exit_code == 0
    assert calls(bench) == "~D"
    renumber(bench, "D")
    report = bench.apply(deep(3, lifecycle=lifecycle))
    assert {(step.reference, step.status) for step in report.steps} == {
        ("Gizmo[D]", "success"),
        ("Thing[H]", "skipped"),
        ("Gizmo[K]", "failed"),
    }
    assert words in next(item.error for item in report.steps if item.status == "failed")
    assert calls(bench) == "~D"


@pytest.mark.parametrize("lifecycle", [{}, {"protect": True}])
def test_a_trigger_that_turns_out_to_be_in_order_forbids_nothing(bench: Bench, lifecycle: dict[str, Any]) -> None:
    """Protection of what it would replace matters only if it has changed."""
    site: dict[str, Any] = {
        "Gizmo[D]": {"size": 1},
        "Thing[a]": {"colour": "${Gizmo[D].serial}"},
        "Thing[b]": {"size": 1, "lifecycle": {"replace_triggered_by": ["Thing[a]"], **lifecycle}},
    }
    bench.apply(site)
    site["Gizmo[D]"]["size"] = 2
    report = bench.apply(site)
    assert (report.exit_code, calls(bench)) == (0, "~D")
    renumber(bench, "D")
    site["Gizmo[D]"]["size"] = 3
    report = bench.apply(site)
    assert calls(bench) == ("~D ~a" if lifecycle else "~D ~a -b +b")
    assert report.exit_code == (1 if lifecycle else 0)


def test_what_goes_with_a_host_stays_where_the_host_stays(bench: Bench) -> None:
    """Also if it is protected."""
    hosted = {"lifecycle": {"deleted_with": "Thing[H]", "protect": True}}
    site = {**deep(1), "Thing[v]": hosted}
    bench.apply(site)
    site["Gizmo[D]"]["size"] = 2
    assert bench.apply(site).exit_code == 0
    assert calls(bench) == "~D"
    renumber(bench, "D")
    site["Gizmo[D]"]["size"] = 3
    assert bench.apply(site).exit_code == 1
    assert calls(bench) == "~D"


def test_what_cannot_be_replaced_in_time_is_replaced_by_the_next_run(bench: Bench) -> None:
    """L is made from K, whose own source has changed its number only after L could have been deleted."""
    site = deep(1, image="${Thing[H].serial}")
    site["Thing[L]"] = {"image": "${Gizmo[K].name}", "lifecycle": FIRST}
    bench.apply(site)
    renumber(bench, "H")
    site["Gizmo[D]"]["size"] = site["Thing[H]"]["size"] = 2
    report = bench.apply(site)
    assert "together with Thing[L]; run again" in next(step.error for step in report.steps if step.status == "failed")
    assert calls(bench) == "~D ~H"
    bench.apply(site)
    assert calls(bench) == "-L -K +K +L"
    assert planned(bench.plan(site)) == {}


@pytest.mark.parametrize("way", ["raise", "kill", "late"])
def test_a_late_replacement_that_is_cut_is_finished_by_the_next_run(bench: Bench, way: str) -> None:
    """Whether the deletion fails, or the run is killed before or after it."""
    site = deep(1, image="${Thing[H].serial}")
    bench.apply(site)
    renumber(bench, "H")
    site["Gizmo[D]"]["size"] = site["Thing[H]"]["size"] = 2
    bench.world.trouble = {("gizmo", "K"): way}
    if way == "raise":
        assert acted(bench.apply(site))["Gizmo[K]"] == ("replace", "failed")
    else:
        bench.killed(site)
    bench.world.trouble = {}
    bench.apply(site)
    assert bench.world.things["gizmo"]["K"]["image"] == "T-H"
    assert planned(bench.plan(site)) == {}


@pytest.mark.parametrize("parallel", [1, 3])
def test_one_that_must_not_go_keeps_its_siblings(bench: Bench, parallel: int) -> None:
    """K and M are made from H, and M is protected: K is not deleted for a replacement of H that cannot be."""
    site = deep(1)
    site["Gizmo[M]"] = {"image": "${Thing[H].name}", "lifecycle": {**FIRST, "protect": True}}
    bench.apply(site)
    renumber(bench, "D")
    site["Gizmo[D]"]["size"] = 2
    report = bench.apply(site, parallel=parallel)
    assert calls(bench) == "~D"
    assert {(step.reference, step.status) for step in report.steps} == {
        ("Gizmo[D]", "success"),
        ("Thing[H]", "skipped"),
        ("Gizmo[K]", "skipped"),
        ("Gizmo[M]", "failed"),
    }


def requiring(size: int, image: str, *, between: bool) -> dict[str, Any]:
    """Return D, H and K as in ``deep``, R, replaced for its image, that requires H, and Q, made from R: these first."""
    middle = {"Thing[X]": {"size": size, "require": "Thing[H]"}} if between else {}
    return {
        "Thing[Q]": {"image": "${Gizmo[R].name}", "lifecycle": FIRST},
        "Gizmo[R]": {"image": image, "require": "Thing[X]" if between else "Thing[H]", "lifecycle": FIRST},
        **deep(size),
        **middle,
    }


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("protected", ["Thing[H]", "Gizmo[K]"])
@pytest.mark.parametrize("parallel", [1, 3])
def test_nothing_is_deleted_whose_successor_needs_what_must_not_be_replaced(
    bench: Bench, parallel: int, protected: str, *, between: bool
) -> None:
    """R differs for certain and requires H; H, or K, which is made from H, is protected."""
    before, after = requiring(1, "x", between=between), requiring(2, "y", between=between)
    for site in before, after:
        site[protected]["lifecycle"] = {**FIRST, "protect": True}
    bench.apply(before)
    renumber(bench, "D")
    report = bench.apply(after, parallel=parallel)
    assert calls(bench) == "~D"
    assert acted(report)["Gizmo[R]"] == acted(report)["Thing[Q]"] == ("replace", "skipped")
    assert bench.world.things["gizmo"].keys() == {"D", "K", "R"}


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("renumbered", [False, True])
def test_what_requires_a_conditional_replacement_is_replaced_whether_or_not_that_is(
    bench: Bench, parallel: int, *, between: bool, renumbered: bool
) -> None:
    """R differs for certain; H and K are replaced only if D has another number."""
    bench.apply(requiring(1, "x", between=between))
    if renumbered:
        renumber(bench, "D")
    assert bench.apply(requiring(2, "y", between=between), parallel=parallel).exit_code == 0
    words = calls(bench).split()
    assert words[0] == "~D"
    assert sorted(words) == sorted(f"~D -R +R -Q +Q {'~X' * between} {'-H +H -K +K' * renumbered}".split())
    assert planned(bench.plan(requiring(2, "y", between=between))) == {}


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_group_is_decided_alike_while_it_is_removed(bench: Bench, parallel: int) -> None:
    """L is made from H and K, and removed first; that its sources go then forbids nothing."""
    site = deep(1)
    site["Thing[L]"] = {"image": "${Thing[H].name} ${Gizmo[K].serial}", "lifecycle": FIRST}
    bench.apply(site)
    renumber(bench, "D")
    site["Gizmo[D]"]["size"] = 2
    assert bench.apply(site, parallel=parallel).exit_code == 0
    assert calls(bench) == "~D -L -K -H +H +K +L"
    assert planned(bench.plan(site)) == {}


def test_nothing_is_deleted_ahead_for_a_trigger_that_is_not_decided(bench: Bench) -> None:
    """L is triggered by T, which cannot be replaced and fails; that it would change is known only at its turn."""
    site = deep(1)
    site["Thing[T]"] = {"image": "${Gizmo[K].serial}"}
    site["Thing[L]"] = {"image": "${Gizmo[K].name}", "lifecycle": {**FIRST, "replace_triggered_by": ["Thing[T]"]}}
    site["Gizmo[K]"]["size"] = 1
    bench.apply(site)
    renumber(bench, "K")
    site["Gizmo[D]"]["size"] = site["Gizmo[K]"]["size"] = 2
    report = bench.apply(site)
    assert acted(report)["Thing[T]"][1] == "failed"
    assert "-" not in calls(bench)


def test_a_target_takes_nothing_along_unless_it_is_really_replaced(bench: Bench) -> None:
    """K is no target: H fails only if it would have to be replaced."""
    bench.apply(deep(1))
    targets = {"targets": ("Gizmo[D]", "Thing[H]")}
    assert bench.apply(deep(2), **targets).exit_code == 0
    renumber(bench, "D")
    report = bench.apply(deep(3), **targets)
    assert "would take Gizmo[K] along" in next(step.error for step in report.steps if step.status == "failed")
    assert calls(bench) == "~D"


def test_a_noop_run_tells_it_as_planned(bench: Bench) -> None:
    """Nobody can know what the values would be."""
    bench.apply(deep(1))
    plan, report = bench.plan(deep(2), noop=True), bench.apply(deep(2), noop=True)
    assert acted(report) == {
        "Gizmo[D]": ("update", "noop"),
        "Thing[H]": ("replace", "noop"),
        "Gizmo[K]": ("replace", "noop"),
    }
    assert plan.summary._replace(noop=True) == report.summary
