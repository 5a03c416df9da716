"""What a host sends for a job, to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.connections import Host
    from resource_api.fleet.job import HostJob
    from tests.fleet.pipe_connections import PipeConnections


def sent_documents(connections: PipeConnections, host: Host, job: HostJob) -> list[Mapping[str, Any]]:
    """Return the documents of all events of a host for a job; the last is its end. The connections are closed."""
    entries: list[Mapping[str, Any]] = []
    try:
        connections.start(host, job)
        while (event := connections.next_event(60)) is not None:
            entries.append(event.document)
            if event.document["type"] == "end":
                return entries
    finally:
        connections.close()
    raise AssertionError(f"no end came after {entries[-3:]}")
