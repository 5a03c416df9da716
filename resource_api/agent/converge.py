"""One run of an agent: find the newest verified version of its source, and record the result of its application."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resource_api.agent import loop, sources, status
from resource_api.agent.root_only_files import Untrusted
from resource_api.agent.signing import check_signers
from resource_api.model.values.errors import ResourceAPIError, ResourceError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.runtime import agent_status
from resource_api.state.lock import Lock, boot_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.agent.loop import KilledRun
    from resource_api.agent.sources import Source


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
    """Return the version to apply; errors are part of the result."""
    if agent.source.kind == "directory":
        try:
            sources.check_directory(agent.source, agent.trusted)
        except ResourceAPIError as problem:
            return _no_version(agent, problem)
        return SourceVersion(agent.source.location, (), _run_fields(agent, "directory"))
    try:
        versions = sources.Versions(agent.directory, agent.source.key)
    except ResourceAPIError as problem:
        return _no_version(agent, problem)
    error: ResourceAPIError | None = None
    try:
        signers = check_signers(str(agent.signers), agent.trusted)
        sources.update(agent.source, versions, agent.directory, signers)
    except Untrusted as problem:
        error = Untrusted(_with_source(agent, str(problem)))
    except ResourceAPIError as problem:
        error = ResourceError(_with_source(agent, str(problem)))
    except OSError as problem:
        error = ResourceError(_with_source(agent, f"{problem.filename or agent.source.text}: {problem.strerror}"))
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


def _with_source(agent: Agent, problem: str) -> str:
    """Return a problem with the name of the source; a problem of a file may begin with its base name."""
    source, text = agent.source, problem.removeprefix(os.path.basename(agent.source.location) + ": ")
    return text if text.startswith((source.text, source.location)) else f"{source.text}: {text}"


def _no_version(agent: Agent, error: ResourceAPIError | None) -> SourceVersion:
    return SourceVersion(None, (), _run_fields(agent, _trust(error), error), error)


def record(agent: Agent, version: SourceVersion, document: Mapping[str, object], code: int, began: float) -> None:
    """Record the end of a run for ``agent status`` and for the schedule. Raise ``OSError``."""
    moment = loop.now()
    status.record(
        agent.directory,
        {
            **version.fields,
            **status.of_document(document, version.directory),
            "exit_code": code,
            "period": agent.period,
            "started": began,
            "ended": moment.wall,
            "ended_boot": moment.boot,
            "boot_id": boot_id(),
        },
    )


def record_killed(agent: Agent, killed: KilledRun) -> None:
    """Record a run that a signal has ended as failed, of the version of the run before. Raise ``OSError``."""
    fields = _run_fields(agent, "unreachable")
    if (before := agent_status.last_run(agent.directory)) is not None:
        fields |= {
            "trust": before["trust"],
            "generation": before["generation"],
            "version": before["version"],
            "signer": before["signer"],
        }
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
    if error is None:
        return "verified"
    return "untrusted" if isinstance(error, Untrusted) else "unreachable"
