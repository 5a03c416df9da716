"""Plans, reports and events as JSON documents, with the documented fields.

Secrets are ``"<sensitive>"`` in every document; a value that is not yet known is ``null`` and named under ``unknown``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from resource_api.model import event
from resource_api.model.change import difference_kind, nested_differences
from resource_api.model.codec import plain
from resource_api.model.values.values import is_unknown
from resource_api.model.values.version import __version__
from resource_api.system.log_renderers import document as log_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.report import Report, StepReport, Summary
    from resource_api.model.step import Step
    from resource_api.model.values.errors import Problem
    from resource_api.plan.diff import Drift
    from resource_api.plan.planner import Plan

FORMAT_VERSION = 1


def plan(plan_: Plan) -> dict[str, Any]:
    """Return the document of ``plan --json``."""
    manifest, may_change = plan_.catalog.manifest, plan_.may_change()
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "project": plan_.prior.state.project,
        "stack": plan_.prior.state.stack,
        "lineage": plan_.prior.state.lineage,
        "serial": plan_.prior.state.serial,
        "manifest_sha256": manifest.sha256,
        "steps": [step(item, may_change=item.entry.index in may_change) for item in plan_.steps],
        "drift": [drift(item.reference, item.changes) for item in plan_.drift],
        "outputs": plain(plan_.outputs),
        "output_changes": _output_changes(plan_.output_changes),
        "unknown": [name for name, value in plan_.outputs.items() if is_unknown(value)],
        **_stacks(plan_),
        "summary": summary(plan_.summary),
        "complete": plan_.complete,
        "applicable": plan_.applicable,
        **({"problems": list(map(problem, plan_.problems))} if plan_.problems else {}),
    }


def refresh(resources: Sequence[Drift], outputs: Sequence[Difference]) -> dict[str, Any]:
    """Return the document of ``refresh``: the differences of resources and outputs from the record."""
    return {
        "refreshed": [item.reference for item in resources],
        "changes": [drift(item.reference, item.changes) for item in resources],
        "output_changes": _output_changes(outputs),
        "exit_code": 0,
    }


def _output_changes(changes: Sequence[Difference]) -> dict[str, Any]:
    return {name: {"is": plain(is_), "should": plain(should)} for name, is_, should, *_ in changes}


def _stacks(planned: Plan) -> dict[str, Any]:
    """Return the outputs of other stacks in use, if any."""
    outputs = planned.catalog.scope.stack_outputs
    return {"stacks": [{"stack": stack, "output": name} for stack, name in outputs]} if outputs else {}


def step(step_: Step, *, may_change: bool = False) -> dict[str, Any]:
    """Return one step of a plan's document; ``may_change``: in sync, and depending on a step that acts."""
    hidden = step_.definition.write_only
    document = {
        "reference": str(step_.reference),
        "urn": step_.urn,
        "parent": step_.entry.parent or None,
        "action": str(step_.action),
        "previous": step_.previous or None,
        "reasons": list(step_.reasons),
        "is": plain(step_.masked_is),
        "should": {name: "<sensitive>" if name in hidden else plain(value) for name, value in step_.should.items()},
        "unknown": list(step_.unknown),
        "expressions": {
            name: "<sensitive>" if name in step_.definition.secret else _expression(value)
            for name, value in step_.expressions.items()
        },
        "sensitive": step_.sensitive,
        "replaces_because": list(step_.replaces_because),
        "changes": [planned_change(step_, difference) for difference in step_.changes],
        "depends_on": list(map(str, step_.depends_on)),
        "notifies": list(map(str, step_.notifies)),
        "refreshed_by": list(step_.refreshed_by),
        "options": step_.options,
    }
    if predictions := step_.predictions:
        document["predicted"] = [planned_change(step_, difference._replace(message="")) for difference in predictions]
    document |= _side_effects(step_, step_.side_effects)
    if step_.error:
        document["error"] = step_.error
    if may_change:
        document["may_change"] = True
    return document


def _side_effects(step_: Step, effects: Sequence[SideEffect] | None) -> dict[str, Any]:
    """Return the side effects of a step, null if they are decided at its turn; {} for other providers."""
    if not step_.asks_side_effects:
        return {}
    return {"side_effects": None if effects is None else [effect.document() for effect in effects]}


def drift(reference: str, changes: Sequence[Difference]) -> dict[str, Any]:
    """Return one resource's drift: the recorded value (``was``) and the present one, by attribute."""
    return {
        "reference": reference,
        "changes": [{"attribute": c.attribute, "was": plain(c.is_), "is": plain(c.should)} for c in changes],
    }


def _expression(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, list):
        return [_expression(item) for item in value]
    if isinstance(value, dict):
        return {key: _expression(item) for key, item in value.items()}
    return str(value)


def change(difference: Difference) -> dict[str, Any]:
    """Return one attribute's change."""
    return {
        "attribute": difference.attribute,
        "is": plain(difference.is_),
        "should": plain(difference.should),
        "message": difference.message or None,
    }


def planned_change(step_: Step, difference: Difference) -> dict[str, Any]:
    """Return one attribute's change in a plan: with its kind, and the paths that differ in a hash or an array."""
    replaces = "-replace" if difference.attribute in step_.decision.replaces_because else ""
    document = {**change(difference), "kind": f"{difference_kind(difference)}{replaces}"}
    paths = [{"path": list(path), "kind": word} for path, word in nested_differences(difference.is_, difference.should)]
    return {**document, "paths": paths} if paths else document


def summary(counts: Summary, exit_code: int | None = None, run: str = "") -> dict[str, Any]:
    """Return the counts of a plan, or of a run, which has an exit code."""
    document = counts._asdict()
    if exit_code is not None:
        document |= {"exit_code": exit_code, "run": run}
    return document


def problem(problem_: Problem) -> dict[str, Any]:
    """Return a diagnostic."""
    return {
        "severity": problem_.severity,
        "code": problem_.code,
        "message": problem_.message,
        "hint": problem_.hint or None,
        "reference": problem_.reference or None,
        "file": problem_.file or None,
        "line": problem_.line or None,
        "column": problem_.column or None,
        "attribute": problem_.attribute,
    }


def step_end(report_: StepReport) -> dict[str, Any]:
    """Return the outcome of one step; for a failed one also its position, if known."""
    position = report_.step.entry.declaration.place() if report_.status == "failed" else None
    return {
        "reference": report_.reference,
        "urn": report_.urn,
        "action": str(report_.action),
        "status": report_.status,
        "changes": [change(difference) for difference in report_.changes],
        "error": (position.after(report_.error) if position is not None else report_.error) or None,
        "corrective": report_.corrective,
        **({"late": True} if report_.late else {}),
        **({"unconfirmed": True} if report_.unconfirmed else {}),
        "seconds": round(report_.seconds, 6),
        **_side_effects(report_.step, report_.side_effects),
        **({"file": position.file, "line": position.line} if position is not None and position.line else {}),
    }


def report(report_: Report) -> dict[str, Any]:
    """Return a whole run as one document."""
    return {
        "steps": [step_end(item) for item in report_.steps],
        "outputs": plain(report_.outputs),
        "summary": summary(report_.summary, report_.exit_code, report_.run),
        **({"problems": list(map(problem, report_.problems))} if report_.problems else {}),
    }


def line(type_: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return one object of ``apply --json``: its type, the present time, and the body."""
    return {"type": type_, "timestamp": datetime.now(UTC).isoformat(), **body}


def log(entry: event.LogEvent) -> dict[str, Any]:
    """Return a log line as an object."""
    return line("log", {"reference": entry.subject if "[" in entry.subject else None, **log_document(entry)})


def event_line(happened: event.Event) -> dict[str, Any] | None:
    """Return an event as an object, or None for the end of a run: ``summary`` needs the exit code."""
    if isinstance(happened, event.StepEnd):
        return line("step_end", step_end(happened.report))
    if isinstance(happened, event.Diagnosed):
        return line("diagnostic", problem(happened.problem))
    if isinstance(happened, event.Outputs):
        return line("outputs", {"outputs": plain(happened.values)})
    if isinstance(happened, event.Drifted):
        return line("resource_drift", drift(happened.reference, happened.changes))
    if isinstance(happened, event.StepStart):
        return line("step_start", _named(happened.step))
    if isinstance(happened, event.PlannedChange):
        step_ = happened.step
        planned: dict[str, Any] = {"changes": [planned_change(step_, d) for d in step_.changes], "noop": step_.noop}
        planned |= {"unknown": list(step_.unknown), "error": step_.decision.error or None}
        return line("planned_change", {**_named(step_), **planned})
    return None


def _named(step_: Step) -> dict[str, Any]:
    return {"reference": str(step_.reference), "action": str(step_.action)}
