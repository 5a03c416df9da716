"""The benchmarks themselves: what they write, measure and say; no time is asserted."""

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


def test_the_page_says_what_was_measured_and_nothing_else() -> None:
    """``docs/performance.md`` is made of ``benchmarks/results.json``."""
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    assert (ROOT / "docs" / "performance.md").read_text() == page(results)


def test_both_manifests_make_the_files_and_the_drift_is_found(tmp_path: Path) -> None:
    """JSON and YAML are one workload, the floor finds it in order too, and what drifts is what the plan names."""
    target = tmp_path / "target"
    target.mkdir()
    as_json, as_yaml = workloads.write(160, target, tmp_path / "site")
    runtime = Runtime(Registry.from_path(), state="memory:")
    assert runtime.apply(str(as_json)).summary.created == 160
    assert runtime.apply(str(as_yaml)).summary.unchanged == 160
    assert sorted(each.path for each in workloads.files(160, target)) == sorted(map(str, target.iterdir()))
    workloads.require(160, target)
    drifted = workloads.drift(160, target)
    with pytest.raises(RuntimeError, match="2 of 160 files are not as they should be"):
        workloads.require(160, target)
    steps = [step for step in runtime.plan(str(as_json)).steps if step.acts]
    found = {str(step.entry.name): ", ".join(each.attribute for each in step.decision.differences) for step in steps}
    assert found == drifted
    assert set(drifted.values()) == {"content", "mode"}


def test_memory_is_that_of_the_program_not_of_who_measures() -> None:
    """However much the one has in memory that starts it."""
    held = bytes(range(256)) * 400_000
    measured = cost([sys.executable, "-I", "-S", "-c", "pass"])
    assert measured.memory < len(held) / 2**20 / 2


def test_what_ends_otherwise_is_not_measured() -> None:
    """A code that was not expected is an error; pairs of programs that end well have a ratio."""
    fails = [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match="ended with 3"):
        cost(fails)
    assert cost(Command(fails, codes=(3,))).seconds > 0
    found = pairs([sys.executable, "-I", "-S", "-c", "pass"], [sys.executable, "-I", "-S", "-c", "pass"], 2)
    assert found.least <= found.ratio <= found.greatest


@pytest.mark.parametrize("name", sorted(peers.PEERS))
def test_each_peer_is_given_every_file(name: str, tmp_path: Path) -> None:
    """Its manifest holds each path and each text, and a run that only tells differs from one that acts."""
    peer = peers.PEERS[name]
    files = list(workloads.files(3, tmp_path / "target"))
    peer.write(tmp_path, files)
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert all(each.path in written and each.content.split("\n")[0] in written for each in files)
    assert peer.command(tmp_path, True) != peer.command(tmp_path, False)  # noqa: FBT003 - as peers declare it
