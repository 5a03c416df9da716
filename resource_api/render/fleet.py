"""Render a run over many hosts as text: groups of hosts with equal results, batches, counts, progress."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.model.values.errors import Problem
from resource_api.model.values.text import escape, escape_lines, rough_duration
from resource_api.render import run_text, text
from resource_api.render.changes import BOLD, PLAIN, RED, Style
from resource_api.render.plan import left_out_lines
from resource_api.system.log import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import FleetJson, OverviewJson, RunJson

#: Command → the words of its last line; of the other commands, which read: ``Read on``.
VERBS: Final = {
    "apply": "Applied to",
    "destroy": "Destroyed on",
    "import": "Imported on",
    "plan": "Planned on",
    "refresh": "Refreshed on",
    "run": "Ran on",
    "state recover": "Recovered the state on",
    **dict.fromkeys(("state mv", "state rm", "state taint", "state untaint"), "Edited the state on"),
    "validate": "Validated on",
}
#: The statuses in the order of their groups: those that need attention come last, above the counts.
ORDER: Final = ("changed", "unchanged", "untouched", "refused", "unreachable", "failed")
#: The word for hosts on which a program ended with 0.
SUCCEEDED: Final = "succeeded"
#: The status that is left out of counts if no host has it.
_RARE: Final = frozenset({"refused"})
#: Characters of names that stand before a group.
_WIDEST: Final = 400
#: Characters of names in the line of progress.
_NAMES: Final = 30


def hosts_of(number: int) -> str:
    """Return ``1 host``, ``48 hosts``."""
    return f"{number:,} host{'' if number == 1 else 's'}"


def group(names: Sequence[str], number: int, lines: Iterable[str], style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a group of hosts with equal results: ``web[1:3] (3 hosts):``, and the result below it.

    ``names``: the folded names, shown up to ``_WIDEST`` characters. ``number``: the number of hosts. ``lines``: their
    common result.
    """
    labels, room = list[str](), _WIDEST
    for name in names:
        labels.append(escape(name if len(name) <= room else f"{name[:room]}…"))
        room -= len(name) + 1
        if room < 0:
            break
    count = f" ({hosts_of(number)})" if number > 1 else ""
    yield f"{style.paint(','.join(labels), BOLD)}{count}:"
    yield from (f"  {text}" if text else "" for text in lines)


def error(reason: str, style: Style = PLAIN) -> str:
    """Return the line of a host, or a group, that was unreachable, refused, or failed as a whole."""
    return style.paint(f"Error: {escape(reason)}", RED)


def document_lines(document: Mapping[str, object], *, color: bool = False) -> Iterator[str]:
    """Yield the line of a log line or a problem that a host sends during a run, to show it in the host's group.

    Other documents, such as the events of steps, are data for the counts and have no line.
    """
    kind = document["type"]
    if kind == "log":
        level, subject, words = (str(document.get(key) or "") for key in ("level", "subject", "message"))
        yield render_line(None, "", {"level": level, "subject": subject, "event": words}, color=color)
    elif kind == "diagnostic":
        yield escape(diagnostic(document))


def diagnostic(document: Mapping[str, object]) -> str:
    """Return a problem from a host as one line: ``site.yaml:14:5: Warning: File[/etc/motd]: …``.

    A host may send anything: a field of another type must not end the run.
    """
    message, hint, reference, file = (str(document.get(key) or "") for key in ("message", "hint", "reference", "file"))
    line, column = (number if type(number) is int else 0 for number in map(document.get, ("line", "column")))
    severity = "warning" if document.get("severity") == "warning" else "error"
    return Problem(None, message, severity, reference, file, line, column, hint=hint).labelled


def batch(number: int, batches: int, counts: Mapping[str, int], remaining: int) -> str:
    """Return the line on a finished batch: ``Batch 1 of 2: 1 host, 1 changed. 49 hosts follow.``."""
    total = sum(counts.values())
    words = ", ".join(f"{counts[status]:,} {status}" for status in (SUCCEEDED, *ORDER) if counts.get(status))
    follow = f" {hosts_of(remaining)} follow{'s' if remaining == 1 else ''}." if remaining else ""
    return f"Batch {number} of {batches}: {hosts_of(total)}{', ' if words else ''}{words}.{follow}"


def shown_counts(command: str, by_status: Mapping[str, int]) -> Mapping[str, int]:
    """Return the number of hosts by status, as a user sees them.

    The command ``run`` cannot tell whether its COMMAND changed a host: ``changed`` and ``unchanged`` are one count.
    """
    if command != "run":
        return by_status
    remaining = {status: number for status, number in by_status.items() if status not in {"changed", "unchanged"}}
    return {SUCCEEDED: by_status.get("changed", 0) + by_status.get("unchanged", 0), **remaining}


def counts(by_status: Mapping[str, int]) -> str:
    """Return ``49 changed, 1 failed`` for the numbers of hosts; a rare status only if a host has it."""
    return ", ".join(f"{number:,} {status}" for status, number in by_status.items() if number or status not in _RARE)


def summary(command: str, by_status: Mapping[str, int], seconds: float, *, noop: bool = False) -> str:
    """Return ``Applied to 50 hosts in 14.2 s: 49 changed, 0 unchanged, …``, ``Planned on … (noop)`` under noop."""
    verb, end = (VERBS["plan"], " (noop)") if noop else (VERBS.get(command, "Read on"), "")
    return f"{verb} {hosts_of(sum(by_status.values()))} in {seconds:.1f} s: {counts(by_status)}.{end}"


def progress(total: int, started: int, ended: int, failed: int, seconds: float) -> str:
    """Return ``37/50 done, 9 running, 0 failed, 4 s``."""
    return f"{ended:,}/{total:,} done, {started - ended:,} running, {failed:,} failed, {int(seconds)} s"


def hosts_in_progress(failed: Sequence[str], slowest: Mapping[str, float]) -> str:
    """Return the end of the line of progress: ``; failed: web3,web[7:8]; slowest: web7 4 s, web9 2 s``.

    The user sees which hosts need attention. Many ``failed`` names are cut, so that the slowest hosts stay visible.
    """
    joined = escape(",".join(failed))
    if len(joined) > _NAMES:
        joined = f"{joined[: _NAMES - 1]}…"
    end = f"; failed: {joined}" if failed else ""
    names = ", ".join(f"{escape(name)} {int(number)} s" for name, number in slowest.items())
    return f"{end}; slowest: {names}" if names else end


def prefixed(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with the name of their host before them."""
    return (f"{escape(name)}: {text}" for text in lines)


def outputs(values: Mapping[str, object]) -> Iterator[str]:
    """Return the lines of the outputs of a host's stack, sorted by name; a host may give them any names."""
    return text.outputs({escape(str(name)): value for name, value in values.items()})


def fact_lines(result: object, name: str) -> Iterable[str]:
    """Return the lines of the facts of a host, or of the one called ``name``."""
    return text.facts(result, name) if isinstance(result, dict) else _value_lines(result)


def _value_lines(value: object) -> Iterable[str]:
    """Return the lines of one output or fact of a host."""
    return escape_lines(text.output(value, terminal=True)).split("\n")


def result_lines(command: str, result: object) -> Iterable[str]:
    """Return the lines of a host's result of a command, in the form that the command has on one machine.

    A result of an unexpected form has none: hosts may send anything.
    """
    if isinstance(result, dict):
        return _document_lines(command, result)
    if command == "output":
        return _value_lines(result)
    if command in {"history", "state"} and isinstance(result, list):
        result = text.with_projects(result) if all(isinstance(item, dict) for item in result) else result
        return [_recorded(item) for item in result]
    return []


def _document_lines(command: str, result: Mapping[str, Any]) -> Iterable[str]:
    """Return the lines of a host's result that is a mapping, as the same command shows it on one machine."""
    match command:
        case "validate" if result.get("valid"):
            parts = [(str(part["reference"]), str(part["why"])) for part in result.get("left_out") or ()]
            return [text.valid(result), *left_out_lines(parts)]
        case "import" if result.get("resources"):
            return text.imported(result)
        case "run":
            return [escape(line) for name in ("stdout", "stderr") for line in str(result.get(name) or "").splitlines()]
        case "output":
            return outputs(result)
        case "report" if result.get("kind") == "overview":
            return run_text.overview_lines(cast("OverviewJson", result))
        case "report":
            return run_text.run(cast("RunJson", result))
        case "state":
            return _state_lines(result)
    return []


def agent_lines(status: Mapping[str, Any], time_now: float | None = None) -> list[str]:
    """Return the lines of the status of an agent: its last run, then each reason for concern.

    Without ``time_now``, on a display of many hosts, the signer and the age of the run are left out, so that agents
    with otherwise equal lines are one group.
    """
    last, lines = status.get("last"), []
    if isinstance(last, dict):
        generation = f", generation {last['generation']}" if last["generation"] else ""
        signer = f", signed by {last['signer']}" if time_now is not None and last["signer"] else ""
        lines.append(f"{last['source']} {last['manifest']} ({last['mode']}){generation}{signer}")
        if time_now is not None:
            age = rough_duration(max(time_now - last["ended"], 0))
            lines.append(f"The last run ended {age} ago with exit code {last['exit_code']}.")
    # Without a reason for concern, all is well.
    return [escape(line) for line in (*lines, *(f"- {reason}" for reason in status.get("reasons") or ("all is well",)))]


def state_edit_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines of the result of ``state rm``, ``mv`` and the like: ``forgotten: File[/etc/motd]``."""
    if "former" in result:
        project, former, stacks = result["project"], result["former"], list(map(str, result["stacks"]))
        now = f"is now project {project}, with the stack{'' if len(stacks) == 1 else 's'} {', '.join(stacks)}"
        return [escape(f"project {former} {now}; write 'project: {project}' into its manifest")]
    return [escape(f"{word}: {name}") for word in ("forgotten", "written") for name in result.get(word) or ()]


def _state_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines of the result of a ``state`` command on a host: a check, a recovery, an edit, or a record.

    Its subcommand is not at hand here; the keys of the result tell which one it was.
    """
    if {"found", "done"} & result.keys():  # the keys of ``state check`` and ``state recover``
        return [escape(str(item)) for item in result.get("found") or result.get("done") or ()]
    if {"forgotten", "former"} & result.keys():
        return state_edit_lines(result)
    return list(map(escape, json.dumps(result, indent=2, ensure_ascii=False).split("\n")))


def _recorded(item: object) -> str:
    """Return the line of an item in a host's list: a recorded resource or a finished run.

    A host may send anything: of any other item the line is its text.
    """
    if isinstance(item, dict) and "reference" in item:
        return escape(str(item["reference"]))
    return text.run(item) if isinstance(item, dict) else escape(str(item))


def as_run(document: FleetJson) -> dict[str, object]:
    """Return the document of a run over hosts in the form of a single run, with hosts as its steps.

    So the report in JUnit's format, which is made of a run's steps, has a test case for each host.
    """
    statuses = {"changed": "success", "unchanged": "success", "untouched": "skipped"}
    steps = [
        {
            "reference": host["name"],
            "action": "run",
            "status": statuses.get(host["status"], "failed"),
            "error": host["error"] or ("failed" if host["status"] == "failed" else None),
            "seconds": host["seconds"],
        }
        for host in document["hosts"]
    ]
    return {**document, "steps": steps, "drift": [], "problems": []}
