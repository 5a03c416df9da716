"""``--explain`` says why a step is in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

SITE = """\
project: web
inputs:
  paint: {type: String, default: red}
  word: {type: "Sensitive[String]"}
defaults:
  Widget: {size: 3}
resources:
  Widget[a]:
    colour: "${inputs.paint} on ${facts.kernel}"
    parts: [x]
    notify: Daemon[d]
  Daemon[d]: {}
  Token[1]: {tint: "${Widget[a].serial}"}
  Widget[s]: {colour: "${inputs.word}"}
"""


def explained(bench: Bench, *options: str, command: tuple[str, ...] = ("plan",)) -> str:
    """Return what a command says of the manifest."""
    (bench.home / "word").write_text("Fz81Kq0Lm2Wd")
    site = str(bench.write("site.yaml", SITE))
    return bench.run(*command, site, "-i", f"word=@{bench.home}/word", *options).out


def test_it_says_whose_each_value_is_and_what_has_changed(bench: Bench) -> None:
    """A line of the manifest, its defaults, an input, a fact, the type's default; the record; who notifies."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    explained(bench, command=("apply",))
    bench.put("widget", a={**bench.things("widget")["a"], "size": 4})
    (bench.home / "word").write_text("other")
    output = explained(bench, "-i", "paint=blue", "--explain", "Widget[a]", "--explain", "Daemon[d]")
    site = f"{bench.home}/site.yaml"
    for words in (
        f"  declared at {site}:8:3\n",
        f"size: default of the manifest, {site}:6:12; the system has changed: it was 3\n",
        f"colour: {site}:9:5; input 'paint'; fact 'kernel'; the declaration has changed: it was red on Linux\n",
        f"parts: {site}:10:5\n",
        "name: from the title\n",
        "ensure: default of the type\n",
        f"  refreshed by Widget[a]: notify at {site}:11:5\n",
        "  comes after Widget[a]\n",
        "  recorded as ours\n",
    ):
        assert words in output
    assert "Token[1]" not in output
    assert output.splitlines()[-1].startswith("Plan: ")


def test_every_scope_of_a_value_is_named(bench: Bench) -> None:
    """The host, and the value of another declaration, beside inputs and facts; an element of a loop is its value."""
    site = bench.write(
        "site.yaml",
        "{project: web, values: {v: [1, 2]}, resources: {'Widget[${each.key}]': "
        "{for_each: [a], colour: '${each.index} ${host.name} ${values.v[1]} ${facts.kernel}'}}}",
    )
    output = bench.run("plan", str(site), "--explain", "Widget[a]").out
    assert "; host 'name'; value 'v[1]'; fact 'kernel'\n" in output


def test_it_says_from_which_resource_a_value_comes_and_shows_no_secret(bench: Bench) -> None:
    """A reference is named; a resource that nobody has recorded is said to be so; under noop it says the same."""
    output = explained(bench, "--noop", "--explain", "Token", "--explain", "Widget[s]", command=("apply",))
    assert "; from Widget[a]\n" in output
    assert "  not recorded\n" in output
    assert "input 'word'" in output
    assert "Fz81" not in output


@pytest.mark.parametrize(
    ("command", "options"), [("plan", ["--explain", "Widget[none]"]), ("apply", ["--explain", "Widget[a]"])]
)
def test_wrong_usage_is_refused(bench: Bench, command: str, options: list[str]) -> None:
    """A reference that matches nothing, and a run that is no noop run."""
    site = str(bench.write("site.yaml", "resources: {'Widget[a]': {}}"))
    assert bench.run(command, site, *options).code == 64
    assert bench.things("widget") == {}
