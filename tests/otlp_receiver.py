"""A receiver of OTLP over HTTP that decodes what it gets by the published protocol, or misbehaves as a test asks."""

from __future__ import annotations

import gzip
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.http_server import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ReceivedSpan(NamedTuple):
    """A span as the receiver has decoded it; ids in hexadecimal digits, times in seconds."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    error: str | None
    started: float
    ended: float


class Receiver:
    """What has arrived at ``url``."""

    def __init__(self, url: str) -> None:
        """Begin with nothing."""
        self.url = url
        self.raw = b""
        self.headers: list[dict[str, str]] = []
        self.resource: dict[str, Any] = {}
        self.spans: list[ReceivedSpan] = []

    def add(self, body: bytes, headers: dict[str, str]) -> None:
        """Decode a request."""
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.raw += body
        self.headers.append(headers)
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                assert scope.scope.name == "resource-api"
                self.spans += map(_span, scope.spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        """Return the spans with a name, in their order."""
        return [span for span in self.spans if span.name == name]

    def below(self, span: ReceivedSpan) -> list[ReceivedSpan]:
        """Return the children of a span."""
        return [child for child in self.spans if child.parent == span.id]


def _span(span: Any) -> ReceivedSpan:
    assert span.start_time_unix_nano <= span.end_time_unix_nano
    return ReceivedSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _attributes(span.attributes),
        span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
        span.start_time_unix_nano / 1e9,
        span.end_time_unix_nano / 1e9,
    )


def _attributes(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@contextmanager
def receiving(misbehave: Callable[[BaseHTTPRequestHandler], None] | None = None) -> Iterator[Receiver]:
    """Receive traces; ``misbehave`` answers in place of a good answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if misbehave is not None:
                misbehave(self)
                return
            assert self.path == "/v1/traces"
            receiver.add(body, dict(self.headers))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with serving(Handler) as url:
        receiver = Receiver(url)
        yield receiver


def silent(handler: BaseHTTPRequestHandler) -> None:
    """Answer nothing for a while."""
    time.sleep(6)
    handler.close_connection = True


def trickling(handler: BaseHTTPRequestHandler) -> None:
    """Answer one byte after another, and never end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    try:
        for _ in range(60):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.1)
    except OSError:
        handler.close_connection = True


def garbage(handler: BaseHTTPRequestHandler) -> None:
    """Answer what is no HTTP."""
    handler.wfile.write(b"\x00\xff\x1b[31mgarbage\r\n" * 100)
    handler.close_connection = True


def refusing(handler: BaseHTTPRequestHandler) -> None:
    """Answer that the request is wrong, with a hostile reason."""
    handler.wfile.write(b"HTTP/1.1 400 \x1b[31mtoken=correct-horse\r\nContent-Length: 0\r\n\r\n")


def redirecting(handler: BaseHTTPRequestHandler) -> None:
    """Send the exporter round in a circle."""
    handler.send_response(307)
    handler.send_header("Location", handler.path)
    handler.send_header("Content-Length", "0")
    handler.end_headers()
