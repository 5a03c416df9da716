"""Execute a plan under the lock, and record the run: its outcomes, its entry in the history, its document."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from resource_api.model import report
from resource_api.model.action import Action
from resource_api.model.report import Diagnosed, Finished
from resource_api.render import json as documents
from resource_api.render import run_document, text
from resource_api.runtime.environment import RunEnvironment, stack_name
from resource_api.runtime.plan_notices import log_lost_order, readable_states, report_findings
from resource_api.state.store import NoStore
from resource_api.transaction.recorder import Recorder, Records
from resource_api.transaction.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.runtime.planning import Plan
    from resource_api.snapshot.reading import Snapshot


class Report(report.RunReport):
    """The result of a run: ``steps`` (acted, failed, skipped or noop), ``summary``, ``exit_code``.

    ``str(report)`` is the summary that ``resource-api apply`` prints last.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the summary of the run on one line."""
        return text.report(self)

    def to_dict(self) -> dict[str, Any]:
        """Return ``steps``, ``outputs`` and ``summary`` as JSON documents, as in ``resource-api apply --json``."""
        return documents.report(self)


class Recording:
    """One run of a plan, recorded in the state of its stack unless ``recorded`` is false."""

    def __init__(
        self, environment: RunEnvironment, plan: Plan, command: str, run: str, *, recorded: bool = True
    ) -> None:
        """Record the run with the id ``run`` as one of ``command``."""
        self._environment = environment
        self._plan = plan
        self._command = command
        self._run = run
        self._of_stack = recorded
        #: Whether state is written: not by a noop run, nor where there is no state.
        self._recorded = recorded and not plan.options.noop and not isinstance(environment.store, NoStore)
        self._name = environment.name(plan.catalog)

    def execute(self, snapshot: Snapshot) -> Report:
        """Execute the plan and record its outcomes, also when it is interrupted."""
        environment, plan, name, started = self._environment, self._plan, self._name, time.time()
        log, run = environment.log, environment.run
        with log.bind(**name._asdict(), phase="plan"):
            report_findings(plan, log, environment.store, environment.notify_steps, recorded=self._of_stack)
            if plan.options.parallel > 1 and log.enabled("info"):
                log_lost_order(plan, environment.store.history(name), log)
        records = Records(plan, snapshot.providers.several, run.private)
        recorder = Recorder(environment.store if self._recorded else None, name, plan, self._run, records)
        transaction = Transaction(plan, snapshot, recorder, environment.notify_steps)
        run.applying = True
        try:
            with log.bind(**name._asdict(), phase="apply"):
                report = Report(*transaction.run()._replace(run=self._run))
        finally:
            # A later run of the same program starts uncancelled.
            run.applying = run.cancelled = run.stopping = False
        self._finish(report, started)
        snapshot.providers.close(interrupted=transaction.stopped is not None)
        for problem in report.problems:
            environment.notify(Diagnosed(problem))
        environment.notify(Finished(report))
        return report

    def _finish(self, report: Report, started: float) -> None:
        """Add the run to the history, save its document if it did anything, and pass that to ``on_document``."""
        environment, plan = self._environment, self._plan
        code = 128 + environment.run.signal if environment.run.signal else report.exit_code
        fields: dict[str, object] = {
            "run": report.run,
            "command": self._command,
            "started": started,
            "ended": time.time(),
            "parallel": plan.options.parallel,
            "summary": {**report.summary._asdict(), "exit_code": code},
            "drifted": len(plan.drift),
        }
        if self._recorded:
            environment.store.finish_run(self._name, {**fields, **self._outputs_read()})
        saved = self._recorded and bool(report.changed or report.exit_code)
        if not saved and environment.on_document is None:
            return
        content = run_document.encode(plan, report, {**self._name._asdict(), **fields}, environment.log.mask)
        try:
            if saved:
                environment.store.save_run(report.run, content.encode())
        except OSError as error:
            environment.log.write("warning", "", f"no report of this run is kept: {error.strerror}")
        if environment.on_document is not None:
            environment.on_document({**run_document.document(content)})

    def _outputs_read(self) -> Mapping[str, Any]:
        """Return the fields of the history about the outputs of other stacks that the run has read."""
        outputs = self._plan.catalog.scope.stack_outputs
        read = [["/".join(stack_name(self._name.project, stack)), name] for stack, name in outputs]
        return {"stacks": sorted({stack for stack, _ in read}), "outputs_read": read} if read else {}


def log_recorded_elsewhere(plan: Plan, environment: RunEnvironment) -> None:
    """Log a warning for each resource of a plan that a stack records, with the effect of its next apply."""
    for stack, state in readable_states(environment.store, environment.store.stacks()):
        for step in plan.steps:
            if (record := state.records.get(step.entry.key)) is not None:
                reference = str(step.reference)
                message = f"is recorded in stack '{stack.stack}' of '{stack.project}'{_effect_on_change(step, record)}"
                environment.log.write("warning", reference, message, step.entry.type, reference=reference)


def _effect_on_change(step: Step, record: Record) -> str:
    """Return the effect of a stack's next apply on a change of its resource, or "" where nothing changes."""
    if step.action is Action.SAME:
        return ""
    attributes = [difference.attribute for difference in step.changes]
    if step.action is Action.UPDATE and record.should.keys().isdisjoint(attributes):
        return f", which does not declare {', '.join(attributes)}; the next apply of that stack leaves this change"
    return "; the next apply of that stack will undo this change"
