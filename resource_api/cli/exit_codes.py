"""The exit codes of runs, plans and refreshes, also over many hosts; errors have their own, see docs/commands.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ManifestError, StateLocked

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from resource_api.fleet.merge import HostReport
    from resource_api.model.options import Settings
    from resource_api.model.report import RunReport
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.runtime.signals import Interrupts

#: With ``--detailed-exitcodes``: something has changed, or would; something has failed; both is their sum.
_CHANGED: Final = 2
_FAILED: Final = 4


def of_run(report: RunReport, interrupts: Interrupts, settings: Settings) -> int:
    """Return the code of a run: 0 or 1, with ``--detailed-exitcodes`` 0, 2, 4 or 6; 128 + N after signal N.

    An agent that has applied an older version, because the newest cannot be verified, sets ``instead_of_success``, the
    code of that error: its run has succeeded, but the source needs attention.
    """
    if interrupts.came:
        return interrupts.exit_code
    if report.exit_code == 0 and (code := settings.get("instead_of_success")):
        return int(code)
    if not settings.get("detailed_exitcodes") or report.exit_code not in {0, 1}:
        return report.exit_code
    return (_CHANGED if report.changed else 0) + (_FAILED if report.exit_code else 0)


def of_plan(plan: ExecutionPlan, *, detailed: bool) -> int:
    """Return the code of a plan: 1 if a resource cannot be planned or there is a problem, otherwise 0.

    ``detailed`` (``--detailed-exitcodes``): 2 if a resource or output would change, so that a script can tell.
    """
    summary = plan.summary
    if summary.failed or plan.problems:
        return 1
    return _CHANGED if detailed and (summary.changed or summary.outputs_changed) else 0


def is_planned(code: int) -> bool:
    """Return whether a code is that of a plan in which nothing fails, detailed or not."""
    return code in {0, _CHANGED}


def of_refresh(changed: Collection[object], *, detailed: bool) -> int:
    """Return the code of a refresh; if ``detailed``, 2 where state has changed."""
    return _CHANGED if detailed and changed else 0


def of_hosts(
    command: str,
    reports: Collection[HostReport],
    *,
    detailed: bool,
    ignored: Collection[str] = (),
    signals: Sequence[int] = (),
) -> int:
    """Return the code of a command over many hosts: 128 + N after signal N, the last of ``signals``.

    ``detailed``: 0, 2, 4 or 6 as for a run; a ``plan`` has 1 for a failure. Hosts of an ``ignored`` status, such as
    unreachable, count as successful. One cause of all failures has its own code, so that a script can wait or correct
    the manifest: 75 for a held lock, 65 if every host has refused the manifest.
    """
    if signals:
        return 128 + signals[-1]
    changed = _CHANGED if any(report.status == "changed" for report in reports) else 0
    failed = [report for report in reports if not report.succeeded and report.status not in ignored]
    if not failed:
        return changed if detailed else 0
    refusals = {report.code if report.status == "refused" else None for report in failed}
    if refusals == {StateLocked.exit_code}:
        return StateLocked.exit_code
    if refusals == {ManifestError.exit_code} and len(failed) == len(reports):
        return ManifestError.exit_code
    return _FAILED + changed if detailed and command != "plan" else 1
