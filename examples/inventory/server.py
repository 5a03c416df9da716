"""A small inventory of hosts over HTTP, to try a type of a remote service.

    python examples/inventory/server.py --port 8765 --token-file token --latency 0.05

Every request needs the token, and takes at least the latency. Hosts are kept in memory, or in the file that
``--data`` names. ``GET /statistics`` returns the number of requests of each kind, and the most at one time.
"""

from __future__ import annotations

import argparse
import hmac
import ipaddress
import json
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

#: The attributes of a host that a client may set.
FIELDS = frozenset({"address", "role", "tags", "password"})


class Refused(Exception):  # noqa: N818 - an answer, not a failure
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        """Store the status and the message of the answer."""
        super().__init__(message)
        self.status = status


class Inventory:
    """The hosts by name, in memory and optionally in a file; each has a unique id that is never used again."""

    def __init__(self, data: Path | None = None) -> None:
        """Load the hosts from ``data``, if it exists."""
        self._data = data
        self._lock = threading.Lock()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._last = 0
        if data is not None and data.exists():
            loaded = json.loads(data.read_text(encoding="utf-8"))
            self._hosts, self._last = loaded["hosts"], loaded["last"]

    def find(self, names: list[str] | None) -> list[dict[str, Any]]:
        """Return the existing hosts among ``names``, or all."""
        with self._lock:
            requested = list(self._hosts) if names is None else names
            return [dict(self._hosts[name]) for name in requested if name in self._hosts]

    def create(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Add a host; its name and its address must be free."""
        with self._lock:
            if name in self._hosts:
                raise Refused(HTTPStatus.CONFLICT, f"host {name} exists already")
            self._check(name, fields)
            self._last += 1
            self._hosts[name] = {"name": name, "id": f"host-{self._last:06}", **fields}
            self._save()
            return dict(self._hosts[name])

    def update(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Change the given attributes of a host."""
        with self._lock:
            self._require(name)
            self._check(name, fields)
            self._hosts[name].update(fields)
            self._save()
            return dict(self._hosts[name])

    def delete(self, name: str) -> None:
        """Remove a host."""
        with self._lock:
            del self._hosts[self._require(name)]
            self._save()

    def free(self, network: str, host: str) -> str:
        """Return the address of ``host`` in ``network``, or the first free one."""
        try:
            addresses = ipaddress.ip_network(network).hosts()
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        with self._lock:
            present = self._hosts.get(host, {}).get("address")
            if present is not None and ipaddress.ip_address(present) in ipaddress.ip_network(network):
                return str(present)
            assigned = {record.get("address") for record in self._hosts.values()}
        address = next((str(host_address) for host_address in addresses if str(host_address) not in assigned), None)
        if address is None:
            raise Refused(HTTPStatus.CONFLICT, f"no address of {network} is free")
        return address

    def _require(self, name: str) -> str:
        if name not in self._hosts:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no host {name}")
        return name

    def _check(self, name: str, fields: dict[str, Any]) -> None:
        if unknown := fields.keys() - FIELDS:
            raise Refused(HTTPStatus.BAD_REQUEST, f"unknown fields: {', '.join(sorted(unknown))}")
        address = fields.get("address")
        for record in self._hosts.values():
            if address is not None and record["name"] != name and record.get("address") == address:
                raise Refused(HTTPStatus.CONFLICT, f"{address} is the address of {record['name']}")

    def _save(self) -> None:
        if self._data is not None:
            fresh = self._data.with_suffix(".new")
            fresh.write_text(json.dumps({"hosts": self._hosts, "last": self._last}), encoding="utf-8")
            fresh.replace(self._data)


class Server(ThreadingHTTPServer):
    """An HTTP server of an inventory on loopback; ``latency`` in seconds may be changed while it runs."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, inventory: Inventory, token: str, *, port: int = 0, latency: float = 0.0) -> None:
        """Listen on ``port`` (0: any free one)."""
        super().__init__(("127.0.0.1", port), Handler)
        self.inventory = inventory
        self.token = token
        self.latency = latency
        self.counted: dict[str, int] = {}
        self.at_once = 0
        self.most_at_once = 0
        self.counting = threading.Lock()

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
        """Log nothing; there are statistics."""

    def _answer(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        with server.counting:
            server.counted[self.command] = server.counted.get(self.command, 0) + 1
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            time.sleep(server.latency)
            self._authenticate()
            status, answer = HTTPStatus.OK, self._do(body)
        except Refused as refused:
            status, answer = refused.status, {"error": str(refused)}
        finally:
            with server.counting:
                server.at_once -= 1
        text = json.dumps(answer).encode()
        self.send_response(status)
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

    def _do(self, body: dict[str, Any]) -> Any:
        parts, inventory = urlsplit(self.path), self.server.inventory
        query = parse_qs(parts.query)
        match self.command, [unquote(part) for part in parts.path.strip("/").split("/")]:
            case "GET", ["hosts"]:
                return inventory.find(query.get("name"))
            case "POST", ["hosts", name]:
                return inventory.create(name, body)
            case "PATCH", ["hosts", name]:
                return inventory.update(name, body)
            case "DELETE", ["hosts", name]:
                return inventory.delete(name)
            case "GET", ["free"]:
                return {"address": inventory.free(query["network"][0], query["host"][0])}
            case "GET", ["statistics"]:
                return {"requests": self.server.counted, "most_at_once": self.server.most_at_once}
        raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {parts.path}")


def main() -> None:
    """Serve until interrupted; the URL is the first line on stdout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="the least seconds of every request")
    parser.add_argument("--token-file", type=Path, required=True, help="contains the token of every request")
    parser.add_argument("--data", type=Path, help="the file of the hosts")
    options = parser.parse_args()
    token = options.token_file.read_text(encoding="utf-8").strip()
    server = Server(Inventory(options.data), token, port=options.port, latency=options.latency)
    print(server.url, flush=True)  # noqa: T201 - read by the starting process
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
