"""The last line of a plan and of a run."""

from __future__ import annotations

import pytest

from resource_api.model.report import RunReport, Summary
from resource_api.render import text


@pytest.mark.parametrize(
    ("summary", "plan", "report"),
    [
        (
            Summary(created=1, updated=2, deleted=1, unchanged=12),
            "Plan: 1 to create, 2 to update, 1 to delete; 12 unchanged.",
            "Applied in 1.2 s: 1 created, 2 updated, 1 deleted, 12 unchanged.",
        ),
        (Summary(unchanged=12), "Plan: nothing to do; 12 unchanged.", "Applied in 1.2 s: 12 unchanged."),
        (Summary(), "Plan: nothing to do; 0 unchanged.", "Applied in 1.2 s: 0 unchanged."),
        (
            Summary(failed=1, skipped=2),
            "Plan: 1 failed, 2 skipped; 0 unchanged.",
            "Applied in 1.2 s: 0 unchanged, 1 failed, 2 skipped.",
        ),
        (
            Summary(replaced=1, imported=2, forgotten=3, refreshed=4, noop=True),
            "Plan: 1 to replace, 2 to import, 3 to forget, 4 to refresh; 0 unchanged.",
            "Plan: 1 to replace, 2 to import, 3 to forget, 4 to refresh; 0 unchanged. (noop)",
        ),
    ],
)
def test_what_is_zero_is_left_out_except_what_is_unchanged(summary: Summary, plan: str, report: str) -> None:
    """A plan has nothing to do only if every other count is zero."""
    assert text.plan_summary(summary) == plan
    assert text.report(RunReport([], summary, seconds=1.2)) == report
