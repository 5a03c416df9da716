"""A finished run as a document: compact, as it is kept beside the state, and in the form for users and programs.

The compact form costs a run next to nothing: resources of one call with the same outcome are one group. Secrets are in
neither form.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.model.action import Action
from resource_api.model.change import Difference, conceal_difference
from resource_api.model.codec import plain
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.version import __version__
from resource_api.render import json as documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.json_documents import RunJson, RunStepJson
    from resource_api.model.report import ProviderCall, RunReport, StepReport
    from resource_api.model.values.masking import Mask
    from resource_api.plan.planner import ExecutionPlan

FORMAT_VERSION: Final = 1
#: Characters that are kept of one text.
_LONGEST: Final = 50_000
#: The fields of a call, whose values are a row in the compact form.
_CALL: Final = ("worker", "provider", "method", "started", "seconds", "resources", "first")


class StepGroup(NamedTuple):
    """Consecutive steps with the same outcome in the compact form: their shared fields, and their references."""

    action: str
    status: str
    changes: list[Difference]
    error: str
    corrective: bool
    #: The index of the call of the provider, or None.
    call: int | None
    seconds: float
    references: list[str]


def encode(plan: ExecutionPlan, report: RunReport, run_fields: Mapping[str, object], mask: Mask) -> str:
    """Return the compact form of a run as JSON; ``run_fields`` is its line of the history.

    It is stored beside the state at the end of a run. Every secret in it is ``<sensitive>``; ``mask`` finds secrets
    inside other texts.
    """
    document = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        **run_fields,
        "seconds": round(report.seconds, 6),
        "groups": _groups(report, mask),
        "calls": _calls(report.calls),
        "critical_path": _critical_path(plan, report.calls),
        "places": _positions(report),
        "notifications": _notifications(plan, report),
        "drift": [[drift.reference, drift.changes] for drift in plan.drift],
        "problems": list(map(documents.problem, report.problems)),
    }
    if not mask:  # without any secret the document need not be walked
        with suppress(TypeError, ValueError, RecursionError):
            return json.dumps(document, default=plain, allow_nan=False, check_circular=False, separators=(",", ":"))
    return json.dumps(mask.document(plain(document)), separators=(",", ":"))


def _groups(report: RunReport, mask: Mask) -> list[StepGroup]:
    """Return the steps of a run in groups, so that an outcome which thousands of steps share is stored once.

    A group has successive steps with the same action, status, changes, error and call.
    """
    # Index of a resource → that of the call of its provider.
    call_of = {
        operation.step.entry.index: call
        for call, provider_call in enumerate(report.calls)
        for operation in provider_call.operations
    }

    def outcome(row: StepReport) -> tuple[Any, ...]:
        call = call_of.get(row.step.entry.index)
        return row.action, row.status, row.changes, row.error, row.step.corrective, call

    return [_group(list(steps), call, mask) for (*_, call), steps in groupby(report.steps, key=outcome)]


def _group(steps: Sequence[StepReport], call: int | None, mask: Mask) -> StepGroup:
    """Return successive steps as a group: their references, and once their common outcome, without secrets.

    ``call``: the index of the provider's call that they share, or None.
    """
    last = steps[-1]
    concealed = (conceal_difference(last.step.definition, change) for change in last.changes)
    return StepGroup(
        last.action,
        last.status,
        [change._replace(is_=_cut(change.is_, mask), should=_cut(change.should, mask)) for change in concealed],
        error=last.error,
        corrective=last.step.corrective,
        call=call,
        seconds=round(last.seconds, 6),
        references=[step.step.entry.reference_text for step in steps],
    )


def _cut(value: object, mask: Mask) -> Any:
    """Return a value, of a long text only the beginning and the length, so that a run stays small on disk."""
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    # Masked before it is cut: a part of a secret would not be found.
    return f"{mask(value)[:_LONGEST]}\n… ({len(value)} characters)"


def _calls(calls: Sequence[ProviderCall]) -> list[list[Any]]:
    """Return the calls of providers for the timeline and the longest chain, as rows of the fields ``_CALL``.

    A worker is a thread, numbered from 1 in the order of first calls. Rows without names of fields are smaller on disk.
    """
    workers: dict[int, int] = {}
    return [
        [
            workers.setdefault(call.thread, len(workers) + 1),
            call.instance,
            call.method,
            round(call.started, 6),
            round(call.seconds, 6),
            len(call.operations),
            call.operations[0].step.entry.reference_text if call.operations else "",
        ]
        for call in calls
    ]


class _End(NamedTuple):
    """The end of an operation: the seconds until it at the earliest, and the last call before it, or -1."""

    seconds: float
    call: int


_BEGIN: Final = _End(0.0, -1)


def _critical_path(plan: ExecutionPlan, calls: Sequence[ProviderCall]) -> list[int]:
    """Return the indices of the calls on the longest chain of calls that waited for each other, in their order.

    A user who wants a faster run looks at these calls. An operation ends with its call; an operation without a call
    ends with the last one that it waits for. From the call with the latest end, the path is followed back to the start.
    """
    if len(calls) < 2:  # noqa: PLR2004 - one call waits for none
        return list(range(len(calls)))
    call_of = {
        operation.number: call for call, provider_call in enumerate(calls) for operation in provider_call.operations
    }
    ends: dict[int, _End] = {}  # by operation
    starts: dict[int, _End] = {}  # by call: the latest end of another call that it waits for
    for operation in plan.operations:
        waited = [ends[number] for number in plan.waits.get(operation.number, ()) if number in ends]
        end = max(waited, default=_BEGIN)
        if (call := call_of.get(operation.number)) is not None:
            if end.call != call and end.seconds > starts.get(call, _BEGIN).seconds:
                starts[call] = end
            end = _End(starts.get(call, _BEGIN).seconds + calls[call].seconds, call)
        ends[operation.number] = end
    path: list[int] = []  # from the end
    last = max(ends.values(), default=_BEGIN).call
    while last >= 0 and last not in path:
        path.append(last)
        last = starts.get(last, _BEGIN).call
    return path[::-1]


def _positions(report: RunReport) -> dict[str, list[Any]]:
    """Return reference → file and line of the declaration of each failed resource, where a user must look.

    Other resources have no position in the stored run, which stays small.
    """
    failed = [step.step.entry for step in report.steps if step.status == "failed"]
    positions = {entry.reference_text: entry.declaration.place() for entry in failed}
    return {reference: [position.file, position.line] for reference, position in positions.items() if position.file}


def _notifications(plan: ExecutionPlan, report: RunReport) -> list[list[str]]:
    """Return the pairs of notifying and refreshed resource of a run, which explain the refreshes to a user.

    A source counts only if its own step succeeded, or would under noop; a refresh that failed has its sources too.
    """
    if not (subscribes := plan.catalog.subscribes):
        return []
    texts = {
        step.step.entry.index: step.step.entry.reference_text
        for step in report.steps
        if step.status in {"success", "noop"}
    }
    refreshed = [step.step.entry for step in report.steps if step.action == Action.REFRESH]
    return [
        [texts[source], entry.reference_text]
        for entry in refreshed
        for source in subscribes.get(entry.index, ())
        if source in texts
    ]


def document(text: str | bytes) -> RunJson:
    """Return a stored run in the form for users and programs, with a step for each resource in place of groups.

    ``text``: a result of ``encode``. Raise ``ValueError`` for any other text.
    """
    document: object = json.loads(text)
    if not isinstance(document, dict) or document.get("format_version") != FORMAT_VERSION:
        raise ValueError("it was written by another version of this program")
    positions, calls = document.pop("places"), document.pop("calls")
    groups, drifted = [StepGroup(*group) for group in document.pop("groups")], document.pop("drift")
    run = {
        "kind": "run",
        **document,
        "steps": [_step(reference, group, positions) for group in groups for reference in group.references],
        "calls": [dict(zip(_CALL, call, strict=True)) for call in calls],
        "drift": [
            {
                "reference": reference,
                "changes": [{"attribute": name, "was": is_, "is": should} for name, is_, should, *_ in changes],
            }
            for reference, changes in drifted
        ],
        "notifications": [{"from": source, "to": target} for source, target in document["notifications"]],
    }
    return cast("RunJson", run)


def _step(reference: str, group: StepGroup, positions: Mapping[str, tuple[str | None, int | None]]) -> RunStepJson:
    """Return a step of a stored group as ``--json`` shows it; ``positions``: reference → file and line."""
    file, line = positions.get(reference, (None, None))
    return {
        "reference": reference,
        "action": group.action,
        "status": group.status,
        "changes": [documents.change(Difference(*change)) for change in group.changes],
        "error": group.error or None,
        "corrective": group.corrective,
        "seconds": group.seconds,
        "call": group.call,
        "file": file,
        "line": line,
    }


def history_document(run: Mapping[str, Any]) -> RunJson:
    """Return the document of a run whose own document is not stored, from its line in the history.

    It has the run's outcome, and no steps. The document may have been removed after later runs, or never written.
    """
    seconds = round(run["ended"] - run["started"], 6) if "ended" in run and "started" in run else None
    empty: dict[str, object] = {name: [] for name in ("steps", "calls", "critical_path", "notifications", "drift")}
    fields = {"kind": "run", "format_version": FORMAT_VERSION, **run, "seconds": seconds, **empty, "problems": []}
    return cast("RunJson", fields)


def located(problem: Mapping[str, object], message: str) -> str:
    """Return ``site.yaml:4: message`` for a step's or problem's document; the message alone without a position."""
    line = f":{problem['line']}" if problem.get("line") else ""
    return f"{problem['file']}{line}: {message}" if problem.get("file") else message
