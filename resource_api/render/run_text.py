"""Render recorded runs as text: one, a small chart of the last ones, the differences of two, the overview of a period.

A run has its failures first. The overview of one machine is in lines, those of many are the rows of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, is_text_change
from resource_api.model.report import SUMMARY_FIELDS
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted, escape, rough_duration, show_attribute
from resource_api.render import text
from resource_api.render.changes import BOLD, PLAIN, RED, Style, count_lines, text_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import (
        CallJson,
        ChangeJson,
        DriftJson,
        FailingResourceJson,
        FinishedRunJson,
        OverviewJson,
        RunJson,
        RunStepJson,
        SlowCallJson,
    )

#: The statuses of steps in the order of their sections.
SECTIONS: Final = {"failed": "Failed", "skipped": "Skipped", "success": "Changed", "noop": "Would change"}
#: The text for a run of which only the line in the history remains.
NOT_KEPT: Final = "Nothing more is kept of this run: it changed and failed nothing, or it is too old."
#: Calls that are named of the critical path, the longest ones.
_CALLS: Final = 10
#: The statuses of machines, the worst first, and their words.
STATUSES: Final[Mapping[str, str]] = {
    "unreachable": "unreachable",
    "refused": "refused",
    "failed": "without an answer",
    "failing": "failing",
    "silent": "without a run",
    "drifted": "drifted",
    "changed": "changed",
    "unchanged": "unchanged",
}
#: The statuses of machines of which nothing is known.
UNKNOWN: Final = frozenset({"unreachable", "refused", "failed"})
#: The statuses of machines that need attention.
BAD: Final = frozenset({*UNKNOWN, "failing"})


def run(document: RunJson, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of the document of a run: its outcome, the steps by status, drift, the longest calls."""
    yield text.run(document)
    if document.get("kept") is False:
        yield NOT_KEPT
    for status, title in SECTIONS.items():
        steps = [step for step in document["steps"] if step["status"] == status]
        if steps:
            yield ""
            yield style.paint(f"{title}: {len(steps)}", BOLD)
            for step in steps:
                yield from _step(step, style)
    if document["drift"]:
        yield ""
        yield style.paint(f"Drifted before this run: {len(document['drift'])}", BOLD)
        yield from (_drift(drift, style) for drift in document["drift"])
    yield from _critical_path(document, style)


def _drift(drift: DriftJson, style: Style) -> str:
    """Return the line of a resource that had drifted: the recorded and the read value of each attribute."""
    words = []
    for change in drift["changes"]:
        was, is_ = style.parts(change["was"], change["is"])
        words.append(f"{change['attribute']} was {was}, is {is_}")
    return f"  {escape(drift['reference'])}: {'; '.join(words)}"


def _step(step: RunStepJson, style: Style) -> Iterator[str]:
    """Yield the lines of a step of a recorded run: its error and position, then its changes unless it was skipped."""
    symbol = Action[step["action"].upper()].symbol
    code = RED if step["status"] == "failed" else ""
    end = f": {escape(step['error'])}" if step["error"] else ""
    position = f" ({escape(step['file'])}:{step['line']})" if step["file"] else ""
    yield style.paint(f"  {symbol} {escape(step['reference'])}{end}{position}", code)
    if step["status"] != "skipped":
        yield from (f"      {line}" for line in change_lines(step["changes"], style))


def change_lines(changes: Iterable[ChangeJson], style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a recorded step's changes: of each attribute both values on one line, or a diff of texts."""
    for change in changes:
        difference = Difference(change["attribute"], change["is"], change["should"], change["message"] or "")
        name, end = escape(difference.attribute), f" ({escape(difference.message)})" if difference.message else ""
        if difference.only_explained:
            yield f"{name}: {escape(difference.message)}"
        elif is_text_change(difference):
            yield f"{name} changed {count_lines(difference)}{end}"
            yield from (f"  {line}" for line in text_diff(difference, style))
        else:
            yield f"{name}: {style.pair(difference.is_, difference.should)}{end}"


def _critical_path(document: RunJson, style: Style) -> Iterator[str]:
    """Yield the lines on the longest chain of calls, which a user must shorten to get a faster run.

    Only its longest calls are listed.
    """
    calls, longest = longest_chain(document, _CALLS)
    if not calls:
        return
    seconds = sum(call["seconds"] for call in calls)
    yield ""
    yield style.paint(f"Longest chain of calls: {duration(seconds)} of {duration(document['seconds'] or 0)}", BOLD)
    yield from (f"  {duration(call['seconds']):>8}  {call_text(call)}" for call in longest)
    if len(calls) > _CALLS:
        yield f"  and {len(calls) - _CALLS} shorter ones"


def longest_chain(document: RunJson, most: int) -> tuple[list[CallJson], list[CallJson]]:
    """Return the calls of a run's critical path, each of which waited for the one before, and the longest ones of them.

    They show why the run took long. The second list has at most ``most`` calls; both are in the order of the run.
    """
    calls = [document["calls"][index] for index in document["critical_path"]]
    longest = sorted(calls, key=lambda call: -call["seconds"])[:most]
    return calls, [call for call in calls if call in longest]


def call_text(call: CallJson | SlowCallJson) -> str:
    """Return a call on one line: ``set File[/a] and 2 more``."""
    more = f" and {call['resources'] - 1} more" if call["resources"] > 1 else ""
    return f"{escape(call['method'])} {escape(call['first'])}{more}"


def duration(seconds: float) -> str:
    """Return seconds as text: ``12 ms``, ``3.4 s``, ``2 min 5 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
#: Columns of a bar, and of a line with bars before its command; characters of an id, whose beginning names a run.
_BAR: Final = 6
_BEFORE_COMMAND: Final = 71
_ID: Final = 8
#: The parts of a step that two runs are compared by.
_COMPARED: Final = ("action", "status", "error")


def chart(runs: Sequence[Mapping[str, Any]], width: int | None) -> Iterator[str]:
    """Yield a table of runs: time, id, seconds, changed and drifted resources as numbers and bars, command.

    The bars show a run that took longer or changed more than the others; each is relative to the largest value of its
    column. They are left out if a line would be longer than ``width``; None: any line fits. ``runs``: at least one.
    """
    rows = [(_seconds(run), _change_count(run), run.get("drifted") or 0) for run in runs]
    largest = list(map(max, zip(*rows, strict=True)))  # of each column
    commands = list(map(_command, runs))
    has_bars = width is None or _BEFORE_COMMAND + max(map(len, commands), default=0) <= width
    space = " " * (_BAR + 1) if has_bars else ""
    titles = " ".join(f"{title:>7}{space}" for title in ("seconds", "changed", "drifted"))
    yield f"{'started (UTC)':16} {'run':{_ID}} {titles} command"
    for run, row, command in zip(runs, rows, commands, strict=True):
        seconds, changed, drifted = row
        cells = [f"{seconds:7.1f}", f"{changed:7d}", f"{drifted:7d}"]
        if has_bars:
            bars = (f"{_bar(value, most):{_BAR}}" for value, most in zip(row, largest, strict=True))
            cells = list(map(" ".join, zip(cells, bars, strict=True)))
        when, name = text.time_of(run.get("started"))[:16], escape(str(run.get("run", "")))[:_ID]
        yield f"{when:16} {name:{_ID}} {' '.join(cells)} {command}"


def _change_count(run: Mapping[str, Any]) -> int:
    """Return the number of changes of a run by its summary."""
    counts = run.get("summary") or {}
    return sum(counts.get(name, 0) for name in SUMMARY_FIELDS.values())


def _command(run: Mapping[str, Any]) -> str:
    """Return the command of a run as the last cell of the chart, with failures if it had any: ``apply: 1 failed``."""
    counts = run.get("summary") or {}
    bad = ", ".join(f"{counts[name]} {name}" for name in ("failed", "skipped") if counts.get(name))
    return escape(str(run.get("command", ""))) + (f": {bad}" if bad else "")


def _seconds(run: Mapping[str, object]) -> float:
    """Return the duration of a run; 0 where its begin or end is not recorded."""
    started, ended = run.get("started"), run.get("ended")
    return max(0.0, ended - started) if isinstance(started, (int, float)) and isinstance(ended, (int, float)) else 0.0


def _bar(value: float, largest: float) -> str:
    """Return a bar of block characters for the share of ``value`` in ``largest``, exact to an eighth of a column.

    Every value but 0 has a visible bar.
    """
    if not value or not largest:
        return ""
    eighths = max(1, round(value / largest * _BAR * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def differences(first: RunJson, second: RunJson) -> dict[str, Any]:
    """Return the document of the differences of two runs, ``a`` and ``b``.

    It has the steps of only one run, and the resources whose steps differ in their outcomes or changes.
    """
    ours, theirs = ({step["reference"]: step for step in run["steps"]} for run in (first, second))
    return {
        "a": _about(first),
        "b": _about(second),
        "only_in_a": [step for name, step in ours.items() if name not in theirs],
        "only_in_b": [step for name, step in theirs.items() if name not in ours],
        "different": [
            {"reference": name, **different}
            for name, step in ours.items()
            if name in theirs and (different := _step_differences(step, theirs[name]))
        ],
    }


def _about(run: RunJson) -> dict[str, Any]:
    """Return the fields that identify one of two compared runs, and its counts."""
    return {name: run.get(name) for name in ("run", "command", "started", "ended", "seconds", "summary")}


def _step_differences(ours: RunStepJson, theirs: RunStepJson) -> dict[str, Any]:
    """Return the differences of a resource's steps in two runs; {} for equal steps, which the output leaves out.

    The result maps each field that differs, such as ``status``, to both values. Its key ``attributes`` maps each
    attribute to both changes, None for a run that did not change the attribute.
    """
    outcomes = {name: [ours[name], theirs[name]] for name in _COMPARED if ours[name] != theirs[name]}
    before, after = ({change["attribute"]: change for change in step["changes"]} for step in (ours, theirs))
    attributes = {
        name: [before.get(name), after.get(name)] for name in {**before, **after} if before.get(name) != after.get(name)
    }
    return {**outcomes, **({"attributes": attributes} if attributes else {})}


def difference_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of ``differences``: ``-`` only in the first run, ``+`` only in the second, ``~`` in both."""
    for sign, name in (("-", "a"), ("+", "b")):
        yield f"{sign * 3} {text.run(document[name])}"
    for sign, name in (("-", "only_in_a"), ("+", "only_in_b")):
        for step in document[name]:
            end = f": {escape(step['error'])}" if step["error"] else ""
            yield f"{sign} {escape(step['reference'])}: {step['action']} {step['status']}{end}"
            yield from (f"    {line}" for line in change_lines(step["changes"]))
    for different in document["different"]:
        yield f"~ {escape(different['reference'])}"
        yield from (f"    {line}" for line in _step_difference_lines(different))
    if not (document["only_in_a"] or document["only_in_b"] or document["different"]):
        yield "The same resources had the same changes and outcomes."


def _step_difference_lines(different: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a resource in both runs: fields of its steps with both values, then changed attributes.

    Before a change of an attribute stands ``-`` for the first run and ``+`` for the second one, as in a diff.
    """
    for name in _COMPARED:
        if name in different:
            yield f"{name}: {' → '.join(map(show_attribute, different[name]))}"
    for attribute, pair in different.get("attributes", {}).items():
        for sign, change in zip("-+", pair, strict=True):
            lines = change_lines([change]) if change else [f"{escape(attribute)}: not changed"]
            yield from (f"{sign} {line}" for line in lines)


class HostOverview(NamedTuple):
    """A machine with its status: that of its overview, or the reason why there is none."""

    name: str
    status: str
    error: str = ""
    overview: OverviewJson | None = None


def status_counts(hosts: Iterable[HostOverview]) -> dict[str, int]:
    """Return the numbers of machines by status, the worst first, without statuses of none."""
    statuses = [host.status for host in hosts]
    return {status: statuses.count(status) for status in STATUSES if status in statuses}


def counts_text(numbers: Mapping[str, int]) -> str:
    """Return ``2 unreachable, 3 failing, 295 unchanged`` for the numbers of machines by status."""
    return ", ".join(f"{number:,} {STATUSES[status]}" for status, number in numbers.items())


def ago(overview: OverviewJson, moment: float) -> str:
    """Return ``5 min ago`` for a moment of a machine's overview, which was made at ``until`` by the same clock."""
    return f"{rough_duration(max(0.0, overview['until'] - moment))} ago"


def overview_row(host: HostOverview) -> dict[str, object]:
    """Return the row of a machine in the table of many; the caller adds the names of all machines with an equal row.

    A machine without an overview has only a status.
    """
    if (overview := host.overview) is None:
        return {"status": host.status}
    last = overview["last"]
    return {
        "status": host.status,
        "last run": ago(overview, last["ended"]) if last else "never",
        "runs": overview["runs"],
        "changes": overview["changes"],
        "drifted": overview["drifted"],
        "failing": len(overview["failing"]),
    }


def overview_lines(overview: OverviewJson) -> Iterator[str]:
    """Yield the lines of the overview of one machine: status, last run and change, failures, drift, slow calls.

    Sections without content are left out. Ages are relative to ``until``, the moment at which the machine made the
    overview.
    """
    numbers = (
        f"{overview['failed_runs']} failed, {counted(overview['changes'], 'change')}, {overview['drifted']} drifted"
    )
    since = text.time_of(overview["since"])
    yield f"{STATUSES[overview['status']]}: {runs_text(overview['runs'])} since {since} UTC, {numbers}"
    if (last := overview["last"]) is not None:
        yield f"Last run: {run_summary(last)}, {ago(overview, last['ended'])}"
    if (change := overview["last_change"]) is not None:
        yield f"Last change: {run_summary(change)}, {ago(overview, change['ended'])}"
        yield from (f"  {escape(item['action'])} {escape(item['reference'])}" for item in change["resources"])
    if overview["failing"]:
        yield "Failing:"
        yield from (
            f"  {_failure(failing)}, for {rough_duration(overview['until'] - failing['since'])}"
            for failing in overview["failing"]
        )
    if overview["drift"]:
        yield "Drifted:"
        for drift in overview["drift"]:
            names = escape(", ".join(drift["attributes"]))
            yield f"  {escape(drift['reference'])} before {runs_text(drift['runs'])}: {names}"
    if overview["slow"]:
        yield "Slow:"
        yield from (f"  {duration(call['seconds']):>8}  {call_text(call)}" for call in overview["slow"])


def run_summary(run: FinishedRunJson) -> str:
    """Return a finished run in words: ``apply of web, 3 changes, exit code 1``, with a stack other than ``default``."""
    code = f", exit code {run['exit_code']}" if run["exit_code"] else ""
    changes = f", {counted(run['changes'], 'change')}" if run["changes"] else ""
    stack = f", stack {escape(run['stack'])}" if run["stack"] != "default" else ""
    return f"{escape(run['command'])} of {escape(run['project'])}{stack}{changes}{code}"


def _failure(failing: FailingResourceJson) -> str:
    """Return ``File[/a]: disk full (site.yaml:4)`` for a failing resource.

    A failure of a whole run, which belongs to no resource, is its error alone.
    """
    position = f" ({escape(failing['file'])}:{failing['line']})" if failing["file"] else ""
    reference = f"{escape(failing['reference'])}: " if failing["reference"] else ""
    return f"{reference}{escape(failing['error'])}{position}"


def runs_text(number: int) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{number:,} run{'' if number == 1 else 's'}"
