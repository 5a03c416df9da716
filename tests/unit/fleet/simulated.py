"""Hosts that exist in the memory of a test, and their time: connections that deliver jobs to them at once."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from resource_api.fleet.connections import LOST, Host, HostEvent, end_event
from resource_api.fleet.job import HostJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.fleet.merge import HostReport
    from resource_api.fleet.run import BatchReport, BatchStart

    #: Yields the seconds until the next document of a host, and the document; a host that does not end is silent.
    Behaviour = Callable[[Host, HostJob], Iterator[tuple[float, Mapping[str, Any]]]]

JOB = HostJob("id", 1, "apply", "digest", None, (), {}, {}, {}, {}, None)


def log(message: str, level: str = "notice", subject: str = "File[/etc/motd]") -> dict[str, Any]:
    """Return a line of a host's log."""
    return {"type": "log", "timestamp": "2026-01-01T00:00:00+00:00", "level": level, "subject": subject,
            "message": message, "reference": subject or None}  # fmt: skip


def summary(**counts: int) -> dict[str, Any]:
    """Return the last document of a run before its end."""
    names = ("created", "updated", "replaced", "deleted", "imported", "forgotten", "refreshed", "unchanged", "failed",
             "skipped")  # fmt: skip
    return {"type": "summary", "noop": False, **dict.fromkeys(names, 0), **counts}


def end(status: str = "ended", code: int | None = 0, error: str | None = None) -> dict[str, Any]:
    """Return the last document of a host."""
    return {"type": "end", "status": status, "code": code, "error": error}


def changes(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Change one file."""
    yield 0.1, log("content changed")
    yield 0.1, summary(updated=1)
    yield 0.0, end()


def fails(host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Fail to change one file."""
    yield 0.1, log(f"permission denied on {host.name}", "err")
    yield 0.1, summary(failed=1)
    yield 0.0, end(code=1)


def is_unreachable(host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Answer to nothing."""
    yield 0.1, end("unreachable", None, f"connection refused ({host.address or host.name}:22)")


def is_locked(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Be changed by somebody else."""
    yield 0.1, {"type": "refused", "problems": [{"message": "apply (pid 7) holds the lock since 12:00"}]}
    yield 0.0, end("refused", 75)


def is_silent(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Never end."""
    yield 0.1, {"type": "hello"}


class SimulatedConnections:
    """Takes jobs to hosts that behave as a function says, in a time of its own."""

    def __init__(self, behaviour: Callable[[str], Behaviour], *, obeys: bool = True) -> None:
        """Begin at the time 0; ``obeys``: a host that is interrupted ends."""
        self.now = 0.0
        self._behaviour = behaviour
        self._obeys = obeys
        self._order = count()
        self._due: list[tuple[float, int, str, Mapping[str, Any], Iterator[Any]]] = []
        self._now_due: deque[HostEvent] = deque()
        self.running: dict[str, Iterator[Any]] = {}
        self.most = 0
        self.starts = list[str]()
        self.closed = False

    def start(self, host: Host, job: HostJob) -> None:
        """Begin what the host does."""
        assert host.name not in self.starts, "started twice"
        self.starts.append(host.name)
        self.running[host.name] = doing = iter(self._behaviour(host.name)(host, job))
        self.most = max(self.most, len(self.running))
        self._follow(host.name, doing)

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return what happens next, or let the time pass."""
        if self._now_due:
            return self._now_due.popleft()
        until = self.now + seconds if seconds is not None else float("inf")
        while self._due and self._due[0][0] <= until:
            due, _, name, document, doing = heapq.heappop(self._due)
            if self.running.get(name) is not doing:
                continue
            self.now = max(self.now, due)
            if document["type"] == "end":
                del self.running[name]
            else:
                self._follow(name, doing)
            return HostEvent(name, document)
        self.now = until
        return None

    def interrupt(self, host: str) -> None:
        """End what a host does after its step, if it obeys."""
        if self._obeys and host in self.running:
            doing = self.running[host] = iter([(0.05, end(code=130))])
            self._follow(host, doing)

    def abandon(self, host: str) -> None:
        """Have the end come at once."""
        if self.running.pop(host, None) is not None:
            self._now_due.append(end_event(host, LOST, error="abandoned"))

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def _follow(self, name: str, doing: Iterator[Any]) -> None:
        for seconds, document in doing:
            heapq.heappush(self._due, (self.now + seconds, next(self._order), name, document, doing))
            return


class Watcher:
    """An observer that keeps what it is told, and may refuse a batch."""

    def __init__(self, refuse: int = 0) -> None:
        """Refuse the batch after the one with this number."""
        self.told = list[tuple[str, Any]]()
        self._refuse = refuse

    def host_started(self, host: Host, batch: int) -> None:
        """Keep it."""
        self.told.append(("start", (host.name, batch)))

    def host_event(self, host: str, document: Mapping[str, Any]) -> None:
        """Keep it."""
        self.told.append(("event", (host, document["type"])))

    def host_ended(self, report: HostReport) -> None:
        """Keep it."""
        self.told.append(("end", report.name))

    def batch_ended(self, batch: BatchReport) -> None:
        """Keep it."""
        self.told.append(("batch", batch))

    def next_batch(self, batch: BatchReport) -> str:
        """Refuse the one that is to be refused."""
        return "refused" if batch.number == self._refuse else ""

    def interrupted(self, times: int) -> None:
        """Keep it."""
        self.told.append(("interrupt", times))

    def before_batch(self, batch: BatchStart) -> str:
        """Keep it, and let every batch begin."""
        self.told.append(("before", batch))
        return ""

    def running(self, started: int, ended: int, failed: int, slowest: Mapping[str, float]) -> None:
        """Check what is said."""
        assert len(slowest) == min(started - ended, 3)
        assert list(slowest.values()) == sorted(slowest.values(), reverse=True)
        assert ended <= started
        assert failed <= ended

    def of(self, kind: str) -> list[Any]:
        """Return what was told of one kind."""
        return [subject for item, subject in self.told if item == kind]


class Silent:
    """An observer that keeps nothing."""

    def host_started(self, host: Host, batch: int) -> None:
        """Do nothing."""

    def host_event(self, host: str, document: Mapping[str, Any]) -> None:
        """Do nothing."""

    def host_ended(self, report: HostReport) -> None:
        """Do nothing."""

    def batch_ended(self, batch: BatchReport) -> None:
        """Do nothing."""

    def next_batch(self, batch: BatchReport) -> str:  # noqa: ARG002 - of the protocol
        """Let every batch begin."""
        return ""

    def interrupted(self, times: int) -> None:
        """Do nothing."""

    def before_batch(self, batch: BatchStart) -> str:  # noqa: ARG002 - of the protocol
        """Let every batch begin."""
        return ""

    def running(self, started: int, ended: int, failed: int, slowest: Mapping[str, float]) -> None:
        """Do nothing."""
