"""Finished runs as a small chart, and what was different between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.report import SUMMARY_FIELDS
from resource_api.model.values.text import escape, show_attribute
from resource_api.render import text
from resource_api.render.runs.text import change_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
#: Columns of a bar; a terminal that is narrower than ``_WIDE`` gets none, and shorter ids.
_BAR: Final = 6
_WIDE: Final = 96
_SHORT_ID: Final = 8
#: The parts of a step that two runs are compared by.
_COMPARED: Final = ("action", "status", "error")


def chart(runs: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    """Yield a table of runs: when, id, seconds, changed and drifted resources as numbers and bars, and the command."""
    rows = [(_seconds(run), _changed(run), run.get("drifted") or 0) for run in runs]
    largest = [max((row[column] for row in rows), default=0) for column in range(3)]
    wide = width >= _WIDE
    space, name_width = (" " * (_BAR + 1), 16) if wide else ("", _SHORT_ID)
    titles = " ".join(f"{title:>7}{space}" for title in ("seconds", "changed", "drifted"))
    yield f"{'started (UTC)':16} {'run':{name_width}} {titles} command"
    for run, row in zip(runs, rows, strict=True):
        cells = [f"{row[0]:7.1f}", f"{row[1]:7d}", f"{row[2]:7d}"]
        bars = [f" {_bar(value, most):{_BAR}}" if wide else "" for value, most in zip(row, largest, strict=True)]
        shown = " ".join(cell + drawn for cell, drawn in zip(cells, bars, strict=True))
        when, name = text.time_of(run.get("started"))[:16], escape(str(run.get("run", "")))[:name_width]
        yield f"{when:16} {name:{name_width}} {shown} {_command(run)}"


def _command(run: Mapping[str, Any]) -> str:
    counts = run.get("summary") or {}
    bad = ", ".join(f"{counts[name]} {name}" for name in ("failed", "skipped") if counts.get(name))
    return escape(str(run.get("command", ""))) + (f": {bad}" if bad else "")


def _seconds(run: Mapping[str, Any]) -> float:
    started, ended = run.get("started"), run.get("ended")
    return max(0.0, ended - started) if isinstance(started, (int, float)) and isinstance(ended, (int, float)) else 0.0


def _changed(run: Mapping[str, Any]) -> int:
    counts = run.get("summary") or {}
    return sum(counts.get(name, 0) for name in SUMMARY_FIELDS.values())


def _bar(value: float, largest: float) -> str:
    if not value or not largest:
        return ""
    eighths = max(1, round(value / largest * _BAR * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return how two runs differ: the steps of only one of them, and those with another outcome or other changes."""
    ours, theirs = ({each["reference"]: each for each in run["steps"]} for run in (first, second))
    return {
        "a": _about(first),
        "b": _about(second),
        "only_in_a": [each for name, each in ours.items() if name not in theirs],
        "only_in_b": [each for name, each in theirs.items() if name not in ours],
        "different": [
            {"reference": name, **found}
            for name, each in ours.items()
            if name in theirs and (found := _different(each, theirs[name]))
        ],
    }


def _about(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: run.get(name) for name in ("run", "command", "started", "ended", "seconds", "summary")}


def _different(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: [ours[name], theirs[name]] for name in _COMPARED if ours[name] != theirs[name]}
    before, after = ({each["attribute"]: each for each in step["changes"]} for step in (ours, theirs))
    attributes = {
        name: [before.get(name), after.get(name)] for name in {**before, **after} if before.get(name) != after.get(name)
    }
    return {**found, **({"attributes": attributes} if attributes else {})}


def difference_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield how two runs differ: ``-`` only in the first, ``+`` only in the second, ``~`` in both and not alike."""
    for sign, name in (("-", "a"), ("+", "b")):
        yield f"{sign * 3} {text.run(found[name])}"
    for sign, name in (("-", "only_in_a"), ("+", "only_in_b")):
        for step in found[name]:
            yield f"{sign} {escape(step['reference'])}: {_outcome(step['action'], step['status'], step['error'])}"
            yield from (f"    {line}" for line in change_lines(step["changes"]))
    for each in found["different"]:
        yield f"~ {escape(each['reference'])}"
        for name in _COMPARED:
            if name in each:
                yield f"    {name}: {show_attribute(each[name][0])} → {show_attribute(each[name][1])}"
        for attribute, pair in each.get("attributes", {}).items():
            for sign, change in zip("-+", pair, strict=True):
                lines = change_lines([change]) if change else [f"{escape(attribute)}: not changed"]
                yield from (f"    {sign} {line}" for line in lines)
    if not (found["only_in_a"] or found["only_in_b"] or found["different"]):
        yield "The same resources had the same changes and outcomes."


def _outcome(action: str, status: str, error: str | None) -> str:
    return f"{action} {status}{f': {escape(error)}' if error else ''}"
