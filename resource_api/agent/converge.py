"""One run of an agent: the newest verified version of its source is applied, and what came of it is recorded."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.agent import loop, sources, status
from resource_api.agent.root_only_files import Untrusted
from resource_api.agent.signing import check_signers
from resource_api.agent.versions import Versions
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, ResourceError, StateLocked
from resource_api.state.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.agent.sources import Source
    from resource_api.agent.versions import Version


class Agent(NamedTuple):
    """What an agent is to do. ``period`` in seconds; ``trusted``: directories whose owner is not checked."""

    directory: str
    source: Source
    manifest: str
    mode: str
    period: float
    signers: str | None
    trusted: Sequence[str]


class Found(NamedTuple):
    """What is to be applied: a directory, and directories for the module path; none where nothing may be applied.

    ``about``: what reports say of it. ``error``: why it is not the present version of the source.
    """

    directory: str | None
    modules: Sequence[str]
    about: Mapping[str, Any]
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


def find(agent: Agent) -> Found:
    """Return what is to be applied now; every error is part of the answer."""
    if agent.source.kind == "directory":
        try:
            sources.check_directory(agent.source, agent.trusted)
        except ResourceAPIError as problem:
            return _nothing(agent, problem)
        return Found(agent.source.place, (), _about(agent, "directory"))
    try:
        kept = Versions(agent.directory, agent.source.key)
    except ResourceAPIError as problem:
        return _nothing(agent, problem)
    error: ResourceAPIError | None = None
    try:
        signers = check_signers(str(agent.signers), agent.trusted)
        sources.update(agent.source, kept, agent.directory, signers)
    except Untrusted as problem:
        error = Untrusted(_sourced(agent, str(problem)))
    except ResourceAPIError as problem:
        error = ResourceError(_sourced(agent, str(problem)))
    except OSError as problem:
        error = ResourceError(_sourced(agent, f"{problem.filename or agent.source.text}: {problem.strerror}"))
    if kept.newest is None or not kept.has_files(kept.newest):
        return _nothing(agent, error)
    try:
        place = kept.link(kept.newest)
    except OSError as problem:
        return _nothing(agent, ResourceError(f"{problem.filename}: {problem.strerror}"))
    return _verified(agent, place, kept.newest, error)


def _sourced(agent: Agent, problem: str) -> str:
    """Return a problem of the source, which is named once; that of a file may have its last part only."""
    source, text = agent.source, problem.removeprefix(os.path.basename(agent.source.place) + ": ")
    named = text.startswith((source.text, source.place))
    return text if named else f"{source.text}: {text}"


def _nothing(agent: Agent, error: ResourceAPIError | None) -> Found:
    return Found(None, (), _about(agent, _trust(error), error), error)


def _verified(agent: Agent, place: str, version: Version, error: ResourceAPIError | None) -> Found:
    """Return the newest verified version; ``error``: why it is not the present one of the source."""
    about = _about(agent, _trust(error), error)
    about |= {"generation": version.generation, "version": version.id, "signer": version.signer}
    return Found(place, [f"{place}/{each}" for each in version.modules], about, error)


def record(agent: Agent, found: Found, document: Mapping[str, Any], code: int, began: float) -> None:
    """Record how a run has ended, for ``agent status`` and for the next time of a run. Raise ``OSError``."""
    now = loop.now()
    status.record(
        agent.directory,
        {
            **found.about,
            **status.of_document(document, found.directory),
            "exit_code": code,
            "period": agent.period,
            "started": began,
            "ended": now.wall,
            "ended_boot": now.boot,
            "boot_id": loop.boot_id(),
        },
    )


def _about(agent: Agent, trust: str, error: Exception | None = None) -> dict[str, Any]:
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
