"""What a run says at its end and how often it says it: the recap, lines that are counted, the plan under noop."""

from __future__ import annotations

import os
import pty
from typing import TYPE_CHECKING

import pytest

from tests import command

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def failing(bench: Bench, dependents: int, rest: int) -> str:
    """Write a manifest of one resource that fails, such that need it and such that do not; return its path."""
    bench.probe(
        """
        def set(self, context, changes):
            if "bad" in changes:
                raise RuntimeError("no space left\\nat all")
            self._done(changes)
        """
    )
    lines = ["resources:", "  Probe[bad]: {}"]
    lines += [f"  Probe[d{number}]: {{require: 'Probe[bad]'}}" for number in range(dependents)]
    lines += [f"  Widget[w{number}]: {{}}" for number in range(rest)]
    return bench.write("site.yaml", "\n".join(lines)).name


def test_failures_are_repeated_where_many_lines_follow(bench: Bench) -> None:
    """Each with its place, the first line of its reason and how many it has skipped, right before the summary."""
    result = bench.run("apply", failing(bench, 3, 17))
    title, failure, summary = result.out.splitlines()
    assert title == "Failed:"
    assert failure.startswith("  Probe[bad] (site.yaml:2): no space left")
    assert failure.endswith("; 3 skipped")
    assert summary.endswith("17 created, 0 unchanged, 1 failed, 3 skipped.")


def test_a_repeated_failure_keeps_the_end_of_a_long_reason(bench: Bench) -> None:
    """The command line at its beginning may be long; what the program has written stands at the end."""
    site = failing(bench, 0, 20)
    command_line = " ".join(["'apt-get", *["-o option"] * 30, "install'"])
    bench.probe(
        f"""
        def set(self, context, changes):
            raise ValueError({f"{command_line} returned 100: E: no such package"!r})
        """
    )
    _, failure, _ = bench.run("apply", site).out.splitlines()
    assert failure.startswith("  Probe[bad] (site.yaml:2): 'apt-get -o option")
    assert " … " in failure
    assert "install' returned 100: E: no such package (" in failure


@pytest.mark.parametrize(("others", "options"), [(16, []), (17, ["--json"]), (17, ["-q"])])
def test_there_is_no_recap_of_little_nor_for_programs(bench: Bench, others: int, options: list[str]) -> None:
    """Below 20 lines after the failure, with ``--json`` and with ``-q`` nothing is repeated."""
    assert "Failed:" not in bench.run("apply", failing(bench, 3, others), *options).out


def test_a_failed_step_has_its_place_in_json(bench: Bench) -> None:
    """``file`` and ``line`` of the declaration; a step that did not fail has none."""
    ends = bench.run("apply", failing(bench, 1, 1), "--json").ends()
    assert (ends["Probe[bad]"]["file"], ends["Probe[bad]"]["line"]) == ("site.yaml", 2)
    assert ["line" in ends[name] for name in ("Probe[d0]", "Widget[w0]")] == [False, False]


def test_of_many_skipped_resources_most_are_counted(bench: Bench) -> None:
    """Twenty are named for one reason; ``-v`` and JSON name all."""
    site = failing(bench, 50, 0)
    lines = bench.run("apply", site).lines
    assert lines[-1] == "Warning: 30 more: skipped because Probe[bad] failed"
    assert sum("skipped because" in line for line in lines) == 21
    assert sum("skipped because" in line for line in bench.run("apply", site, "-v").lines) == 50
    assert len([line for line in bench.run("apply", site, "--json").events("log") if line["level"] == "warning"]) == 50


def test_of_many_failures_for_one_reason_most_are_counted(bench: Bench) -> None:
    """A type that cannot be read fails each of its resources; the report has all of them."""
    bench.probe(
        """
        def get(self, context, names=None):
            raise RuntimeError("no way in")
        def set(self, context, changes): pass
        """
    )
    bench.write("site.yaml", "resources:\n" + "".join(f"  Probe[p{number}]: {{}}\n" for number in range(30)))
    result = bench.run("apply", "site.yaml")
    assert sum("no way in" in line for line in result.lines) == 21
    assert result.lines[-1].startswith("Error: 10 more: no way in")
    assert result.out.endswith("30 failed.\n")


def test_many_undeclared_resources_are_one_line(bench: Bench) -> None:
    """Up to twenty are named, more are counted; ``-v`` names them."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.apply("resources:\n" + "".join(f"  Widget[w{number}]: {{}}\n" for number in range(21)))
    text = "recorded but no longer declared; --prune deletes"
    assert bench.apply("resources: {}").lines == [f"Notice: 21 resources are {text} them (-v names them)"]
    assert len([line for line in bench.apply("resources: {}", "-v").lines if text in line]) == 21
    some = bench.apply("resources: {'Widget[w0]': {}}").lines
    assert (len(some), some[0]) == (20, f"Notice: Widget[w1]: is {text} it")


def on_terminal(bench: Bench, *arguments: str) -> str:
    """Return what a terminal shows of a run."""
    ours, theirs = pty.openpty()
    command.run(arguments, cwd=bench.home, env=bench.environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        text = os.read(ours, 65_536).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
    return text


def test_noop_on_a_terminal_shows_the_plan_alone(bench: Bench) -> None:
    """Nothing repeats it; with ``-v`` and in a pipe it is the same."""
    bench.put("widget", a={"size": 1})
    bench.environment["NO_COLOR"] = "1"
    site = str(bench.write("site.yaml", "resources: {'Widget[a]': {size: 2}}\noutputs: {size: '${Widget[a].size}'}"))
    planned = "~ Widget[a] (noop)\n    size: 1 → 2\n\nPlan: 1 to update; 0 unchanged.\n"
    assert on_terminal(bench, "apply", site, "--noop") == planned
    for output in (on_terminal(bench, "apply", site, "--noop", "-v"), "".join(bench.run("apply", site, "--noop")[1:])):
        assert output == planned


@pytest.mark.parametrize(
    ("settings", "options", "colored"),
    [
        ({"TERM": "xterm"}, [], True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, [], False),
        ({"TERM": "dumb"}, [], False),
        ({"TERM": "dumb"}, ["--color", "always"], True),
    ],
)
def test_colours_are_for_terminals_that_understand_them(
    bench: Bench, settings: dict[str, str], options: list[str], *, colored: bool
) -> None:
    """Not with ``TERM=dumb``, as in an editor, nor with ``NO_COLOR``; ``--color always`` overrides both."""
    bench.environment.update(settings)
    site = str(bench.write("site.yaml", "resources: {'Widget[a]': {}}"))
    assert ("\033[" in on_terminal(bench, "plan", site, *options)) is colored


def test_what_is_printed_first_stands_first_in_a_file(bench: Bench) -> None:
    """Where stdout and stderr are one file, the plan stands before what is logged about it."""
    reporting = "def set(self, context, changes, noop=False): context.created(list(changes), 'would do it')"
    bench.probe(reporting, features=("noop_handler",))
    site = bench.write("site.yaml", "resources: {'Widget[a]': {}, 'Probe[a]': {}}")
    with (bench.home / "out").open("wb") as out:
        command.run(
            ["apply", str(site), "--noop"],
            cwd=bench.home,
            env=bench.environment,
            stdout=out.fileno(),
            stderr=out.fileno(),
        )
    text = (bench.home / "out").read_text()
    assert text.index("Plan: 2 to create") < text.index("Notice: Probe[a]: would do it (noop)")


def test_an_error_does_not_repeat_the_warnings_before_it(bench: Bench) -> None:
    """What a program has written, also indented, is said once on the console, and in full in JSON."""
    bench.probe(
        """
        sh = Command("/bin/sh")
        def set(self, context, changes):
            with context.creating("a"):
                self.sh("-c", "echo one >&2; echo >&2; echo '   two' >&2; exit 3")
        """
    )
    site = str(bench.write("site.yaml", "resources: {'Probe[a]': {}}"))
    *warnings, error = bench.run("apply", site).lines
    assert [line.split()[2:] for line in warnings] == [["one"], [], ["two"]]
    assert error.endswith("returned 3")
    (end,) = bench.run("apply", site, "--json").events("step_end")
    assert end["error"].endswith(f"returned 3: one; two ({site}:1)")


def test_a_failure_of_a_plan_is_said_once_on_a_terminal(bench: Bench) -> None:
    """The plan shows it; in a pipe it is an error on stderr too."""
    bench.put("widget", a={"image": "oak"})
    site = str(bench.write("site.yaml", "resources: {'Widget[a]': {image: elm}}"))
    bench.environment["NO_COLOR"] = "1"
    assert on_terminal(bench, "plan", site).count("oak") == 1
    planned = bench.run("plan", site)
    assert (planned.out.count("oak"), planned.err.count("oak")) == (1, 1)
