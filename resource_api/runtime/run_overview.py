"""Summarize the recent runs of a machine: its status, failing and drifted resources, the last change, slow calls.

Everything comes from the history and the kept runs; nothing is read from the machine. The result is small, whatever the
runs have done, so that the overviews of many hosts make one page.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import SUMMARY_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.json_documents import (
        ChangedResourceJson,
        ChangedResourcesJson,
        DriftedResourceJson,
        FailingResourceJson,
        FinishedRunJson,
        OverviewJson,
        RunJson,
        SlowCallJson,
    )
    from resource_api.runtime.recorded_stack import Runs

    Line = Mapping[str, Any]

FORMAT_VERSION: Final = 1
#: The most resources of each list, the most slow calls, and the characters of a text.
MOST: Final = 30
_SLOW: Final = 5
_LONGEST: Final = 500
_CHANGES: Final = frozenset({*SUMMARY_FIELDS.values(), "outputs_changed"})
#: Exit codes of runs that succeeded.
_SUCCEEDED: Final = frozenset({0, 2})


def overview(runs: Runs | None, since: float, until: float) -> OverviewJson:
    """Return the overview of the runs that ended in a period, given in seconds since 1970; None: no run is recorded.

    A stack is failing if its last run failed, whenever that was.
    """
    finished: list[Line] = [run for run in runs.all if "summary" in run] if runs is not None else []
    recent = [run for run in finished if run["ended"] >= since]
    newest = list({(run["project"], run["stack"]): run for run in finished}.values())
    changing = next((run for run in reversed(finished) if _changed(run)), None)
    needed = {run["run"]: run for run in (*recent, *newest, *([changing] if changing else []))}
    documents = {name: runs.load(run) for name, run in needed.items()} if runs is not None else {}
    failing = [resource for run in newest if _failed(run) for resource in _failures(run, documents, finished)]
    return {
        "kind": "overview",
        "format_version": FORMAT_VERSION,
        "since": since,
        "until": until,
        "status": _status(failing, recent),
        "runs": len(recent),
        "failed_runs": sum(map(_failed, recent)),
        "changes": sum(map(_changed, recent)),
        "drifted": sum(run.get("drifted") or 0 for run in recent),
        "longest": round(max(map(_seconds, recent), default=0.0), 6),
        "last": _finished_run(finished[-1]) if finished else None,
        "last_change": _last_change(changing, documents[changing["run"]]) if changing else None,
        "failing": failing[:MOST],
        "drift": _drifted_resources(documents[run["run"]] for run in recent)[:MOST],
        "slow": _slow_calls(documents[run["run"]] for run in recent),
    }


def _status(failing: Sequence[object], recent: Iterable[Line]) -> str:
    """Return the status of a stack by its recent runs, the most urgent word."""
    runs = list(recent)
    if failing:
        return "failing"
    if any(run.get("drifted") for run in runs):
        return "drifted"
    if any(map(_changed, runs)):
        return "changed"
    return "unchanged" if runs else "silent"


def _failed(run: Line) -> bool:
    """Return whether a resource of a run failed, or the run as a whole."""
    summary = run["summary"]
    return bool(summary["failed"]) or (summary.get("exit_code") or 0) not in _SUCCEEDED


def _changed(run: Line) -> int:
    """Return the number of changes of a run; under noop there are none."""
    return 0 if run["summary"].get("noop") else sum(run["summary"].get(name) or 0 for name in _CHANGES)


def _seconds(run: Line) -> float:
    """Return the duration of a run, at least 0: the clock may have been set back."""
    return max(0.0, float(run["ended"] - run["started"]))


def _finished_run(run: Line) -> FinishedRunJson:
    """Return a finished run as ``report --json`` lists it."""
    return {
        "run": run["run"],
        "project": run["project"],
        "stack": run["stack"],
        "command": run["command"],
        "ended": run["ended"],
        "seconds": round(_seconds(run), 6),
        "exit_code": run["summary"].get("exit_code") or 0,
        "changes": _changed(run),
        "failed": run["summary"]["failed"],
    }


def _failures(run: Line, documents: Mapping[str, RunJson], finished: Iterable[Line]) -> list[FailingResourceJson]:
    """Return the resources that failed in the last run of a stack, or its exit code as a failure without one."""
    began = run["ended"]
    for earlier in reversed([item for item in finished if _stack(item) == _stack(run)]):
        if not _failed(earlier):
            break
        began = earlier["ended"]
    fields = {"project": run["project"], "stack": run["stack"], "since": began}
    failed = [step for step in documents[run["run"]]["steps"] if step["status"] == "failed"]
    rows = [(step["reference"], step["error"] or "failed", step["file"], step["line"]) for step in failed]
    rows = rows or [("", f"{run['command']} ended with exit code {run['summary'].get('exit_code') or 1}", None, None)]
    return [
        {"reference": _short(reference), "error": _short(error), "file": file and _short(file), "line": line, **fields}  # type: ignore[typeddict-item] # the fields of one run
        for reference, error, file, line in rows
    ]


def _stack(run: Line) -> tuple[str, str]:
    return run["project"], run["stack"]


def _last_change(run: Line, document: RunJson) -> ChangedResourcesJson:
    """Return the resources that a run has changed."""
    changed = [step for step in document["steps"] if step["status"] == "success"]
    resources: list[ChangedResourceJson] = [
        {"reference": _short(step["reference"]), "action": step["action"]} for step in changed[:MOST]
    ]
    return {**_finished_run(run), "resources": resources}


def _drifted_resources(documents: Iterable[RunJson]) -> list[DriftedResourceJson]:
    """Return the resources that had drifted before runs, those with the most runs first."""
    drifted: dict[str, DriftedResourceJson] = {}
    for document in documents:
        for drift in document["drift"]:
            reference = _short(drift["reference"])
            row = drifted.setdefault(reference, {"reference": reference, "runs": 0, "last": 0.0, "attributes": []})
            row["runs"] += 1
            row["last"] = max(row["last"], document["ended"])
            names = dict.fromkeys((*row["attributes"], *(_short(change["attribute"]) for change in drift["changes"])))
            row["attributes"] = list(names)[:MOST]
    return sorted(drifted.values(), key=lambda row: -row["runs"])


def _slow_calls(documents: Iterable[RunJson]) -> list[SlowCallJson]:
    """Return the calls that took longest."""
    calls = nlargest(_SLOW, (call for item in documents for call in item["calls"]), key=lambda call: call["seconds"])
    return [
        {
            "method": call["method"],
            "first": _short(call["first"]),
            "resources": call["resources"],
            "seconds": call["seconds"],
        }
        for call in calls
    ]


def _short(text: str) -> str:
    """Return a text, cut where it would make the overview large."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
