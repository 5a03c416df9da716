"""Policies as people meet them: files on the module path, obeyed by every command that would change something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

SIZES = '''
"""No widget is bigger than 50, and big ones are frowned upon."""

from resource_api import Problem


def resource(resource):
    size = resource.should.get("size") or 0
    if resource.type == "widget" and size > 50:
        yield "is bigger than 50"
    elif size > 40:
        yield Problem("size", "is big", "warning")


def plan(plan):
    for step in plan.steps:
        if step.action == "delete" and "precious" in step.title:
            yield Problem(None, "is never deleted", reference=step.reference)
'''
SITE = "project: p\nresources: {'Widget[a]': {size: 60}, 'Widget[b]': {size: 45}, 'Widget[c]': {require: 'Widget[a]'}}"


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """Put a policy on the module path."""
    bench.write("modules/policies/sizes.py", SIZES)
    return bench


def test_apply_obeys(bench: Bench) -> None:
    """What is forbidden fails, its dependents are skipped, a warning stands at its line."""
    done = bench.apply(SITE)
    assert done.code == 1
    assert "Error: Widget[a]: policy 'sizes': is bigger than 50" in done.lines
    assert f"{bench.home}/site.yaml:2:52: Widget[b]: policy 'sizes': is big" in done.lines
    assert "Warning: Widget[c]: skipped because Widget[a] failed" in done.lines
    assert list(bench.things("widget")) == ["b"]


def test_noop_and_plan_obey(bench: Bench) -> None:
    """They say what apply would."""
    done = bench.apply(SITE, "--noop")
    assert (done.code, "! Widget[a]: policy 'sizes': is bigger than 50" in done.out.splitlines()) == (1, True)
    done = bench.plan(SITE, "--detailed-exitcodes")
    assert (done.code, "! Widget[a]: policy 'sizes': is bigger than 50" in done.out.splitlines()) == (1, True)
    document = bench.plan(SITE, "--json").document
    assert document["applicable"] is False
    assert document["steps"][0]["error"] == "policy 'sizes': is bigger than 50"
    assert bench.things("widget") == {}


def test_a_stream_tells_of_warnings(bench: Bench) -> None:
    """As diagnostics, with code and reference."""
    (found,) = bench.stream("resources: {'Widget[b]': {size: 45}}").events("diagnostic")
    assert (found["severity"], found["code"], found["reference"]) == ("warning", "policy", "Widget[b]")
    assert found["message"] == "policy 'sizes': is big"


def test_a_saved_plan_is_judged_again(bench: Bench) -> None:
    """What was allowed when it was made may be forbidden since; what was forbidden is not applicable."""
    bench.write("site.yaml", SITE)
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 1
    assert "not applicable" in bench.run("apply", "plan.json").err
    bench.write("site.yaml", "resources: {'Widget[a]': {size: 20}}")
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 0
    bench.write("modules/policies/sizes.py", SIZES.replace("50", "10"))
    done = bench.run("apply", "plan.json")
    assert (done.code, bench.things("widget")) == (65, {})
    assert "the plan is stale: Widget[a] cannot be done any more: policy 'sizes': is bigger than 10" in done.err


def test_destroy_obeys(bench: Bench) -> None:
    """What must stay stays; the rest goes."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply("project: p\nresources: {'Widget[precious]': {}, 'Widget[a]': {}}", *state).code == 0
    done = bench.run("destroy", "site.yaml", "--yes", *state)
    assert done.code == 1
    assert "Error: Widget[precious]: policy 'sizes': is never deleted" in done.lines
    assert list(bench.things("widget")) == ["precious"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "policies/sizes.py:1: ZeroDivisionError"),
        ("X = 1", "policies/sizes.py: defines neither resource(resource) nor plan(plan)"),
        ("resource = 3", "policies/sizes.py: 'resource' must be a function, not int"),
    ],
)
def test_a_broken_policy_stops_everything(bench: Bench, text: str, says: str) -> None:
    """Before anything is touched: who cannot judge lets nothing pass."""
    bench.write("modules/policies/sizes.py", text)
    for command in ("apply", "plan"):
        done = bench.run(command, bench.write("site.yaml", "resources: {'Widget[b]': {}}"))
        assert done.code == 65
        assert says in done.err
    assert bench.things("widget") == {}


def test_a_policy_that_raises_names_its_line(bench: Bench) -> None:
    """The resource that it could not judge fails."""
    bench.write("modules/policies/sizes.py", "def resource(resource):\n    return resource.nosuch\n")
    done = bench.apply("resources: {'Widget[b]': {}}")
    assert done.code == 1
    assert "policies/sizes.py:2: " in done.err
    assert "nosuch" in done.err


def test_policies_beside_the_manifest_hold_for_it(bench: Bench) -> None:
    """Its own directory is on the module path; the one that is found first counts."""
    bench.write("policies/sizes.py", "def resource(resource):\n    return 'never'\n")
    bench.write("policies/more.py", "def plan(plan):\n    return 'not today'\n")
    done = bench.apply("resources: {'Widget[b]': {}}")
    assert done.code == 1
    assert "policy 'more': not today" in done.err
    assert "never" not in done.err
