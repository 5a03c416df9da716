"""Values that are not known yet and can only be set at creation: the plan says what happens if they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.world import acted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lifecycle.world import Bench


def pair(size: int, image: str = "of ${Thing[a].serial}", **more: Any) -> Mapping[str, Any]:
    """Return A, whose number is not known where it changes, and B, which is made from that number."""
    return {"Thing[a]": {"size": size}, "Thing[b]": {"image": image, **more}}


def of_b(plan: Any) -> Any:
    """Return the step of B."""
    return next(step for step in plan.steps if str(step.reference) == "Thing[b]")


@pytest.mark.parametrize(
    ("lifecycle", "hint"),
    [
        ({}, "lifecycle.replace: delete_first would replace it"),
        ({"lifecycle": {"replace": "never"}}, "lifecycle.replace is never"),
    ],
)
@pytest.mark.parametrize("noop", [False, True])
def test_a_plan_says_that_an_update_may_fail(
    bench: Bench,
    lifecycle: dict[str, Any],
    hint: str,
    noop: bool,  # noqa: FBT001
) -> None:
    """With the condition and the reason; the plan itself has not failed, as the value may stay the same."""
    bench.apply(pair(1, **lifecycle))
    step = of_b(plan := bench.plan(pair(2, **lifecycle), noop=noop))
    assert step.reasons[0] == "only if image changes"
    assert step.reasons[1].startswith("fails then: 'image' can only be set at creation: it is ")
    assert step.reasons[1].endswith(f" and should be (known after apply); {hint}")
    assert (plan.summary.failed, str(step.action)) == (0, "update")
    assert f"fails then: {step.reasons[1].removeprefix('fails then: ')}" in str(plan)
    assert acted(bench.apply(pair(2, **lifecycle))) == {"Thing[a]": ("update", "success")}


def test_an_update_that_fails_was_announced(bench: Bench) -> None:
    """The value is another one after all: the resource fails with the reason that the plan gave."""
    bench.apply(pair(1))
    bench.world.things["thing"]["a"]["serial"] = "other"
    manifest = {"Thing[a]": {"size": 2}, "Thing[b]": {"image": "of ${Thing[a].serial}"}}
    assert "fails then: 'image' can only" in str(bench.plan(manifest))
    report = bench.apply(manifest)
    assert "'image' can only be set at creation" in next(step.error for step in report.steps if step.error)


def test_another_difference_is_set_anyway(bench: Bench) -> None:
    """Then the condition holds for the failure alone: ``if``, not ``only if``."""
    bench.apply(pair(1))
    assert of_b(bench.plan(pair(2, colour="red"))).reasons[0] == "if image changes"


@pytest.mark.parametrize("lifecycle", [{"replace": "delete_first"}, {"ignore_changes": ["image"]}])
def test_nothing_is_said_where_it_cannot_fail(bench: Bench, lifecycle: dict[str, Any]) -> None:
    """It may be replaced, or the change is ignored."""
    bench.apply(pair(1, lifecycle=lifecycle))
    assert "fails then" not in str(bench.plan(pair(2, lifecycle=lifecycle)))


def test_what_differs_for_certain_fails_in_the_plan(bench: Bench) -> None:
    """A known value of an attribute that can only be set at creation: exit 1 before anything is touched."""
    bench.apply(pair(1))
    plan = bench.plan(pair(2, image="else"))
    assert (plan.summary.failed, "fails then" in str(plan)) == (1, False)


@pytest.mark.parametrize(
    ("image", "may_stay"),
    [
        ("t${Thing[a].serial}", False),
        ("of ${Thing[a].serial}!", False),
        ("of ${Thing[a].serial}-${Thing[a].serial}-S", False),
        ("${Thing[a].colour} ${Thing[a].serial}", False),
        ("${Thing[a].serial} of S-a of", False),
        ("of ${Thing[a].serial}", True),
        ("${Thing[a].serial}-a", True),
        ("o${Thing[a].serial} ${Thing[a].serial}a", True),
        ("${Thing[a].serial}", True),
    ],
)
@pytest.mark.parametrize("lifecycle", [{}, {"replace": "never"}, {"replace": "delete_first"}])
def test_text_around_an_unknown_value_that_the_present_one_has_not_is_a_certain_difference(
    bench: Bench, image: str, lifecycle: dict[str, Any], *, may_stay: bool
) -> None:
    """The plan fails, or replaces without a condition; where the text is there too, all depends on the value."""
    bench.apply(pair(1))
    plan = bench.plan({**pair(2, image, lifecycle=lifecycle), "Thing[a]": {"size": 2, "colour": "by"}})
    step, allowed = of_b(plan), lifecycle == {"replace": "delete_first"}
    assert plan.summary.failed == (0 if allowed or may_stay else 1)
    assert any(reason.startswith("only if") for reason in step.reasons) == may_stay
    assert ("should be (known after apply); lifecycle.replace" in (step.error or "")) == (not (allowed or may_stay))
    assert str(step.action) == ("replace" if allowed else "update")
