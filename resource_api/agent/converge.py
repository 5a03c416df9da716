"""One run of an agent: find the newest verified version of its source, and record the result; and pauses of runs."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.agent import loop, sources
from resource_api.agent.root_only_files import Untrusted, check_tree, make_directory
from resource_api.agent.signing import check_signers
from resource_api.model.values.errors import ResourceAPIError, ResourceError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.runtime import agent_status
from resource_api.state.lock import Lock, boot_id
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.agent.loop import KilledRun
    from resource_api.agent.sources import Source, Versions


class Agent(NamedTuple):
    """The settings of an agent. ``period`` in seconds; ``trusted``: directories whose owner is not checked."""

    directory: str
    source: Source
    manifest: str
    mode: str
    period: float
    signers: str | None
    trusted: Sequence[str]


class SourceVersion(NamedTuple):
    """The version to apply: its directory, None for no version, and its directories for the module path.

    ``fields``: its fields in reports. ``error``: the reason if it is not the current version of the source.
    """

    directory: str | None
    modules: Sequence[str]
    fields: Mapping[str, object]
    error: ResourceAPIError | None = None


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


def find(agent: Agent) -> SourceVersion:
    """Return the version to apply: the source's current one if it is verified, else the newest one that was before.

    Errors are part of the result, which has no version if there is none.
    """
    try:
        if agent.source.kind == "directory":
            check_tree(agent.source.location, agent.trusted)
            return SourceVersion(agent.source.location, (), _run_fields(agent, "directory"))
        versions = sources.Versions(agent.directory, agent.source.key)
    except ResourceAPIError as problem:
        return _no_version(agent, problem)
    error = _update(agent, versions)
    newest = versions.newest
    if newest is None or not versions.has_files(newest):
        return _no_version(agent, error)
    try:
        directory = versions.link(newest)
    except OSError as problem:
        return _no_version(agent, ResourceError(f"{problem.filename}: {problem.strerror}"))
    fields = _run_fields(agent, _trust(error), error)
    fields |= {"generation": newest.generation, "version": newest.id, "signer": newest.signer}
    return SourceVersion(directory, [f"{directory}/{module}" for module in newest.modules], fields, error)


def _update(agent: Agent, versions: Versions) -> ResourceAPIError | None:
    """Accept the current version of the source; return the error that names the source, or None."""
    source = agent.source
    kind: type[ResourceAPIError] = ResourceError
    try:
        signers = check_signers(str(agent.signers), agent.trusted)
        sources.update(source, versions, agent.directory, signers)
    except ResourceAPIError as error:
        kind, text = Untrusted if isinstance(error, Untrusted) else ResourceError, str(error)
    except OSError as error:
        text = f"{error.filename or source.text}: {error.strerror}"
    else:
        return None
    text = text.removeprefix(os.path.basename(source.location) + ": ")  # of a problem of the bundle's file
    return kind(text if text.startswith((source.text, source.location)) else f"{source.text}: {text}")


def _no_version(agent: Agent, error: ResourceAPIError | None) -> SourceVersion:
    """Return the result without anything to apply, because of ``error``, or as the verified files are lost."""
    return SourceVersion(None, (), _run_fields(agent, _trust(error), error), error)


def record(agent: Agent, version: SourceVersion, document: Mapping[str, object], code: int, began: float) -> None:
    """Record the end of a run for ``agent status`` and for the schedule. Raise ``OSError``."""
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
    fields = _run_fields(agent, "unreachable")
    if (before := agent_status.last_run(agent.directory)) is not None:
        fields |= {name: before[name] for name in ("trust", "generation", "version", "signer")}
    failed = {"summary": {}, "problems": [{"severity": "error", "message": str(killed)}]}
    record(agent, SourceVersion(None, (), fields), failed, 128 + killed.signal, killed.began)


def _run_fields(agent: Agent, trust: str, error: Exception | None = None) -> dict[str, object]:
    """Return the fields of every record of an agent's run, before a version of the source is known."""
    return {
        "source": agent.source.text,
        "manifest": agent.manifest,
        "mode": agent.mode,
        "trust": trust,
        "problem": str(error) if error is not None else "",
        "generation": 0,
        "version": "",
        "signer": "",
    }


def _trust(error: Exception | None) -> str:
    """Return the trust in the current version of a source, whose verification has ended with ``error`` or None."""
    if error is None:
        return "verified"
    return "untrusted" if isinstance(error, Untrusted) else "unreachable"


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
    parts = (str(file).removeprefix(f"{directory}/"), problem.get("line"), problem.get("column"))
    return "".join(f"{part}:" for part in parts if part) + " " if file else ""


def ended(directory: str) -> float | None:
    """Return the end of the last run by the current boot clock, or None if unknown."""
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
