"""A server on loopback for one test."""

from __future__ import annotations

import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


def self_signed(directory: Path) -> ssl.SSLContext:
    """Return the settings of a server on 127.0.0.1 with a new certificate, which is the file ``pem`` of a directory."""
    subject = ("-subj", "/CN=service", "-addext", "subjectAltName=IP:127.0.0.1")
    new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject)
    subprocess.run([*new, "-keyout", "key", "-out", "pem"], cwd=directory, check=True, capture_output=True)
    encryption = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encryption.load_cert_chain(directory / "pem", directory / "key")
    return encryption


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler], encryption: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on a free port, and yield the beginning of its URLs; nothing of the server is left afterwards."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if encryption:
            server.socket = encryption.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if encryption else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
