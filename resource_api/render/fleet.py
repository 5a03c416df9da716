"""A run over many hosts as text for people: groups of hosts with what they have answered, batches, counts, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.event import LogEvent
from resource_api.model.values.errors import Problem
from resource_api.model.values.text import escape, escape_lines
from resource_api.render import text
from resource_api.system.log_renderers import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: What a command has done to hosts, for the line at the end.
VERBS: Final = {
    "apply": "Applied to",
    "destroy": "Destroyed on",
    "plan": "Planned on",
    "refresh": "Refreshed on",
    "resource": "Read on",
    "validate": "Validated on",
    "output": "Read on",
    "state": "Read on",
}
#: The statuses in the order in which their groups are shown: what needs attention stands last, above the counts.
ORDER: Final = ("changed", "unchanged", "untouched", "refused", "unreachable", "failed")
#: The status that is only shown where there is one.
_RARE: Final = frozenset({"refused"})
#: Characters of names that stand before a group.
_WIDEST: Final = 400
_RED: Final = "31"
BOLD: Final = "1"


def _plain(words: str, _code: str) -> str:
    return words


def hosts_of(number: int) -> str:
    """Return ``1 host``, ``48 hosts``."""
    return f"{number:,} host{'' if number == 1 else 's'}"


def group(
    names: Sequence[str], number: int, lines: Iterable[str], paint: Callable[[str, str], str] = _plain
) -> Iterator[str]:
    """Yield the lines of a group of hosts: their names, folded, and what they have answered."""
    shown, left = list[str](), _WIDEST
    for name in names:
        shown.append(escape(name if len(name) <= left else f"{name[:left]}…"))
        left -= len(name) + 1
        if left < 0:
            break
    count = f" ({hosts_of(number)})" if number > 1 else ""
    yield f"{paint(','.join(shown), BOLD)}{count}:"
    yield from (f"  {each}" if each else "" for each in lines)


def error(reason: str, paint: Callable[[str, str], str] = _plain) -> str:
    """Return the line of a host, or of hosts alike, that could not be reached, refused, or failed as a whole."""
    return paint(f"Error: {escape(reason)}", _RED)


def document_lines(document: Mapping[str, Any], *, color: bool = False) -> Iterator[str]:
    """Yield the lines of a document of a run: a line of the log, or a problem."""
    kind = document["type"]
    if kind == "log":
        level, subject, words = (str(document.get(key) or "") for key in ("level", "subject", "message"))
        yield line(LogEvent(level, subject, words), color=color)
    elif kind == "diagnostic":
        yield escape(diagnostic(document))


def diagnostic(found: Mapping[str, Any]) -> str:
    """Return a problem as one line: ``site.yaml:14:5: Warning: File[/etc/motd]: …``."""
    words = {key: str(found.get(key) or "") for key in ("message", "hint", "reference", "file")}
    place = [number if type(number) is int else 0 for number in (found.get("line"), found.get("column"))]
    severity = "warning" if found.get("severity") == "warning" else "error"
    return Problem(None, severity=severity, line=place[0], column=place[1], **words).labelled


def batch(number: int, of: int, counts: Mapping[str, int], left: int) -> str:
    """Return ``Batch 1 of 2: 1 host, 1 changed. 49 hosts follow.``."""
    total = sum(counts.values())
    shown = ", ".join(f"{counts[status]:,} {status}" for status in ORDER if counts.get(status))
    follow = f" {hosts_of(left)} follow{'s' if left == 1 else ''}." if left else ""
    return f"Batch {number} of {of}: {hosts_of(total)}{', ' if shown else ''}{shown}.{follow}"


def counts(found: Mapping[str, int]) -> str:
    """Return how many hosts have which status; one that is rare is left out where no host has it."""
    return ", ".join(f"{number:,} {status}" for status, number in found.items() if number or status not in _RARE)


def summary(command: str, found: Mapping[str, int], seconds: float, *, noop: bool = False) -> str:
    """Return ``Applied to 50 hosts in 14.2 s: 49 changed, 0 unchanged, …``, ``Planned on … (noop)`` under noop."""
    verb, end = (VERBS["plan"], " (noop)") if noop else (VERBS[command], "")
    return f"{verb} {hosts_of(sum(found.values()))} in {seconds:.1f} s: {counts(found)}.{end}"


def rerun(run: str, *, left: bool) -> str:
    """Return how the rest of a run is done, where something is left."""
    return f" Run {run}; --rerun {run} does the rest." if left else ""


def progress(total: int, started: int, ended: int, failed: int, seconds: float) -> str:
    """Return ``37/50 done, 9 running, 0 failed, 4 s``."""
    return f"{ended:,}/{total:,} done, {started - ended:,} running, {failed:,} failed, {int(seconds)} s"


def prefixed(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with the name of their host before them."""
    return (f"{escape(name)}: {each}" for each in lines)


def outputs(values: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines of the outputs of a host's stack, sorted by name; a host may give them any names."""
    return text.outputs({escape(str(name)): value for name, value in values.items()})


def result_lines(command: str, found: Any) -> Iterable[str]:
    """Return the only document of a command that reads as lines; a plan and a refresh are shown elsewhere."""
    if command == "validate" and isinstance(found, dict):
        count = found.get("resources")
        return [f"valid: {count} resource{'' if count == 1 else 's'}."] if found.get("valid") else []
    if command == "output":
        return (
            outputs(found) if isinstance(found, dict) else escape_lines(text.output(found, terminal=True)).split("\n")
        )
    if command == "state" and isinstance(found, list):
        found = text.with_projects(found) if all(isinstance(each, dict) for each in found) else found
        return [_recorded(each) for each in found]
    if command == "state" and isinstance(found, dict):
        return [escape(str(each)) for each in found.get("found") or ()]
    return []


def _recorded(found: Any) -> str:
    """Return the line of a recorded resource, or of a finished run."""
    if isinstance(found, dict) and "reference" in found:
        return escape(str(found["reference"]))
    return text.run(found) if isinstance(found, dict) else escape(str(found))


def as_run(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a run over hosts as that of a run whose steps are the hosts, for JUnit and metrics."""
    steps = [
        {
            "reference": each["name"],
            "action": "run",
            "status": {"changed": "success", "unchanged": "success", "untouched": "skipped"}.get(
                each["status"], "failed"
            ),
            "error": each["error"] or ("failed" if each["status"] == "failed" else None),
            "seconds": each["seconds"],
        }
        for each in found["hosts"]
    ]
    return {**found, "steps": steps, "drift": [], "problems": []}
