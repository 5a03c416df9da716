"""What each command does on a host: what it does here, with the same stages; its text is written where it was asked.

Each takes a ``HostRun`` and returns the exit code, without those of ``--detailed-exitcodes``, which follow from the
documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.render import json as documents
from resource_api.runtime import refresh as refreshing
from resource_api.runtime import saved_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.fleet.host_run import HostRun
    from resource_api.model.report import Report

_EXECUTION: Final = ("noop", "strict", "parallel", "fail_fast")
_SELECTION: Final = ("targets", "excludes", "with_dependencies", "with_dependents", "tags", "skip_tags")
_PLANNING: Final = ("replace", "prune", "prune_always")


def apply(run: HostRun) -> int:
    """Apply the manifest, or the saved plan that the job has instead."""
    if (saved := run.options.get("saved_plan")) is not None:
        given = run.selected("noop", "parallel", "fail_fast")
        return _report(run, saved_plan.apply(run.runtime, saved, str(run.options["file"]), given))
    options = run.selected(*_EXECUTION, *_SELECTION, *_PLANNING)
    return _report(run, run.runtime.apply(run.manifest(), run.inputs, **options))


def destroy(run: HostRun) -> int:
    """Delete what is recorded as ours."""
    return _report(run, run.runtime.destroy(run.manifest(), run.inputs, **run.selected(*_EXECUTION, *_SELECTION)))


def plan(run: HostRun) -> int:
    """Send the plan; for ``destroy``, where the job asks for that, that of the empty manifest."""
    options = run.selected(*_EXECUTION, *_SELECTION)
    if run.options.get("empty"):
        planned = run.runtime.plan_destroy(run.manifest(), run.inputs, **options)
    else:
        planned = run.runtime.plan(run.manifest(), run.inputs, **options, **run.selected(*_PLANNING))
    if run.options.get("save"):
        run.result(saved_plan.document(planned, run.runtime.key))
    else:
        run.result(planned.to_dict())
    for problem in planned.problems:
        run.emit(documents.line("diagnostic", documents.problem(problem)))
    return 1 if planned.summary.failed or planned.problems else 0


def refresh(run: HostRun) -> int:
    """Read everything that is recorded again."""
    options = run.selected("targets", "excludes", "noop")
    run.began = not run.options.get("noop")
    run.result({"refreshed": refreshing.refresh(run.runtime, run.manifest(), run.inputs, **options), "exit_code": 0})
    return 0


def validate(run: HostRun) -> int:
    """Check the manifest with the facts and programs of the host."""
    catalog = run.runtime.validate(run.manifest(), run.inputs)
    run.result({"valid": True, "resources": len(catalog.entries), "diagnostics": []})
    return 0


def _report(run: HostRun, report: Report) -> int:
    """Send the summary of a run and return its exit code."""
    code = run.exit_code(report.exit_code)
    run.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
    return code


COMMANDS: Final[Mapping[str, Callable[[HostRun], int]]] = {
    "apply": apply,
    "destroy": destroy,
    "plan": plan,
    "refresh": refresh,
    "validate": validate,
}
