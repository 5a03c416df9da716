"""Render summaries, outputs, recorded state, history and repeated failures as text.

Text shows only information that the JSON form has too.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import DONE, count_words
from resource_api.model.values.text import counted, escape, escape_json, escape_lines, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import Record
    from resource_api.model.report import RunReport, Summary
    from resource_api.render.changes import Style


#: Count of a summary → its words in a plan.
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


def destroy_question(summary: Summary, projects: str, stack: str, suffix: str = "") -> str:
    """Return the question before a destruction: ``Delete 3 resources of project web, stack default?``.

    ``projects``: the names, joined by commas. ``suffix`` follows the stack's name, such as ``, on 3 hosts``. A step
    that is decided at its turn may delete too; the plan counts it as an update.
    """
    counts = (("delete", summary.deleted), ("forget", summary.forgotten), ("decide at its turn", summary.updated))
    (word, number), *rest = [(word, count) for word, count in counts if count] or [("delete", 0)]
    first = f"{word} {counted(number, 'resource')}"
    question = " and ".join([first, *(f"{word} {count}" for word, count in rest)])
    return f"{question.capitalize()} of project {escape(projects)}, stack {escape(stack)}{suffix}?"


def nothing_recorded(project: str, stack: str) -> str:
    """Return the note of a destruction without anything to do."""
    return f"nothing is recorded for project {escape(project)}, stack {escape(stack)}"


def report(report: RunReport) -> str:
    """Return ``Applied in 1.2 s: 1 created, 12 unchanged.``; other counts that are zero are left out.

    Of a noop run ``Plan: 1 to create; 12 unchanged. (noop)``.
    """
    if report.summary.noop:
        return f"{plan_summary(report.summary)} (noop)"
    counts = ", ".join(count_words(report.summary._replace(noop=False)._asdict(), DONE, always="unchanged"))
    return f"Applied in {report.seconds:.1f} s: {counts}."


def planned_counts(summary: Summary) -> str:
    """Return the counts of a plan: ``1 to create; 12 unchanged``, or ``nothing to do; 12 unchanged``."""
    counts = ", ".join(count_words(summary._replace(noop=False, unchanged=0)._asdict(), PLANNED))
    return f"{counts or 'nothing to do'}; {summary.unchanged} unchanged"


def outputs(values: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of a stack's outputs, sorted by name."""
    for name, value in sorted(values.items()):
        yield f"{name}: {show(value)}"


def facts(values: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Yield ``os.name: Debian`` for each fact, named as an expression refers to it: ``${facts.os.name}``.

    A mapping has a line for each of its members. ``above``: the dotted name of the mapping with ``values``, or "".
    """
    for key, value in values.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, dict):
            yield from facts(value, name)
        else:
            yield f"{escape(name)}: {show(value)}"


def output(value: object, *, terminal: bool) -> str:
    """Return one output of a stack for scripts: text as it is, any other value as JSON.

    On a ``terminal`` control characters in text are escaped, as they could change the display.
    """
    if isinstance(value, str):
        return escape_lines(value) if terminal else value
    return escape_json(json.dumps(value, ensure_ascii=False, default=str))


def valid(document: Mapping[str, object]) -> str:
    """Return ``valid: 3 resources.`` for the document of ``validate``."""
    count = document.get("resources")
    return f"valid: {count} resource{'' if count == 1 else 's'}."


#: Status of an import → its words.
_IMPORTS: Final = {"imported": "imported", "recorded": "recorded as ours already", "missing": "does not exist"}


def imported(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line on the outcome of each resource of an import, without those whose errors the log has shown."""
    for item in document["resources"]:
        if not item["error"]:
            yield f"{escape(str(item['reference']))}: {_IMPORTS[item['status']]}."


def record(urn: str, record: Record) -> Iterator[str]:
    """Yield the lines of ``state show`` for one resource: the fields that differ from their defaults, then its values.

    ``inputs``, ``should`` and ``is`` are the values as declared, in canonical form, and as last read.
    """
    yield f"{escape(str(record.reference))}:"
    yield f"  urn: {escape(urn)}"
    yield f"  name: {show(record.name)}"
    defaults = {**record._field_defaults, **record.lifecycle._field_defaults}
    for field, value in record.to_dict().items():
        if field in defaults and value != defaults[field] and value not in ({}, [], ()):
            yield f"  {field}: {show(value)}"
    for word, values in (("inputs", record.inputs), ("should", record.should), ("is", record.is_)):
        if not values:
            # Without values an executed resource (``last_run``) is one that cannot be read, another does not exist.
            absent = "not to be read back" if record.last_run else "absent"
            yield f"  {word}: {absent if values is None else '{}'}"
            continue
        yield f"  {word}:"
        yield from (f"    {escape(name)}: {show(value)}" for name, value in sorted(values.items()))


def run(run: Mapping[str, object]) -> str:
    """Return a finished run of the history on one line: when it began, its number, its command, and its counts."""
    return f"{time_of(run.get('started'))}  {escape(str(run.get('run', '')))}  {run_outcome(run)}"


def with_projects(runs: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, Any]]:
    """Return finished runs for a list, from which a user tells runs of different projects.

    If there are several projects, each command gets the name of its project: ``apply web``.
    """
    if len({run.get("project") for run in runs}) <= 1:
        return runs
    return [{**run, "command": f"{run.get('command')} {run.get('project')}"} for run in runs]


def run_outcome(run: Mapping[str, Any]) -> str:
    """Return the command of a finished run and its counts: ``apply: 2 created, 1 failed (exit code 1)``."""
    command = escape(str(run.get("command", "")))
    counts = run.get("summary")
    if not counts:
        return command
    changes = ", ".join(count_words({name: counts.get(name) for name in CHANGES}, DONE))
    code = counts.get("exit_code")
    return f"{command}: {changes or 'nothing changed'}{f' (exit code {code})' if code else ''}"


def time_of(seconds: object) -> str:
    """Return a time, given in seconds since 1970, as ``2026-05-04 10:00:00`` in UTC; another value as its text."""
    if not isinstance(seconds, (int, float)):
        return str(seconds or "")
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def verdict_mark(text: str, *, ok: bool) -> str:
    """Return the mark of a verdict: ``ok``, ``no``, or ``-`` if nothing was tried, as with the text ``0 damages``."""
    if not ok:
        return "no"
    return "-" if text.startswith("0 ") else "ok"


#: How many failures are named.
_NAMED: Final = 40


def repeated_failures(run_report: RunReport, style: Style) -> Iterator[str]:
    """Yield a line for each failure: the resource, its position, the reason, the number of skipped resources.

    They are repeated below the log of a long run, which has scrolled them off the screen. Each has one line: the log
    has the rest of a longer reason.
    """
    failed = [report for report in run_report.steps if report.status == "failed"]
    skipped = Counter(report.cause for report in run_report.steps if report.status == "skipped")
    if failed:
        yield style.paint("Failed:", "1")
    for report in failed[:_NAMED]:
        count = skipped.pop(report.reference, 0)
        # An empty position, of a resource that no file declares, adds nothing.
        position = escape(report.step.entry.declaration.located(""))
        reason = escape(style.reason(style.mask(report.error).partition("\n")[0]))
        yield f"  {escape(report.reference)}{position}: {reason}{f'; {count} skipped' if count else ''}"
    if len(failed) > _NAMED:
        yield f"  … {len(failed) - _NAMED} more"
