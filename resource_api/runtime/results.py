"""What ``Runtime`` returns: plans and reports that can also be shown as text and as the documented JSON."""

from __future__ import annotations

from typing import Any

from resource_api.model import report
from resource_api.plan import planner
from resource_api.render import text


class Plan(planner.Plan):
    """What ``apply`` would do: ``steps``, ``drift``, ``outputs``, ``summary``.

    ``str(plan)`` is the text that ``resource-api plan`` prints, without colours. Secrets are never in it.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text of the plan, without a last line break."""
        from resource_api.render import plan

        return "\n".join(plan.lines(self))

    def __repr__(self) -> str:
        """Return the counts on one short line, whatever the number of steps."""
        return f"<Plan: {text.planned_counts(self.summary)}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``resource-api plan --json``; secrets in it are ``<sensitive>``."""
        from resource_api.render import json as documents

        return documents.plan(self)


class Report(report.Report):
    """What a run has done: ``steps`` (those that acted, failed, were skipped or noop), ``summary``, ``exit_code``.

    ``str(report)`` is the summary that ``resource-api apply`` prints last.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the summary of the run on one line."""
        return text.report(self)

    def to_dict(self) -> dict[str, Any]:
        """Return ``steps``, ``outputs`` and ``summary`` as JSON documents, as in ``resource-api apply --json``."""
        from resource_api.render import json as documents

        return documents.report(self)
