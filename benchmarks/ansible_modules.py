"""``python -m benchmarks.ansible_modules``: measure twenty tasks of Ansible beside the same ones here.

A playbook is run by ``ansible-playbook``, and its tasks by ``ansible_module`` and by the bundled types, as ``convert``
makes them. ``make bench-peers`` installs Ansible.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import ours
from benchmarks.measure import Command, cost, pairs
from benchmarks.peers import INSTALLED
from resource_api import Registry, Runtime
from resource_api.convert.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The number of tasks, of those with an action plugin, and of pairs.
TASKS = 20
PLUGIN_TASKS = 5
PAIRS = 5
ANSIBLE = INSTALLED / "ansible" / "bin"


class Workload:
    """Tasks of one kind in a directory: a playbook, and two manifests of the same."""

    def __init__(self, root: Path, name: str, tasks: list[dict[str, Any]]) -> None:
        """Write them; ``tasks`` are modules with their arguments."""
        self.target = root / "target"
        directory = root / name.replace(" ", "-")
        directory.mkdir()
        playbook = directory / "playbook.yml"
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
        playbook.write_text(json.dumps([play]))
        words = (str(ANSIBLE / "ansible-playbook"), "-i", "localhost,", str(playbook))
        interpreter = {"ANSIBLE_PYTHON_INTERPRETER": str(ANSIBLE / "python")}
        self.playbook = Command(words, interpreter)
        self.modules = ours(self._modules(directory, tasks), f"sqlite:{directory}/modules.db")
        converted = directory / "types.yaml"
        converted.write_text(convert(str(playbook), Runtime(Registry.from_path(), state="memory:")).manifest)
        self.types = ours(converted, f"sqlite:{directory}/types.db")

    def _modules(self, directory: Path, tasks: list[dict[str, Any]]) -> Path:
        rows = {}
        for number, task in enumerate(tasks):
            ((module, arguments),) = task.items()
            row = {"module": module, "args": arguments, "python": str(ANSIBLE / "python")}
            rows[f"Ansible_module[{number}]"] = row
        path = directory / "modules.json"
        path.write_text(json.dumps({"project": "bench", "resources": rows}))
        return path

    def fresh(self) -> None:
        """Make the target empty."""
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()


def workloads(root: Path) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads by their names."""
    target = root / "target"
    lines = [{"lineinfile": {"path": f"{target}/{n}", "line": f"line {n}", "create": True}} for n in range(TASKS)]
    yield f"{TASKS} times `lineinfile`", Workload(root, "lines", lines)
    copies = [
        {"copy": {"dest": f"{target}/{n}", "content": f"text {n}\n", "mode": "0644"}} for n in range(PLUGIN_TASKS)
    ]
    yield f"{PLUGIN_TASKS} times `copy`, which has an action plugin", Workload(root, "copies", copies)


def rows(name: str, workload: Workload) -> Iterator[str]:
    """Yield the lines of a table about a workload."""
    for how, command in (("`ansible_module`", workload.modules), ("bundled types", workload.types)):
        created = pairs(workload.playbook, command, PAIRS, workload.fresh)
        workload.fresh()
        cost(command)
        unchanged = pairs(workload.playbook, command, PAIRS)
        for effect, measured in (("created", created), ("no change", unchanged)):
            figures = f"{measured.floor:.2f} s | {measured.ours:.2f} s | {measured.ratio:.2f}"
            spread = f"{measured.least:.2f} - {measured.greatest:.2f}"
            yield f"| {name}, {effect} | {how} | {figures} | {spread} |"


def main() -> None:
    """Measure, and print a table."""
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-"))
    try:
        sys.stdout.write("| tasks | by | `ansible-playbook` | here | ratio | spread |\n")
        sys.stdout.write("| --- | --- | --: | --: | --: | --- |\n")
        for name, workload in workloads(root):
            for line in rows(name, workload):
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
    finally:
        shutil.rmtree(root)


main()
