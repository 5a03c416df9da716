"""Recorded runs: what is kept of a run beside the state, ``history``, ``report``, and the difference of two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.terminal import Terminal

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

SITE = """
project: web
resources:
  Widget[a]: {size: 1}
  Daemon[d]: {subscribe: "Widget[a]"}
"""
FAILING = """
project: web
resources:
  Widget[a]: {size: 2}
  Widget[a2]: {size: 1}
  Probe[bad]: {size: 1}
  Widget[c]: {size: 1, require: "Probe[bad]"}
"""


@pytest.fixture
def runs_directory(bench: Bench) -> Path:
    """Keep state in the bench's directory; return where runs are kept."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.put("daemon", d={"name": "d", "ensure": "running"})
    bench.probe("def set(self, context, changes): raise RuntimeError('broken')")
    return bench.home / "state" / "state.db.runs"


def ids(bench: Bench) -> list[str]:
    """Return the ids of the recorded runs."""
    return [run["run"] for run in bench.run("history", "--json").document]


def test_only_a_run_that_did_something_is_kept(bench: Bench, runs_directory: Path) -> None:
    """Readable by its owner alone; a run without changes and a noop leave nothing."""
    bench.apply(SITE, "--noop")
    assert not runs_directory.exists()
    bench.apply(SITE)
    bench.apply(SITE)
    (file,) = runs_directory.iterdir()
    assert (runs_directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert [run["kept"] for run in bench.run("history", "--json").document] == [True, False]


@pytest.mark.usefixtures("runs_directory")
@pytest.mark.parametrize(("option", "value"), [("--stack", ["x"]), ("--json", [])])
def test_no_option_of_the_history_is_lost_before_a_subcommand(bench: Bench, option: str, value: list[str]) -> None:
    """It would have no effect there, so it is wrong usage."""
    bench.apply(SITE)
    result = bench.run("history", option, *value, "show")
    assert (result.code, "write it behind 'history show'" in result.err) == (64, True), result


@pytest.mark.usefixtures("runs_directory")
def test_the_history_is_that_of_all_projects(bench: Bench) -> None:
    """Each run with its project where there are several; ``--project`` selects one."""
    bench.apply(SITE)
    bench.apply("{project: db, resources: {'Widget[b]': {size: 1}}}")
    lines = bench.run("history").out.splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["apply web: 1 created, 1 refreshed", "apply db: 1 created"]
    assert bench.run("state", "history").out.splitlines() == lines
    assert [run["project"] for run in bench.run("history", "--json").document] == ["web", "db"]
    assert bench.run("report", "--json").document["project"] == "db"
    assert bench.run("history", "show", "last-1", "--json").document["project"] == "web"
    assert [line.split("  ")[-1] for line in bench.run("history", "--project", "db").out.splitlines()] == [
        "apply: 1 created"
    ]
    assert bench.run("report", "zz").err.startswith(
        "Error: there is no run 'zz' in the history; 'resource-api history'"
    )


@pytest.mark.usefixtures("runs_directory")
@pytest.mark.parametrize(("columns", "bar"), [(80, "█"), (79, "")])
def test_a_history_on_a_terminal_has_bars_where_each_line_fits(bench: Bench, columns: int, bar: str) -> None:
    """The width is that of the terminal of stdout, wherever the log goes."""
    bench.apply(SITE)
    bench.apply("{project: db, resources: {'Widget[b]': {size: 1}}}")
    with Terminal(columns) as terminal, Path("/dev/null").open("w") as log:
        terminal.run(bench, "history", stderr=log.fileno())
        assert terminal.end()[0] == 0
        lines = terminal.raw.splitlines()
    assert [line.rpartition("  ")[2].removeprefix("0 ") for line in lines[1:]] == ["apply web", "apply db"]
    assert ("█" in terminal.raw) == bool(bar)
    assert max(map(len, lines)) <= columns


def test_without_state_nothing_is_kept(bench: Bench) -> None:
    """``memory:`` has no history, and says so."""
    bench.apply(SITE)
    result = bench.run("report")
    assert (result.code, result.err) == (64, "Error: nothing is recorded yet\n")


def test_a_report_shows_failures_first(bench: Bench, runs_directory: Path) -> None:
    """With their places, then what was skipped, what changed, and the longest chain of calls."""
    bench.apply(SITE)
    assert bench.apply(FAILING).code == 1
    assert runs_directory.exists()
    lines = bench.run("report").out.splitlines()
    titles = [line for line in lines if line.endswith(": 1")]
    assert titles == ["Failed: 1", "Skipped: 1"]
    assert lines.index("Failed: 1") < lines.index("Skipped: 1") < lines.index("Changed: 2")
    assert any(
        line.startswith("  + Probe[bad]: RuntimeError: broken") and line.endswith("site.yaml:5)") for line in lines
    )
    assert "      size: 1 → 2" in lines
    assert any(line.startswith("Longest chain of calls: ") for line in lines)


def test_the_document_of_a_run_has_what_its_stream_had(bench: Bench, runs_directory: Path) -> None:
    """Steps with changes, outcomes and calls; who refreshed whom."""
    ends = bench.stream(SITE).ends()
    assert runs_directory.exists()
    document = bench.run("report", "--format", "json").document
    assert {step["reference"] for step in document["steps"]} == ends.keys()
    for step in document["steps"]:
        assert {name: step[name] for name in ("action", "status", "changes", "error", "corrective")} == {
            name: ends[step["reference"]][name] for name in ("action", "status", "changes", "error", "corrective")
        }
    assert [document["calls"][step["call"]]["method"] for step in document["steps"]] == ["set", "refresh"]
    assert document["critical_path"] == [0, 1]
    assert document["notifications"] == [{"from": "Widget[a]", "to": "Daemon[d]"}]


def test_two_runs_are_compared_by_reference_and_attribute(bench: Bench, runs_directory: Path) -> None:
    """What only one of them did, and what both did differently; equal runs have no difference."""
    bench.apply(SITE)
    bench.apply(FAILING)
    assert runs_directory.exists()
    first, second = ids(bench)
    document = bench.run("history", "diff", first, second, "--json").document
    assert [item["reference"] for item in document["only_in_a"]] == ["Daemon[d]"]
    assert [value["reference"] for value in document["only_in_b"]] == ["Widget[a2]", "Probe[bad]", "Widget[c]"]
    (different,) = document["different"]
    assert (different["reference"], different["action"]) == ("Widget[a]", ["create", "update"])
    assert different["attributes"]["size"][1]["should"] == 2
    text = bench.run("history", "diff", first[:8], second[:8]).out
    assert "~ Widget[a]\n    action: create → update\n" in text
    assert "The same" in bench.run("history", "diff", second, second).out


def test_an_unknown_run_is_an_error_that_says_where_to_look(bench: Bench, runs_directory: Path) -> None:
    """And one whose file is gone still has its line in the history."""
    bench.apply(SITE)
    result = bench.run("report", "x")
    assert (result.code, "'resource-api history' lists the runs" in result.err) == (64, True)
    for damage in (b"", b"[]", b'{"format_version": 1}', b'{"format_version": 2}'):
        for file in runs_directory.iterdir():
            file.write_bytes(damage)
        output = bench.run("report")
        assert (output.code, "Nothing more is kept" in output.out) == (0, True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("summary", 5),
        ("places", "x"),
        ("groups", [["update", [], [], "", False, None, 0.1, ["Widget[a]"]]]),
        ("groups", [["update", "success", [[5, 1, 2, None]], "", False, None, 0.1, ["Widget[a]"]]]),
        ("groups", [["update", "success", [], "", False, 99, 0.1, ["Widget[a]"]]]),
        ("critical_path", [10**30]),
        ("started", float("nan")),
    ],
)
def test_a_kept_run_with_a_value_of_the_wrong_type_is_as_one_that_is_not_kept(
    bench: Bench, runs_directory: Path, key: str, value: object
) -> None:
    """Its line in the history is left."""
    bench.apply(SITE)
    (file,) = runs_directory.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    for words in (("report",), ("report", "last", "--format", "html"), ("history", "diff", "last", "last")):
        output = bench.run(*words)
        assert output.code == 0, output
    assert "Nothing more is kept" in bench.run("report").out


def test_a_run_that_cannot_be_kept_is_a_warning(bench: Bench, runs_directory: Path) -> None:
    """What it did is done and recorded."""
    runs_directory.parent.mkdir(mode=0o700)
    runs_directory.mkdir(mode=0o700)
    runs_directory.chmod(0o777)
    result = bench.apply(SITE)
    assert (
        f"Warning: no report of this run is kept: {runs_directory} is no directory of this user alone\n" in result.err
    )
    assert (result.code, list(runs_directory.iterdir())) == (0, [])
    assert bench.run("history", "--json").document[-1]["summary"]["created"] == 1


#: A command that lists → what it says where nothing is recorded, and where a stack without resources and outputs is.
LISTS = {
    "history": ("no run is recorded yet", ""),
    "state history": ("no run is recorded yet", ""),
    "state list": ("nothing is recorded yet", "no resource is recorded of project web, stack default"),
    "stack list": ("no stack is recorded", ""),
    "stack list --project x": ("no stack is recorded of project x", "no stack is recorded of project x"),
    "output": ("no output is recorded", "no output is recorded"),
    "backup list": ("there is no copy in {home}/copies", "there is no copy in {home}/copies"),
    "backup list a/b": ("there is no copy of {home}/a/b, nor of anything beneath it, in {home}/copies", ""),
}


@pytest.mark.parametrize("words", LISTS)
def test_an_empty_list_is_said_to_people_and_printed_as_nothing(bench: Bench, words: str) -> None:
    """On stderr, only where stdout is a terminal, and not with ``-q``."""
    bench.environment |= {
        "RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db",
        "RESOURCE_API_BACKUPS": f"{bench.home}/copies",
    }
    for message in LISTS[words]:
        if message:
            for options, expected in (("", [f"Notice: {message.format(home=bench.home)}"]), ("-q", [""])):
                with Terminal(400) as terminal:
                    terminal.run(bench, *words.split(), *options.split())
                    assert terminal.end() == (0, expected)
            assert bench.run(*words.split()) == (0, "", "")
            assert bench.run(*words.split(), "--json").document in ([], {})
        bench.apply("{project: web, resources: {}}")
