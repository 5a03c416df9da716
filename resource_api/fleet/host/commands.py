"""What each command does on a host: what it does here, with the same stages; its text is written where it was asked.

Each takes a ``HostRun`` and returns the exit code, without those of ``--detailed-exitcodes``, which follow from the
documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.fleet.host.delivered_jobs import Report
from resource_api.model.options import EXECUTION, RUN_OPTIONS, run_option_names
from resource_api.render import json as documents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.fleet.host.run import HostRun
    from resource_api.model.report import Report as Done
    from resource_api.runtime.planning import Plan

#: The options of ``destroy`` and ``plan --destroy``, for which nothing is declared.
_DESTROYING: Final = run_option_names("execution", "strictness", "selection")


def apply(run: HostRun) -> int:
    """Apply the manifest, or the saved plan that the job has instead."""
    if (saved := run.options.get("saved_plan")) is not None:
        from resource_api.runtime.saved_plan import SavedPlan

        plan = SavedPlan(saved, str(run.options["file"]), run.runtime.key)
        return report(run, run.runtime.apply_saved(plan, run.selected(*EXECUTION)))
    options = run.selected(*RUN_OPTIONS)
    return report(run, run.runtime.apply(run.manifest, run.inputs, **options))


def destroy(run: HostRun) -> int:
    """Delete what is recorded as ours; where a plan was confirmed, exactly what that has shown."""
    confirmed = run.options.get("confirmed")

    def on_plan(planned: Plan) -> None:
        if confirmed is not None:
            from resource_api.runtime import saved_plan

            document = run.log.mask.document(planned.to_dict())
            saved_plan.check_confirmation(confirmed, document, run.manifest.file)

    options = run.selected(*_DESTROYING)
    return report(run, run.runtime.destroy(run.manifest, run.inputs, on_plan=on_plan, **options))


def plan(run: HostRun) -> int:
    """Send the plan; for ``destroy``, where the job asks for that, that of the empty manifest."""
    if run.options.get("empty"):
        planned = run.runtime.plan_destroy(run.manifest, run.inputs, **run.selected(*_DESTROYING))
    else:
        planned = run.runtime.plan(run.manifest, run.inputs, **run.selected(*RUN_OPTIONS))
    if run.options.get("save"):
        from resource_api.runtime import saved_plan

        run.result(saved_plan.document(planned, run.runtime.key))
    else:
        run.result(planned.to_dict())
    for problem in planned.problems:
        run.emit(documents.line("diagnostic", documents.problem(problem)))
    return 1 if planned.summary.failed or planned.problems else 0


def refresh(run: HostRun) -> int:
    """Read everything that is recorded again."""
    from resource_api.render import json as documents
    from resource_api.runtime import refresh as refreshing

    options = run.selected("targets", "excludes", "noop")
    run.began = not run.options.get("noop")
    found = refreshing.read_again(run.runtime, run.manifest, run.inputs, **options)
    run.result(documents.refresh(found.resources, found.outputs))
    return 0


def validate(run: HostRun) -> int:
    """Check the manifest with the facts and programs of the host."""
    catalog = run.runtime.validate(run.manifest, run.inputs)
    run.result({"valid": True, "resources": len(catalog.entries), "diagnostics": []})
    return 0


def report(run: HostRun, done: Done) -> int:
    """Send the summary of a run and return its exit code."""
    code = run.exit_code(done.exit_code)
    run.emit(documents.line("summary", documents.summary(done.summary, code, done.run)))
    return code


_COMMANDS: Final[Mapping[str, Callable[[HostRun], int]]] = {
    "apply": apply,
    "destroy": destroy,
    "plan": plan,
    "refresh": refresh,
    "validate": validate,
}


def carry_out(run: HostRun) -> int:
    """Carry out the command of a job and return its exit code; send its report again where it was done before.

    Raise as ``Runtime`` does, ``Superseded`` where a newer job was given, ``StateLocked`` where another one runs.
    """
    if (journal := run.journal()) is None:
        return _carry_out(run)
    with journal.held(f"{run.job.command} of another machine", run.options.get("lock_timeout") or 0.0):
        if (done := journal.begin(run.job)) is not None:
            for document in done.documents:
                run.send_again(document)
            return done.code
        code = _carry_out(run)
        if not run.interrupts.came:
            journal.finish(run.job, Report(code, run.kept))
        return code


def _carry_out(run: HostRun) -> int:
    if (command := _COMMANDS.get(run.job.command)) is not None:
        return command(run)
    from resource_api.fleet.host import questions

    return questions.QUESTIONS[run.job.command](run)
