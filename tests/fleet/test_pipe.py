"""Law F1: the carrier whose hosts are processes here obeys the laws of carriers."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from resource_api.fleet.carriers.carrier import Host
from resource_api.fleet.carriers.pipe import PipeCarrier
from resource_api.testing import CarrierCompliance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.fleet.carriers.carrier import Carrier
    from resource_api.fleet.payload import Payloads

pytestmark = pytest.mark.process


class TestPipeCarrier(CarrierCompliance):
    """Hosts are child processes that share one cache."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Have one cache for all tests, as a host has for all runs."""
        self.directory = tmp_path_factory.getbasetemp().parent / "cache"

    @contextmanager
    def opened(self, payloads: Payloads) -> Iterator[Carrier]:
        """Return a carrier whose hosts use the cache."""
        carrier = PipeCarrier(payloads, cache=str(self.directory))
        yield carrier
        carrier.close()

    def unreachable(self) -> Host:
        """Return a host without interpreter."""
        return Host("gone", python="/nonexistent/python3")

    def kill(self, carrier: Carrier, name: str) -> None:
        """Kill the child."""
        assert isinstance(carrier, PipeCarrier)
        os.kill(carrier.pid(name), signal.SIGKILL)
