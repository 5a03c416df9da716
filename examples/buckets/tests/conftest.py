"""The real service on loopback, in a thread."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]


@pytest.fixture
def serve():
    """Return a function that starts a service."""
    spec = importlib.util.spec_from_file_location("ra_test_bucket_server", HOME / "server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    servers = []

    def start(**options):
        server = module.Server(**options)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
