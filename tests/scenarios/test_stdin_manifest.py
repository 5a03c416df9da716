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
        done = command.run(arguments, cwd=bench.home, env=bench.environment, stdin=file.fileno(), text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


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
    done = feed(bench, "project: a\ninclude: [more/other.yaml]\nresources:\n  Widget[a]: {}\n", "validate", "-")
    assert (done.code, done.out) == (0, "<stdin> is valid: 2 resources.\n"), done
    done = feed(bench, "project: a\nresources:\n  Secretly[a]: {}\n", "validate", "-")
    assert (done.code, done.err.startswith("<stdin>:3:3: ")) == (65, True), done


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
    done = feed(bench, "resources: {}\n", *words.split())
    assert (done.code, "needs a project: write 'project: NAME'" in done.err) == (code, code == 64), done
