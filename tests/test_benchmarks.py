"""The benchmarks: the manifests that they write, the measuring, and the page; no time is asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks import peers, workloads
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
    assert sorted(each.path for each in workloads.files(160, target)) == sorted(map(str, target.iterdir()))
    workloads.require(160, target)
    drifted = workloads.drift(160, target)
    with pytest.raises(RuntimeError, match="2 of 160 files are not as declared"):
        workloads.require(160, target)
    steps = [step for step in runtime.plan(str(as_json)).steps if step.acts]
    found = {str(step.entry.name): ", ".join(each.attribute for each in step.decision.differences) for step in steps}
    assert found == drifted
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
    found = pairs([sys.executable, "-I", "-S", "-c", "pass"], [sys.executable, "-I", "-S", "-c", "pass"], 2)
    assert found.least <= found.ratio <= found.greatest


@pytest.mark.parametrize("name", sorted(peers.PEERS))
def test_the_manifest_of_each_peer_declares_every_file(name: str, tmp_path: Path) -> None:
    """It contains each path and each text; the command of a dry run differs from that of a real run."""
    peer = peers.PEERS[name]
    files = list(workloads.files(3, tmp_path / "target"))
    peer.write(tmp_path, files)
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert all(each.path in written and each.content.split("\n")[0] in written for each in files)
    assert peer.command(tmp_path, True) != peer.command(tmp_path, False)  # noqa: FBT003 - as peers declare it
