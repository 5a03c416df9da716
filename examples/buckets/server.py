"""A storage service whose list and items show changes late: ``python server.py --port 8054 --list-lag 2``."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

PAGE = 50


class Store:
    """The buckets, and their states at each time, the newest last."""

    def __init__(self) -> None:
        """Start empty."""
        self.buckets: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[float, dict[str, dict[str, Any]]]] = [(float("-inf"), {})]
        self.lock = threading.Lock()

    def seen(self, lag: float) -> dict[str, dict[str, Any]]:
        """Return the buckets as they were ``lag`` seconds ago."""
        with self.lock:
            return next(buckets for at, buckets in reversed(self.history) if at <= time.monotonic() - lag)

    def put(self, name: str, fields: dict[str, Any]) -> bool:
        """Change a bucket; return False where there is none."""
        with self.lock:
            if name not in self.buckets:
                return False
            self._commit({**self.buckets, name: {**self.buckets[name], **fields}})
            return True

    def create(self, bucket: dict[str, Any]) -> bool:
        """Create a bucket; return False where it exists."""
        with self.lock:
            if bucket["name"] in self.buckets:
                return False
            self._commit({**self.buckets, bucket["name"]: {"versioning": False, **bucket, "id": uuid.uuid4().hex}})
            return True

    def delete(self, name: str) -> bool:
        """Delete a bucket; return False where there is none."""
        with self.lock:
            if name not in self.buckets:
                return False
            self._commit({key: bucket for key, bucket in self.buckets.items() if key != name})
            return True

    def _commit(self, buckets: dict[str, dict[str, Any]]) -> None:
        self.buckets = buckets
        self.history.append((time.monotonic(), buckets))


class Server(ThreadingHTTPServer):
    """The service on loopback; ``requests`` has each request as ``POST /buckets``."""

    daemon_threads = True

    def __init__(self, port: int = 0, *, list_lag: float = 0.0, item_lag: float = 0.0) -> None:
        """Listen on ``port`` (0: any); the lags are in seconds."""
        super().__init__(("127.0.0.1", port), Handler)
        self.list_lag, self.item_lag = list_lag, item_lag
        self.store = Store()
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Return a bucket, or a page of the list."""
        path, query = self._began()
        name = path.removeprefix("/buckets").strip("/")
        if name:
            bucket = self.server.store.seen(self.server.item_lag).get(name)
            return self._answer(bucket, HTTPStatus.OK if bucket else HTTPStatus.NOT_FOUND)
        start = int(query.partition("start=")[2] or 0)
        buckets = sorted(self.server.store.seen(self.server.list_lag).values(), key=lambda bucket: bucket["name"])
        more = f"/buckets?start={start + PAGE}" if len(buckets) > start + PAGE else None
        return self._answer({"buckets": buckets[start : start + PAGE], "next": more})

    def do_POST(self) -> None:
        """Create a bucket."""
        self._began()
        created = self.server.store.create(self._body())
        self._answer({}, HTTPStatus.CREATED if created else HTTPStatus.CONFLICT)

    def do_PATCH(self) -> None:
        """Change a bucket."""
        path, _ = self._began()
        changed = self.server.store.put(path.rpartition("/")[2], self._body())
        self._answer({}, HTTPStatus.OK if changed else HTTPStatus.NOT_FOUND)

    def do_DELETE(self) -> None:
        """Delete a bucket."""
        path, _ = self._began()
        deleted = self.server.store.delete(path.rpartition("/")[2])
        self._answer({}, HTTPStatus.OK if deleted else HTTPStatus.NOT_FOUND)

    def _began(self) -> tuple[str, str]:
        parts = urlsplit(self.path)
        self.server.requests.append(f"{self.command} {parts.path}")
        return unquote(parts.path), parts.query

    def _body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, document: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A storage service that shows changes late.")
    parser.add_argument("--port", type=int, default=8054)
    parser.add_argument("--list-lag", type=float, default=2.0, help="seconds until the list shows a change")
    parser.add_argument("--item-lag", type=float, default=0.0, help="seconds until an item shows a change")
    options = parser.parse_args()
    server = Server(options.port, list_lag=options.list_lag, item_lag=options.item_lag)
    sys.stdout.write(f"listening on {server.url}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
