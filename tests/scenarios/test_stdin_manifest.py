"""``-`` as MANIFEST: YAML or JSON on standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import command
from tests.scenarios.conftest import Outcome

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def feed(bench: Bench, text: str, *arguments: str) -> Outcome:
    """Return the outcome of a command with ``text`` on standard input."""
    with bench.write("input", text).open() as file:
        process = command.run(arguments, cwd=bench.home, env=bench.environment, stdin=file.fileno(), text=True)
    return Outcome(process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "project: a\nresources:\n  Widget[a]: {size: 1}\n",
        '{"project": "a", "resources": {"Widget[a]": {"size": 1}}}',
        '{project: a, resources: {"Widget[a]": {size: 1}}}\n',
    ],
    ids=["yaml", "json", "yaml_in_braces"],
)
def test_a_manifest_on_standard_input_is_applied(bench: Bench, text: str) -> None:
    """In each of the formats, and a saved plan of it carries it out later."""
    assert feed(bench, text, "plan", "-", "-o", "later.json").code == 0
    assert bench.things("widget") == {}
    assert bench.run("apply", "later.json").code == 0
    assert feed(bench, text, "apply", "-", "--detailed-exitcodes").code == 0
    assert bench.things("widget")["a"]["size"] == 1


def test_its_includes_are_relative_to_the_working_directory_which_is_no_module_path(bench: Bench) -> None:
    """Types that lie there are not executed."""
    bench.write("more/other.yaml", "resources:\n  Widget[b]: {}\n")
    bench.write("types/secretly.py", "raise SystemExit(9)\n")
    result = feed(bench, "project: a\ninclude: [more/other.yaml]\nresources:\n  Widget[a]: {}\n", "validate", "-")
    assert (result.code, result.out) == (0, "<stdin> is valid: 2 resources.\n"), result
    result = feed(bench, "project: a\nresources:\n  Secretly[a]: {}\n", "validate", "-")
    assert (result.code, result.err.startswith("<stdin>:3:3: ")) == (65, True), result


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("apply -", 64),
        ("plan -", 64),
        ("destroy - --yes", 64),
        ("validate -", 64),
        ("graph -", 64),
        ("refresh -", 64),
        ("import - Widget[a]", 64),
        ("plan - --project a", 0),
    ],
)
def test_it_names_its_project(bench: Bench, words: str, code: int) -> None:
    """There is no file whose name could be that of the project."""
    result = feed(bench, "resources: {}\n", *words.split())
    assert (result.code, "needs a project: write 'project: NAME'" in result.err) == (code, code == 64), result


@pytest.mark.parametrize("text", ["", " \n\n"])
@pytest.mark.parametrize("words", ["apply - --prune-always --project a", "destroy - --yes --project a", "validate -"])
def test_an_empty_standard_input_is_no_empty_manifest(bench: Bench, words: str, text: str) -> None:
    """A program that fails before it writes anything declares nothing, and must not have everything deleted."""
    result = feed(bench, text, *words.split())
    assert (result.code, result.err) == (65, "<stdin>: standard input is empty: nothing has written to it\n")


def test_a_closed_standard_input_is_empty(bench: Bench) -> None:
    """Nothing else takes its number and is read as a manifest."""
    process = bench.shell('"$@" validate - <&-')
    assert (process.returncode, process.stderr) == (65, "<stdin>: standard input is empty: nothing has written to it\n")


def test_a_problem_shows_its_line(bench: Bench) -> None:
    """As one of a file does, in both formats; a line that may be secret is not shown."""
    result = feed(bench, "project: a\nresources:\n  Widget[a]: {sise: 1}\n", "validate", "-")
    assert result.err.splitlines()[1:] == ["    3 |   Widget[a]: {sise: 1}", "      |               ^^^^"], result
    result = feed(bench, '{"project": "a",\r\n "resources": {"Widget[a]": {"sise": 1}}}', "validate", "-")
    assert result.err.splitlines()[1:] == [
        '    2 |  "resources": {"Widget[a]": {"sise": 1}}}',
        "      |                              ^^^^^^",
    ], result
    secret = "project: a\ninputs:\n  pin: {type: 'Sensitive[Integer]', default: hunter2}\n"
    result = feed(bench, secret, "validate", "-")
    assert (result.code, "hunter2" in result.err, len(result.err.splitlines())) == (65, False, 1), result


def test_a_saved_plan_is_a_file(bench: Bench) -> None:
    """It is read more than once, and found again: the message asks for its name."""
    assert feed(bench, "project: a\nresources: {}\n", "plan", "-", "-o", "later.json").code == 0
    result = feed(bench, (bench.home / "later.json").read_text(), "apply", "-")
    assert result.code == 65
    assert "this is a saved plan, not a manifest; apply carries it out, given the name of its file" in result.err
    result = feed(bench, (bench.home / "later.json").read_text(), "show", "-")
    assert (result.code, result.err) == (
        64,
        "Error: a saved plan is not read from standard input; give the name of its file\n",
    )
