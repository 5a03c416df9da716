"""The spans of the resources of hosts, which may send any document."""

from __future__ import annotations

import pytest

from resource_api.cli.tracing import Tracing

STEP = {"type": "step_end", "reference": "File[/a]", "action": "update", "status": "failed", "seconds": 1.0}


@pytest.fixture
def tracing() -> Tracing:
    """Return the trace of a run that has begun on the host ``a``."""
    tracing = Tracing({})
    tracing.host_started("a")
    return tracing


@pytest.mark.parametrize("error", [None, ""])
def test_a_failed_step_without_a_reason_is_a_failed_span(tracing: Tracing, error: str | None) -> None:
    """Its error is the word for the status, not the text of a missing value."""
    tracing.host_event("a", {**STEP, "error": error})
    assert [span.error for span in tracing._steps["a"]] == ["failed"]


@pytest.mark.parametrize("seconds", [10**400, 1e300, float("inf"), "1", None])
def test_a_step_of_an_impossible_duration_has_no_span(tracing: Tracing, seconds: object) -> None:
    """An integer of any size is JSON, but no time."""
    tracing.host_event("a", {**STEP, "error": "broken", "seconds": seconds})
    assert tracing._steps["a"] == []
