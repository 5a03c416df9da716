"""The command ``resource-api`` whose hosts are child processes of it, each with a home of its own.

``python -m tests.fleet.pipe_command DIRECTORY ARGUMENT...``; a host whose name begins with ``gone`` cannot be reached,
one whose name begins with ``liar`` sends the documents of the variable ``LIES`` and ends well. The seconds of the
variable ``LONG_STEP`` pass when a host begins a step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api.cli.main import run
from resource_api.fleet.connections import ENDED, UNREACHABLE, HostEvent, end_event
from resource_api.fleet.run import FleetRun
from tests.fleet.pipe_connections import PipeConnections

if TYPE_CHECKING:
    from resource_api.fleet.archives import Archives
    from resource_api.fleet.connections import Host
    from resource_api.fleet.job import HostJob


class Clock:
    """The time in seconds, which a test can let pass."""

    def __init__(self) -> None:
        """Begin with the time of this machine."""
        self._passed = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.monotonic() + self._passed

    def advance(self, seconds: float) -> None:
        """Let seconds pass."""
        self._passed += seconds


class Homes:
    """Takes jobs to child processes, whose variable ``HOST_HOME`` names a directory of the host."""

    def __init__(self, payloads: Archives, directory: Path, clock: Clock) -> None:
        """Keep the hosts beneath a directory."""
        self._clock = clock
        self._payloads = payloads
        self._directory = directory
        self._connections: dict[str, PipeConnections] = {}
        self._ready: list[HostEvent] = []

    def start(self, host: Host, job: HostJob) -> None:
        """Begin to take a job to a host."""
        if host.name.startswith("gone"):
            self._ready.append(end_event(host.name, UNREACHABLE, error=f"connection refused ({host.name}:22)"))
            return
        if host.name.startswith("liar"):
            lies = [HostEvent(host.name, document) for document in json.loads(os.environ["LIES"])]
            self._ready += [end_event(host.name, ENDED, 0), *reversed(lies)]
            return
        home = self._directory / host.name
        home.mkdir(exist_ok=True)
        environment = {**os.environ, "HOST_HOME": str(home), "XDG_STATE_HOME": str(home)}
        pipe_connections = PipeConnections(
            self._payloads,
            cache=os.environ.get("HOST_CACHE") or str(self._directory / "cache"),
            environment=environment,
        )
        self._connections[host.name] = pipe_connections
        pipe_connections.start(host, job)

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host."""
        if self._ready:
            return self._ready.pop()
        share = (seconds or 0.2) / max(1, len(self._connections))
        for name, item in list(self._connections.items()):
            if (event := item.next_event(share)) is not None:
                if event.document["type"] == "end":
                    self._connections.pop(name).close()
                if event.document["type"] == "step_start":
                    self._clock.advance(float(os.environ.get("LONG_STEP", "0")))
                return event
        return None

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end."""
        self._connections[host].interrupt(host)

    def abandon(self, host: str) -> None:
        """Close the channel to a host."""
        if host in self._connections:
            self._connections[host].abandon(host)

    def close(self) -> None:
        """Close all channels."""
        for connection in self._connections.values():
            connection.close()


if __name__ == "__main__":
    place, clock = Path(sys.argv[1]), Clock()
    hosted_run: Any = import_module("resource_api.cli.hosted_run")  # itself: its package has a stand-in for it
    hosted_run.open_connections = lambda payloads, *_: Homes(payloads, place, clock)
    hosted_run.FleetRun = partial(FleetRun, clock=clock)
    sys.exit(run(sys.argv[2:]))
