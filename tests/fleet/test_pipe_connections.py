"""Law F1: connections to processes of this machine obey the laws of connections."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from resource_api.fleet.connections import Host
from tests.fleet.carrier_compliance import CarrierCompliance
from tests.fleet.pipe_connections import PipeConnections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.fleet.archives import Archives
    from resource_api.fleet.connections import HostConnections

pytestmark = pytest.mark.process


class TestPipeConnections(CarrierCompliance):
    """Hosts are child processes that share one cache."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Have one cache for all tests, as a host has for all runs."""
        self.directory = tmp_path_factory.getbasetemp().parent / "cache"

    @contextmanager
    def opened(self, payloads: Archives) -> Iterator[HostConnections]:
        """Return connections to hosts that use the cache."""
        connections = PipeConnections(payloads, cache=str(self.directory))
        yield connections
        connections.close()

    def unreachable(self) -> Host:
        """Return a host without interpreter."""
        return Host("gone", python="/nonexistent/python3")

    def kill(self, connections: HostConnections, name: str) -> None:
        """Kill the child."""
        assert isinstance(connections, PipeConnections)
        os.kill(connections.pid(name), signal.SIGKILL)
