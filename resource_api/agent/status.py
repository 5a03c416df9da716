"""What an agent did last, whether it is paused, and what monitoring is told of both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from resource_api.agent.loop import boot_id, now
from resource_api.agent.root_only_files import make_directory
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, StateError
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT: Final = 1
_LARGEST: Final = 1 << 20
_STATUS, _PAUSED = "status.json", "paused.json"
#: After so many periods without a run an agent is stale.
STALE: Final = 2
#: Exit codes for monitoring; drift and failures together are their sum.
GOOD, UNKNOWN, DRIFT, FAILING = 0, 1, 2, 4
#: Counts of a summary that are no changes of the machine.
_NO_CHANGES: Final = frozenset(("outputs_changed", "unchanged", "failed", "skipped", "noop", "exit_code", "run"))
#: What is asked of a recorded run, and of which type it is.
_RUN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("source", "manifest", "mode", "problem", "failure", "signer", "boot_id"), str),
    **dict.fromkeys(("ended", "ended_boot", "period"), (int, float)),
    **dict.fromkeys(("generation", "corrective", "exit_code"), int),
    "summary": dict,
}


class Health(NamedTuple):
    """The exit code for monitoring, and why, one sentence each; empty where all is well."""

    code: int
    reasons: tuple[str, ...]


def last_run(directory: str) -> dict[str, Any] | None:
    """Return what was recorded of the last run, None if there was none. Raise ``StateError`` for a damaged file."""
    return _read(f"{directory}/{_STATUS}", _RUN)


def record(directory: str, run: Mapping[str, Any]) -> None:
    """Record the last run. Raise ``OSError``."""
    _write(f"{directory}/{_STATUS}", run)


def ended(directory: str) -> float | None:
    """Return when the last run ended, by the boot clock of now; None if that is not known."""
    try:
        make_directory(directory)
        run = last_run(directory)
    except (ResourceAPIError, OSError):
        return None
    if run is None:
        return None
    if run["boot_id"] and run["boot_id"] == boot_id():
        return float(run["ended_boot"])
    wall, boot = now()
    # Where the clock was set back meanwhile, it is not known how long ago the run was.
    return boot - (wall - run["ended"]) if wall >= run["ended"] else None


def paused(directory: str) -> dict[str, Any] | None:
    """Return why and since when (seconds since 1970) an agent is paused, None if it is not. Raise ``StateError``."""
    return _read(f"{directory}/{_PAUSED}", {"reason": str, "since": (int, float)})


def pause(directory: str, reason: str, since: float) -> None:
    """Let an agent make no runs until it is resumed. Raise ``OSError``."""
    _write(f"{directory}/{_PAUSED}", {"reason": reason, "since": since})


def resume(directory: str) -> bool:
    """End a pause; return whether there was one. Raise ``OSError``."""
    try:
        with files.Batch() as batch:
            batch.remove(f"{directory}/{_PAUSED}")
    except FileNotFoundError:
        return False
    return True


def of_document(document: Mapping[str, Any], directory: str | None) -> dict[str, Any]:
    """Return what a status keeps of the document of a run: its id, counts, drift and the first reason of a failure.

    ``directory``: that of the source, in which the places of problems are.
    """
    steps = document.get("steps") or ()
    failed = [f"{step['reference']}: {step['error']}" for step in steps if step["status"] == "failed"]
    problems = [each for each in document.get("problems") or () if each["severity"] == "error"]
    failed += [f"{_place(each, directory)}{each['message']}" for each in problems]
    return {
        "run": document.get("run") or "",
        "project": document.get("project") or "",
        "summary": dict(document["summary"]),
        "corrective": sum(bool(step.get("corrective")) for step in steps),
        "failure": failed[0] if failed else "",
    }


def _place(problem: Mapping[str, Any], directory: str | None) -> str:
    """Return where a problem is, as ``site.yaml:3:1: ``; empty where that is not known."""
    file = problem.get("file")
    parts = (str(file).removeprefix(f"{directory}/"), problem.get("line"), problem.get("column"))
    return "".join(f"{part}:" for part in parts if part) + " " if file else ""


def assess(run: Mapping[str, Any] | None, pause_: Mapping[str, Any] | None, wall: float) -> Health:
    """Return the health of an agent from its last run and its pause; ``wall``: now, in seconds since 1970."""
    if run is None:
        return Health(UNKNOWN, ("it has not run yet",))
    unknown = []
    if pause_ is not None:
        unknown.append(f"it is paused: {pause_['reason']}")
    if wall - run["ended"] > STALE * run["period"]:
        unknown.append("it is stale: the last run ended more than two periods ago")
    drift = _drift(run)
    failures = [text for text in (run["problem"], _failure(run)) if text]
    code = UNKNOWN if unknown else (DRIFT if drift else GOOD) + (FAILING if failures else GOOD)
    return Health(code, tuple(dict.fromkeys((*unknown, *failures, *drift))))


def _drift(run: Mapping[str, Any]) -> list[str]:
    """Return what differed: of a noop run all that would change, of another one what it corrected."""
    summary = run["summary"]
    count = run["corrective"]
    if run["mode"] == "noop":
        count = sum(number for name, number in summary.items() if name not in _NO_CHANGES)
    if not count:
        return []
    return [f"{count} would be changed" if run["mode"] == "noop" else f"{count} had drifted and were corrected"]


def _failure(run: Mapping[str, Any]) -> str:
    if run["exit_code"] in {0, DRIFT}:
        return ""
    return run["failure"] or f"the last run ended with exit code {run['exit_code']}"


def _read(path: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a document that has ``fields`` of these types, None without a file. Raise ``StateError``."""
    try:
        found: dict[str, Any] = json.loads(files.read(path, _LARGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StateError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path}: is damaged; remove it"
        raise StateError(msg) from error
    if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
        msg = f"{path}: was written by another version of this program; remove it"
        raise StateError(msg)
    if not all(isinstance(found.get(name), kind) for name, kind in fields.items()):
        msg = f"{path}: is damaged; remove it"
        raise StateError(msg)
    return found


def _write(path: str, document: Mapping[str, Any]) -> None:
    text = json.dumps({"format": _FORMAT, **document}, indent=1, default=str)
    files.replace(path, text.encode() + b"\n", mode=0o600)
