"""A PostgreSQL server for all tests of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.postgresql_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Yield a running server."""
    server = Server()
    yield server
    server.remove()
