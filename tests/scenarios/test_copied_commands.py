"""Commands that messages propose: they work when they are copied into a shell."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.conftest import Bench, Outcome

#: Words between spaces, quotes and characters that a shell expands.
STRANGE: Final = "Bob's [new] $HOME; files"


def copied(outcome: Outcome) -> str:
    """Return the command that a message ends with."""
    match = re.search(r"run: (.*?)(?:; or, if .*)?$", outcome.err, re.MULTILINE)
    assert match, outcome.err
    return match[1]


def state(bench: Bench) -> tuple[str, ...]:
    """Prepare a directory of a state that others can write to; return the arguments of a refused command."""
    (bench.home / STRANGE).mkdir()
    (bench.home / STRANGE).chmod(0o777)
    return "apply", "site.yaml", "--state", f"sqlite:{STRANGE}/state.db"


def key(bench: Bench) -> tuple[str, ...]:
    """Prepare a key that others can use; return the arguments of a refused command."""
    assert bench.run("new", "key", STRANGE).code == 0
    (bench.home / STRANGE).chmod(0o644)
    return "apply", "site.yaml", "--key", f"file:{STRANGE}", "--state", "sqlite:state.db"


def code(bench: Bench) -> tuple[str, ...]:
    """Prepare a type that everybody can change; return the arguments of a refused command."""
    assert bench.run("new", "type", "note", "--directory", STRANGE).code == 0
    (bench.home / STRANGE / "types" / "note.py").chmod(0o666)
    return "resource", "note", "--module-path", STRANGE


@pytest.mark.parametrize("prepare", [state, key, code])
def test_a_proposed_command_works_with_any_path(bench: Bench, prepare: Callable[[Bench], tuple[str, ...]]) -> None:
    """The path of a state, a key or a type is one word of the command, whatever characters it has."""
    bench.write("site.yaml", "resources: {}")
    bench.environment["NOTE_DIRECTORY"] = str(bench.home / "notes")
    arguments = prepare(bench)
    refused = bench.run(*arguments)
    assert refused.code != 0
    subprocess.run(["/bin/sh", "-c", copied(refused)], cwd=bench.home, check=True)
    assert bench.run(*arguments).code == 0


def test_a_proposed_command_has_a_reference_as_one_word_and_the_options_of_the_state(bench: Bench) -> None:
    """A shell would expand its brackets, and split its title at spaces; another state is not meant."""
    state = ("--state", "sqlite:a b.db", "--stack", "live")
    bench.type("item", bench.NAMED, provider=_ITEMS)
    assert bench.apply("project: web\nresources:\n  Item[a b's]: {}\n", *state).code == 0
    (bench.modules / "types" / "item.py").unlink()
    (bench.modules / "providers" / "item.py").unlink()
    bench.write("site.yaml", "project: web\nresources: {}\n")
    refused = bench.run("destroy", "site.yaml", "--yes", *state)
    match = re.search(r"or forget it: (state rm .*)$", refused.lines[0])
    assert match
    assert bench.run(*shlex.split(match[1])).code == 0


_ITEMS: Final = """
def get(self, context):
    path = Path(os.environ["BENCH"]) / "items"
    return [{"name": name, "ensure": "present"} for name in (path.read_text().splitlines() if path.exists() else [])]

def create(self, context, name, should):
    (Path(os.environ["BENCH"]) / "items").write_text(name)

def delete(self, context, name):
    (Path(os.environ["BENCH"]) / "items").unlink()
"""
