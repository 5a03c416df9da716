"""Policies: a forbidden change fails before it is made, a warning is reported, and a policy changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import UNKNOWN, Problem, ResourceError, Sensitive
from resource_api.model.report import Diagnosed
from resource_api.model.values.errors import DefinitionError
from tests.lifecycle.world import acted, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resource_api import PolicyPlan, PolicyResource
    from tests.lifecycle.world import Bench


def small(resource: PolicyResource) -> str | None:
    """Allow no size above 5."""
    size = resource.should.get("size")
    return "is too big" if isinstance(size, int) and size > 5 else None


def few(plan: PolicyPlan) -> str | None:
    """Allow at most two changes at once."""
    acting = [step for step in plan.steps if step.action != "same"]
    return f"{len(acting)} changes are more than 2" if len(acting) > 2 else None


def errors(report: Any) -> dict[str, str]:
    """Return the reasons of failed steps."""
    return {step.reference: step.error for step in report.steps if step.status == "failed"}


def warnings(bench: Bench) -> list[str]:
    """Return the warnings of the last run."""
    return [str(event.problem) for event in bench.events if isinstance(event, Diagnosed)]


def test_a_forbidden_resource_fails_alone(bench: Bench) -> None:
    """Nothing of it is done; its dependents are skipped, others are applied."""
    bench.registry.register_policy("small", resource=small)
    site = {"Thing[a]": {"size": 9}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"size": 1}}
    plan = bench.plan(site)
    assert not plan.applicable
    report = bench.apply(site)
    assert {name: status for name, (_, status) in acted(report).items()} == {
        "Thing[a]": "failed",
        "Thing[b]": "skipped",
        "Thing[c]": "success",
    }
    assert errors(report) == {"Thing[a]": "policy 'small': is too big"}
    assert bench.names() == ["c"]


def test_an_unchanged_resource_is_checked_too(bench: Bench) -> None:
    """A policy is about declarations, not about changes."""
    bench.apply({"Thing[a]": {"size": 9}})
    bench.registry.register_policy("small", resource=small)
    assert errors(bench.apply({"Thing[a]": {"size": 9}})) == {"Thing[a]": "policy 'small': is too big"}
    assert errors(bench.apply({"Thing[a]": {"size": 9}}, noop=True)) == {"Thing[a]": "policy 'small': is too big"}
    assert bench.world.calls == []


def test_only_selected_resources_are_checked(bench: Bench) -> None:
    """Others are not changed."""
    bench.registry.register_policy("small", resource=small)
    site = {"Thing[a]": {"size": 9}, "Thing[b]": {}}
    assert acted(bench.apply(site, targets=("Thing[b]",))) == {"Thing[b]": ("create", "success")}


def test_a_value_that_becomes_known_is_checked_before_its_step(bench: Bench) -> None:
    """Before that it is unknown; if it is forbidden, nothing is done."""
    observed: list[Any] = []

    def plain(resource: PolicyResource) -> Iterator[str]:
        observed.append(resource.should.get("colour"))
        if resource.should.get("colour") == "S-a":
            yield "must not be called like a number"

    bench.registry.register_policy("plain", resource=plain)
    site = {"Thing[a]": {}, "Thing[b]": {"colour": "${Thing[a].serial}"}}
    report = bench.apply(site)
    assert errors(report) == {"Thing[b]": "policy 'plain': must not be called like a number"}
    assert UNKNOWN in observed
    assert bench.names() == ["a"]


def test_a_warning_is_reported_once_and_nothing_fails(bench: Bench) -> None:
    """Also if a resource is checked twice."""

    def wide(resource: PolicyResource) -> Problem:
        return Problem("size", f"{resource.title} could be smaller", "warning")

    bench.registry.register_policy("wide", resource=wide, plan=lambda _plan: [Problem(None, "so be it", "warning")])
    report = bench.apply({"Thing[a]": {}, "Thing[b]": {"colour": "${Thing[a].serial}"}})
    assert report.exit_code == 0
    assert warnings(bench) == [
        "<mapping>: Thing[a]: policy 'wide': a could be smaller",
        "<mapping>: Thing[b]: policy 'wide': b could be smaller",
        "policy 'wide': so be it",
    ]


def test_a_forbidden_plan_is_not_started(bench: Bench) -> None:
    """Every step that would change something fails; unchanged resources stay so."""
    bench.apply({"Thing[a]": {}})
    bench.registry.register_policy("few", plan=few)
    site = {f"Thing[{name}]": {} for name in "abcd"}
    report = bench.apply(site)
    assert errors(report) == {f"Thing[{name}]": "policy 'few': 3 changes are more than 2" for name in "bcd"}
    assert report.summary.unchanged == 1
    assert bench.names() == ["a"]
    assert not bench.plan(site).applicable
    del site["Thing[d]"]
    assert acted(bench.apply(site)) == dict.fromkeys(("Thing[b]", "Thing[c]"), ("create", "success"))


def test_a_plan_policy_may_forbid_one_step(bench: Bench) -> None:
    """It names the step; its dependents are skipped."""

    def kept(plan: PolicyPlan) -> Iterator[Problem]:
        for step in plan.steps:
            if step.action == "delete":
                yield Problem(None, "must stay", reference=step.reference)

    site = {"Thing[a]": {}, "Thing[b]": {}}
    bench.apply(site)
    bench.registry.register_policy("kept", plan=kept)
    assert errors(bench.apply({"Thing[a]": {}}, prune=True)) == {"Thing[b]": "policy 'kept': must stay"}
    report = bench.destroy({})
    assert set(errors(report)) == {"Thing[a]", "Thing[b]"}
    assert bench.names() == ["a", "b"]


def broken(_what: Any) -> str:
    """Raise an exception."""
    raise ValueError("I cannot tell")


def wrong(_what: Any) -> Any:
    """Return neither a string nor a problem."""
    return [42]


def empty(_what: Any) -> str:
    """Return an empty text for nothing wrong."""
    return ""


def leaving(_what: Any) -> Any:
    """Exit the process."""
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        (broken, "I cannot tell"),
        (wrong, "returns strings and Problems, not int"),
        (empty, "returns None, not an empty text"),
        (leaving, "SystemExit"),
    ],
)
def test_a_failing_policy_allows_nothing(bench: Bench, judge: Callable[[Any], Any], says: str) -> None:
    """Its file and line are reported."""
    bench.registry.register_policy("odd", resource=judge)
    (error,) = errors(bench.apply({"Thing[a]": {}})).values()
    position = error.removeprefix("policy 'odd' failed at ").split(": ")[0]
    assert int(position.rpartition(":")[2]) >= judge.__code__.co_firstlineno
    assert says in error
    assert bench.names() == []


def test_a_failing_plan_policy_is_an_error_of_an_unchanged_run_too(bench: Bench) -> None:
    """It never counts as approval."""
    bench.apply({"Thing[a]": {}})
    bench.registry.register_policy("odd", plan=broken)
    for run in (lambda: bench.plan({"Thing[a]": {}}), lambda: bench.apply({"Thing[a]": {}})):
        with pytest.raises(ResourceError, match="policy 'odd' failed"):
            run()
    assert set(errors(bench.apply({"Thing[b]": {}}))) == {"Thing[b]"}
    assert bench.names() == ["a"]


def test_a_problem_without_a_step_forbids_the_whole_plan(bench: Bench) -> None:
    """The step that it means is unknown, so nothing is done."""
    bench.registry.register_policy("odd", plan=lambda _plan: Problem(None, "no", reference="Thing[x]"))
    (error,) = errors(bench.apply({"Thing[a]": {}})).values()
    assert error == "policy 'odd' names Thing[x], which is not in the plan: policy 'odd': no"


def test_a_policy_cannot_change_its_arguments(bench: Bench) -> None:
    """They are frozen, or copies."""

    def meddle(resource: PolicyResource) -> None:
        for change in (lambda: resource.should.update(size=1), lambda: setattr(resource, "title", "x")):  # type: ignore[attr-defined]
            with pytest.raises(AttributeError):
                change()

    def stir(plan: PolicyPlan) -> None:
        for step in plan.steps:
            assert not hasattr(step.should, "update")

    bench.registry.register_policy("meddle", resource=meddle, plan=stir)
    assert bench.apply({"Thing[a]": {"size": 2}}).exit_code == 0
    assert bench.world.things["thing"]["a"]["size"] == 2


def test_a_policy_receives_secrets_wrapped(bench: Bench) -> None:
    """So that its messages do not show them by accident."""
    observed: list[Any] = []
    bench.registry.register_policy("look", resource=lambda resource: observed.append(resource.should.get("password")))
    bench.apply({"Thing[a]": {"password": "secret1"}})
    assert [type(value) for value in observed] == [Sensitive]


def test_a_policy_receives_names_tags_and_metaparameters(bench: Bench) -> None:
    """Those of the resource."""
    observed: list[PolicyResource] = []
    bench.registry.register_policy("look", resource=observed.append)
    bench.plan({"Thing[a]": {"name": "n", "tag": "t", "noop": True, "lifecycle": {"protect": True}}})
    (row,) = observed
    assert row[:6] == ("Thing[a]", "urn:resource:default::world::thing::a", "thing", "a", "n", "")
    assert row.tags == {"a", "thing", "t"}
    assert (row.noop, row.protect) == (True, True)


def test_a_policy_needs_a_function(bench: Bench) -> None:
    """The error is reported when the policy is defined."""
    with pytest.raises(DefinitionError, match="defines neither"):
        bench.registry.register_policy("none")
    with pytest.raises(DefinitionError, match="'resource' must be a function, not int"):
        bench.registry.register_policy("none", resource=3)  # type: ignore[arg-type]


def test_changing_one_resource_by_command_obeys_policies(bench: Bench) -> None:
    """``resource TYPE NAME ATTR=VALUE`` is a run like any other."""
    bench.registry.register_policy("small", resource=small)
    assert set(errors(bench.runtime.change(manifest({"Thing[a]": {"size": 9}})))) == {"Thing[a]"}
    assert bench.names() == []


def test_a_policy_cannot_change_the_system(bench: Bench, tmp_path: Path) -> None:
    """A write is refused, and the policy has failed."""

    def noting(resource: PolicyResource) -> Iterator[str]:
        yield str((tmp_path / "written").write_text(resource.title))

    bench.registry.register_policy("noting", resource=noting)
    (error,) = errors(bench.apply({"Thing[a]": {}})).values()
    assert "a policy must not change the system; refused: open" in error
    assert list(tmp_path.iterdir()) == []
