"""Plans, reports and events as JSON documents, with the documented fields.

Secrets are ``"<sensitive>"`` in every document; a value that is not yet known is ``null`` and named under ``unknown``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.model.attribute import MISSING
from resource_api.model.change import difference_kind, nested_differences
from resource_api.model.codec import plain
from resource_api.model.report import Diagnosed, Drifted, Event, LogEvent, Outputs, PlannedChange, StepEnd, StepStart
from resource_api.model.step import split_reasons
from resource_api.model.values.values import is_unknown
from resource_api.model.values.version import __version__
from resource_api.system.log import document as log_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.declaration import Declaration, Element
    from resource_api.model.json_documents import (
        ChangeJson,
        DriftJson,
        LeftOutJson,
        OriginJson,
        OutputChangeJson,
        PlanJson,
        PlannedChangeJson,
        PlanStepJson,
        ProblemJson,
        RefreshJson,
        SideEffectJson,
        SummaryJson,
    )
    from resource_api.model.report import RunReport, StepReport, Summary
    from resource_api.model.step import Step
    from resource_api.model.values.errors import Problem
    from resource_api.plan.planner import ExecutionPlan

FORMAT_VERSION: Final = 1


def plan(plan: ExecutionPlan) -> PlanJson:
    """Return the document of ``plan --json``; keys about rare parts are left out where there are none.

    A program that reads plans needs no case for parts that most manifests do not have.
    """
    manifest, may_change = plan.catalog.manifest, plan.may_change()
    document: PlanJson = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "project": plan.prior.state.project,
        "stack": plan.prior.state.stack,
        "lineage": plan.prior.state.lineage,
        "serial": plan.prior.state.serial,
        "manifest_sha256": manifest.sha256,
        "steps": [step(planned, may_change=planned.entry.index in may_change) for planned in plan.steps],
        "drift": [drift(resource.reference, resource.changes) for resource in plan.drift],
        "outputs": plain(plan.outputs),
        "output_changes": _output_changes(plan.output_changes),
        "unknown": [name for name, value in plan.outputs.items() if is_unknown(value)],
        "summary": summary(plan.summary),
        "complete": plan.complete,
        "applicable": plan.applicable,
    }
    if handlers := list(plan.failure_sources()):
        document["only_if_failed"] = [{"reference": name, "of": list(handled)} for name, handled in handlers]
    if plan.catalog.left_out.all:
        document["left_out"] = left_out(plan.catalog)
    if outputs := plan.catalog.scope.stack_outputs:
        document["stacks"] = [{"stack": stack, "output": name} for stack, name in outputs]
    if plan.problems:
        document["problems"] = list(map(problem, plan.problems))
    return document


def refresh(resources: Sequence[Drifted], outputs: Sequence[Difference]) -> RefreshJson:
    """Return the document of ``refresh --json``: the differences between the recorded and the present values.

    They are those of resources, ``changes``, and of outputs, ``output_changes``.
    """
    return {
        "refreshed": [resource.reference for resource in resources],
        "changes": [drift(resource.reference, resource.changes) for resource in resources],
        "output_changes": _output_changes(outputs),
        "exit_code": 0,  # the command refresh sets its own
    }


def _output_changes(changes: Sequence[Difference]) -> dict[str, OutputChangeJson]:
    """Return output → its recorded and its new value."""
    return {change.attribute: {"is": plain(change.is_), "should": plain(change.should)} for change in changes}


def validity(catalog: Catalog, warnings: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Return the document of ``validate --json`` for a valid manifest; ``warnings``: its diagnostics."""
    count = len(catalog.entries)
    return {"valid": True, "resources": count, "left_out": left_out(catalog), "diagnostics": list(warnings)}


def left_out(catalog: Catalog) -> list[LeftOutJson]:
    """Return the parts of a manifest whose conditions do not hold (contract §10.6)."""
    return [{"reference": part.name, "why": part.located_reason} for part in catalog.left_out.all]


def origin(declared: Declaration, element: Element) -> OriginJson:
    """Return the origin of a resource that ``for_each`` has made: the collection as written, and the element's key.

    A program that reads a plan sees by it which resources share a declaration. An element without a key, such as a
    mapping in a list, has its index instead (contract §10.12).
    """
    written = declared.derivation.written if declared.derivation is not None else ""
    if element.key is MISSING:
        return {"for_each": written, "key": None, "index": element.number}
    return {"for_each": written, "key": element.key}


def step(step: Step, *, may_change: bool = False) -> PlanStepJson:
    """Return one step of a plan's document.

    ``may_change``: the resource is in sync, but an earlier step may put it out of sync. Keys that are rare, such as
    ``error`` or ``predicted``, stand only where they apply. ``write_only`` values are secrets, wrapped or not.
    """
    hidden = step.definition.write_only
    document: PlanStepJson = {
        "reference": str(step.reference),
        "urn": step.urn,
        "parent": step.entry.parent or None,
        "action": str(step.action),
        "previous": step.previous or None,
        "reasons": list(step.reasons),
        "is": plain(step.masked_is),
        "should": {name: "<sensitive>" if name in hidden else plain(value) for name, value in step.should.items()},
        "unknown": list(step.unknown),
        "expressions": {
            name: "<sensitive>" if name in step.definition.secret else _expression(value)
            for name, value in step.expressions.items()
        },
        "sensitive": list(step.sensitive),
        "replaces_because": list(step.replaces_because),
        "changes": [planned_change(step, difference) for difference in step.changes],
        "depends_on": list(map(str, step.depends_on)),
        "notifies": list(map(str, step.notifies)),
        "refreshed_by": list(step.refreshed_by),
        "options": step.options,
    }
    if predictions := step.predictions:
        document["predicted"] = [planned_change(step, difference._replace(message="")) for difference in predictions]
    if step.asks_side_effects:
        document["side_effects"] = _side_effects(step.side_effects)
    if (element := step.entry.declaration.element) is not None:
        document["origin"] = origin(step.entry.declaration, element)
    if step.error:
        document["error"] = step.error
    if may_change:
        document["may_change"] = True
    if step.corrective:
        document["corrective"] = True
    return document


def acts(step: Mapping[str, Any]) -> bool:
    """Return whether a step of a plan's document is shown: for an action, a deferral, a former name or an error."""
    _, deferred = split_reasons(map(str, step.get("reasons") or ()))
    return step.get("action") != "same" or bool(deferred or step.get("error") or step.get("previous"))


def _side_effects(effects: Sequence[SideEffect] | None) -> list[SideEffectJson] | None:
    """Return side effects, or null if they are decided at the turn of their step."""
    return None if effects is None else [effect.document() for effect in effects]


def drift(reference: str, changes: Sequence[Difference]) -> DriftJson:
    """Return one resource's drift, the changes made outside of resource-api, for JSON.

    In a ``Difference`` of drift ``is_`` is the recorded value and ``should`` the present one: JSON names them ``was``
    and ``is``.
    """
    return {
        "reference": reference,
        "changes": [{"attribute": c.attribute, "was": plain(c.is_), "is": plain(c.should)} for c in changes],
    }


def _expression(value: object) -> object:
    """Return a declared value as JSON, with each expression as it is written: ``${File[/etc/motd].checksum}``.

    A reader of the plan sees by it where a value that is known only after apply will come from.
    """
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, list):
        return [_expression(item) for item in value]
    if isinstance(value, dict):
        return {key: _expression(item) for key, item in value.items()}
    return str(value)


def change(difference: Difference) -> ChangeJson:
    """Return the change of an attribute in a finished step, in the events of a run or in a recorded one."""
    return {
        "attribute": difference.attribute,
        "is": plain(difference.is_),
        "should": plain(difference.should),
        "message": difference.message or None,
    }


def planned_change(step: Step, difference: Difference) -> PlannedChangeJson:
    """Return the change of an attribute in a plan.

    Its ``kind`` is ``add``, ``update`` or ``delete``, with ``-replace`` if it causes the replacement of the resource.
    Its ``paths`` lead to the parts that differ within a mapping or list, so that a program need not compare them.
    """
    replaces = "-replace" if difference.attribute in step.decision.replaces_because else ""
    document: PlannedChangeJson = {
        "attribute": difference.attribute,
        "is": plain(difference.is_),
        "should": plain(difference.should),
        "message": difference.message or None,
        "kind": f"{difference_kind(difference)}{replaces}",
    }
    if paths := list(nested_differences(difference.is_, difference.should)):
        document["paths"] = [{"path": list(path), "kind": word} for path, word in paths]
    return document


def summary(counts: Summary, exit_code: int | None = None, run: str = "") -> SummaryJson:
    """Return the counts of a plan or a run as JSON. A run also has its ``exit_code`` and its id ``run``."""
    document = cast("SummaryJson", counts._asdict())
    if exit_code is not None:
        document["exit_code"], document["run"] = exit_code, run
    return document


def problem(problem: Problem) -> ProblemJson:
    """Return a problem as a diagnostic, with null for the facts that it lacks."""
    return {
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint or None,
        "reference": problem.reference or None,
        "file": problem.file or None,
        "line": problem.line or None,
        "column": problem.column or None,
        "attribute": problem.attribute,
    }


def step_end(report: StepReport) -> dict[str, object]:
    """Return the outcome of one step for ``apply --json``; that of a failed step has its position in the manifest.

    ``late``: an earlier change of the run put the resource out of sync. ``unconfirmed``: it was created, but cannot be
    read yet.
    """
    declared = report.step.entry.declaration if report.status == "failed" else None
    position = declared.place() if declared is not None else None
    return {
        "reference": report.reference,
        "urn": report.urn,
        "action": str(report.action),
        "status": report.status,
        "changes": [change(difference) for difference in report.changes],
        "error": (declared.located(report.error) if declared is not None else report.error) or None,
        "corrective": report.corrective,
        **({"late": True} if report.late else {}),
        **({"unconfirmed": True} if report.unconfirmed else {}),
        "seconds": round(report.seconds, 6),
        **({"side_effects": _side_effects(report.side_effects)} if report.step.asks_side_effects else {}),
        **({"file": position.file, "line": position.line} if position is not None and position.line else {}),
    }


def report(report: RunReport) -> dict[str, object]:
    """Return a whole run as one document, for embedders; ``apply --json`` has an object for each event."""
    return {
        "steps": [step_end(step_report) for step_report in report.steps],
        "outputs": plain(report.outputs),
        "summary": summary(report.summary, report.exit_code, report.run),
        **({"problems": list(map(problem, report.problems))} if report.problems else {}),
    }


def line(type_: str, body: Mapping[str, object]) -> dict[str, object]:
    """Return one object of ``apply --json``: its type, the present time, and the body."""
    return {"type": type_, "timestamp": datetime.now(UTC).isoformat(), **body}


def log(entry: LogEvent) -> dict[str, object]:
    """Return a log line as an object of a run's JSON; its ``reference`` is null where it is about no resource."""
    return line("log", {"reference": entry.subject if "[" in entry.subject else None, **log_document(entry)})


def event_line(happened: Event) -> dict[str, object] | None:
    """Return an event of a run as an object of ``apply --json``, or None for an event that has none there.

    One is ``Finished``: the command itself writes the last object, ``summary``, because only it knows its exit code.
    """
    if isinstance(happened, StepEnd):
        tries = {"tries": happened.tries} if happened.tries > 1 else {}
        return line("step_end", {**step_end(happened.report), **tries})
    if isinstance(happened, Diagnosed):
        return line("diagnostic", problem(happened.problem))
    if isinstance(happened, Outputs):
        return line("outputs", {"outputs": plain(happened.values)})
    if isinstance(happened, Drifted):
        return line("resource_drift", drift(happened.reference, happened.changes))
    if isinstance(happened, StepStart):
        return line("step_start", _named(happened.step))
    if isinstance(happened, PlannedChange):
        step = happened.step
        planned: dict[str, object] = {"changes": [planned_change(step, d) for d in step.changes], "noop": step.noop}
        planned |= {"unknown": list(step.unknown), "error": step.decision.error or None}
        return line("planned_change", {**_named(step), **planned})
    return None


def _named(step: Step) -> dict[str, object]:
    """Return the fields that identify a step in events."""
    return {"reference": str(step.reference), "action": str(step.action)}
