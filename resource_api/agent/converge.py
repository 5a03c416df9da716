"""One run of an agent: the newest verified version of its source is applied, and what came of it is recorded."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from resource_api.agent import loop, sources, status
from resource_api.agent.signing import check_signers
from resource_api.agent.trust import Untrusted
from resource_api.agent.versions import Versions
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, ResourceError, StateLocked
from resource_api.state.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.agent.sources import Source


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
    """Return what is to be applied now. Raise ``UsageError``; any other error is part of the answer."""
    error: ResourceAPIError | None = None
    trust = "directory"
    if agent.source.kind == "directory":
        try:
            sources.check_directory(agent.source, agent.trusted)
            return Found(agent.source.place, (), _about(agent, trust))
        except (Untrusted, ResourceError) as problem:
            return Found(None, (), _about(agent, _trust(problem), problem), problem)
    signers = check_signers(str(agent.signers), agent.trusted)
    kept = Versions(agent.directory, agent.source.key)
    trust = "verified"
    try:
        sources.update(agent.source, kept, agent.directory, signers)
    except ResourceAPIError as problem:
        kind = Untrusted if isinstance(problem, Untrusted) else ResourceError
        error, trust = kind(f"{agent.source.text}: {problem}"), _trust(problem)
    except OSError as problem:
        error, trust = ResourceError(f"{agent.source.text}: {problem.strerror}"), "unreachable"
    newest = kept.newest
    if newest is None or not kept.has_files(newest):
        return Found(None, (), _about(agent, trust, error), error)
    place = kept.path(newest)
    about = {**_about(agent, trust, error), "generation": newest.generation, "version": newest.id}
    return Found(place, [f"{place}/{each}" for each in newest.modules], {**about, "signer": newest.signer}, error)


def record(agent: Agent, found: Found, document: Mapping[str, Any], code: int, began: float) -> None:
    """Record how a run has ended, for ``agent status`` and for the next time of a run. Raise ``OSError``."""
    now = loop.now()
    status.record(
        agent.directory,
        {
            **found.about,
            **status.of_document(document),
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


def _trust(error: Exception) -> str:
    return "untrusted" if isinstance(error, Untrusted) else "unreachable"
