"""The failures of a run once more, for those who would have to search the log for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.report import Report, StepReport
    from resource_api.render.changes import Style

#: How many failures are named.
_NAMED: Final = 40


def repeated_failures(done: Report, style: Style) -> Iterator[str]:
    """Yield a line for each failure: the resource, where it is declared, why it failed, how many it has skipped."""
    failed = [report for report in done.steps if report.status == "failed"]
    skipped = Counter(report.cause for report in done.steps if report.status == "skipped")
    if failed:
        yield style.paint("Failed:", "1")
    for report in failed[:_NAMED]:
        count = skipped.pop(report.reference, 0)
        yield f"  {escape(report.reference)}{_place(report)}: {_reason(report, style)}{_skipped(count)}"
    if more := len(failed) - _NAMED if len(failed) > _NAMED else 0:
        yield f"  … {more} more"


def _place(report: StepReport) -> str:
    """Return `` (site.yaml:14)``; nothing for a resource that no file declares."""
    return escape(report.step.entry.declaration.place().after(""))


def _reason(report: StepReport, style: Style) -> str:
    first = style.mask(report.error).partition("\n")[0]
    return escape(style.reason(first))


def _skipped(count: int) -> str:
    return f"; {count} skipped" if count else ""
