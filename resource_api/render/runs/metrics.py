"""The last run or plan as metrics in Prometheus' text format, for the textfile collector of its node exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX: Final = "resource_api_run"


def text(found: Mapping[str, Any]) -> str:
    """Return the document of a run or a plan as gauges, labelled with project, stack and command."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    labels = {name: str(found.get(name) or "") for name in ("project", "stack", "command")}
    counts = dict(found["summary"])
    noop, code = counts.pop("noop", False), counts.pop("exit_code", None)
    failed = counts["failed"] or found.get("problems")
    yield from _head("resources", "Resources by outcome; under noop and in a plan, what would be.")
    for outcome, count in counts.items():
        yield _sample("resources", {**labels, "outcome": outcome}, count)
    values = {
        "exit_code": (code if code is not None else int(bool(failed)), "0: all resources are as declared."),
        "noop": (int(bool(noop)), "1: nothing was to be changed."),
        "drifted_resources": (len(found["drift"]), "Resources that differed from what was recorded."),
        "duration_seconds": (found.get("seconds") or 0, "Seconds of the run, without planning."),
        "timestamp_seconds": (found.get("ended") or 0, "When it ended, in seconds since 1970."),
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
