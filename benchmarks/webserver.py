"""``python -m benchmarks.webserver [TOOL ...]``: build, check, damage and mend one whole machine with each tool.

The machine is that of ``examples/webserver``; ``benchmarks/machine`` describes it for the other tools. Each tool gets a
bare machine of its own with a real systemd, so only root can measure it. All of them take a quarter of an hour.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import cases, results
from benchmarks.cases import HERE, OURS
from benchmarks.measure import LAUNCH, Cost, Ratio, ratio
from benchmarks.peers import INSTALLED
from tests import webserver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.systemd_machine import Machine

#: The largest ratio that we aim at of our second run to the programs that it starts.
AIM = 2.0
#: The descriptions, here and on the machine.
DESCRIPTIONS = HERE / "machine"
THERE = "/root/machine"
#: Where a tool's output is kept on the machine.
OUTPUT = "/run/output"
ENVIRONMENT = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root")
MODULES = ("duritong-sysctl", "heini-wait-for", *(f"puppetlabs-{name}" for name in ("stdlib", "postgresql", "vcsrepo")))
CORE = ("inifile", "sshkeys-core", "cron-core", "host-core")
MINION = f"""\
id: here
file_client: local
file_roots: {{base: [{THERE}]}}
root_dir: /root/salt
log_file: /root/salt.log
"""


class Tool(NamedTuple):
    """One tool: its description of the machine, its commands, and how it counts its changes."""

    description: Path
    apply: Sequence[str]
    noop: Sequence[str]
    #: Finds one change each, or numbers of changes.
    changes: str
    #: The Debian packages and the files that it needs on the machine.
    packages: Sequence[str] = ()
    files: Mapping[str, str] = {}
    #: Its exit codes without a failure.
    codes: Sequence[int] = (0,)
    #: How often the second run is measured, and the programs that it is compared with.
    times: int = 3
    beside: Sequence[Sequence[str]] = ()


_OURS = (OURS, "apply", "/root/webserver/site.yaml", "-i", f"repository={webserver.REPOSITORY}")
_READ = (f"{THERE}/read.sh",)
_PUPPET = ("puppet", "apply", "--color=false", "--detailed-exitcodes", f"{THERE}/site.pp")
_ANSIBLE = (f"{INSTALLED}/ansible/bin/ansible-playbook", "--inventory=localhost,", f"{THERE}/site.yml")
_SALT = (
    *(f"{INSTALLED}/salt/bin/salt-call", "--local", "--config-dir=/root", "--log-level=quiet", "--no-color"),
    "--retcode-passthrough",
    *("state.apply", "site"),
)


def _ansible(apply: Sequence[str]) -> Tool:
    return Tool(DESCRIPTIONS / "site.yml", apply, (*apply, "--check"), r"\bchanged=(\d+)")


TOOLS = {
    "resource-api": Tool(
        webserver.HOME / "site.yaml",
        _OURS,
        (*_OURS, "--noop"),
        r"(\d+) (?:created|updated|replaced|deleted|refreshed|run)",
        times=9,
        beside=(_READ, (*_READ, "all")),
    ),
    "Puppet": Tool(
        DESCRIPTIONS / "site.pp",
        _PUPPET,
        (*_PUPPET, "--noop"),
        r"^Notice: (/Stage\[main\].*?\])(?:/\w+)?: ",
        packages=(
            "puppet",
            *(f"puppet-module-{name}" for name in (*MODULES, *(f"puppetlabs-{name}" for name in CORE))),
        ),
        codes=(0, 2),
    ),
    "Ansible": _ansible(_ANSIBLE),
    "Ansible with pipelining": _ansible(("env", "ANSIBLE_PIPELINING=1", *_ANSIBLE)),
    "Salt": Tool(
        DESCRIPTIONS / "site.sls",
        _SALT,
        (*_SALT, "test=True"),
        r"^Succeeded: \d+ \((?:un)?changed=(\d+)",
        files={"/root/minion": MINION},
    ),
}


class Measured(NamedTuple):
    """What one tool did on its machine: costs, and counts of changes."""

    lines: int
    first: Cost
    second: list[Cost]
    noop: Cost
    announced: int
    repair: Cost
    mended: int
    #: Our second run beside the programs that it starts, and beside those for all that it reads.
    programs: list[Ratio]


def lines(description: Path) -> int:
    """Count the lines of a description that are neither empty nor a comment."""
    written = map(str.strip, description.read_text(encoding="utf-8").splitlines())
    return sum(1 for line in written if line and not line.startswith("#"))


def changes(tool: Tool, output: str) -> int:
    """Return how many changes a tool has made, or announces, by its own output."""
    changes = re.findall(tool.changes, output, re.MULTILINE)
    return sum(map(int, changes)) if all(map(str.isdigit, changes)) else len(set(changes))


def run(machine: Machine, words: Sequence[str], codes: Sequence[int] = (0,)) -> tuple[Cost, str]:
    """Run a program on the machine to its end; return its cost and its output. Raise ``RuntimeError`` if it fails."""
    recorded = ("sh", "-c", f'exec "$@" >{OUTPUT} 2>&1', "sh", *words)
    output = machine.run(*ENVIRONMENT, *LAUNCH, *recorded, timeout=1800).stdout
    code, seconds, memory, elapsed = output.split()
    output = machine.read(OUTPUT)
    if int(code) not in codes:
        raise RuntimeError(f"{' '.join(words)} ended with {code}: {output}")
    return Cost(float(seconds), int(memory) / 1024, float(elapsed)), output


def measure(name: str) -> Measured:
    """Build, check, damage and mend a machine with one tool. Raise ``RuntimeError`` if it is not as it should be."""
    tool = TOOLS[name]
    with (
        tempfile.TemporaryDirectory() as directory,
        webserver.bare_machine(Path(directory), *tool.packages) as machine,
    ):
        prepare(machine, tool)
        say(name, "first run")
        first, _ = run(machine, tool.apply, tool.codes)
        require(webserver.page(machine).startswith("Welcome: visitor "), f"{name} has built no web server")
        say(name, "second run")
        second, programs = again(machine, tool)
        say(name, "damages")
        for damage in webserver.DAMAGES:
            machine.run("sh", "-c", damage.command)
        noop, output = run(machine, tool.noop, tool.codes)
        require(not webserver.mended(machine), f"{name} has changed something in a dry run")
        repair, _ = run(machine, tool.apply, tool.codes)
        mended = webserver.mended(machine)
    for missing in sorted({damage.resource for damage in webserver.DAMAGES} - {*mended}):
        say(name, f"{missing} is not mended")
    return Measured(lines(tool.description), first, second, noop, changes(tool, output), repair, len(mended), programs)


def prepare(machine: Machine, tool: Tool) -> None:
    """Install a tool on the machine, with the descriptions."""
    machine.run("cp", "-r", DESCRIPTIONS, THERE)
    for path, text in tool.files.items():
        machine.write(path, text)
    if tool.packages:
        install = ("apt-get", "install", "-q", "-y", "--no-install-recommends", *tool.packages)
        machine.run("env", "DEBIAN_FRONTEND=noninteractive", *install, timeout=600)


def again(machine: Machine, tool: Tool) -> tuple[list[Cost], list[Ratio]]:
    """Measure the second run, which must change nothing, alternately with the programs that it is compared with."""
    costs: list[Cost] = []
    beside: list[list[tuple[Cost, Cost]]] = [[] for _ in tool.beside]
    for _ in range(tool.times):
        floors = [run(machine, words)[0] for words in tool.beside]
        cost, output = run(machine, tool.apply, tool.codes)
        require(changes(tool, output) == 0, f"the second run has changed something: {output}")
        costs.append(cost)
        for pairs, floor in zip(beside, floors, strict=True):
            pairs.append((floor, cost))
    return costs, [ratio(pairs) for pairs in beside]


def require(truth: object, message: str) -> None:
    """Raise ``RuntimeError`` for what is not as it should be."""
    if not truth:
        raise RuntimeError(message)


def say(name: str, stage: str) -> None:
    """Show progress."""
    sys.stderr.write(f"{name}: {stage}\n")
    sys.stderr.flush()


def row(name: str, measured: Measured) -> dict[str, Any]:
    """Return the row of one tool; processor time in seconds unless elapsed."""
    second = statistics.median(cost.seconds for cost in measured.second)
    figures = {
        "first_elapsed": measured.first.elapsed,
        "first": measured.first.seconds,
        "second_elapsed": statistics.median(cost.elapsed for cost in measured.second),
        "second": second,
        "noop": measured.noop.seconds,
        "repair": measured.repair.seconds,
    }
    counts = {"lines": measured.lines, "announced": measured.announced, "mended": measured.mended}
    damages = {"damages": len(webserver.DAMAGES)}
    return {"tool": name, **counts, **damages, **{key: round(value, 4) for key, value in figures.items()}}


def reading(measurement: Measured) -> list[dict[str, Any]]:
    """Return our second run beside the programs alone, as rows of the page; nothing for other tools."""
    beside = (("the programs that it starts", AIM), ("a program for all that it reads", 0.0))
    return [
        cases.row(cases.Row("second run of the web server", 0, what, measured, aim))
        for (what, aim), measured in zip(beside, measurement.programs, strict=False)
    ]


def main() -> None:
    """Measure, and write the results and the page after each tool."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webserver", description="Measure one whole machine.")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(TOOLS))
    names = parser.parse_args().tools
    if unknown := sorted({*names} - {*TOOLS}):
        parser.error(f"no tool {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    for name in names or TOOLS:
        measurement = measure(name)
        before = results.read()
        whole = before.get("webserver", {"tools": [], "reading": []})
        rows = {tool["tool"]: tool for tool in whole["tools"]} | {name: row(name, measurement)}
        tools = [rows[tool] for tool in TOOLS if tool in rows]
        results.write({**before, "webserver": {"tools": tools, "reading": reading(measurement) or whole["reading"]}})


if __name__ == "__main__":
    main()
