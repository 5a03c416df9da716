"""Apply a few resources of bundled types in process, and look at the report and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Runtime
from resource_api.model.report import Diagnosed
from resource_api.model.step import ADOPTED
from resource_api.plugins.registry import Registry
from resource_api.system.log import ForwardedLog, Log

if TYPE_CHECKING:
    from resource_api.model.report import RunReport

REGISTRY = Registry.from_path()


def run(resources: dict[str, Any], **options: Any) -> tuple[RunReport, list[str]]:
    """Apply resources; return the report and the lines of the log."""
    return run_manifest({"resources": resources}, **options)


def run_manifest(manifest: dict[str, Any], **options: Any) -> tuple[RunReport, list[str]]:
    """Apply a manifest; return the report and the lines of the log, but for those that name what is adopted."""
    lines: list[str] = []

    def listen(event: Any) -> None:
        if event.text != ADOPTED:
            lines.append(f"{event.level}: {event.subject}: {event.text}")

    log = ForwardedLog("notice", listen)
    return Runtime(REGISTRY, log=log).apply({"project": "p", **manifest}, **options), lines


def converge(resources: dict[str, Any]) -> None:
    """Apply resources, all of which succeed, and check that a second run changes nothing."""
    assert [step.error for step in run(resources)[0].steps if step.error] == []
    assert run(resources)[0].summary.unchanged == len(resources)


def warned(resources: dict[str, Any]) -> list[str]:
    """Return the warnings of a plan of resources."""
    entries: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Diagnosed):
            entries.append(event.problem.message)

    Runtime(REGISTRY, log=Log("off"), on_event=listen).plan({"project": "p", "resources": resources})
    return entries


def reason(report: RunReport) -> str:
    """Return why the only resource of a run failed; empty if it did not."""
    (error,) = [step.error for step in report.steps] or [""]
    return error
