"""Send spans by OTLP over HTTP; the only owner of the libraries of OpenTelemetry, and of their log.

The variables of OpenTelemetry configure the address, the headers, the certificates, the resource, and the sampler.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
from requests import RequestException, Response, Session, Timeout

from resource_api.model.values.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.trace import Span, TraceContext

#: The most spans of one request.
_BATCH: Final = 500
#: Seconds of one request with its repetitions, unless a variable has fewer.
_TIMEOUT: Final = 2.0
_TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_NANOSECONDS: Final = 1_000_000_000
_SUCCEEDED: Final = range(200, 300)


class _Session(Session):
    """Keeps the outcome of the last request, as the libraries' log may contain secrets of the address."""

    outcome = ""

    def request(self, *arguments: Any, **named: Any) -> Response:
        """Send a request for the exporter, and store the reason of its failure, or "", for ``export``.

        The exporter itself only logs the reason, with secrets of the address. Raise ``RequestException``.
        """
        try:
            response = super().request(*arguments, **named)
        except RequestException as error:
            self.outcome = _reason(error)
            raise
        self.outcome = "" if response.status_code in _SUCCEEDED else f"HTTP status {response.status_code}"
        return response


def _reason(error: RequestException) -> str:
    """Return the system's error or the class of a failure: the library's text may contain secrets of the address."""
    if isinstance(error, Timeout):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def export(span: Span, context: TraceContext, parent: TraceContext | None) -> str:
    """Send a trace to the collector if it is sampled; return the reason of a failure, or "".

    ``context`` is the identity of ``span``, ``parent`` that of the caller's span in another process, or None.
    """
    for name in ("opentelemetry", "urllib3"):  # silenced for good: the log may contain secrets of the address
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    resource = _resource()
    if not _is_sampled(span, context, parent, resource):
        return ""
    spans = list(_spans(span, context, parent, resource))
    session = _Session()
    exporter = OTLPSpanExporter(timeout=_timeout(), session=session)
    for start in range(0, len(spans), _BATCH):
        result = exporter.export(spans[start : start + _BATCH])
        if session.outcome or result is not SpanExportResult.SUCCESS:
            return session.outcome or "it cannot be encoded"
    return ""


def _timeout() -> float:
    """Return the seconds for a request: a variable of OpenTelemetry may lower our limit, as the run waits for it."""
    for name in _TIMEOUTS:
        with suppress(KeyError, ValueError):
            return min(_TIMEOUT, max(0.1, float(os.environ[name])))
    return _TIMEOUT


def _resource() -> Resource:
    """Return the description of the sender in a trace: this program, this host, and OpenTelemetry's variables.

    The service is called ``resource-api`` unless one of the variables names it.
    """
    has_name = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {"service.version": __version__, "host.name": os.uname().nodename}
    return Resource(attributes).merge(Resource.create({} if has_name else {"service.name": "resource-api"}))


def _is_sampled(span: Span, context: TraceContext, parent: TraceContext | None, resource: Resource) -> bool:
    """Return whether the trace is to be sent, by the sampler that OpenTelemetry's variables configure.

    A sampler may follow the decision of the caller, which ``parent`` contains, or decide by the id of the trace.
    """
    outer = None
    if parent is not None:
        outer = trace.set_span_in_context(trace.NonRecordingSpan(_span_context(parent, is_remote=True)))
    sampler = TracerProvider(resource=resource, shutdown_on_exit=False).sampler
    result = sampler.should_sample(outer, int(context.trace_id, 16), span.name, attributes=span.attributes)
    return result.decision is Decision.RECORD_AND_SAMPLE


def _spans(
    span: Span, context: TraceContext, parent: TraceContext | None, resource: Resource, *, root: bool = True
) -> Iterator[ReadableSpan]:
    """Yield a span and all below it as values of OpenTelemetry's library.

    ``root``: the span is the first of this process, and its ``parent``, if any, is a span of another process. Spans
    whose number was passed to no other process have none yet, and get a random one here.
    """
    yield ReadableSpan(
        span.name,
        _span_context(context),
        parent=_span_context(parent, is_remote=root) if parent is not None else None,
        resource=resource,
        attributes=span.attributes,
        status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR, span.error),
        start_time=int(span.started * _NANOSECONDS),
        end_time=int(max(span.started, span.ended) * _NANOSECONDS),
        instrumentation_scope=InstrumentationScope("resource-api", __version__),
    )
    for child in span.children:
        identity = child.context or context._replace(span_id=secrets.token_hex(8))
        yield from _spans(child, identity, context, resource, root=False)


def _span_context(context: TraceContext, *, is_remote: bool = False) -> SpanContext:
    """Return the identity of a span in the form of the library; ``is_remote``: it is another process's span."""
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote, flags)
