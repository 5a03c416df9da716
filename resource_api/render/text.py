"""Render summaries, outputs, recorded state, history and repeated failures as text.

Text shows only information that the JSON form has too.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import DONE, count_words
from resource_api.model.values.text import escape, escape_json, escape_lines, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import Record, StackState
    from resource_api.model.report import Report, StepReport, Summary
    from resource_api.render.changes import Style


#: Count of a summary → what it is called in a plan.
PLANNED: Final[Mapping[str, str]] = {
    "created": "to create",
    "updated": "to update",
    "replaced": "to replace",
    "deleted": "to delete",
    "imported": "to import",
    "forgotten": "to forget",
    "refreshed": "to refresh",
    "ran": "to run",
    "outputs_changed": "outputs to change",
}
#: The counts that the line of a finished run shows.
CHANGES: Final = (*PLANNED, "failed", "skipped")


def plan_summary(summary: Summary) -> str:
    """Return ``Plan: 1 to create, 2 to update, 1 to delete; 12 unchanged.``; counts that are zero are left out."""
    return f"Plan: {planned_counts(summary)}."


def destroy_question(summary: Summary, projects: str, stack: str, where: str = "") -> str:
    """Return the question whether to carry out a destruction: ``Delete 3 resources of project web, stack default?``.

    ``projects`` are the names, joined by commas; ``where`` follows that of the stack. A step that is decided at its
    turn, which the plan counts as a change, may delete its resource.
    """
    counts = (("delete", summary.deleted), ("forget", summary.forgotten), ("decide at its turn", summary.updated))
    (word, number), *others = [(word, count) for word, count in counts if count] or [("delete", 0)]
    things = f"{word} {number} resource{'' if number == 1 else 's'}"
    what = " and ".join([things, *(f"{word} {count}" for word, count in others)])
    return f"{what.capitalize()} of project {escape(projects)}, stack {escape(stack)}{where}?"


def report(done: Report) -> str:
    """Return ``Applied in 1.2 s: 1 created, 12 unchanged.``; other counts that are zero are left out.

    Of a noop run ``Plan: 1 to create; 12 unchanged. (noop)``.
    """
    if done.summary.noop:
        return f"{plan_summary(done.summary)} (noop)"
    shown = ", ".join(count_words(done.summary._replace(noop=False)._asdict(), DONE, always="unchanged"))
    return f"Applied in {done.seconds:.1f} s: {shown}."


def planned_counts(summary: Summary) -> str:
    """Return the counts of a plan: ``1 to create; 12 unchanged``, or ``nothing to do; 12 unchanged``."""
    shown = ", ".join(count_words(summary._replace(noop=False, unchanged=0)._asdict(), PLANNED))
    return f"{shown or 'nothing to do'}; {summary.unchanged} unchanged"


def outputs(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a stack's outputs, sorted by name."""
    for name, value in sorted(values.items()):
        yield f"{name}: {show(value)}"


def output(value: Any, *, terminal: bool) -> str:
    """Return one output for scripts: text as it is, but escaped on a terminal; any other value as JSON."""
    if isinstance(value, str):
        return escape_lines(value) if terminal else value
    return escape_json(json.dumps(value, ensure_ascii=False, default=str))


def record(state: StackState, found: Record) -> Iterator[str]:
    """Yield the lines of one recorded resource: the fields that differ from their defaults, then its values."""
    from resource_api.state import export as state_export

    yield f"{escape(str(found.reference))}:"
    yield f"  urn: {escape(state_export.record_urn(state, found))}"
    yield f"  name: {show(found.name)}"
    defaults = {**found._field_defaults, **found.lifecycle._field_defaults}
    for field, value in found.to_dict().items():
        if field in defaults and value != defaults[field] and value not in ({}, [], ()):
            yield f"  {field}: {show(value)}"
    for word, values in (("inputs", found.inputs), ("should", found.should), ("is", found.is_)):
        if not values:
            absent = "not to be read back" if found.last_run else "absent"
            yield f"  {word}: {absent if values is None else '{}'}"
            continue
        yield f"  {word}:"
        yield from (f"    {escape(name)}: {show(value)}" for name, value in sorted(values.items()))


def run(found: Mapping[str, Any]) -> str:
    """Return a finished run of the history on one line: when it began, its number, its command, and its counts."""
    return f"{time_of(found.get('started'))}  {escape(str(found.get('run', '')))}  {run_outcome(found)}"


def with_projects(runs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return finished runs with the project as part of the command, ``apply web``, where there are several projects."""
    if len({run.get("project") for run in runs}) <= 1:
        return runs
    return [{**run, "command": f"{run.get('command')} {run.get('project')}"} for run in runs]


def run_outcome(found: Mapping[str, Any]) -> str:
    """Return the command of a finished run and its counts: ``apply: 2 created, 1 failed (exit code 1)``."""
    command = escape(str(found.get("command", "")))
    counts = found.get("summary")
    if not counts:
        return command
    changes = ", ".join(count_words({name: counts.get(name) for name in CHANGES}, DONE))
    code = counts.get("exit_code")
    return f"{command}: {changes or 'nothing changed'}{f' (exit code {code})' if code else ''}"


def time_of(seconds: Any) -> str:
    """Return a time in UTC, given in seconds since 1970; another value as it is."""
    if not isinstance(seconds, (int, float)):
        return str(seconds or "")
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def verdict_mark(text: str, *, ok: bool) -> str:
    """Return how a verdict of a rehearsal is shown: ``ok``, ``no``, or ``-`` where its text counts nothing tried."""
    return "no" if not ok else "-" if text.startswith("0 ") else "ok"


#: How many failures are named.
_NAMED: Final = 40


def repeated_failures(done: Report, style: Style) -> Iterator[str]:
    """Yield a line for each failure: the resource, where it is declared, why it failed, how many it has skipped."""
    failed = [report for report in done.steps if report.status == "failed"]
    skipped = Counter(report.cause for report in done.steps if report.status == "skipped")
    if failed:
        yield style.paint("Failed:", "1")
    for report in failed[:_NAMED]:
        count = skipped.pop(report.reference, 0)
        yield f"  {escape(report.reference)}{_place(report)}: {_reason(report, style)}{_skipped(count)}"
    if more := len(failed) - _NAMED if len(failed) > _NAMED else 0:
        yield f"  … {more} more"


def _place(report: StepReport) -> str:
    """Return `` (site.yaml:14)``; nothing for a resource that no file declares."""
    return escape(report.step.entry.declaration.place().after(""))


def _reason(report: StepReport, style: Style) -> str:
    first = style.mask(report.error).partition("\n")[0]
    return escape(style.reason(first))


def _skipped(count: int) -> str:
    return f"; {count} skipped" if count else ""
