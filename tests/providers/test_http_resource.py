"""Objects of a real HTTP server with identifiers, pages, a token and failures now and then."""

from __future__ import annotations

import json
import socket
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Resource
    from resource_api.model.report import RunReport

PAGE = 40


class Api(BaseHTTPRequestHandler):
    """Objects by number: their names are fields like others, and lists have pages."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def answer(self, status: int, value: Any = None, **headers: str) -> None:
        """Send an answer."""
        text = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, header in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name.replace("_", "-"), header)
        self.end_headers()
        self.wfile.write(text)

    def do_any(self) -> None:
        """Answer a request."""
        server, (path, query) = self.server, urlsplit(self.path)[2:4]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
        with server.lock:
            server.seen.append((self.command, self.path, body, self.headers["Authorization"]))
            if server.failures:
                self.answer(*server.failures.pop(0))
            elif self.headers["Authorization"] != "Bearer sesame-street":
                self.answer(401, {"error": "wrong token"})
            elif path == "/api/hosts":
                self.collection(body, int(parse_qs(query).get("page", ["0"])[0]))
            else:
                self.member(unquote(path.rpartition("/")[2]), body)

    def collection(self, body: Any, page: int) -> None:
        """List objects, or add one."""
        objects = self.server.objects
        if self.command == "POST":
            self.server.last += 1
            objects[str(self.server.last)] = {"id": self.server.last, "etag": "x", **body}
            self.answer(201, objects[str(self.server.last)])
            return
        rows = list(objects.values())[page * PAGE :]
        more = {"Link": f'</api/hosts?page={page + 1}>; rel="next"'} if len(rows) > PAGE else {}
        self.answer(200, [row | ({"secret": "***"} if "secret" in row else {}) for row in rows[:PAGE]], **more)

    def member(self, number: str, body: Any) -> None:
        """Read, change or delete an object."""
        result = self.server.objects.get(number)
        if result is None:
            self.answer(404)
        elif self.command == "DELETE":
            del self.server.objects[number]
            self.answer(204)
        elif self.command == "PUT":
            self.server.objects[number] = body
            self.answer(200, body)
        else:
            result.update(body or {})
            self.answer(200, result)

    # The names that the base class calls.
    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """The server; ``seen`` has what was asked, ``failures`` the next answers."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Api)
        self.lock, self.last = Lock(), 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.seen: list[tuple[str, str, Any, str]] = []
        self.failures: list[tuple[Any, ...]] = []

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the provider."""
        return {"url": f"http://127.0.0.1:{self.server_port}/api/", "path": "/hosts", "token": "sesame-street"}


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server while the block lasts."""
    server = Server()
    thread = Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a running server."""
    with serving() as result:
        yield result


class TestHttpResource(ProviderCompliance):
    """An object with a field that the service never shows."""

    type_name = "http_resource"

    @pytest.fixture
    def config(self, server: Server) -> dict[str, Any]:
        return server.config

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-a", "body": {"role": "web", "tags": {"a": 1}}, "secrets": {"secret": "open-barley"}}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "body": {"role": "db", "tags": {"a": 2}}}

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


def apply(server: Server, resources: Mapping[str, Any], **config: Any) -> tuple[RunReport, Counter[str]]:
    """Apply resources; return the report and how often each method was used."""
    server.seen.clear()
    providers = {"http_resource": {"config": {**server.config, **config}}}
    report = Runtime(REGISTRY).apply({"project": "p", "providers": providers, "resources": resources})
    return report, Counter(method for method, *_ in server.seen)


def test_only_declared_fields_are_changed(server: Server) -> None:
    """What the service adds is no difference; PUT keeps it."""
    server.objects["7"] = {"name": "x", "id": 7, "etag": "y", "tags": {"a": 1, "b": 2}, "role": "web"}
    expected = {"Http_resource[x]": {"body": {"tags": {"a": 1}}}}
    assert apply(server, expected)[1] == {"GET": 1}
    expected = {"Http_resource[x]": {"body": {"tags": {"a": 3}, "role": "db"}}}
    assert apply(server, expected, update="PUT /hosts/{id}")[0].summary.updated == 1
    assert server.objects["7"] == {"name": "x", "id": 7, "etag": "y", "tags": {"a": 3, "b": 2}, "role": "db"}


def test_objects_may_be_found_by_their_names(server: Server) -> None:
    """Then no list is read, and the name is not in the body; 404 means absent."""
    paths = {"read": "/hosts/{name}", "create": "PUT /hosts/{name}", "update": "PATCH /hosts/{name}", "id": "name"}
    server.objects["a/b"] = {"role": "web"}
    report, requested = apply(server, {"Http_resource[a/b]": {"body": {"role": "db"}}}, **paths)
    assert (report.summary.updated, reason(report)) == (1, "")
    assert requested["GET"] == 2
    assert server.objects == {"a/b": {"role": "db"}}
    assert {path for _, path, *_ in server.seen} == {"/api/hosts/a%2Fb"}
    assert apply(server, {"Http_resource[no]": {"ensure": "absent"}}, **paths)[0].summary.unchanged == 1
    paths["delete"] = "DELETE /hosts/{name}"
    assert apply(server, {"Http_resource[a/b]": {"ensure": "absent"}}, **paths)[0].summary.deleted == 1
    assert server.objects == {}


def test_a_busy_service_is_asked_again(server: Server) -> None:
    """A creation only if it was not accepted; in the end the error is what the service says."""
    server.failures += [(503,), (429, None)]
    report, requested = apply(server, {"Http_resource[x]": {}})
    assert (report.summary.created, requested["POST"]) == (1, 1)
    server.failures += [(503, {"error": "later"})] * 2
    report, requested = apply(server, {"Http_resource[x]": {}}, retries=1)
    assert f"GET {server.config['url'][:-1]}/hosts: 503 later" in reason(report)
    assert requested == {"GET": 2}


def test_an_ambiguous_creation_is_not_sent_twice(server: Server) -> None:
    """The object is read instead."""
    original = Api.collection

    def created_but_lost(handler: Api, body: Any, page: int) -> None:
        if handler.command == "POST":
            handler.server.objects["1"] = {"id": 1, **body}
            handler.answer(503)
        else:
            original(handler, body, page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "collection", created_but_lost)
        _, requested = apply(server, {"Http_resource[x]": {"body": {"role": "web"}}})
    assert requested["POST"] == 1
    assert len(server.objects) == 1


def test_the_token_goes_nowhere_else(server: Server) -> None:
    """Neither by a redirect nor by a page at another address."""
    with serving() as second:
        text = f"http://127.0.0.1:{second.server_port}/api/hosts"
        server.failures.append((302, None))
        assert ": 302" in reason(apply(server, {"Http_resource[x]": {}}, retries=0)[0])
        server.objects = {str(number): {"name": str(number), "id": number} for number in range(PAGE + 1)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Api, "collection", lambda self, *_: self.answer(200, [], Link=f'<{text}>; rel="next"'))
            report, _ = apply(server, {"Http_resource[x]": {}})
        assert "another address, which does not get the token" in reason(report)
        assert second.seen == []


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ((200, {"no": "list"}), "the answer is not a list of objects"),
        ((401, {"error": "wrong token"}), "401 wrong token"),
        ((422, {"errors": {"name": ["is taken", "is short"]}}), ": 422 name: is taken; is short"),
        ((404,), "the service has no list at /hosts"),
    ],
)
def test_what_the_service_says_is_the_reason(server: Server, failure: tuple[Any, ...], message: str) -> None:
    """Nothing is created where the present state cannot be read."""
    server.failures.append(failure)
    report, requested = apply(server, {"Http_resource[x]": {}}, retries=0)
    assert message in reason(report)
    assert "POST" not in requested


def test_a_service_that_is_not_there_is_named() -> None:
    """With its address."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens
        config = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}/api", "path": "/hosts", "retries": 0}
        providers = {"http_resource": {"config": config}}
        manifest = {"project": "p", "providers": providers, "resources": {"Http_resource[x]": {}}}
        report = Runtime(REGISTRY).apply(manifest)
    assert reason(report) == f"GET {config['url']}/hosts: connection refused"


def test_a_password_in_the_address_is_refused() -> None:
    """It would be shown in messages."""
    config = {"url": "https://me:secret@example.org/", "path": "/x"}
    with pytest.raises(ManifestError, match="without user, password and query"):
        Runtime(REGISTRY).validate({"providers": {"http_resource": {"config": config}}, "resources": {}})
