"""The last run or plan as metrics in Prometheus' text format, for the textfile collector of its node exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX: Final = "resource_api"
#: Counts of a summary that are no changes.
_UNCHANGED: Final = frozenset(("unchanged", "failed", "skipped"))


def text(found: Mapping[str, Any]) -> str:
    """Return the document of a run or a plan as gauges, labelled with project, stack and command."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    labels = {name: str(found.get(name) or "") for name in ("project", "stack", "command")}
    counts = dict(found["summary"])
    noop, code = counts.pop("noop", False), counts.pop("exit_code", None)
    outputs = counts.pop("outputs_changed", 0)
    failed = counts["failed"] or len(found.get("problems") or ())
    corrective = sum(bool(step.get("corrective")) for step in found.get("steps") or ())
    seconds, ended = found.get("seconds") or 0, found.get("ended") or 0
    yield from _head("run_resources", "Resources by outcome; under noop and in a plan, what would be.")
    for outcome, count in counts.items():
        yield _sample("run_resources", {**labels, "outcome": outcome}, count)
    if "hosts" in found:
        yield from _head("run_hosts", "Hosts by what has become of them.")
        for status, count in found["counts"].items():
            yield _sample("run_hosts", {**labels, "status": status}, count)
    values = {
        "run_exit_code": (code if code is not None else int(bool(failed)), "0: all resources are as declared."),
        "run_noop": (int(bool(noop)), "1: nothing was to be changed."),
        "run_changes": (sum(count for name, count in counts.items() if name not in _UNCHANGED), "Resources changed."),
        "run_outputs_changed": (outputs, "Outputs that differ from those that were recorded."),
        "run_failures": (failed, "Resources that failed, or problems that ended the command before there was one."),
        "run_corrective": (corrective, "Resources whose change corrected drift."),
        "run_drifted_resources": (len(found["drift"]), "Resources that differed from what was recorded."),
        "run_duration_seconds": (seconds, "Seconds of the run, without planning."),
        "run_seconds": (seconds, "The same under a shorter name."),
        "run_timestamp_seconds": (ended, "When it ended, in seconds since 1970."),
        "run_timestamp": (ended, "The same under a shorter name."),
        "generation": (found.get("generation") or 0, "Generation of the signed source; 0 without one."),
    }
    for name, (value, purpose) in values.items():
        yield from _head(name, purpose)
        yield _sample(name, labels, value)


def _head(name: str, purpose: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {purpose}"
    yield f"# TYPE {_PREFIX}_{name} gauge"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{_PREFIX}_{name}{{{written}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
