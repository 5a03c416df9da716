"""A small DNS hosting service over HTTP, to try a type of a remote API.

    python examples/dns_api/server.py --port 8053 --token-file token --zone example.org --latency 0.05

Lists come in pages of 20. Requests without the token are answered with 401, unknown things with 404, a second record
of the same name and type with 409. ``--trouble N``: every N-th request is answered with 429, or with 503 after it was
carried out. A POST that is repeated with the same ``Idempotency-Key`` is carried out once.
"""

from __future__ import annotations

import argparse
import hmac
import json
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 20
FIELDS = {"name", "kind", "view", "ttl", "values", "update_key"}
DEFAULTS = {"view": "public", "ttl": 3600, "update_key": None}


class Refused(Exception):  # noqa: N818 - an answer, not a failure
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        """Store the status and the message of the answer."""
        super().__init__(message)
        self.status = status


class Account:
    """The zones of one customer, and their records by number."""

    def __init__(self, zones: list[str]) -> None:
        """Start without records."""
        self.zones = sorted(zones)
        self.records: dict[str, dict[str, Any]] = {}
        self._last = 0
        self._created: dict[str | None, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def find(self, zone: str, names: list[str] | None) -> list[dict[str, Any]]:
        """Return the records of a zone; with ``names`` only those."""
        self._require(zone in self.zones, f"zone {zone}")
        with self._lock:
            records = list(self.records.values())
        return [record for record in records if record["zone"] == zone and (names is None or record["name"] in names)]

    def create(self, zone: str, fields: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """Add a record; there may be one of each name and type. A repeated ``key`` returns its record."""
        self._require(zone in self.zones, f"zone {zone}")
        self._check(fields)
        with self._lock:
            if key is not None and key in self._created:
                return self._created[key]
            for present in self.records.values():
                if (present["name"], present["kind"]) == (fields["name"], fields["kind"]):
                    raise Refused(HTTPStatus.CONFLICT, f"{present['name']} has {present['kind']} records already")
            self._last += 1
            record = {"id": f"rec-{self._last}", "zone": zone, **DEFAULTS, **fields}
            self.records[record["id"]] = self._created[key] = record
            return record

    def update(self, number: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Change some fields of a record; its name, type and view stay."""
        self._check(fields)
        with self._lock:
            self._require(number in self.records, f"record {number}")
            record = self.records[number]
            fixed = [field for field in ("name", "kind", "view") if fields.get(field, record[field]) != record[field]]
            if fixed:
                raise Refused(HTTPStatus.BAD_REQUEST, f"{', '.join(fixed)} of a record cannot be changed")
            self.records[number] = {**record, **fields}
            return self.records[number]

    def delete(self, number: str) -> None:
        """Remove a record."""
        with self._lock:
            self._require(number in self.records, f"record {number}")
            del self.records[number]

    def _require(self, condition: bool, subject: str) -> None:  # noqa: FBT001 - a condition
        if not condition:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no {subject}")

    def _check(self, fields: dict[str, Any]) -> None:
        if unknown := fields.keys() - FIELDS:
            raise Refused(HTTPStatus.BAD_REQUEST, f"unknown fields: {', '.join(sorted(unknown))}")


class Server(ThreadingHTTPServer):
    """The service on loopback. ``latency`` in seconds; ``trouble``: every so many requests one fails, 0: none."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, account: Account, token: str, *, port: int = 0, latency: float = 0.0, trouble: int = 0) -> None:
        """Listen on ``port`` (0: any free one)."""
        super().__init__(("127.0.0.1", port), Handler)
        self.account = account
        self.token = token
        self.latency = latency
        self.trouble = trouble
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answer the requests of one client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing; the server keeps a list of requests."""

    def _answer(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        server.requests.append(f"{self.command} {self.path}")
        time.sleep(server.latency)
        try:
            self._authenticate()
            self._fail(HTTPStatus.TOO_MANY_REQUESTS, server.trouble)
            status, answer = self._do(body)
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, server.trouble * 2)
        except Refused as refused:
            status, answer = refused.status, {"error": str(refused)}
        text = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    # The names that the base class calls.
    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def _authenticate(self) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.UNAUTHORIZED, "the token is wrong")

    def _fail(self, status: HTTPStatus, every: int) -> None:
        """Fail every so many requests: odd multiples of ``trouble`` with 429, even ones with 503."""
        number, trouble = len(self.server.requests), self.server.trouble
        if every and number % every == 0 and (every > trouble or number // trouble % 2):
            raise Refused(status, "try again later")

    def _do(self, body: dict[str, Any]) -> tuple[HTTPStatus, Any]:
        parts, account = urlsplit(self.path), self.server.account
        query = parse_qs(parts.query)
        match self.command, [unquote(part) for part in parts.path.strip("/").split("/")]:
            case "GET", ["zones"]:
                return HTTPStatus.OK, page([{"name": zone} for zone in account.zones], query)
            case "GET", ["zones", zone, "records"]:
                return HTTPStatus.OK, page(account.find(zone, query.get("name")), query)
            case "POST", ["zones", zone, "records"]:
                return HTTPStatus.CREATED, account.create(zone, body, self.headers.get("Idempotency-Key"))
            case "PATCH", ["records", number]:
                return HTTPStatus.OK, account.update(number, body)
            case "DELETE", ["records", number]:
                account.delete(number)
                return HTTPStatus.NO_CONTENT, None
        raise Refused(HTTPStatus.NOT_FOUND, f"unknown request: {self.command} {self.path}")


def page(items: list[Any], query: dict[str, list[str]]) -> dict[str, Any]:
    """Return one page of a list, and the number of the next one or None."""
    number = int(query.get("page", ["1"])[0])
    more = len(items) > number * PAGE
    return {"items": items[(number - 1) * PAGE : number * PAGE], "next": number + 1 if more else None}


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8053)
    parser.add_argument("--token-file", type=Path, required=True, help="the file with the token")
    parser.add_argument("--zone", action="append", default=[], help="a zone of the account; may be repeated")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds that each request takes")
    parser.add_argument("--trouble", type=int, default=0, help="how many requests there are for one that fails")
    options = parser.parse_args()
    token = options.token_file.read_text(encoding="utf-8").strip()
    account = Account(options.zone or ["example.org"])
    Server(account, token, port=options.port, latency=options.latency, trouble=options.trouble).serve_forever()


if __name__ == "__main__":
    main()
