"""Law F3: after a kill at any event, of the host's process, of the channel, or of whoever asked, nothing is done twice.

``FAULTS_ALL_POINTS=1`` kills at every event; otherwise at some of them, always the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.fleet import job as jobs
from resource_api.fleet.connections import Host
from tests.fleet.carrier_compliance import Trial, trial
from tests.fleet.pipe_connections import PipeConnections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.job import HostJob

pytestmark = pytest.mark.process

ROOT: Final = Path(__file__).resolve().parents[2]
#: The events of one run of three resources: hello, for each what is planned, begun, logged and done, and the summary.
EVENTS: Final = 14
WHOLE: Final = bool(os.environ.get("FAULTS_ALL_POINTS"))
POINTS: Final = range(EVENTS) if WHOLE else (0, 6, 9)
RESOURCES: Final[Mapping[str, Mapping[str, object]]] = {"a": {}, "b": {}, "c": {}}
#: Asks for a job, and is killed after so many events.
CONTROLLER: Final = """
import os, signal, sys
from resource_api.fleet import job as jobs
from resource_api.fleet.connections import Host
from tests.fleet.pipe_connections import PipeConnections
from resource_api.fleet.archives import SentArchive, Archives
from resource_api.plugins.worker import protocol
cache, last, *archives = sys.argv[1:]
found = [SentArchive(os.path.basename(path), open(path, "rb").read()) for path in archives]
(frame,) = protocol.Decoder().feed(sys.stdin.buffer.read())
connections = PipeConnections(Archives(*found), cache=cache)
connections.start(Host("web1"), jobs.decode(frame))
for number in range(int(last) + 1):
    connections.next_event(60)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def prepared(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, str]:
    """Return the needs of jobs, and a cache that has the archives."""
    shared = tmp_path_factory.getbasetemp().parent
    return trial(tmp_path, shared / "payload"), str(shared / "cache")


def run_to_end(trial: Trial, cache: str, job: HostJob) -> Mapping[str, object]:
    """Carry a job out and return its end."""
    connections = PipeConnections(trial.payloads, cache=cache)
    try:
        connections.start(Host("web1"), job)
        while (event := connections.next_event(60)) is not None:
            if event.document["type"] == "end":
                return event.document
    finally:
        connections.close()
    raise AssertionError("no end came")


def check(trial: Trial, cache: str, job: HostJob) -> None:
    """Deliver the same job again, and then a newer one: all is there, and no effect was done twice."""
    assert run_to_end(trial, cache, job)["code"] == 0
    later = trial.job(RESOURCES, run="2", lock_timeout=60.0)
    assert run_to_end(trial, cache, later)["code"] == 0
    path = Path(trial.directory_of("web1"))
    assert all((path / name).exists() for name in RESOURCES)
    effects = trial.effects("web1")
    assert len(effects) == len(set(effects)), effects


@pytest.mark.parametrize("last", POINTS)
@pytest.mark.parametrize("subject", ["process", "channel"])
def test_a_host_or_its_channel_is_killed(prepared: tuple[Trial, str], subject: str, last: int) -> None:
    """After any event of the first run: the job that is delivered again resolves what was in doubt."""
    created, cache = prepared
    job = created.job(RESOURCES, lock_timeout=60.0)
    connections = PipeConnections(created.payloads, cache=cache)
    connections.start(Host("web1"), job)
    for _ in range(last + 1):
        event = connections.next_event(60)
        assert event is not None
    assert event.document["type"] != "end", "there are more points than events"
    if subject == "process":
        with suppress(KeyError):  # it has ended before its events were read
            os.kill(connections.pid("web1"), signal.SIGKILL)
    else:
        connections.abandon("web1")
    connections.close()
    check(created, cache, job)


@pytest.mark.parametrize("last", POINTS if WHOLE else (6,))
def test_whoever_asked_is_killed(prepared: tuple[Trial, str], last: int) -> None:
    """The host ends its run by itself; the same job finds it done, or waits for it."""
    created, cache = prepared
    job = created.job(RESOURCES, lock_timeout=60.0)
    paths = []
    for archive in (created.package, created.modules):
        path = Path(created.directory, archive.digest)
        path.write_bytes(archive.raw)
        paths.append(str(path))
    process = subprocess.run(
        [sys.executable, "-c", CONTROLLER, cache, str(last), *paths], input=jobs.encode(job), cwd=ROOT, check=False
    )
    assert process.returncode == -signal.SIGKILL
    check(created, cache, job)


def test_the_points_are_all_events_of_a_run(prepared: tuple[Trial, str]) -> None:
    """No event of the run that is killed is left out."""
    created, cache = prepared
    connections = PipeConnections(created.payloads, cache=cache)
    connections.start(Host("web1"), created.job(RESOURCES))
    count, began = 0, time.monotonic()
    while (event := connections.next_event(60)) is not None and event.document["type"] != "end":
        count += 1
        assert time.monotonic() - began < 60
    connections.close()
    assert count == EVENTS
