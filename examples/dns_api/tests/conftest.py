"""The real service on loopback, in a thread."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
TOKEN = "ra-test-token"


@pytest.fixture(scope="session")
def service():
    """Return the module of the service."""
    spec = importlib.util.spec_from_file_location("ra_test_dns_server", HOME / "server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def serve(service):
    """Return a function that starts a service of its own account."""
    servers = []

    def start(**options):
        account = service.Account(["example.org", "sub.example.org", "example.net"])
        server = service.Server(account, TOKEN, **options)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
