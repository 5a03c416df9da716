"""What a second run has done again, though the first one has done it: each with its cause, as far as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.change import describe_difference
from resource_api.rehearse.result import finding, needs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.report import Report, StepReport
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.rehearse.recorded_effects import Call
    from resource_api.rehearse.result import Finding

#: The attributes by which an imperative resource says that it is done.
_GUARDS: Final = ("creates", "unless", "onlyif")


def findings(again: Report, calls: Sequence[Call]) -> list[Finding]:
    """Return a finding for each thing that the second run has done; ``calls`` are those of the first run."""
    acted = {each.reference for each in again.steps}
    return [found for each in again.steps for found in _findings(each, calls, acted)]


def _findings(report: StepReport, calls: Sequence[Call], acted: set[str]) -> Iterator[Finding]:
    step = report.step
    if report.status != "success":
        yield finding(step, f"{report.status} in the second run: {report.error}")
    elif report.changes:
        cause = _overwritten(report, calls, acted)
        for each in report.changes:
            text = describe_difference(step.definition, each)
            yield finding(step, f"{text} again{cause}", each.attribute)
    elif report.action is Action.RUN and not step.refreshed_by:
        guard = next((name for name in _GUARDS if name in step.entry.should), "")
        text = f", because by '{guard}' it is still due" if guard else _remedy(step.definition)
        yield finding(step, f"runs again{text}", guard)
    elif step.refreshed_by:
        yield finding(step, f"refreshed again, notified by {', '.join(step.refreshed_by)}")
    else:
        yield finding(step, f"{report.action} again")


def _remedy(definition: TypeDefinition) -> str:
    """Return by which attributes a resource of a type says that it is done; empty for a type without any."""
    if definition.attributes.keys() >= set(_GUARDS):
        return "; say by 'creates', 'unless' or 'onlyif' when it is done"
    return "; by 'refreshonly: true' it runs only when notified" if "refreshonly" in definition.attributes else ""


def _overwritten(report: StepReport, calls: Sequence[Call], acted: set[str]) -> str:
    """Return who has written, in the first run, what the resource declares, and after it; empty: nobody has."""
    path = report.step.entry.name
    wrote = [call.references for call in calls if any(path == change.path for change in call.changes)]
    writers = [each for references in wrote for each in references]
    later = writers[writers.index(report.reference) + 1 :] if report.reference in writers else writers
    other = next((each for each in reversed(later) if each != report.reference), "")
    if not other:
        return ""
    # What is done once has written it too early; what is done each time will write it again.
    return f": {other} writes it too" if other in acted else f": {other} has overwritten it; {needs(other)}"
