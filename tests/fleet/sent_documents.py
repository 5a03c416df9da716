"""What a host sends for a job, to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.carriers.carrier import Host
    from resource_api.fleet.carriers.pipe import PipeCarrier
    from resource_api.fleet.job import Job


def sent_documents(carrier: PipeCarrier, host: Host, job: Job) -> list[Mapping[str, Any]]:
    """Return the documents of all events of a host for a job; the last is its end. The carrier is closed."""
    found: list[Mapping[str, Any]] = []
    try:
        carrier.start(host, job)
        while (event := carrier.next_event(60)) is not None:
            found.append(event.document)
            if event.document["type"] == "end":
                return found
    finally:
        carrier.close()
    msg = f"no end came after {found[-3:]}"
    raise AssertionError(msg)
