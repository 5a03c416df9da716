"""The trace of a command: its identity, the spans of its hosts, and the way to a receiver.

Imported only where the variables of OpenTelemetry name a receiver.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.trace import Span, TraceContext, parse_traceparent
from resource_api.render import trace
from resource_api.system import telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.merge import HostReport
    from resource_api.model.values.masking import Mask

#: The most spans of resources of one host, and of all hosts.
_OF_HOST: Final = 200
_OF_ALL: Final = 5000


class Tracing:
    """The trace of one command."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Continue the trace that ``TRACEPARENT`` names, or begin one."""
        self._environ = environ
        self._parent = parse_traceparent(environ.get("TRACEPARENT", ""))
        base = self._parent or TraceContext(secrets.token_hex(16), "")
        self._context = base._replace(span_id=secrets.token_hex(8))
        self._runs = 0
        self._remaining = _OF_ALL
        #: The beginnings of hosts, and the spans of their resources so far.
        self._began: dict[str, float] = {}
        self._steps: dict[str, list[Span]] = {}
        self._hosts: list[Span] = []

    def begin_run(self) -> None:
        """Begin a run over hosts; a command may have one of plans and one of changes."""
        self._runs += 1

    def host_context(self, host: str) -> TraceContext:
        """Return the identity of the span of a host in the present run."""
        return self._context.child(f"{self._runs} {host}")

    def host_started(self, host: str) -> None:
        """Begin the span of a host."""
        self._began[host] = time.time()
        self._steps[host] = []

    def host_event(self, host: str, document: Mapping[str, Any]) -> None:
        """Add a finished step of a host; a document of another form is left out, as hosts may send anything."""
        steps = self._steps.get(host)
        if document["type"] != "step_end" or steps is None or len(steps) >= _OF_HOST or not self._remaining:
            return
        seconds, error = document.get("seconds"), document.get("error")
        if not isinstance(seconds, int | float) or not {"reference", "action", "status"} <= document.keys():
            return
        ended = time.time()
        began = max(self._began[host], ended - max(0.0, float(seconds)))
        failed = (str(error) or "failed") if document["status"] == "failed" else None
        steps.append(trace.resource_span(document, began, ended, failed))
        self._remaining -= 1

    def host_ended(self, report: HostReport) -> None:
        """End the span of a host; one that was not started has none."""
        ended = time.time()
        if (began := self._began.pop(report.name, None)) is None:
            return
        attributes: dict[str, str | int | float | bool] = {
            "host.name": report.name,
            "resource_api.status": report.status,
            "resource_api.batch": report.batch,
        }
        error = None if report.succeeded else report.error or report.status
        context, steps = self.host_context(report.name), self._steps.pop(report.name)
        self._hosts.append(Span("host", began, ended, attributes, error, context, steps))

    def send(self, document: Mapping[str, Any], began: float, code: int, mask: Mask) -> str:
        """Send the trace of a command with the document of its run; return the reason of a failure, or ""."""
        span = trace.run_span(document, began, time.time(), code, self._hosts)
        problem = telemetry.send(_masked(span, mask), self._context, self._parent, self._environ)
        return f"no trace to {telemetry.receiver(self._environ)}: {problem}" if problem else ""


def _masked(span: Span, mask: Mask) -> Span:
    """Return a span without the secrets of this process, in any text."""
    attributes = {name: mask(value) if isinstance(value, str) else value for name, value in span.attributes.items()}
    return span._replace(
        name=mask(span.name),
        attributes=attributes,
        error=mask(span.error) if span.error is not None else None,
        children=[_masked(child, mask) for child in span.children],
    )


def tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Return the trace of a command, or None where the variables configure none."""
    return Tracing(environ) if telemetry.is_configured(environ) else None
