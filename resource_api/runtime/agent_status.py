"""The status of the agent of this machine: its last run, its pause, and the exit code for monitoring."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.model.values.errors import StateError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system import document_schema
from resource_api.system.filesystem import reading

if TYPE_CHECKING:
    from resource_api.model.json_documents import LastRunJson, PauseJson

FORMAT: Final = 1
_LARGEST: Final = 1 << 20
#: The names of the files of an agent.
STATUS, PAUSED = "status.json", "paused.json"
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
    return cast("LastRunJson | None", _read_document(f"{directory}/{STATUS}", "last"))


def paused(directory: str) -> PauseJson | None:
    """Return the reason and the beginning (seconds since 1970) of a pause, or None. Raise ``StateError``."""
    return cast("PauseJson | None", _read_document(f"{directory}/{PAUSED}", "paused"))


def status(directory: str, wall: float) -> dict[str, Any]:
    """Return the document of ``agent status``: the last run, the pause, and the exit code with its reasons.

    ``wall``: the time in seconds since 1970. Raise ``StateError``.
    """
    last, pause = last_run(directory), paused(directory)
    health = assess(last, pause, wall)
    return {"code": health.code, "reasons": list(health.reasons), "paused": pause, "last": last}


def assess(run: LastRunJson | None, pause_: PauseJson | None, wall: float) -> Health:
    """Return the health of an agent from its last run and its pause; ``wall``: the time in seconds since 1970.

    A paused or stale agent has the exit code ``UNKNOWN``, as its last run shows nothing about the present. Otherwise
    the code is the sum of ``DRIFT`` and ``FAILING``, so that monitoring can distinguish both.
    """
    if run is None:
        return Health(UNKNOWN, ("it has not run yet",))
    unknown = []
    if pause_ is not None:
        unknown.append(f"it is paused: {pause_['reason']}")
    age, longest = wall - run["ended"], STALE * run["period"]
    if age > longest:
        unknown.append("it is stale: the last run ended more than two periods ago")
    elif age < -longest:  # an agent that runs records its next run soon
        unknown.append("it may be stale: by the clock, which was set back, its last run is in the future")
    drift, failure = _drift_sentence(run), _failure_sentence(run)
    health_code = (DRIFT if drift else GOOD) + (FAILING if run["problem"] or failure else GOOD)
    code = UNKNOWN if unknown else health_code
    return Health(code, tuple(dict.fromkeys(filter(None, (*unknown, run["problem"], failure, drift)))))


def _drift_sentence(run: LastRunJson) -> str:
    """Return the reason for the status "drift", or "": pending changes of a noop run, or corrected drift of another."""
    if run["mode"] == "noop":
        pending = sum(number for name, number in run["summary"].items() if name not in _NO_CHANGES)
        return f"{pending} would be changed" if pending else ""
    return f"{run['corrective']} had drifted and were corrected" if run["corrective"] else ""


def _failure_sentence(run: LastRunJson) -> str:
    """Return the reason for the status "failing", or "" after a run that succeeded."""
    if run["exit_code"] in {0, DRIFT}:
        return ""
    return run["failure"] or f"the last run ended with exit code {run['exit_code']}"


def _read_document(path: str, part: str) -> object:
    """Return the document in a file of the agent, such as that of its last run, or None if there is no file.

    ``part``: the field of ``agent status --json`` that contains the document, by whose schema it is checked. Raise
    ``StateError`` for a damaged file.
    """
    try:
        document: object = json.loads(reading.read(path, _LARGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: is damaged; remove it") from error
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise StateError(f"{path}: was written by another version of this program; remove it")
    if not document_schema.accepts(document_schema.load("agent-status")["properties"][part], document):
        raise StateError(f"{path}: is damaged; remove it")
    return document
