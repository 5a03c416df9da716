"""The receiver of traces that the variables of OpenTelemetry configure, and the limit of waiting for it.

Traces are sent in a thread of its own, which loads the libraries: whatever they or the receiver do, a run waits for
``LIMIT`` seconds at most.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from resource_api.model.values.errors import reason
from resource_api.system import otlp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.trace import Span, TraceContext

#: Seconds that the end of a run waits for a receiver.
LIMIT: Final = 3.0
_ENDPOINT, _TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SUPPORTED: Final = "http/protobuf"
_DEFAULT: Final = "http://localhost:4318"


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether the variables of OpenTelemetry name a receiver of traces."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if exporters := environ.get("OTEL_TRACES_EXPORTER", "").strip():
        return "otlp" in map(str.strip, exporters.split(","))
    return bool(environ.get(_ENDPOINT) or environ.get(_TRACES_ENDPOINT))


def receiver(environ: Mapping[str, str]) -> str:
    """Return the address of the receiver for messages, without a user, a password and a query."""
    try:
        url = urlsplit(environ.get(_TRACES_ENDPOINT) or environ.get(_ENDPOINT) or _DEFAULT)
    except ValueError:
        return "the receiver"
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def send(span: Span, context: TraceContext, parent: TraceContext | None, environ: Mapping[str, str]) -> str:
    """Send a trace, whose root is ``span`` with the identity ``context``; return the reason of a failure, or "".

    ``parent``: the span that the variable ``TRACEPARENT`` names, or None. Nothing is raised.
    """
    protocol = next((text for name in _PROTOCOLS if (text := environ.get(name))), _SUPPORTED)
    if protocol != _SUPPORTED:
        return f"the protocol is {protocol}, and only {_SUPPORTED} is supported"
    result: list[str] = []

    def export() -> None:
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
