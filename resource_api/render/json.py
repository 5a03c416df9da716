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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.report import Report, StepReport, Summary
    from resource_api.model.step import Step
    from resource_api.model.values.errors import Problem
    from resource_api.plan.drift import Drift
    from resource_api.plan.planner import Plan

FORMAT_VERSION = 1


def plan(planned: Plan) -> dict[str, Any]:
    """Return the document of ``plan --json``."""
    manifest, may_change = planned.catalog.manifest, planned.may_change()
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        "project": planned.prior.state.project,
        "stack": planned.prior.state.stack,
        "lineage": planned.prior.state.lineage,
        "serial": planned.prior.state.serial,
        "manifest_sha256": manifest.sha256,
        "steps": [step(each, may_change=each.entry.index in may_change) for each in planned.steps],
        "drift": [drift(each.reference, each.changes) for each in planned.drift],
        "outputs": plain(planned.outputs),
        "output_changes": _output_changes(planned.output_changes),
        "unknown": [name for name, value in planned.outputs.items() if is_unknown(value)],
        **_stacks(planned),
        "summary": summary(planned.summary),
        "complete": planned.complete,
        "applicable": planned.applicable,
        **({"problems": list(map(problem, planned.problems))} if planned.problems else {}),
    }


def refresh(resources: Sequence[Drift], outputs: Sequence[Difference]) -> dict[str, Any]:
    """Return the document of ``refresh``: how resources, and outputs, differ from what was recorded."""
    return {
        "refreshed": [each.reference for each in resources],
        "changes": [drift(each.reference, each.changes) for each in resources],
        "output_changes": _output_changes(outputs),
        "exit_code": 0,
    }


def _output_changes(changes: Sequence[Difference]) -> dict[str, Any]:
    return {name: {"is": plain(is_), "should": plain(should)} for name, is_, should, *_ in changes}


def _stacks(planned: Plan) -> dict[str, Any]:
    """Return the outputs of other stacks that a plan uses, if it uses any."""
    used = planned.catalog.scope.stack_outputs
    return {"stacks": [{"stack": stack, "output": name} for stack, name in used]} if used else {}


def step(each: Step, *, may_change: bool = False) -> dict[str, Any]:
    """Return one step of a plan's document; ``may_change``: it is in sync, and depends on a step."""
    hidden = each.definition.write_only
    document = {
        "reference": str(each.reference),
        "urn": each.urn,
        "parent": each.entry.parent or None,
        "action": str(each.action),
        "previous": each.previous or None,
        "reasons": list(each.reasons),
        "is": plain(each.masked_is),
        "should": {name: "<sensitive>" if name in hidden else plain(value) for name, value in each.should.items()},
        "unknown": list(each.unknown),
        "expressions": {
            name: "<sensitive>" if name in each.definition.secret else _expression(value)
            for name, value in each.expressions.items()
        },
        "sensitive": each.sensitive,
        "replaces_because": list(each.replaces_because),
        "changes": [planned_change(each, difference) for difference in each.changes],
        "depends_on": list(map(str, each.depends_on)),
        "notifies": list(map(str, each.notifies)),
        "refreshed_by": list(each.refreshed_by),
        "options": each.options,
    }
    if predictions := each.predictions:
        document["predicted"] = [planned_change(each, difference._replace(message="")) for difference in predictions]
    document |= _side_effects(each, each.side_effects)
    if each.error:
        document["error"] = each.error
    if may_change:
        document["may_change"] = True
    return document


def _side_effects(each: Step, effects: Sequence[SideEffect] | None) -> dict[str, Any]:
    """Return what a step does besides, null where only its turn shows that; nothing where nobody is asked."""
    if not each.asks_side_effects:
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


def planned_change(each: Step, difference: Difference) -> dict[str, Any]:
    """Return one attribute's change in a plan: with its kind, and the paths that differ in a hash or an array."""
    replaces = "-replace" if difference.attribute in each.decision.replaces_because else ""
    document = {**change(difference), "kind": f"{difference_kind(difference)}{replaces}"}
    paths = [{"path": list(path), "kind": word} for path, word in nested_differences(difference.is_, difference.should)]
    return {**document, "paths": paths} if paths else document


def summary(counts: Summary, exit_code: int | None = None, run: str = "") -> dict[str, Any]:
    """Return the counts of a plan, or of a run, which has an exit code."""
    document = counts._asdict()
    if exit_code is not None:
        document |= {"exit_code": exit_code, "run": run}
    return document


def problem(found: Problem) -> dict[str, Any]:
    """Return a diagnostic."""
    return {
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "hint": found.hint or None,
        "reference": found.reference or None,
        "file": found.file or None,
        "line": found.line or None,
        "column": found.column or None,
        "attribute": found.attribute,
    }


def step_end(done: StepReport) -> dict[str, Any]:
    """Return the outcome of one step; of a failed one also where it is declared, if that is known."""
    place = done.step.entry.declaration.place() if done.status == "failed" else None
    return {
        "reference": done.reference,
        "urn": done.urn,
        "action": str(done.action),
        "status": done.status,
        "changes": [change(difference) for difference in done.changes],
        "error": (place.after(done.error) if place is not None else done.error) or None,
        "corrective": done.corrective,
        **({"late": True} if done.late else {}),
        **({"unconfirmed": True} if done.unconfirmed else {}),
        "seconds": round(done.seconds, 6),
        **_side_effects(done.step, done.side_effects),
        **({"file": place.file, "line": place.line} if place is not None and place.line else {}),
    }


def report(done: Report) -> dict[str, Any]:
    """Return a whole run as one document."""
    return {
        "steps": [step_end(each) for each in done.steps],
        "outputs": plain(done.outputs),
        "summary": summary(done.summary, done.exit_code, done.run),
        **({"problems": list(map(problem, done.problems))} if done.problems else {}),
    }


def line(type_: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return one object of ``apply --json``: its type, the present time, and the body."""
    return {"type": type_, "timestamp": datetime.now(UTC).isoformat(), **body}


def log(entry: event.LogEvent) -> dict[str, Any]:
    """Return a log line as an object."""
    from resource_api.system.log_renderers import document

    return line("log", {"reference": entry.subject if "[" in entry.subject else None, **document(entry)})


def event_line(happened: event.Event) -> dict[str, Any] | None:
    """Return an event as an object; None for the end of a run, whose ``summary`` needs the exit code."""
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
        each = happened.step
        planned: dict[str, Any] = {"changes": [planned_change(each, d) for d in each.changes], "noop": each.noop}
        planned |= {"unknown": list(each.unknown), "error": each.decision.error or None}
        return line("planned_change", {**_named(each), **planned})
    return None


def _named(each: Step) -> dict[str, Any]:
    return {"reference": str(each.reference), "action": str(each.action)}
