"""The store on PostgreSQL obeys the laws of shared stores on a real server: direct, encrypted, and behind a pooler."""

from __future__ import annotations

from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from resource_api.state.encryption import keys
from resource_api.state.postgresql.store import PostgresqlStore
from resource_api.testing.state_compliance import SharedStateCompliance
from tests.postgresql_server import pooler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.state.store import Store
    from tests.postgresql_server import Server


pytestmark = pytest.mark.process


class TestStore(SharedStateCompliance):
    """The store obeys the laws of shared stores."""

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.server = server

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Store]]:
        with self.server.database() as url:
            yield lambda: PostgresqlStore(url)


class TestEncryptedStore(TestStore):
    """With a key it obeys the same laws."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Store]]:
        with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory, self.server.database() as url:
            keys.create_key_file(f"{directory}/key")
            yield lambda: PostgresqlStore(url, keys.key_from_url(f"file:{directory}/key", {}))


class TestPooledStore(TestStore):
    """Behind pgbouncer, which gives each transaction to another session, it obeys the same laws."""

    @pytest.fixture(autouse=True)
    def _pooler(self, pooler_port: int) -> None:
        self.port = pooler_port

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Store]]:
        with self.server.database() as url:
            yield lambda: PostgresqlStore(url.replace(f":{self.server.port}/", f":{self.port}/"))


@pytest.fixture(scope="module")
def pooler_port(server: Server) -> Iterator[int]:
    """Yield the port of a pooler in transaction mode."""
    with pooler(server) as port:
        yield port
