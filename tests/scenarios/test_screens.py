"""Whole screens: on terminals of 60, 80 and 100 columns, and without a terminal.

With ``SCREENS=write`` in the environment the files are written anew; read the difference then.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.terminal import Terminal

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

#: Without a terminal a command writes lines of any length; its help has 80 columns then.
WIDTHS: Final = ("60", "80", "100", "none")
#: More than a screen has, so that no pager is started.
ROWS: Final = 250
#: One file for each command, with a section for each width.
SCREENS: Final = Path(__file__).parent / "screens"
#: Parts of a screen that differ from run to run.
_VARIABLE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  [0-9a-f]{16}| *\d+(?:\.\d+)? m?s\b")

SITE: Final = """
project: web
resources:
  Widget[a]: {size: 1, colour: "one\\ntwo\\n", notify: "Daemon[d]"}
  Widget[b]: {size: 2, lifecycle: {ignore_changes: [size]}}
  Widget[c]: {size: 3, image: old}
  Widget[d]: {size: 4}
  Daemon[d]: {ensure: running}
"""


class Command(NamedTuple):
    """A command and its exit code."""

    line: str
    code: int = 0


COMMANDS: Final = {
    "plan": Command("plan site.yaml", 1),
    "show-plan": Command("show later.json"),
    "show-run": Command("show last"),
    "drift": Command("drift site.yaml", 64),
    "drift-only": Command("plan site.yaml --drift-only", 64),
    "batches": Command("validate site.yaml --batches 1", 64),
    "inventory": Command("hosts list --inventory machines.yaml"),
    "show-resource": Command("show Widget[a]", 64),
    "state-runs": Command("state runs", 64),
    "no-run": Command("show zzz", 64),
    "rehearse-help": Command("rehearse --help"),
    "validate-all": Command("help validate --all"),
    "state-help": Command("state --help"),
    "show-help": Command("show --help"),
    "sections": Command("validate sections.yaml", 65),
    "attributes": Command("validate attributes.yaml", 65),
}

SECTIONS: Final = """
project: web
description: All widgets
config: {port: 80}
checks: []
x-common: &common {size: 1}
resources: {}
"""
ATTRIBUTES: Final = """
project: web
inputs: {x: {default: green}}
resources:
  Widget[a]: {enabled: true}
  Widget[b]: {prereq: "Widget[a]"}
  Widget[c]: {checks: []}
  Widget[d]: {description: Large}
  Widget[e]: {config: {}}
  Widget[f]: {colour: "${ inputs.x }"}
  Service[g]: {enabled: true}
"""


def screen(bench: Bench, columns: str, *arguments: str) -> tuple[int, str]:
    """Return the exit code of a command and everything that it shows."""
    if columns == "none":
        outcome = bench.run(*arguments)
        code, lines = outcome.code, [*outcome.out.splitlines(), *outcome.err.splitlines()]
    else:
        with Terminal(int(columns), ROWS) as terminal:
            terminal.run(bench, *arguments)
            code, lines = terminal.end()
    return code, "\n".join(line.rstrip() for line in lines).strip("\n")


def expected(name: str, columns: str, text: str) -> str:
    """Return the screen of a command, as its file has it; ``text``, which is written there, if that is requested."""
    path = SCREENS / f"{name}.txt"
    sections = dict(section.split("\n", 1) for section in f"\n{path.read_text(encoding='utf-8')}".split("\n=== ")[1:])
    if os.environ.get("SCREENS") == "write":
        sections[columns] = f"{text}\n"
        written = "\n".join(f"=== {width}\n{screen.strip(chr(10))}\n" for width, screen in sections.items())
        path.write_text(written, encoding="utf-8")
    return sections[columns].strip("\n")


@pytest.fixture
def site(bench: Bench) -> Bench:
    """Return a bench on which a manifest was applied; then its resources were changed, and one of its attributes."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.put("daemon", d={"name": "d", "ensure": "running"})
    assert bench.run("apply", bench.write("site.yaml", SITE)).code == 0
    rows = bench.things("widget")
    rows["a"]["colour"], rows["b"]["size"] = "one\n2\n", 9
    del rows["d"]
    bench.things_of.joinpath("widget.json").write_text(json.dumps(rows), encoding="utf-8")
    assert bench.run("plan", "site.yaml", "-o", "later.json").code == 0
    bench.write("site.yaml", SITE.replace("image: old", "image: new"))
    bench.write("sections.yaml", SECTIONS)
    bench.write("machines.yaml", "hosts: {web1: {}, web2: {address: 10.0.0.2}}")
    bench.write("attributes.yaml", ATTRIBUTES)
    return bench


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_whole_at_each_width(site: Bench, name: str, columns: str) -> None:
    """Drift stands once, at its step; a failure and a refresh have two signs; each foreign word has an answer."""
    line, exit_code = COMMANDS[name]
    code, text = screen(site, columns, *line.split())
    assert code == exit_code, text
    text = _VARIABLE.sub("...", text)
    assert text == expected(name, columns, text)


@pytest.mark.parametrize("columns", WIDTHS)
def test_types_are_listed_by_one_sentence_each_that_is_wrapped_between_words(bench: Bench, columns: str) -> None:
    """Joined again, the lines of a terminal are those without one."""
    whole = bench.run("types").out.splitlines()
    _, text = screen(bench, columns, "types")
    lines = text.splitlines()
    margin = " " * re.match(r"\S+ +", whole[0]).end()  # type: ignore[union-attr] - each line has a name
    joined = re.sub(rf"\n{margin}(?=\S)", " ", text).splitlines()
    assert joined == whole
    assert columns == "none" or max(map(len, lines)) <= int(columns)
    assert [line for line in whole if re.search(r"[.!?] [A-Z]", line)] == []
