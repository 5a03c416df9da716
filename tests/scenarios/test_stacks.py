"""Recorded stacks: listed, renamed, forgotten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_SITE = """
    project: p
    resources:
      Widget[a]: {size: 1}
      Account[b]: {password: sesame-4711}
    outputs: {word: "${Account[b].password}"}
"""


@pytest.mark.parametrize("key", ["", "key"])
def test_a_stack_is_renamed_with_its_records_and_forgotten(bench: Bench, key: str) -> None:
    """The next run finds everything under the new name, secrets too; with resources only --force forgets it."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    if key:
        assert bench.run("new", "key", key).code == 0
        bench.environment["RESOURCE_API_KEY"] = f"file:{key}"
    bench.write("site.yaml", _SITE)
    assert bench.run("apply", "site.yaml").code == 0
    done = bench.run("stack", "rename", "default", "live")
    assert (done.code, done.out) == (0, "project p, stack default is now stack live\n")
    (found,) = bench.run("stack", "list", "--json").document
    assert (found["stack"], found["resources"], found["serial"]) == ("live", 2, 4)
    (line,) = bench.run("stack", "list").out.splitlines()[1:]
    assert re.fullmatch(r"p +live +4 +2 +\d{4}-.*", line)
    assert "2 unchanged" in bench.run("apply", "site.yaml", "--stack", "live").out
    urns = [each["urn"] for each in bench.run("state", "list", "--stack", "live", "--json").document]
    assert urns[0] == "urn:resource:live::p::widget::a"
    if key:
        assert bench.run("output", "word", "--stack", "live", "--reveal").out == "sesame-4711\n"
    refused = bench.run("stack", "rm", "live")
    assert refused.code == 64
    assert "project p, stack live has 2 resources; destroy deletes them" in refused.err
    assert bench.run("stack", "rm", "live", "--force").code == 0
    assert bench.run("stack", "list", "--json").document == []
    assert bench.things("widget").keys() == {"a"}
    assert bench.run("state", "check").code == 0


def test_a_stack_that_is_not_there_and_a_name_that_is_taken_are_refused(bench: Bench) -> None:
    """With the nearest name; nothing is changed."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.write("site.yaml", _SITE)
    for name in ("test", "live"):
        assert bench.run("apply", "site.yaml", "--stack", name).code == 0
    taken = bench.run("stack", "rename", "test", "live")
    assert (taken.code, "project p, stack live is recorded already" in taken.err) == (64, True)
    unknown = bench.run("stack", "rm", "tset", "--project", "p")
    assert (unknown.code, "did you mean 'test'?" in unknown.err) == (64, True)
    assert bench.run("stack", "rename", "test", "a b").code == 64
    assert len(bench.run("stack", "list", "--json").document) == 2
