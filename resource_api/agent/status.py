"""The status of an agent: its last run, its pause, and the exit code for monitoring."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.agent.loop import now
from resource_api.agent.root_only_files import make_directory
from resource_api.model.values.errors import ResourceAPIError, StateError
from resource_api.model.values.start_up import NamedTuple
from resource_api.state.lock import boot_id
from resource_api.system import document_schema
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.json_documents import LastRunJson, PauseJson

_FORMAT: Final = 1
_LARGEST: Final = 1 << 20
_STATUS, _PAUSED = "status.json", "paused.json"
#: Periods without a run after which an agent is stale.
STALE: Final = 2
#: Exit codes for monitoring; drift and failures add up.
GOOD, UNKNOWN, DRIFT, FAILING = 0, 1, 2, 4
#: Counts of a summary that are not changes of the machine.
_NO_CHANGES: Final = frozenset(("outputs_changed", "unchanged", "failed", "skipped", "noop", "exit_code", "run"))


class Health(NamedTuple):
    """The exit code for monitoring, and its reasons as sentences."""

    code: int
    reasons: tuple[str, ...]


def last_run(directory: str) -> LastRunJson | None:
    """Return the record of the last run, or None. Raise ``StateError`` for a damaged file."""
    return cast("LastRunJson | None", _read(f"{directory}/{_STATUS}", "last"))


def record(directory: str, run: Mapping[str, object]) -> None:
    """Record the last run. Raise ``OSError``."""
    _write(f"{directory}/{_STATUS}", run)


def ended(directory: str) -> float | None:
    """Return the end of the last run by the current boot clock, or None if unknown."""
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
    # After the clock was set back, the time since the run is unknown.
    return boot - (wall - run["ended"]) if wall >= run["ended"] else None


def paused(directory: str) -> PauseJson | None:
    """Return the reason and the beginning (seconds since 1970) of a pause, or None. Raise ``StateError``."""
    return cast("PauseJson | None", _read(f"{directory}/{_PAUSED}", "paused"))


def pause(directory: str, reason: str, since: float) -> None:
    """Suspend the runs of an agent until it is resumed. Raise ``OSError``."""
    _write(f"{directory}/{_PAUSED}", {"reason": reason, "since": since})


def resume(directory: str) -> bool:
    """End a pause; return whether the agent was paused. Raise ``OSError``."""
    try:
        with files.Batch() as batch:
            batch.remove(f"{directory}/{_PAUSED}")
    except FileNotFoundError:
        return False
    return True


def of_document(document: Mapping[str, Any], directory: str | None) -> dict[str, object]:
    """Return the status fields of a run's document: its id, counts, drift and first failure.

    ``directory``: the source's, which is removed from the paths of problems.
    """
    steps = document.get("steps") or ()
    failed = [f"{step['reference']}: {step['error']}" for step in steps if step["status"] == "failed"]
    errors = [problem for problem in document.get("problems") or () if problem["severity"] == "error"]
    failed += [f"{_location(problem, directory)}{problem['message']}" for problem in errors]
    return {
        "run": document.get("run") or "",
        "project": document.get("project") or "",
        "summary": dict(document["summary"]),
        "corrective": sum(bool(step.get("corrective")) for step in steps),
        "failure": failed[0] if failed else "",
    }


def _location(problem: Mapping[str, object], directory: str | None) -> str:
    """Return the location of a problem, ``site.yaml:3:1: ``, or ""."""
    file = problem.get("file")
    parts = (str(file).removeprefix(f"{directory}/"), problem.get("line"), problem.get("column"))
    return "".join(f"{part}:" for part in parts if part) + " " if file else ""


def assess(run: LastRunJson | None, pause_: PauseJson | None, wall: float) -> Health:
    """Return the health of an agent from its last run and its pause; ``wall``: the time in seconds since 1970."""
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


def _drift(run: LastRunJson) -> list[str]:
    """Return the sentence about drift, if any: pending changes of a noop run, or corrections."""
    summary = run["summary"]
    count = run["corrective"]
    if run["mode"] == "noop":
        count = sum(number for name, number in summary.items() if name not in _NO_CHANGES)
    if not count:
        return []
    return [f"{count} would be changed" if run["mode"] == "noop" else f"{count} had drifted and were corrected"]


def _failure(run: LastRunJson) -> str:
    if run["exit_code"] in {0, DRIFT}:
        return ""
    return run["failure"] or f"the last run ended with exit code {run['exit_code']}"


def _read(path: str, part: str) -> object:
    """Return a document, a part of ``agent status --json``, or None without a file. Raise ``StateError``."""
    try:
        document: object = json.loads(files.read(path, _LARGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StateError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path}: is damaged; remove it"
        raise StateError(msg) from error
    if not isinstance(document, dict) or document.pop("format", None) != _FORMAT:
        msg = f"{path}: was written by another version of this program; remove it"
        raise StateError(msg)
    if not document_schema.accepts(document_schema.load("agent-status")["properties"][part], document):
        msg = f"{path}: is damaged; remove it"
        raise StateError(msg)
    return document


def _write(path: str, document: Mapping[str, object]) -> None:
    text = json.dumps({"format": _FORMAT, **document}, indent=1, default=str)
    files.replace(path, text.encode() + b"\n", mode=0o600)
