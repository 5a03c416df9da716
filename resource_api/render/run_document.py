"""A finished run as a document: compact, as it is kept beside the state, and in the form for users and programs.

The compact form costs a run next to nothing: resources of one call with the same outcome are one group. Secrets are in
neither form.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import conceal_difference
from resource_api.model.codec import plain
from resource_api.model.values.version import __version__
from resource_api.render import json as documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import ProviderCall, Report, StepReport
    from resource_api.model.step import Step
    from resource_api.model.values.masking import Mask
    from resource_api.plan.planner import Plan

FORMAT_VERSION: Final = 1
#: Characters that are kept of one text.
_LONGEST: Final = 50_000
_CALL: Final = ("worker", "provider", "method", "started", "seconds", "resources", "first")
_CHANGE: Final = ("attribute", "is", "should", "message")


def encode(plan: Plan, report: Report, about: Mapping[str, Any], mask: Mask) -> str:
    """Return the compact form of a run as JSON; ``about`` is what the history has of it.

    Every secret in it is ``<sensitive>``; ``mask`` finds those that are part of another text.
    """
    found = {
        "format_version": FORMAT_VERSION,
        "tool_version": __version__,
        **about,
        "seconds": round(report.seconds, 6),
        "groups": _groups(report, mask),
        "calls": _calls(report.calls),
        "critical_path": _critical_path(plan, report.calls),
        "places": _places(report),
        "notifications": _notifications(plan, report),
        "drift": [[each.reference, each.changes] for each in plan.drift],
        "problems": list(map(documents.problem, report.problems)),
    }
    if not mask:
        with suppress(TypeError, ValueError, RecursionError):
            return json.dumps(found, default=plain, allow_nan=False, check_circular=False, separators=(",", ":"))
    return json.dumps(mask.document(plain(found)), separators=(",", ":"))


def _groups(report: Report, mask: Mask) -> list[list[Any]]:
    """Return the steps: what consecutive ones share, then their references."""
    groups: list[list[Any]] = []
    call_of = {each.step.entry.index: call for call, made in enumerate(report.calls) for each in made.operations}
    last: tuple[Any, ...] = ()
    for step, action, status, changes, error, seconds, *_ in report.steps:
        entry = step.entry
        shared = (action, status, changes, error, step.corrective, call_of.get(entry.index))
        if shared != last:
            last = shared
            groups.append([action, status, _shown(step, changes, mask), *shared[3:], 0.0, []])
        groups[-1][-2] = round(seconds, 6)
        groups[-1][-1].append(entry.reference_text)
    return groups


def _shown(step: Step, changes: Sequence[Difference], mask: Mask) -> list[Difference]:
    """Return changes without secrets, and without the rest of what is too long to be kept."""
    concealed = (conceal_difference(step.definition, each) for each in changes)
    return [each._replace(is_=_cut(each.is_, mask), should=_cut(each.should, mask)) for each in concealed]


def _cut(value: Any, mask: Mask) -> Any:
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    # Masked before it is cut: a part of a secret would not be found.
    return f"{mask(value)[:_LONGEST]}\n… ({len(value)} characters)"


def _calls(calls: Sequence[ProviderCall]) -> list[list[Any]]:
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


def _critical_path(plan: Plan, calls: Sequence[ProviderCall]) -> list[int]:
    """Return the calls, by position, that had to wait for each other and took longest together."""
    if len(calls) < 2:  # noqa: PLR2004 - one call waits for none
        return list(range(len(calls)))
    call_of = {operation.number: call for call, made in enumerate(calls) for operation in made.operations}
    ready, previous = [0.0] * len(calls), [-1] * len(calls)
    #: Operation → the seconds until it has ended at the earliest, and the last call before that.
    ended: dict[int, tuple[float, int]] = {}
    for operation in plan.operations:
        waited = [ended[number] for number in plan.waits.get(operation.number, ()) if number in ended]
        seconds, last = max(waited, default=(0.0, -1))
        call = call_of.get(operation.number, -1)
        if call >= 0:
            if last != call and seconds > ready[call]:
                ready[call], previous[call] = seconds, last
            seconds, last = ready[call] + calls[call].seconds, call
        ended[operation.number] = seconds, last
    _, last = max(ended.values(), default=(0.0, -1))
    path: list[int] = []
    while last >= 0 and last not in path:
        path.append(last)
        last = previous[last]
    return path[::-1]


def _places(report: Report) -> dict[str, list[Any]]:
    """Return where the resources that have failed are declared: reference → file and line."""
    failed = [each.step.entry for each in report.steps if each.status == "failed"]
    found = {entry.reference_text: entry.declaration.place() for entry in failed}
    return {reference: [place.file, place.line] for reference, place in found.items() if place.file}


def _notifications(plan: Plan, report: Report) -> list[list[str]]:
    """Return each notification that was carried out, or failed to be: the source and who was refreshed."""
    if not (subscribes := plan.catalog.subscribes):
        return []
    texts = {each.step.entry.index: each.step.entry.reference_text for each in report.steps if _changed(each)}
    refreshed = [each.step.entry for each in report.steps if each.action == Action.REFRESH]
    return [
        [texts[source], entry.reference_text]
        for entry in refreshed
        for source in subscribes.get(entry.index, ())
        if source in texts
    ]


def _changed(done: StepReport) -> bool:
    return done.status in {"success", "noop"}


def document(text: str | bytes) -> dict[str, Any]:
    """Return the documented form of what ``encode`` has returned. Raise ``ValueError`` for anything else."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("format_version") != FORMAT_VERSION:
        msg = "it was written by another version of this program"
        raise ValueError(msg)
    places, calls = found.pop("places"), found.pop("calls")
    groups, drifted = found.pop("groups"), found.pop("drift")
    return {
        "kind": "run",
        **found,
        "steps": [_step(reference, group, places) for group in groups for reference in group[-1]],
        "calls": [dict(zip(_CALL, call, strict=True)) for call in calls],
        "drift": [
            {
                "reference": reference,
                "changes": [{"attribute": name, "was": is_, "is": should} for name, is_, should, *_ in changes],
            }
            for reference, changes in drifted
        ],
        "notifications": [{"from": source, "to": target} for source, target in found["notifications"]],
    }


def _step(reference: str, group: Sequence[Any], places: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    action, status, changes, error, corrective, call, seconds, _ = group
    file, line = places.get(reference, (None, None))
    return {
        "reference": reference,
        "action": action,
        "status": status,
        "changes": [dict(zip(_CHANGE, (*change[:3], change[3] or None), strict=True)) for change in changes],
        "error": error or None,
        "corrective": corrective,
        "seconds": seconds,
        "call": call,
        "file": file,
        "line": line,
    }


def history_document(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a run of which only the line in the history is left."""
    seconds = round(run["ended"] - run["started"], 6) if "ended" in run and "started" in run else None
    empty: dict[str, Any] = {name: [] for name in ("steps", "calls", "critical_path", "notifications", "drift")}
    return {"kind": "run", "format_version": FORMAT_VERSION, **run, "seconds": seconds, **empty, "problems": []}


def located(problem: Mapping[str, Any], message: str) -> str:
    """Return a message with the file and line of a step or a problem before it, as far as they are known."""
    line = f":{problem['line']}" if problem.get("line") else ""
    return f"{problem['file']}{line}: {message}" if problem.get("file") else message
