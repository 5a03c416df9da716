"""The requests that a manifest of remote hosts needs: one to read, one for each host, one to read again.

    python remote_floor.py MANIFEST TOKEN_FILE THREADS

Each thread keeps its connection. Everything else is left out: checking, planning, state, recovery.
"""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

manifest = json.loads(Path(sys.argv[1]).read_text())
token = Path(sys.argv[2]).read_text().strip()
threads = int(sys.argv[3])
address = urlsplit(manifest["inputs"]["url"]["default"])
hosts = {
    reference.partition("[")[2][:-1]: {"address": values["address"]}
    for reference, values in manifest["resources"].items()
}


def request(connection: HTTPConnection, method: str, path: str, body: object = None) -> list[dict[str, str]]:
    """Make one request and return the decoded answer."""
    connection.request(method, path, json.dumps(body), {"Authorization": f"Bearer {token}"})
    answer: list[dict[str, str]] = json.load(connection.getresponse())
    return answer


def create(names: list[str]) -> None:
    """Create some of the hosts, one after the other."""
    connection = HTTPConnection(address.netloc)
    for name in names:
        request(connection, "POST", f"/hosts/{name}", hosts[name])


existing = {host["name"] for host in request(HTTPConnection(address.netloc), "GET", "/hosts")}
missing = [name for name in hosts if name not in existing]
running = [Thread(target=create, args=(missing[start::threads],)) for start in range(threads)]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
if len(request(HTTPConnection(address.netloc), "GET", "/hosts")) != len(hosts):
    sys.exit("not every host was created")
