"""The modules that each command must not load: start-up time is what users notice first."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Box

HEAVY: Final = frozenset({"sh", "jsonschema", "structlog", "yaml", "sqlite3", "asyncio", "dataclasses", "subprocess"})

#: Runs the command in this process and writes at its end which modules are loaded.
PROGRAM: Final = """
import json, os, sys
before = set(sys.modules)
from resource_api.cli import main as cli
stderr = os.dup(2)
code = cli.run(sys.argv[1:])
os.write(stderr, ("\\n" + json.dumps([code, sorted(set(sys.modules) - before)])).encode())
os._exit(0)
"""


def loaded(box: Box, *arguments: str) -> tuple[int, set[str]]:
    """Return the exit code of a command and the top-level modules that it has loaded."""
    process = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments], cwd=box.path, env=box.env, capture_output=True, check=False
    )
    code, names = json.loads(process.stderr.splitlines()[-1])
    return code, {name.partition(".")[0] for name in names}


def test_the_version_loads_only_click(box: Box) -> None:
    """No other package, and none of our modules but the command itself."""
    code, names = loaded(box, "--version")
    assert code == 0
    assert "click" in names
    assert not names & HEAVY


def test_the_version_loads_no_module_of_ours_but_the_command(box: Box) -> None:
    """Each subcommand is imported when it is called."""
    process = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "--version"], cwd=box.path, env=box.env, capture_output=True, check=False
    )
    _, names = json.loads(process.stderr.splitlines()[-1])
    assert {name for name in names if name.startswith("resource_api")} == {
        "resource_api",
        "resource_api.cli",
        "resource_api.cli.main",
        "resource_api.model",
        "resource_api.model.values",
        "resource_api.model.values.version",
    }


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ("resource user root", HEAVY),
        ("types", HEAVY),
        ("describe file", HEAVY),
        ("validate site.json", HEAVY),
        ("apply site.json", HEAVY - {"sqlite3"}),
    ],
)
def test_a_command_loads_only_what_it_uses(box: Box, arguments: str, unwanted: frozenset[str]) -> None:
    """An apply without changes logs nothing, runs no program, and has no errors to explain."""
    box.manifest({"Good[a]": {"size": 1, "parts": ["x"]}})
    assert box.run("apply", "site.json").code == 0
    code, names = loaded(box, *arguments.split())
    assert code == 0
    assert not names & unwanted


def test_the_library_loads_nothing_until_it_is_used(box: Box) -> None:
    """Importing it loads neither click nor sh, configures no logging and installs no signal handler."""
    program = (
        "import sys, signal, logging\nbefore = set(sys.modules), [signal.getsignal(n) for n in range(1, 32)]\n"
        "import resource_api\n"
        "assert [signal.getsignal(n) for n in range(1, 32)] == before[1]\n"
        "assert not logging.getLogger().handlers\n"
        "print({n.split('.')[0] for n in set(sys.modules) - before[0]} - sys.stdlib_module_names)"
    )
    process = subprocess.run([sys.executable, "-P", "-c", program], env=box.env, capture_output=True, check=True)
    assert process.stdout.strip() == b"{'resource_api'}"


def test_using_the_library_loads_neither_click_nor_sh(box: Box) -> None:
    """A program that embeds the runtime applies a manifest without either."""
    program = (
        "import sys\nfrom resource_api import Registry, Runtime\n"
        "report = Runtime(Registry.from_path('.'), state='memory:').apply('site.json')\n"
        "assert report.exit_code == 0, report\n"
        "assert not {'click', 'sh', 'jsonschema', 'yaml'} & set(sys.modules)"
    )
    box.manifest({"Good[a]": {"size": 1}})
    process = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=box.path, env=box.env, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr.decode()


@pytest.mark.parametrize(("arguments", "budget"), [("--version", 1.6), ("resource user root", 3.0), ("types", 4.0)])
def test_starting_costs_little_more_than_click(box: Box, arguments: str, budget: float) -> None:
    """Processor time of the whole process, as a multiple of ``import click``, measured in pairs."""
    box.env |= {"PYTHONPYCACHEPREFIX": str(box.path / "cache")}
    del box.env["PYTHONDONTWRITEBYTECODE"]
    ours = [*box.command, *arguments.split()]
    click = [sys.executable, "-P", "-c", "import click"]
    seconds(box, ours), seconds(box, click)
    ratios = [seconds(box, ours) / seconds(box, click) for _ in range(7)]
    assert median(ratios) <= budget, ratios


def seconds(box: Box, command: list[str]) -> float:
    """Return the processor time of a command, in user and system mode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=box.path, env=box.env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
