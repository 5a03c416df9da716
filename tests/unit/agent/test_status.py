"""What monitoring is told of an agent: from its last run, its pause and the time alone."""

from __future__ import annotations

from typing import Any

import pytest

from resource_api.runtime import agent_status

RUN: dict[str, Any] = {
    "ended": 1000.0,
    "period": 60.0,
    "mode": "apply",
    "problem": "",
    "failure": "",
    "exit_code": 0,
    "corrective": 0,
    "summary": {"created": 1, "unchanged": 5, "failed": 0, "skipped": 0, "noop": False, "exit_code": 0},
}
PAUSE = {"reason": "disk", "since": 900.0}


@pytest.mark.parametrize(
    ("changed", "paused", "wall", "code", "reasons"),
    [
        ({}, None, 1120.0, 0, []),
        ({"corrective": 2}, None, 1000.0, 2, ["2 had drifted and were corrected"]),
        ({"mode": "noop"}, None, 1000.0, 2, ["1 would be changed"]),
        ({"exit_code": 1, "failure": "File[/a]: no"}, None, 1000.0, 4, ["File[/a]: no"]),
        ({"exit_code": 143}, None, 1000.0, 4, ["the last run ended with exit code 143"]),
        ({"exit_code": 2}, None, 1000.0, 0, []),
        ({"exit_code": 65, "problem": "older", "failure": "older"}, None, 1000.0, 4, ["older"]),
        ({"problem": "older", "corrective": 1}, None, 1000.0, 6, ["older", "1 had drifted and were corrected"]),
        ({"corrective": 1}, PAUSE, 1000.0, 1, ["it is paused: disk", "1 had drifted and were corrected"]),
        ({}, None, 1121.0, 1, ["it is stale: the last run ended more than two periods ago"]),
        ({}, None, 880.0, 0, []),
        ({}, None, 879.0, 1, ["it may be stale: by the clock, which was set back, its last run is in the future"]),
    ],
)
def test_health_is_a_number_for_monitoring(
    changed: dict[str, Any], paused: dict[str, Any] | None, wall: float, code: int, reasons: list[str]
) -> None:
    """0 well, 2 drift, 4 failing, 6 both; 1 where it is not known."""
    assert agent_status.assess({**RUN, **changed}, paused, wall) == (code, tuple(reasons))


def test_an_agent_that_has_not_run_is_not_well() -> None:
    """Nobody knows what it would have found."""
    assert agent_status.assess(None, None, 0.0) == (1, ("it has not run yet",))
