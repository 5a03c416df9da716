"""A run about some of the manifest's resources: targets, exclusions, tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MANIFEST = """
resources:
  Widget[a]: {tag: blue}
  Widget[b]: {require: "Widget[a]", tag: [red, Round]}
  Token[1]: {require: "Widget[b]"}
  Token[2]: {}
  Widget[a*c]: {}
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--target Widget[b]", "b"),
        ("--target widget[b]", "b"),
        ("--target Widget[b] --with-dependencies", "a b"),
        ("--target Widget[a] --with-dependents", "a b 1"),
        ("--target Widget[b] --with-dependencies --with-dependents", "a b 1"),
        ("--target Widget", "a b a*c"),
        ("--target token", "1 2"),
        ("--target Widget[?]", "a b"),
        ("--target Widget[a*]", "a a*c"),
        ("--target *[2]", "2"),
        ("--target Widget[a] --target Token[2]", "a 2"),
        ("--exclude Widget", "1 2"),
        ("--target Widget --exclude Widget[b]", "a a*c"),
        ("--tags blue", "a"),
        ("--tags blue,red", "a b"),
        ("--tags BLUE", "a"),
        ("--tags round", "b"),
        ("--tags widget", "a b a*c"),
        ("--tags 2", "2"),
        ("--skip-tags widget", "1 2"),
        ("--tags widget --skip-tags red", "a a*c"),
        ("--tags widget --target Widget[b] --target Token[1]", "b"),
        ("--tags nosuch", ""),
    ],
)
def test_exactly_these(bench: Bench, options: str, expected: str) -> None:
    """Neither dependencies nor dependents come along unless asked for, and nobody else is read or blocked."""
    done = bench.stream(MANIFEST, *options.split())
    assert done.code == 0, done
    made = [end["reference"].split("[")[1].removesuffix("]") for end in done.events("step_end")]
    assert sorted(made) == sorted(expected.split())


@pytest.mark.parametrize("option", ["--target", "--exclude"])
@pytest.mark.parametrize("name", ["Widget[x]", "Wdget[a]", "Widget[[ab]]", "[", "Widget[a"])
def test_a_name_that_matches_nothing_is_wrong_usage(bench: Bench, option: str, name: str) -> None:
    """With the nearest where there is one; brackets are no wild characters."""
    done = bench.apply(MANIFEST, option, name)
    assert (done.code, done.out) == (64, "")
    assert name in done.err
    assert bench.calls("widget") == []


def test_the_nearest_name_is_offered(bench: Bench) -> None:
    """As everywhere."""
    assert "did you mean 'Widget[" in bench.apply(MANIFEST, "--target", "Widget[q]").err


def test_a_plan_is_limited_the_same_way(bench: Bench) -> None:
    """And says that it is not complete."""
    planned = bench.plan(MANIFEST, "--target", "Token[2]", "--json").document
    assert [step["reference"] for step in planned["steps"]] == ["Token[2]"]
    assert planned["complete"] is False
    assert bench.plan(MANIFEST, "--json").document["complete"] is True


def test_values_of_what_is_left_out_are_read(bench: Bench) -> None:
    """Where it exists its state is used; where it does not, the run fails before anything is touched."""
    manifest = "resources: {'Widget[a]': {}, 'Token[1]': {tint: '${Widget[a].serial}'}}"
    missing = bench.apply(manifest, "--target", "Token[1]")
    assert missing.code == 1
    assert "Widget[a]" in missing.err
    assert bench.things("token") == {}
    bench.put("widget", a={"serial": "S-9"})
    assert bench.apply(manifest, "--target", "Token[1]").code == 0
    assert bench.things("token")["1"]["tint"] == "S-9"


def test_what_is_left_out_notifies_nobody(bench: Bench) -> None:
    """It has not been changed by this run."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = "resources: {'Widget[a]': {notify: 'Daemon[web]'}, 'Daemon[web]': {}}"
    assert bench.apply(manifest, "--target", "Daemon[web]").code == 0
    assert bench.calls("daemon", "refresh") == []


def test_problems_of_what_is_left_out_are_told_all_the_same(bench: Bench) -> None:
    """A manifest is valid or it is not."""
    done = bench.apply("resources: {'Widget[a]': {}, 'Widget[b]': {size: big}}", "--target", "Widget[a]")
    assert done.code == 65
