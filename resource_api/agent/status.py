"""Record the last run of an agent, and its pause, for ``runtime.agent_status``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from resource_api.agent.loop import now
from resource_api.agent.root_only_files import make_directory
from resource_api.model.values.errors import ResourceAPIError
from resource_api.runtime.agent_status import FORMAT, PAUSED, STATUS, last_run
from resource_api.state.lock import boot_id
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Mapping


def record(directory: str, run: Mapping[str, object]) -> None:
    """Record the last run. Raise ``OSError``."""
    _write(f"{directory}/{STATUS}", run)


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


def pause(directory: str, reason: str, since: float) -> None:
    """Suspend the runs of an agent until it is resumed. Raise ``OSError``."""
    _write(f"{directory}/{PAUSED}", {"reason": reason, "since": since})


def resume(directory: str) -> bool:
    """End a pause; return whether the agent was paused. Raise ``OSError``."""
    try:
        with files.Batch() as batch:
            batch.remove(f"{directory}/{PAUSED}")
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


def _write(path: str, document: Mapping[str, object]) -> None:
    """Write a document of the agent durably, with its format version, in a file that only the owner can read."""
    text = json.dumps({"format": FORMAT, **document}, indent=1, default=str)
    files.replace(path, text.encode() + b"\n", mode=0o600)
