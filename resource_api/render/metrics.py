"""Render a finished run, a plan, or a paused agent as gauges in Prometheus' text format.

For the textfile collector of the node exporter. Every gauge has one name, and labels that are equal in each run of the
same command, so that a series continues from run to run. A gauge whose value is unknown is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PREFIX: Final = "resource_api"
#: Counts of a summary that are no changes.
_UNCHANGED: Final = frozenset(("unchanged", "failed", "skipped"))
#: The results of looking for the newest version of an agent's source.
_TRUST: Final = ("verified", "directory", "untrusted", "unreachable")


class _Gauge(NamedTuple):
    """A gauge: its name without the prefix, its description, and its values by additional labels."""

    name: str
    description: str
    values: Sequence[tuple[Mapping[str, str], float]]


def metrics(document: Mapping[str, object]) -> str:
    """Return the document of a run, a plan or a paused agent as gauges with the labels project, stack and command."""
    labels = {name: str(document.get(name) or "") for name in ("project", "stack", "command")}
    return "".join(f"{line}\n" for gauge in _gauges(document) for line in _lines(gauge, labels))


def _gauges(document: Mapping[str, Any]) -> Iterator[_Gauge]:
    if "summary" in document:
        yield from _run_gauges(document)
    if document.get("ended"):
        yield _gauge("run_timestamp", "When the last run ended, in seconds since 1970.", document["ended"])
    yield _gauge("generation", "Generation of the signed source; 0 without one.", document.get("generation") or 0)
    if (agent := document.get("agent")) is not None:
        yield from _agent_gauges(agent)


def _run_gauges(document: Mapping[str, Any]) -> Iterator[_Gauge]:
    counts = dict(document["summary"])
    noop, code = counts.pop("noop", False), counts.pop("exit_code", None)
    outputs = counts.pop("outputs_changed", 0)
    failed = counts["failed"] or len(document.get("problems") or ())
    changed = sum(count for name, count in counts.items() if name not in _UNCHANGED)
    code = int(bool(failed)) if code is None else code
    yield _gauge_of("run_resources", "Resources by outcome; under noop and in a plan, of a run now.", "outcome", counts)
    yield _gauge("run_exit_code", "Exit code of the run.", code)
    yield _gauge("run_noop", "1 if nothing was to be changed, otherwise 0.", int(bool(noop)))
    yield _gauge("run_changes", "Changed resources; under noop and in a plan, those of a run now.", changed)
    yield _gauge("run_outputs_changed", "Outputs that differ from the recorded ones.", outputs)
    yield _gauge("run_failures", "Failed resources, or problems that ended the command before the run.", failed)
    if document.get("seconds") is not None:
        yield _gauge("run_seconds", "Duration of the run in seconds, without planning.", document["seconds"])
    if document.get("kind") == "fleet":  # each host has the drift of its run
        yield _gauge_of("run_hosts", "Hosts by status.", "status", document["counts"])
        return
    corrective = sum(bool(step.get("corrective")) for step in document.get("steps") or ())
    yield _gauge("run_corrective", "Resources whose change corrects drift.", corrective)
    yield _gauge("run_drifted_resources", "Resources that differed from the recorded ones.", len(document["drift"]))


def _agent_gauges(agent: Mapping[str, Any]) -> Iterator[_Gauge]:
    yield _gauge("agent_period_seconds", "Seconds from one run of the agent to the next.", agent["period"])
    yield _gauge("agent_paused", "1 while the agent is paused, otherwise 0.", int(agent["paused"]))
    if "trust" in agent:
        sources = {trust: int(trust == agent["trust"]) for trust in _TRUST}
        yield _gauge_of("agent_source", "1 for the state of the agent's source, 0 for the others.", "trust", sources)


def _gauge(name: str, description: str, value: float) -> _Gauge:
    return _Gauge(name, description, [({}, value)])


def _gauge_of(name: str, description: str, label: str, values: Mapping[str, float]) -> _Gauge:
    return _Gauge(name, description, [({label: key}, value) for key, value in values.items()])


def _lines(gauge: _Gauge, labels: Mapping[str, str]) -> Iterator[str]:
    name = f"{_PREFIX}_{gauge.name}"
    yield f"# HELP {name} {gauge.description}"
    yield f"# TYPE {name} gauge"
    for additional, value in gauge.values:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in {**labels, **additional}.items())
        yield f"{name}{{{pairs}}} {value}"


def _escaped(text: str) -> str:
    # A byte that is no UTF-8 is written as its escape: one invalid label makes the whole file unreadable.
    printable = text.encode("utf-8", "backslashreplace").decode()
    return printable.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
