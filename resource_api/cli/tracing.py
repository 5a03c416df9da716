"""The trace of a command: its identity, the spans of its run and its hosts, and their way to a receiver.

No attribute has a value of a resource: names, counts, statuses and errors alone. Traces are sent in a thread of its
own, which loads the libraries: whatever they or the receiver do, a run waits for ``LIMIT`` seconds at most.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from resource_api.model.report import SUMMARY_FIELDS
from resource_api.model.trace import Span, TraceContext, parse_traceparent
from resource_api.model.values.errors import reason
from resource_api.system import otlp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import CallJson, RunStepJson

    Attributes = dict[str, str | int | float | bool]
    from resource_api.fleet.merge import HostReport
    from resource_api.model.values.masking import Mask

#: The most spans of resources of one host, and of all hosts.
_OF_HOST: Final = 200
_OF_ALL: Final = 5000
#: The most spans of resources in one trace; failed ones come first.
MOST: Final = 2000
#: Characters of an error.
_LONGEST: Final = 1000
#: Exit codes without a failure.
_SUCCEEDED: Final = frozenset({0, 2})
_PREFIX: Final = "resource_api"
#: Seconds that the end of a run waits for a receiver.
LIMIT: Final = 3.0
_ENDPOINT, _TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOL, _TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_SUPPORTED: Final = "http/protobuf"
_DEFAULT: Final = "http://localhost:4318"


class Tracing:
    """The trace of one command."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Continue the trace of the caller, so that this command is a span within, for example, a pipeline's trace.

        The caller's span is in the variable ``TRACEPARENT``; without it begin a new trace.
        """
        self._environ = environ
        #: The span of the caller, or None; and the identity of the command's span.
        self._parent = parse_traceparent(environ.get("TRACEPARENT", ""))
        base = self._parent or TraceContext(secrets.token_hex(16), "")
        self._context = base._replace(span_id=secrets.token_hex(8))
        #: The number of runs over hosts so far: ``destroy`` makes two, with a span of their own for each host.
        self._runs = 0
        #: The number of spans of resources that hosts may still add.
        self._remaining = _OF_ALL
        #: Name of a running host → the time of its beginning, and the spans of its resources so far.
        self._began: dict[str, float] = {}
        self._steps: dict[str, list[Span]] = {}
        #: The spans of ended hosts.
        self._hosts: list[Span] = []

    def begin_run(self) -> None:
        """Begin a run over hosts, whose spans have new identities: ``destroy`` has one of plans, one of changes."""
        self._runs += 1

    def host_context(self, host: str) -> TraceContext:
        """Return the identity of a host's span in the present run, the parent of the host's own spans."""
        return self._context.child(f"{self._runs} {host}")

    def host_started(self, host: str) -> None:
        """Begin the span of a host in the present run."""
        self._began[host] = time.time()
        self._steps[host] = []

    def host_event(self, host: str, document: Mapping[str, object]) -> None:
        """Add the span of a finished step of a host, unless there are too many.

        As the host's clock may be wrong, the span ends now and begins earlier by the duration that the host has sent.
        A document of another form is ignored: hosts are not trusted.
        """
        steps = self._steps.get(host)
        if document["type"] != "step_end" or steps is None:
            return
        if len(steps) >= _OF_HOST or not self._remaining:
            return
        seconds = document.get("seconds")
        ended = time.time()
        if not isinstance(seconds, int | float) or seconds > ended:  # an integer may be too large for a float
            return
        if not {"reference", "action", "status"} <= document.keys():
            return
        began = max(self._began[host], ended - max(0.0, float(seconds)))
        steps.append(_resource(document, began, ended))
        self._remaining -= 1

    def host_ended(self, report: HostReport) -> None:
        """End the span of a host, with the spans of its steps, and keep it for the end of the trace.

        A host that was never contacted has no span.
        """
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

    def send(self, document: Mapping[str, object], began: float, code: int, mask: Mask) -> str:
        """Send a command's trace, with its document, start ``began`` and exit ``code``; return the failure, or ""."""
        span = run_span(document, began, time.time(), code, self._hosts)
        problem = _send(_masked(span, mask), self._context, self._parent, self._environ)
        return f"no trace to {_receiver(self._environ)}: {problem}" if problem else ""


def _masked(span: Span, mask: Mask) -> Span:
    """Return a span, and those within it, with secrets masked in every text: the trace leaves this machine."""
    attributes = {name: mask(value) if isinstance(value, str) else value for name, value in span.attributes.items()}
    return span._replace(
        name=mask(span.name),
        attributes=attributes,
        error=mask(span.error) if span.error is not None else None,
        children=[_masked(child, mask) for child in span.children],
    )


def tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Return the trace of a command, or None where the variables of OpenTelemetry name no receiver of traces."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if exporters := environ.get("OTEL_TRACES_EXPORTER", "").strip():
        return Tracing(environ) if "otlp" in map(str.strip, exporters.split(",")) else None
    return Tracing(environ) if environ.get(_ENDPOINT) or environ.get(_TRACES_ENDPOINT) else None


def run_span(document: Mapping[str, object], began: float, ended: float, code: int, hosts: Sequence[Span]) -> Span:
    """Return the span of a whole command, with the spans of planning, calls and hosts as its children.

    ``document``: that of its run or plan. ``began``, ``ended``: times of the command, including planning. ``code``: its
    exit code. ``hosts``: the spans of the hosts of a run over many hosts, else none.
    """
    command = str(document.get("command") or "plan")
    attributes = _run_attributes(document, code)
    children = [*_planning(document, began), *_calls(document, attributes), *hosts]
    error = None if code in _SUCCEEDED else _first_error(document) or f"exit code {code}"
    return Span(f"resource-api {command}", began, ended, attributes, error, None, children)


def _run_attributes(document: Mapping[str, Any], code: int) -> Attributes:
    """Return the attributes of the span of a whole run, by which a user selects traces: identity, exit code, counts.

    Values of resources are not among them, because they could be secret.
    """
    summary = document.get("summary") or {}
    names = ("project", "stack", "run", "command", "generation")
    attributes: Attributes = {f"{_PREFIX}.{name}": document[name] for name in names if document.get(name)}
    return attributes | {
        f"{_PREFIX}.exit_code": code,
        f"{_PREFIX}.noop": bool(summary.get("noop")),
        f"{_PREFIX}.changes": sum(summary.get(name) or 0 for name in SUMMARY_FIELDS.values()),
        f"{_PREFIX}.unchanged": summary.get("unchanged") or 0,
        f"{_PREFIX}.failures": summary.get("failed") or 0,
        f"{_PREFIX}.corrective": sum(bool(step.get("corrective")) for step in document.get("steps") or ()),
    }


def _first_error(document: Mapping[str, Any]) -> str | None:
    """Return the error for the span of a run: that of the first failed step, else the first problem, else None.

    A span has room for one error; those of the other steps are in their own spans.
    """
    errors = [f"{step['reference']}: {step['error']}" for step in _steps(document) if step["status"] == "failed"]
    errors += [str(problem["message"]) for problem in document.get("problems") or ()]
    return errors[0][:_LONGEST] if errors else None


def _steps(document: Mapping[str, Any]) -> Sequence[RunStepJson]:
    """Return the steps of a run's document; none of a plan's, which were not carried out and have no span."""
    steps: Sequence[RunStepJson] = document["steps"] if document.get("kind") == "run" else ()
    return steps


def _planning(document: Mapping[str, object], began: float) -> Iterator[Span]:
    """Yield the span of planning, from the command's start to the run's ``started``.

    The document of a run begins only with ``started``; without this span the trace would have a gap.
    """
    started = document.get("started")
    if document.get("kind") == "run" and isinstance(started, float) and started > began:
        yield Span("plan", began, started)


def _calls(document: Mapping[str, Any], attributes: Attributes) -> Iterator[Span]:
    """Yield a span for each call of a provider with its resources as children, and for failed resources without a call.

    A trace must not grow too large: it has at most ``MOST`` resources, the failed ones first. The number of those that
    are left out is added to ``attributes`` of the run's span.
    """
    if document.get("kind") != "run":
        return
    steps, began = _steps(document), float(document["started"])
    selected = sorted(steps, key=lambda step: step["status"] != "failed")[:MOST]
    if len(steps) > MOST:
        attributes[f"{_PREFIX}.left_out"] = len(steps) - MOST
    by_call: dict[int | None, list[RunStepJson]] = {}
    for step in selected:
        by_call.setdefault(step["call"], []).append(step)
    for number, call in enumerate(document["calls"]):
        yield _call(call, began, by_call.get(number, ()))
    failed = [step for step in by_call.get(None, ()) if step["status"] == "failed"]
    yield from (_resource(step, began, began) for step in failed)


def _call(call: CallJson, began: float, steps: Iterable[RunStepJson]) -> Span:
    """Return the span of a provider's call, with its resources as children, which share its time.

    ``began``: the start of the run, from which the call's ``started`` counts.
    """
    started = began + call["started"]
    ended = started + call["seconds"]
    attributes: Attributes = {
        f"{_PREFIX}.provider": call["provider"],
        f"{_PREFIX}.method": call["method"],
        f"{_PREFIX}.resources": call["resources"],
        f"{_PREFIX}.worker": call["worker"],
    }
    children = [_resource(step, started, ended) for step in steps]
    return Span(f"{call['method']} {call['provider']}", started, ended, attributes, children=children)


def _resource(step: Mapping[str, object] | RunStepJson, started: float, ended: float) -> Span:
    """Return the span of a step; its name has the type only, so that equal work of many resources has one name."""
    reference = str(step["reference"])
    attributes: Attributes = {
        f"{_PREFIX}.reference": reference,
        f"{_PREFIX}.action": str(step["action"]),
        f"{_PREFIX}.status": str(step["status"]),
        f"{_PREFIX}.corrective": bool(step.get("corrective")),
    }
    error = str(step.get("error") or "failed")[:_LONGEST] if step["status"] == "failed" else None
    return Span(f"{step['action']} {reference.partition('[')[0]}", started, ended, attributes, error)


def _receiver(environ: Mapping[str, str]) -> str:
    """Return the address of the receiver for messages, without user, password and query, which may be secret."""
    try:
        url = urlsplit(environ.get(_TRACES_ENDPOINT) or environ.get(_ENDPOINT) or _DEFAULT)
    except ValueError:
        return "the receiver"
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def _send(span: Span, context: TraceContext, parent: TraceContext | None, environ: Mapping[str, str]) -> str:
    """Send a trace, whose root is ``span`` with the identity ``context``; return the reason of a failure, or "".

    Raise nothing, and wait no more than ``LIMIT`` seconds: a run does not fail because of its trace. ``parent``: the
    span in the variable ``TRACEPARENT``, or None.
    """
    protocol = environ.get(_TRACES_PROTOCOL) or environ.get(_PROTOCOL) or _SUPPORTED
    if protocol != _SUPPORTED:
        return f"the protocol is {protocol}, and only {_SUPPORTED} is supported"
    result: list[str] = []

    def export() -> None:
        """Send the trace, in a thread that may outlast ``LIMIT``; add the reason of a failure, or "", to ``result``."""
        try:
            result.append(otlp.export(span, context, parent))
        except ModuleNotFoundError as error:
            result.append(f"{error.name} is not installed; install resource-api[otel]")
        except Exception as error:  # noqa: BLE001 - a library may raise anything, and the run has ended well
            result.append(f"{type(error).__name__}: {reason(error)}")

    thread = threading.Thread(target=export, name="telemetry", daemon=True)
    thread.start()
    try:
        thread.join(LIMIT)
    except KeyboardInterrupt:
        return "interrupted"
    return result[0] if result else f"no answer within {LIMIT:g} s"
