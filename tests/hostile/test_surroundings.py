"""What surrounds a run changes no result: the seed of hashes, and a clock that jumps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.conftest import Box

RESOURCES = {f"Good[{name}]": {"size": size, "parts": ["x", "y"]} for size, name in enumerate("abcdefgh")}


def run(box: Box, *arguments: str, seed: str = "0", clock: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the command in an interpreter of its own, with a seed of hashes and a clock that is shifted."""
    shifted = ["faketime", clock] if clock else []
    command = [*shifted, sys.executable, "-m", "resource_api", *arguments]
    environment = box.env | {"PYTHONHASHSEED": seed}
    return subprocess.run(command, env=environment, cwd=box.path, capture_output=True, check=False)


def outputs(box: Box, seed: str) -> dict[str, bytes]:
    """Return everything that is written to be compared or kept."""
    plan = Path(box.path, f"plan-{seed}.json")
    assert run(box, "plan", "site.json", "-o", str(plan), seed=seed).returncode == 0
    written = {"plan": plan.read_bytes()}
    path = ["--module-path", "."]
    for arguments in (
        ["plan", "site.json"],
        ["graph", "site.json"],
        ["state", "export"],
        ["schema", *path],
        ["describe", "good", *path],
    ):
        result = run(box, *arguments, seed=seed)
        assert result.returncode == 0, result.stderr
        written[" ".join(arguments)] = result.stdout
    return written


def test_equal_states_and_manifests_give_equal_bytes(tmp_path: Path) -> None:
    """Plans, exports, schemas and graphs do not depend on the order of a hash table."""
    box = Box(tmp_path)
    box.manifest(RESOURCES)
    assert run(box, "apply", "site.json").returncode == 0
    box.manifest(RESOURCES | {"Good[i]": {"size": 9, "tree": {"b": [1, 2], "a": {"d": 1, "c": 2}}}})
    first = outputs(box, "0")
    assert [name for seed in ("1", "2", "3") for name, text in outputs(box, seed).items() if text != first[name]] == []


@pytest.mark.parametrize("clock", ["+10 years", "-10 years"])
def test_a_clock_that_jumps_changes_no_result(tmp_path: Path, clock: str) -> None:
    """Runs are ordered by their serial, time limits use the monotonic clock, and a lock has no date."""
    box = Box(tmp_path)
    box.manifest(RESOURCES)
    assert run(box, "apply", "site.json", clock=clock).returncode == 0
    box.manifest(RESOURCES | {"Good[a]": {"size": 50}})
    assert run(box, "apply", "site.json", "--detailed-exitcodes").returncode == 2
    assert run(box, "apply", "site.json", "--detailed-exitcodes", clock=clock).returncode == 0
    assert run(box, "state", "check").returncode == 0
    words = [line.partition("apply: ")[2] for line in run(box, "state", "history").stdout.decode().splitlines()]
    assert words[:2] == ["8 created", "1 updated"]
