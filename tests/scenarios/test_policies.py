"""Policies through the command line: loaded from the module path and enforced by every changing command."""

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


def test_apply_enforces_policies(bench: Bench) -> None:
    """A violation fails its resource, dependents are skipped, and a warning is shown with its position."""
    result = bench.apply(SITE)
    assert result.code == 1
    assert "Error: Widget[a]: policy 'sizes': is bigger than 50" in result.lines
    assert f"{bench.home}/site.yaml:2:52: Warning: Widget[b]: policy 'sizes': is big" in result.lines
    assert "Warning: Widget[c]: skipped because Widget[a] failed" in result.lines
    assert list(bench.things("widget")) == ["b"]


def test_noop_and_plan_enforce_policies(bench: Bench) -> None:
    """``--noop`` and ``plan`` report the violation and exit 1, and the plan is not applicable."""
    result = bench.apply(SITE, "--noop")
    assert (result.code, "✗ Widget[a]: policy 'sizes': is bigger than 50" in result.out.splitlines()) == (1, True)
    result = bench.plan(SITE, "--detailed-exitcodes")
    assert (result.code, "✗ Widget[a]: policy 'sizes': is bigger than 50" in result.out.splitlines()) == (1, True)
    document = bench.plan(SITE, "--json").document
    assert document["applicable"] is False
    assert document["steps"][0]["error"] == "policy 'sizes': is bigger than 50"
    assert bench.things("widget") == {}


@pytest.mark.parametrize("severity", ["Error", "fatal", None])
def test_an_unknown_severity_forbids(bench: Bench, severity: object) -> None:
    """A policy that is misspelt is a policy that fails, and that forbids."""
    bench.write("modules/policies/sizes.py", SIZES.replace('"warning"', repr(severity)))
    result = bench.apply("resources: {'Widget[b]': {size: 45}}")
    assert (result.code, bench.things("widget")) == (1, {})
    assert f"a problem is an 'error' or a 'warning', not {severity}: is big" in result.err


def test_the_stream_has_policy_warnings(bench: Bench) -> None:
    """A policy warning is a ``diagnostic`` event with code and reference."""
    (event,) = bench.stream("resources: {'Widget[b]': {size: 45}}").events("diagnostic")
    assert (event["severity"], event["code"], event["reference"]) == ("warning", "policy", "Widget[b]")
    assert event["message"] == "policy 'sizes': is big"


def test_a_saved_plan_is_checked_again(bench: Bench) -> None:
    """A saved plan is stale when a policy has since forbidden a step, and not applicable when one did before."""
    bench.write("site.yaml", SITE)
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 1
    assert "not applicable" in bench.run("apply", "plan.json").err
    bench.write("site.yaml", "resources: {'Widget[a]': {size: 20}}")
    assert bench.run("plan", "site.yaml", "-o", "plan.json").code == 0
    bench.write("modules/policies/sizes.py", SIZES.replace("50", "10"))
    result = bench.run("apply", "plan.json")
    assert (result.code, bench.things("widget")) == (65, {})
    assert "the plan is stale: Widget[a] cannot be done any more: policy 'sizes': is bigger than 10" in result.err


def test_destroy_enforces_policies(bench: Bench) -> None:
    """A resource that a policy protects is kept, and the others are deleted."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply("project: p\nresources: {'Widget[precious]': {}, 'Widget[a]': {}}", *state).code == 0
    result = bench.run("destroy", "site.yaml", "--yes", *state)
    assert result.code == 1
    assert "Error: Widget[precious]: policy 'sizes': is never deleted" in result.lines
    assert list(bench.things("widget")) == ["precious"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "policies/sizes.py:1: ZeroDivisionError"),
        ("X = 1", "policies/sizes.py: defines neither resource(resource) nor plan(plan)"),
        ("resource = 3", "policies/sizes.py: 'resource' must be a function, not int"),
    ],
)
def test_a_broken_policy_stops_everything(bench: Bench, text: str, message: str) -> None:
    """A policy file with an error fails ``apply`` and ``plan`` with 65 before anything is changed."""
    bench.write("modules/policies/sizes.py", text)
    for command in ("apply", "plan"):
        result = bench.run(command, bench.write("site.yaml", "resources: {'Widget[b]': {}}"))
        assert result.code == 65
        assert message in result.err
    assert bench.things("widget") == {}


def test_a_policy_that_raises_names_its_line(bench: Bench) -> None:
    """An exception in a policy fails the resource with file and line of the policy."""
    bench.write("modules/policies/sizes.py", "def resource(resource):\n    return resource.nosuch\n")
    result = bench.apply("resources: {'Widget[b]': {}}")
    assert result.code == 1
    assert "policies/sizes.py:2: " in result.err
    assert "nosuch" in result.err


def test_policies_beside_the_manifest_are_enforced(bench: Bench) -> None:
    """Policies in the directory of the manifest are enforced, and the first file of a name on the path is used."""
    bench.write("policies/sizes.py", "def resource(resource):\n    return 'never'\n")
    bench.write("policies/more.py", "def plan(plan):\n    return 'not today'\n")
    result = bench.apply("resources: {'Widget[b]': {}}")
    assert result.code == 1
    assert "policy 'more': not today" in result.err
    assert "never" not in result.err
