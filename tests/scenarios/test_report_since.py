"""``report --since``: the recent runs of this machine, from the history alone."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

SITE = "project: web\nresources:\n  Widget[a]: {size: 1}\n  Probe[b]: {size: 1}\n"


@pytest.fixture
def stateful(bench: Bench) -> Bench:
    """Return the bench with a state, and a type that always fails."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.probe("def set(self, context, changes): raise ResourceError('too large')")
    return bench


def test_nothing_recorded_is_a_machine_without_a_run(stateful: Bench) -> None:
    """No error."""
    document = stateful.run("report", "--since", "1h", "--json").document
    assert (document["status"], document["last"], document["last_change"], document["runs"]) == (
        "silent",
        None,
        None,
        0,
    )
    assert stateful.run("report", "--since", "1h").out.startswith("without a run: 0 runs since ")


def test_numbers_of_one_have_a_singular(stateful: Bench) -> None:
    """In the overview and in ``state check``."""
    stateful.apply("project: web\nresources: {'Widget[a]': {size: 1}}\n")
    overview = stateful.run("report", "--since", "1h").out
    assert re.match(r"changed: 1 run since .* UTC, 0 failed, 1 change, 0 drifted\n", overview)
    assert ", 1 resource\n" in stateful.run("state", "check").out


def test_a_stack_is_failing_while_its_last_run_failed(stateful: Bench) -> None:
    """Since the first of the failed runs in a row; another stack that is well does not hide it."""
    stateful.apply(SITE)
    first = stateful.run("report", "--since", "1h", "--json").document
    stateful.apply(SITE)
    stateful.apply("project: db\nresources: {'Widget[c]': {}}\n")
    document = stateful.run("report", "--since", "1h", "--json").document
    assert (document["status"], document["runs"], document["failed_runs"]) == ("failing", 3, 2)
    (failing,) = document["failing"]
    assert (failing["reference"], failing["error"], failing["project"]) == ("Probe[b]", "too large", "web")
    assert failing["since"] == first["last"]["ended"]
    assert document["last"]["project"] == "db"
    stateful.apply("project: web\nresources: {'Widget[a]': {size: 1}}\n")
    assert stateful.run("report", "--since", "1h", "--json").document["status"] == "changed"


def test_drift_and_the_last_change_are_named(stateful: Bench) -> None:
    """How often, and which attributes."""
    good = "project: web\nresources: {'Widget[a]': {size: 1}}\n"
    stateful.apply(good)
    for size in (5, 6):
        stateful.put("widget", a={**stateful.things("widget")["a"], "size": size})
        stateful.apply(good)
    document = stateful.run("report", "--since", "1h", "--json").document
    (drift,) = document["drift"]
    assert (document["status"], document["drifted"]) == ("drifted", 2)
    assert (drift["reference"], drift["runs"], drift["attributes"]) == ("Widget[a]", 2, ["size"])
    assert document["last_change"]["resources"] == [{"reference": "Widget[a]", "action": "update"}]
    lines = stateful.run("report", "--since", "1h").out.splitlines()
    assert "  Widget[a] before 2 runs: size" in lines
    assert "  update Widget[a]" in lines
    page = stateful.run("report", "--since", "1h", "--format", "html").out
    assert "1 host in the last 60 min" in page


def test_a_run_before_the_period_is_the_last_one_only(stateful: Bench) -> None:
    """The machine is without a run; its last run and change are named all the same."""
    stateful.apply("project: web\nresources: {'Widget[a]': {size: 1}}\n")
    time.sleep(1.1)
    document = stateful.run("report", "--since", "1", "--json").document
    assert (document["status"], document["runs"], document["changes"]) == ("silent", 0, 0)
    assert (document["last"]["changes"], document["last_change"]["changes"]) == (1, 1)
