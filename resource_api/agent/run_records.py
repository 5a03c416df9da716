"""The records of an agent: the lock that one run holds, the result of the last run, and a pause of the runs."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.agent import loop
from resource_api.agent.sources import SourceVersion, run_fields
from resource_api.agent.trust import make_directory
from resource_api.model.values.errors import ResourceAPIError, StateLocked
from resource_api.runtime import agent_status
from resource_api.state.lock import Lock, boot_id
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.agent.loop import KilledRun
    from resource_api.agent.sources import Agent


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold the lock of an agent's directory: one run at a time. Raise ``StateLocked``, ``StateError``."""
    lock = Lock(f"{directory}/agent")
    try:
        with lock.held(0.0):
            lock.write_holder("agent once")
            yield
    except StateLocked as error:
        if error.holder is None:
            raise
        msg = f"{directory}: the agent is running: {error.holder}"
        raise StateLocked(msg) from error


def record(agent: Agent, version: SourceVersion, document: Mapping[str, object], code: int, began: float) -> None:
    """Record the end of a run that ``began`` (since 1970), for ``agent status`` and the schedule. Raise ``OSError``."""
    moment = loop.now()
    run = {
        **version.fields,
        **_outcome_fields(document, version.directory),
        "exit_code": code,
        "period": agent.period,
        "started": began,
        "ended": moment.wall,
        "ended_boot": moment.boot,
        "boot_id": boot_id(),
    }
    _write(f"{agent.directory}/{agent_status.STATUS}", run)


def record_killed(agent: Agent, killed: KilledRun) -> None:
    """Record a run that a signal has ended as failed, of the version of the run before. Raise ``OSError``."""
    fields = run_fields(agent, "unreachable")
    if (before := agent_status.last_run(agent.directory)) is not None:
        fields |= {name: before[name] for name in ("trust", "generation", "version", "signer")}
    failed = {"summary": {}, "problems": [{"severity": "error", "message": str(killed)}]}
    record(agent, SourceVersion(None, (), fields), failed, 128 + killed.signal, killed.began)


def _outcome_fields(document: Mapping[str, Any], directory: str | None) -> dict[str, object]:
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
    if not file:
        return ""
    parts = (str(file).removeprefix(f"{directory}/"), problem.get("line"), problem.get("column"))
    return "".join(f"{part}:" for part in parts if part) + " "


def last_end(directory: str) -> float | None:
    """Return the end of the last run by the current boot clock, or None if unknown. Create the agent's directory."""
    try:
        make_directory(directory)
        run = agent_status.last_run(directory)
    except (ResourceAPIError, OSError):
        return None
    if run is None:
        return None
    if run["boot_id"] and run["boot_id"] == boot_id():
        return float(run["ended_boot"])
    wall, boot = loop.now()
    # After the clock was set back, the time since the run is unknown.
    return boot - (wall - run["ended"]) if wall >= run["ended"] else None


def pause(directory: str, reason: str, since: float) -> None:
    """Suspend the runs of an agent until it is resumed. Raise ``OSError``."""
    _write(f"{directory}/{agent_status.PAUSED}", {"reason": reason, "since": since})


def resume(directory: str) -> bool:
    """End a pause; return whether the agent was paused. Raise ``OSError``."""
    try:
        with files.Batch() as batch:
            batch.remove(f"{directory}/{agent_status.PAUSED}")
    except FileNotFoundError:
        return False
    return True


def _write(path: str, document: Mapping[str, object]) -> None:
    """Write a document of the agent durably, with its format version, in a file that only the owner can read."""
    text = json.dumps({"format": agent_status.FORMAT, **document}, indent=1, default=str)
    files.replace(path, text.encode() + b"\n", mode=0o600)
