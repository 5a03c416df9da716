"""Law F1 for SSH: over a real sshd, the same events come in the same order as from a process here."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

import pytest

from resource_api.fleet.connections import Host
from resource_api.fleet.ssh_connections import SshConnections
from tests.fleet.carrier_compliance import CarrierCompliance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resource_api.fleet.archives import Archives
    from resource_api.fleet.connections import HostConnections
    from tests.fleet.carrier_compliance import Trial
    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

_ADDRESSES: Final = {"web1": "127.3.0.1", "web2": "127.3.0.2"}


class TestSshConnections(CarrierCompliance):
    """Hosts are addresses of one server, to which root may log in."""

    transport: ClassVar[str] = "asyncssh"

    @pytest.fixture(autouse=True)
    def _server(self, server: Server, home: Path) -> None:
        """Use the server of all tests."""
        self.server = server
        self.home = home

    @contextmanager
    def opened(self, payloads: Archives) -> Iterator[HostConnections]:
        """Return connections that know the hosts."""
        connections = SshConnections(payloads, environment={"HOME": str(self.home)}, transports=[self.transport])
        yield connections
        connections.close()

    def host(self, name: str) -> Host:
        """Return a host of the server."""
        identity = str(self.server.identity)
        return Host(name, _ADDRESSES[name], self.server.port, "root", identity=identity, transport=self.transport)

    def unreachable(self) -> Host:
        """Return a host whose port nothing listens on."""
        return Host("gone", "127.3.0.3", 1, "root", identity=str(self.server.identity), transport=self.transport)

    def kill(self, connections: HostConnections, name: str) -> None:
        """Kill what the connection has started."""
        assert isinstance(connections, SshConnections)
        for pid in self.server.processes(_ADDRESSES[name]):
            os.kill(pid, signal.SIGKILL)


class TestSshProgram(TestSshConnections):
    """The same hosts, reached by the program ``ssh``."""

    transport = "ssh"

    @pytest.mark.parametrize("lie", ["no frame", "too long"])
    def test_what_is_no_event_ends_its_host(self, trial: Trial, lie: str) -> None:
        """The others differ for the channel, which is the same."""
        super().test_what_is_no_event_ends_its_host(trial, lie)
