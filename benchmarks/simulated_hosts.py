"""``python simulated_hosts.py COUNT DIRECTORY``: apply a manifest on so many hosts, each of which answers at once.

Everything is done but what is done on hosts and on the way to them: an inventory is read, jobs are made, answers are
folded, the ledger is written. One host in a thousand fails.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api.cli import hosted_run
from resource_api.cli.main import run
from resource_api.fleet.connections import HostEvent, end_event

if TYPE_CHECKING:
    from resource_api.fleet.connections import Host
    from resource_api.fleet.job import HostJob

_FAILING = 1000
_CHANGES = ("created", "updated", "replaced", "deleted", "imported", "forgotten", "refreshed", "ran")
_COUNTS = (*_CHANGES, "unchanged", "skipped")


class Answering:
    """Takes jobs to hosts that change one file, or fail to."""

    def __init__(self) -> None:
        """Begin without answers."""
        self._events: deque[HostEvent] = deque()
        self._started = 0

    def start(self, host: Host, job: HostJob) -> None:
        """Have all answers of a host ready."""
        self._started += 1
        failed = self._started % _FAILING == 0
        reference, project = "File[/etc/motd]", job.options.get("project")
        about = {"reference": reference, "timestamp": f"2026-01-01T00:00:{self._started % 60:02}+00:00"}
        level, message = ("err", "the disk is full") if failed else ("notice", f"content changed on {host.name}")
        log = {**about, "type": "log", "level": level, "subject": reference, "message": message, "project": project}
        step = {"type": "step_end", **about, "urn": f"urn:resource:default::web::file::{host.name}", "action": "update"}
        status, nothing = "failed" if failed else "success", list[Any]()
        outcome = {"status": status, "changes": nothing, "error": None, "seconds": 0.01}
        counts: dict[str, Any] = {**dict.fromkeys(_COUNTS, 0), "updated": int(not failed), "failed": int(failed)}
        answers: list[dict[str, Any]] = [
            {"type": "hello", "python": "3.11.2", "version": "0.1.0", "uid": 0},
            {"type": "step_start", **about, "action": "update"},
            log,
            {**step, **outcome},
            {"type": "summary", **counts, "noop": False, "exit_code": int(failed), "run": f"{self._started:016x}"},
        ]
        self._events.extend(HostEvent(host.name, answer) for answer in answers)
        self._events.append(end_event(host.name, "ended", int(failed)))

    def next_event(self, _seconds: float | None) -> HostEvent | None:
        """Return the next answer."""
        return self._events.popleft() if self._events else None

    def interrupt(self, _host: str) -> None:
        """Do nothing: every host has ended."""

    abandon = interrupt

    def close(self) -> None:
        """Do nothing."""


def apply(count: int, directory: Path, *arguments: str) -> int:
    """Apply on ``count`` hosts, and return the exit code."""
    site = directory / "site.yaml"
    site.write_text("project: web\ninputs: {role: {type: String}}\nresources:\n  File[/etc/motd]: {content: hello}\n")
    inventory = f'hosts: {{"web[1:{count}]": {{groups: [web], inputs: {{role: front}}}}}}\n'
    (directory / "hosts.yaml").write_text(inventory)
    os.environ["RESOURCE_API_FLEET"] = str(directory / "fleet")
    return run(["apply", str(site), "--on", "web", "--batches", "1,10%,100%", "--stop-after", "1%", *arguments])


if __name__ == "__main__":
    hosted_run.open_connections = lambda *_: Answering()
    sys.exit(apply(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
