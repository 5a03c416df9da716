"""The benchmarks: the manifests that they write, the measuring, and the page; no time is asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from benchmarks import peers, webserver, workloads
from benchmarks.measure import Command, cost, pairs
from benchmarks.page import page
from resource_api import Registry, Runtime

ROOT: Final = Path(__file__).resolve().parent.parent


def test_the_page_contains_exactly_the_results() -> None:
    """``docs/performance.md`` is generated from ``benchmarks/results.json``."""
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert (ROOT / "docs" / "performance.md").read_text() == page(results)


def test_json_and_yaml_declare_the_same_files_and_the_drift_is_planned(tmp_path: Path) -> None:
    """Both manifests are the same workload, and the plan contains exactly the files that drifted."""
    target = tmp_path / "target"
    target.mkdir()
    as_json, as_yaml = workloads.write(160, target, tmp_path / "site")
    runtime = Runtime(Registry.from_path(), state="memory:")
    assert runtime.apply(str(as_json)).summary.created == 160
    assert runtime.apply(str(as_yaml)).summary.unchanged == 160
    assert sorted(file.path for file in workloads.files(160, target)) == sorted(map(str, target.iterdir()))
    workloads.require(160, target)
    drifted = workloads.drift(160, target)
    with pytest.raises(RuntimeError, match="2 of 160 files are not as declared"):
        workloads.require(160, target)
    steps = [step for step in runtime.plan(str(as_json)).steps if step.acts]
    entries = {
        str(step.entry.name): ", ".join(difference.attribute for difference in step.decision.differences)
        for step in steps
    }
    assert entries == drifted
    assert set(drifted.values()) == {"content", "mode"}


def test_memory_is_that_of_the_measured_program() -> None:
    """The memory of the measuring process does not count."""
    held = bytes(range(256)) * 400_000
    measured = cost([sys.executable, "-I", "-S", "-c", "pass"])
    assert measured.memory < len(held) / 2**20 / 2


def test_an_unexpected_exit_code_is_an_error() -> None:
    """Pairs of programs with a valid exit code have a ratio."""
    fails = [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match="ended with 3"):
        cost(fails)
    assert cost(Command(fails, codes=(3,))).seconds > 0
    result = pairs([sys.executable, "-I", "-S", "-c", "pass"], [sys.executable, "-I", "-S", "-c", "pass"], 2)
    assert result.least <= result.ratio <= result.greatest


@pytest.mark.parametrize("name", sorted(peers.PEERS))
def test_the_manifest_of_each_peer_declares_every_file(name: str, tmp_path: Path) -> None:
    """It contains each path and each text; the command of a dry run differs from that of a real run."""
    peer = peers.PEERS[name]
    files = list(workloads.files(3, tmp_path / "target"))
    peer.write(tmp_path, files)
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert all(file.path in written and file.content.split("\n")[0] in written for file in files)
    assert peer.command(tmp_path, True) != peer.command(tmp_path, False)  # noqa: FBT003 - as peers declare it


def test_each_description_of_the_whole_machine_declares_what_the_example_does() -> None:
    """Every package, file, unit, user, group, setting of the kernel and key is in the description of each tool."""
    declared = yaml.safe_load((ROOT / "examples" / "webserver" / "site.yaml").read_text())["resources"]
    titles = [reference.rstrip("]").split("[", 1) for reference in declared]
    kinds = {"Package", "File", "Systemd_unit", "User", "Group", "Sysctl", "Host"}
    names = {title for kind, title in titles if kind in kinds}
    names |= {str(values["key"]) for values in declared.values() if "key" in values}
    assert len(names) >= 29
    for name, tool in webserver.TOOLS.items():
        text = tool.description.read_text()
        assert [item for item in sorted(names) if item not in text] == [], name


def test_lines_of_a_description_are_those_that_say_something(tmp_path: Path) -> None:
    """Empty lines and comments do not count."""
    description = tmp_path / "site.yaml"
    description.write_text("# what\n\nresources:\n  # each\n  File[/a]: {} # yes\n")
    assert webserver.lines(description) == 2


@pytest.mark.parametrize(
    ("name", "output", "count"),
    [
        ("resource-api", "Applied in 0.0 s: 50 unchanged.\n", 0),
        ("resource-api", "Applied in 1.2 s: 36 created, 5 updated, 1 refreshed, 8 unchanged.\n", 42),
        ("Puppet", "Notice: Compiled catalog for web1 in environment production\nNotice: Applied catalog in 2 s\n", 0),
        (
            "Puppet",
            (
                "Notice: /Stage[main]/Main/File[/etc/a]/mode: mode changed '0777' to '0750' (noop)\n"
                "Notice: /Stage[main]/Main/File[/etc/a]/owner: owner changed 'a' to 'root' (noop)\n"
                "Notice: /Stage[main]/Main/Service[app]: Would have triggered 'refresh' from 1 event\n"
                "Notice: Class[Main]: Would have triggered 'refresh' from 3 events\n"
            ),
            2,
        ),
        ("Ansible", "localhost : ok=36   changed=0    unreachable=0    failed=0\n", 0),
        ("Ansible", "localhost : ok=36   changed=12   unreachable=0    failed=0\n", 12),
        ("Salt", "Summary for local\nSucceeded: 48\nFailed:     0\n", 0),
        ("Salt", "Summary for local\nSucceeded: 48 (changed=47)\nFailed:     0\n", 47),
        ("Salt", "Summary for local\nSucceeded: 48 (unchanged=14, changed=9)\nFailed:     0\n", 14),
    ],
)
def test_changes_are_counted_as_a_tool_tells_them(name: str, output: str, count: int) -> None:
    """A resource counts once, and what refreshes it counts with it."""
    assert webserver.changes(webserver.TOOLS[name], output) == count
