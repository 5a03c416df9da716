"""A JSON API on loopback whose answers a function of the test computes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.http_server import serving

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message


class Request(NamedTuple):
    """One request: its path without the query, whose parameters are apart."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: Any

    @property
    def parts(self) -> list[str]:
        """The parts of the path, each unquoted."""
        return [unquote(part) for part in self.path.strip("/").split("/")]


class Reply(NamedTuple):
    """One answer; a text is sent as it is, anything else as JSON."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


class Api:
    """A running server; ``requests`` are those that it has got, ``connections`` how many clients have connected."""

    def __init__(self) -> None:
        """Begin without requests."""
        self.url = ""
        self.requests: list[Request] = []
        self.connections = 0
        self.lock = Lock()

    def asked(self, method: str = "") -> list[str]:
        """Return the paths that were asked for, by one method or all."""
        return [request.path for request in self.requests if method in ("", request.method)]


@contextmanager
def api(answer: Callable[[Request], Reply], encryption: ssl.SSLContext | None = None) -> Iterator[Api]:
    """Run a server whose answers ``answer`` returns, one after the other."""
    running = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            running.connections += 1

        def do_any(self) -> None:
            parts = urlsplit(self.path)
            text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            body = json.loads(text) if text else None
            request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), self.headers, body)
            with running.lock:
                running.requests.append(request)
                reply = answer(request)
            sent = b"" if reply.body is None else reply.body if isinstance(reply.body, bytes) else _encoded(reply.body)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(sent)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        # The names that the base class calls.
        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler, encryption) as running.url:
        yield running


def _encoded(body: Any) -> bytes:
    return (body if isinstance(body, str) else json.dumps(body)).encode()
