"""SIGKILL while a run writes what it has done into its own file, after the commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

RESOURCES: dict[str, dict[str, Any]] = {f"Thing[@/t{number}]": {"text": f"thing {number}"} for number in range(3)}


def test_a_kill_while_a_run_is_recorded_loses_at_most_its_record(bench: Make) -> None:
    """State is the committed one, each file is whole, and the next recorded run removes what was left."""
    machine = bench("apply", RESOURCES)
    directory = Path(f"{machine.state}.runs")
    first = next(number for number, point in enumerate(machine.points) if ".runs" in point.text)
    machine.points = machine.points[first:]
    assert {"mkdir", "openat", "write", "rename"} <= {point.call for point in machine.points}
    for point in machine.sample(2):
        machine.kill(point)
        cut = machine.observe()
        assert cut.records == machine.whole.records, point
        assert not cut.doubts, point
        assert not cut.state.owed, point
        assert all(json.loads(file.read_bytes()) for file in directory.glob("*.json")), point
        (machine.world / "t1").write_text("something else\n")
        result = machine.again()
        assert result.returncode == 0, (point, result.stderr)
        assert "1 updated, 2 unchanged" in result.stdout, point
        assert machine.tree() == machine.whole.tree, point
        assert all(json.loads(file.read_bytes()) for file in directory.iterdir()), point
