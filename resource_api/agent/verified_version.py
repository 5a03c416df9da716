"""Find the version of a manifest that an agent applies: the newest verified one of its source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.agent import sources
from resource_api.agent.root_only_files import Untrusted, check_tree
from resource_api.agent.signing import check_signers
from resource_api.model.values.errors import ResourceAPIError, ResourceError
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def find(agent: Agent) -> SourceVersion:
    """Return the version to apply: the source's current one if it is verified, else the newest one that was before.

    Errors are part of the result, which has no version if there is none.
    """
    try:
        if agent.source.kind == "directory":
            check_tree(agent.source.location, agent.trusted)
            return SourceVersion(agent.source.location, (), run_fields(agent, "directory"))
        versions = sources.Versions(agent.directory, agent.source.key)
    except ResourceAPIError as problem:
        return _no_version(agent, problem)
    error = _accept_current(agent, versions)
    newest = versions.newest
    if newest is None or not versions.has_files(newest):
        return _no_version(agent, error)
    try:
        directory = versions.link(newest)
    except OSError as problem:
        return _no_version(agent, ResourceError(f"{problem.filename}: {problem.strerror}"))
    fields = run_fields(agent, _trust(error), error)
    fields |= {"generation": newest.generation, "version": newest.id, "signer": newest.signer}
    return SourceVersion(directory, [f"{directory}/{module}" for module in newest.modules], fields, error)


def _accept_current(agent: Agent, versions: Versions) -> ResourceAPIError | None:
    """Accept the current version into ``versions``; return None, or the error: ``Untrusted`` or ``ResourceError``."""
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
    return SourceVersion(None, (), run_fields(agent, _trust(error), error), error)


def run_fields(agent: Agent, trust: str, error: Exception | None = None) -> dict[str, object]:
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
