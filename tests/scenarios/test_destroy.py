"""Destruction: nothing is deleted that was not shown and confirmed, whoever else is at work meanwhile."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Final

import pytest

from tests.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.scenarios.conftest import Bench

A: Final = "resources: {'Widget[a]': {}}"
TWO: Final = "resources: {'Widget[a]': {}, 'Widget[b]': {require: 'Widget[a]'}}"


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Return the bench with state."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


@pytest.fixture
def asking(recorded: Bench) -> Iterator[Callable[..., Terminal]]:
    """Return a function that starts ``destroy`` on a terminal and waits for its question."""
    terminals: list[Terminal] = []

    def start(*options: str) -> Terminal:
        terminal = Terminal(columns=200)
        terminals.append(terminal)
        terminal.run(recorded, "destroy", "site.yaml", *options)
        terminal.until(lambda lines: "[no]:" in lines[-1])
        return terminal

    yield start
    for terminal in terminals:
        terminal.__exit__()


def test_without_anything_recorded_it_says_so(recorded: Bench) -> None:
    """On stderr, with the project and the stack; JSON and a run under noop are as before."""
    assert recorded.apply(A).code == 0
    first, second = (recorded.run("destroy", "site.yaml", "--yes") for _ in range(2))
    assert ("1 deleted" in first.out, first.err.count("is recorded")) == (True, 0)
    assert second.err == "Notice: nothing is recorded for project site, stack default\n"
    assert second.out.endswith(": 0 unchanged.\n")
    document = recorded.run("destroy", "site.yaml", "--yes", "--json")
    assert "is recorded" not in document.out + document.err + recorded.run("destroy", "site.yaml", "--noop").err


def test_while_it_asks_no_other_run_changes_what_it_has_shown(recorded: Bench, asking: Callable[..., Terminal]) -> None:
    """An apply by another controller is told who holds the lock; what is deleted then is what was shown."""
    assert recorded.apply(A).code == 0
    terminal = asking()
    text = "\n".join(terminal.screen.lines)
    assert "- Widget[a]" in text
    assert "Plan: 1 to delete" in text
    assert "Delete 1 resource of project site, stack default?" in text
    second = recorded.write("other.yaml", TWO)
    refused = recorded.run("apply", second, "--project", "site")
    assert refused.code == 75
    assert f"pid {terminal.pid} (" in refused.err
    assert "has been running 'destroy' since " in refused.err
    terminal.type("yes\n")
    assert terminal.end()[0] == 0
    assert recorded.things("widget") == {}
    assert recorded.run("apply", second, "--project", "site").code == 0
    assert sorted(recorded.things("widget")) == ["a", "b"]


def test_who_waits_for_the_lock_gets_it_after_the_answer(recorded: Bench, asking: Callable[..., Terminal]) -> None:
    """Two destructions that ask, one after the other: the second one shows what the first one has left."""
    assert recorded.apply(A).code == 0
    terminal = asking()
    with Terminal(columns=200) as second:
        second.run(recorded, "destroy", "site.yaml", "--lock-timeout", "30")
        terminal.type("no\n")
        assert terminal.end()[0] == 1
        second.until(lambda lines: "[no]:" in lines[-1])
        second.type("yes\n")
        assert second.end()[0] == 0
    assert recorded.things("widget") == {}


@pytest.mark.parametrize(("answer", "code"), [("no\n", 1), ("y\n", 1), ("YES\n", 1), ("\n", 1), ("\x04", 1)])
def test_every_other_answer_than_yes_leaves_everything(
    recorded: Bench, asking: Callable[..., Terminal], answer: str, code: int
) -> None:
    """It is said, the exit code is 1, and the lock is free."""
    assert recorded.apply(A).code == 0
    terminal = asking()
    terminal.type(answer)
    ended, lines = terminal.end()
    assert (ended, lines[-1]) == (code, "Nothing is deleted.")
    assert "a" in recorded.things("widget")
    assert recorded.apply(TWO).code == 0


def test_an_interrupt_at_the_question_leaves_everything(recorded: Bench, asking: Callable[..., Terminal]) -> None:
    """The exit code is that of the signal, and the lock is free."""
    assert recorded.apply(A).code == 0
    terminal = asking()
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.end()[0] == 130
    assert "a" in recorded.things("widget")
    assert recorded.apply(TWO).code == 0


def test_the_question_names_project_stack_and_numbers(recorded: Bench, asking: Callable[..., Terminal]) -> None:
    """What is deleted, and what is only forgotten because it was there before us."""
    recorded.put("widget", old={}, older={})
    manifest = "project: web\nresources: {'Widget[old]': {}, 'Widget[older]': {}, 'Widget[a]': {}, 'Widget[b]': {}}"
    assert recorded.apply(manifest, "--stack", "live").code == 0
    terminal = asking("--stack", "live")
    assert "Delete 2 resources and forget 2 of project web, stack live?" in terminal.screen.lines[-1]
    terminal.type("no\n")
    assert terminal.end()[0] == 1
    terminal = asking("--stack", "live", "--target", "Widget[old*]")
    assert "Forget 2 resources of project web, stack live?" in terminal.screen.lines[-1]
    terminal.type("no\n")
    assert terminal.end()[0] == 1


def test_where_nothing_would_be_done_nothing_is_asked(recorded: Bench) -> None:
    """The run ends by itself."""
    recorded.write("site.yaml", A)
    with Terminal(columns=200) as terminal:
        terminal.run(recorded, "destroy", "site.yaml")
        code, lines = terminal.end()
    assert (code, "[no]" in "\n".join(lines)) == (0, False)


@pytest.mark.parametrize("how", ["plan --destroy", "destroy"])
def test_a_saved_destruction_does_what_it_shows(recorded: Bench, how: str) -> None:
    """It deletes nothing itself, asks nothing, and ``apply`` carries it out without the manifest."""
    assert recorded.apply(TWO).code == 0
    command, *option = how.split()
    result = recorded.run(command, "site.yaml", *option, "-o", "gone.json")
    assert (result.code, "Plan: 2 to delete; 0 unchanged." in result.out) == (0, True), result
    assert sorted(recorded.things("widget")) == ["a", "b"]
    assert "Plan: 2 to delete; 0 unchanged." in recorded.run("show", "gone.json").out
    (recorded.home / "site.yaml").unlink()
    applied = recorded.run("apply", "gone.json")
    assert (applied.code, applied.out.splitlines()[-1].split(": ")[1]) == (0, "2 deleted, 0 unchanged."), applied
    assert recorded.things("widget") == {}
    assert recorded.run("history", "--json").document[-1]["command"] == "destroy"
    again = recorded.run("apply", "gone.json")
    assert (again.code, "stale" in again.err) == (65, True)


def test_a_saved_destruction_of_a_part_leaves_the_rest(recorded: Bench) -> None:
    """The selection is saved with it."""
    assert recorded.apply(TWO).code == 0
    assert recorded.run("plan", "site.yaml", "--destroy", "--target", "Widget[b]", "-o", "gone.json").code == 0
    assert recorded.run("apply", "gone.json").code == 0
    assert list(recorded.things("widget")) == ["a"]


@pytest.mark.parametrize("change", ["another", "other"])
def test_a_saved_destruction_that_would_delete_anything_else_is_stale(recorded: Bench, change: str) -> None:
    """Something was added, or one of the resources is another now: nothing is touched."""
    assert recorded.apply(A).code == 0
    assert recorded.run("destroy", "site.yaml", "-o", "gone.json").code == 0
    if change == "another":
        assert recorded.run("apply", recorded.write("two.yaml", TWO), "--project", "site").code == 0
    else:
        recorded.put("widget", a={"size": 3})
    before = recorded.things("widget")
    result = recorded.run("apply", "gone.json")
    assert (result.code, "the plan is stale" in result.err, recorded.things("widget")) == (65, True, before)


def test_a_saved_destruction_is_one_document_with_json(recorded: Bench) -> None:
    """That of a plan, from both commands; the steps are those that are carried out."""
    assert recorded.apply(TWO).code == 0
    one = recorded.run("plan", "site.yaml", "--destroy", "--json").document
    document = recorded.run("destroy", "site.yaml", "-o", "gone.json", "--json").document
    saved = json.loads((recorded.home / "gone.json").read_text(encoding="utf-8"))
    assert one["steps"] == document["steps"] == saved["steps"]
    assert [(step["reference"], step["action"]) for step in one["steps"]] == [
        ("Widget[b]", "delete"),
        ("Widget[a]", "delete"),
    ]


def test_a_destruction_of_a_program_is_saved(recorded: Bench) -> None:
    """What is embedded is what the program has declared, its configured providers with it; it is not executed again."""
    program = recorded.write(
        "site.py", "INPUTS = {'n': {'type': 'String'}}\n\ndef manifest(m):\n    m.widget(m.inputs.n)\n"
    )
    assert recorded.run("apply", program, "-i", "n=a").code == 0
    assert recorded.run("destroy", program, "-i", "n=a", "-o", "gone.json").code == 0
    program.write_text("raise SystemExit('executed')\n", encoding="utf-8")
    assert recorded.run("apply", "gone.json").code == 0
    assert recorded.things("widget") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan site.yaml --destroy --prune", "--prune does not go with --destroy"),
        ("plan site.yaml --destroy --prune-always", "--prune-always does not go with --destroy"),
        ("plan site.yaml --destroy --replace Widget[a]", "--replace does not go with --destroy"),
        ("destroy site.yaml -o gone.json --yes", "-o saves the plan, and --yes is for carrying it out"),
        ("destroy site.yaml -o site.yaml", "-o site.yaml would overwrite site.yaml"),
        ("destroy site.yaml -out=gone.json", "write -o gone.json or --out gone.json"),
    ],
)
def test_what_does_not_go_with_a_saved_destruction_is_wrong_usage(
    recorded: Bench, arguments: str, message: str
) -> None:
    """Nothing is saved, and nothing is deleted."""
    assert recorded.apply(A).code == 0
    result = recorded.run(*arguments.split())
    assert (result.code, message in result.err) == (64, True), result
    assert not (recorded.home / "gone.json").exists()
    assert "a" in recorded.things("widget")


def test_a_destruction_that_cannot_be_done_cannot_be_applied(recorded: Bench) -> None:
    """What is protected is said in the plan, which is refused as a whole."""
    assert recorded.apply("resources: {'Widget[a]': {lifecycle: {protect: true}}, 'Widget[b]': {}}").code == 0
    assert recorded.run("destroy", "site.yaml", "-o", "gone.json").code == 1
    result = recorded.run("apply", "gone.json")
    assert (result.code, "not applicable" in result.err) == (65, True)
    assert sorted(recorded.things("widget")) == ["a", "b"]


def test_a_noop_destruction_takes_no_lock(recorded: Bench, asking: Callable[..., Terminal]) -> None:
    """It shows what would be done while another one asks."""
    assert recorded.apply(A).code == 0
    terminal = asking()
    result = recorded.run("destroy", "site.yaml", "--noop")
    assert (result.code, "Plan: 1 to delete" in result.out) == (0, True), result
    terminal.type("no\n")
    assert terminal.end()[0] == 1
