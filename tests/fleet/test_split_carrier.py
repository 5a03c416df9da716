"""A carrier that splits hosts over processes obeys the laws of carriers, and no process costs the others anything."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet import job as jobs
from resource_api.fleet.carriers.carrier import Host, HostEvent, end, process_count
from resource_api.fleet.carriers.pipe import PipeCarrier
from resource_api.fleet.carriers.read_become_password import BecomePasswords
from resource_api.fleet.carriers.split_carrier import SplitCarrier
from resource_api.fleet.job import Job
from resource_api.fleet.value_sources import ValueSource
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import Sensitive
from resource_api.plugins.worker import protocol
from resource_api.system.process import process_tree
from resource_api.testing import CarrierCompliance
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.fleet.carriers.carrier import Carrier
    from resource_api.fleet.payload import Payloads

pytestmark = pytest.mark.process

ROOT: Final = Path(__file__).resolve().parents[2]
_JOB: Final = Job("apply", 1, payload="digest")
_PATIENCE: Final = 30.0


def split(make: Callable[[], Carrier], processes: int = 2, passwords: BecomePasswords | None = None) -> SplitCarrier:
    """Return a carrier that splits hosts over processes, by their ``via``."""
    return SplitCarrier(make, processes, passwords or BecomePasswords(), lambda host: host.via or "")


class TestSplitCarrier(CarrierCompliance):
    """Hosts are processes of two processes."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Have one cache for all tests, as a host has for all runs."""
        self.directory = tmp_path_factory.getbasetemp().parent / "cache"

    @contextmanager
    def opened(self, payloads: Payloads) -> Iterator[Carrier]:
        """Return a carrier whose hosts use the cache."""
        with closing(split(lambda: PipeCarrier(payloads, cache=str(self.directory)))) as carrier:
            yield carrier

    def unreachable(self) -> Host:
        """Return a host without an interpreter."""
        return Host("gone", python="/nonexistent/python3")

    def kill(self, carrier: Carrier, name: str) -> None:
        """Kill the host, which is the only one of its process."""
        assert isinstance(carrier, SplitCarrier)
        (host,) = [each.pid for each in process_tree.table().values() if each.parent == carrier.pid(name)]
        os.kill(host, signal.SIGKILL)


class Waiting:
    """Takes jobs to hosts that end when they are told to, and say where they are."""

    def __init__(self) -> None:
        """Begin without hosts."""
        self._events: list[HostEvent] = []

    def start(self, host: Host, job: Job) -> None:
        """Say what a host has been given."""
        hello = {"type": "hello", "pid": os.getpid(), "job": sha256(jobs.encode(job)).hexdigest()}
        self._events.append(HostEvent(host.name, hello))

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return what has been said."""
        if not self._events:
            time.sleep(seconds or 0)
        return self._events.pop(0) if self._events else None

    def interrupt(self, host: str) -> None:
        """End a host."""
        self._events.append(end(host, "ended", 0))

    def abandon(self, host: str) -> None:
        """End a host."""
        self._events.append(end(host, "lost", error="it was abandoned"))

    def close(self) -> None:
        """Do nothing."""


def started(carrier: Carrier, *hosts: Host, job: Job = _JOB) -> dict[str, Mapping[str, Any]]:
    """Start hosts and return the first document of each."""
    for host in hosts:
        carrier.start(host, job)
    return {event.host: event.document for event in (taken(carrier) for _ in hosts)}


def taken(carrier: Carrier) -> HostEvent:
    """Return the next event."""
    event = carrier.next_event(_PATIENCE)
    assert event is not None
    return event


def hosts_of(*names: str, **settings: Any) -> list[Host]:
    """Return hosts that are equal but for their names."""
    return [Host(name, **settings) for name in names]


def ended(carrier: Carrier, names: set[str]) -> dict[str, Mapping[str, Any]]:
    """Return the only document that comes of each host: its end; check that no other host has one."""
    found = [taken(carrier) for _ in names]
    assert sorted(event.host for event in found) == sorted(names)
    assert carrier.next_event(0.1) is None
    return {event.host: event.document for event in found}


def test_a_killed_process_ends_its_hosts_alone() -> None:
    """Each of them once, in doubt; the others end well, and further hosts go to the processes that are left."""
    with closing(split(Waiting, 3)) as carrier:
        names = [f"web{number}" for number in range(9)]
        pids = {name: hello["pid"] for name, hello in started(carrier, *hosts_of(*names)).items()}
        assert sorted(list(pids.values()).count(each) for each in set(pids.values())) == [3, 3, 3]
        os.kill(pids["web4"], signal.SIGKILL)
        theirs = {name for name in names if pids[name] == pids["web4"]}
        lost = end("", "lost", error="the process that connected to it was killed by SIGKILL").document
        assert ended(carrier, theirs) == dict.fromkeys(theirs, lost)
        later = started(carrier, *hosts_of("late1", "late2", "late3"))
        assert {each["pid"] for each in later.values()} == set(pids.values()) - {pids["web4"]}
        others = {*names, *later} - theirs
        for name in (*theirs, *others):
            carrier.interrupt(name)
        assert ended(carrier, others) == dict.fromkeys(others, end("", "ended", 0).document)


def test_a_job_that_was_never_sent_leaves_its_host_unreachable() -> None:
    """Where its process is killed before it has taken it; another host of that process is in doubt."""
    with closing(split(Waiting, 1)) as carrier:
        pid = started(carrier, Host("web1"))["web1"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        carrier.start(Host("web2"), _JOB._replace(inputs={"large": "x" * (4 << 20)}))
        assert carrier.next_event(0.1) is None
        os.kill(pid, signal.SIGKILL)
        found = ended(carrier, {"web1", "web2"})
        assert {name: each["status"] for name, each in found.items()} == {"web1": "lost", "web2": "unreachable"}
        carrier.start(Host("web3"), _JOB)
        why = "every process that connects to hosts has ended"
        assert taken(carrier) == end("web3", "unreachable", error=why)


def test_a_process_that_fails_says_why() -> None:
    """Its hosts have the reason, and were never sent a job."""

    def fail() -> Carrier:
        msg = "no descriptors are left"
        raise ResourceError(msg)

    with closing(split(fail, 1)) as carrier:
        carrier.start(Host("web1"), _JOB)
        assert taken(carrier) == end("web1", "unreachable", error="no descriptors are left")


_LIMITED: Final = """
import os, resource
from tests.fleet.test_split_carrier import Waiting, split
resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
os.setuid(54899)
split(Waiting, 5)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without processes")
@pytest.mark.usefixtures("_unmeasured")
def test_processes_that_cannot_be_started_are_an_error() -> None:
    """It says how many were to be started, and those that were have ended."""
    done = subprocess.run([sys.executable, "-c", _LIMITED], cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stderr.strip().split("\n")[-1]
    why = "5 processes that connect to hosts cannot be started: Resource temporarily unavailable"
    assert last == f"resource_api.model.values.errors.ResourceError: {why}"


def test_a_job_that_is_too_large_ends_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not sent, and others are not concerned."""
    monkeypatch.setattr(protocol, "MAX_FRAME", 2 << 20)
    with closing(split(Waiting, 1)) as carrier:
        carrier.start(Host("web1"), _JOB._replace(inputs={"large": "x" * (3 << 20)}))
        assert taken(carrier) == end("web1", "unreachable", error="sent more than 2 MiB at once")
        assert list(started(carrier, Host("web2"))) == ["web2"]


def test_a_job_arrives_as_it_was_made() -> None:
    """Byte for byte as a host gets it, with its secrets, and what it shares with others."""
    odd = {"secret": Sensitive("x"), "text": ("text", "é"), "nested": {1: [None, 1.5, float("inf"), b"\xff", {"a"}]}}
    files = {"motd": b"\x00\xff"}
    job = _JOB._replace(documents=[{"file": "site.yaml", "lines": (1, 2)}], files=files, inputs=odd, id="1")
    other = job._replace(documents=[], inputs={})
    with closing(split(Waiting, 1)) as carrier:
        for each in (job, job._replace(id="2"), other, job):
            hello = started(carrier, Host("web1"), job=each)["web1"]
            assert hello["job"] == sha256(jobs.encode(each)).hexdigest()
            carrier.abandon("web1")
            ended(carrier, {"web1"})


def test_hosts_behind_the_same_jump_hosts_share_a_process() -> None:
    """So the pace of their connections holds; all others go where the fewest are."""
    with closing(split(Waiting, 3)) as carrier:
        behind = hosts_of("web1", "web2", "web3", via="bastion") + hosts_of("db1", "db2", via="bastion,inner")
        pids = {name: each["pid"] for name, each in started(carrier, *behind, *hosts_of("a", "b", "c")).items()}
        assert pids["web1"] == pids["web2"] == pids["web3"]
        assert pids["db1"] == pids["db2"] != pids["web1"]
        assert len({pids["a"], pids["b"], pids["db1"], pids["web1"]}) == 3
        os.kill(pids["web1"], signal.SIGKILL)
        ended(carrier, {name for name in pids if pids[name] == pids["web1"]})
        assert started(carrier, Host("web4", via="bastion"))["web4"]["pid"] in set(pids.values()) - {pids["web1"]}


class Flooding(Waiting):
    """One host that says more for as long as it is listened to, and counts how much."""

    def __init__(self, counted: mmap.mmap) -> None:
        """Count in memory that processes share."""
        super().__init__()
        self._counted = counted

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return a line of a log."""
        if any(event.document["type"] == "end" for event in self._events):
            return super().next_event(seconds)
        self._counted[:8] = (int.from_bytes(self._counted[:8], "big") + 1).to_bytes(8, "big")
        return HostEvent("web1", {"type": "log", "message": "x" * 1024})


def test_a_process_waits_until_its_events_are_taken() -> None:
    """What has not been taken stays below 1 MiB, and an interrupt is obeyed as soon as something is taken."""
    counted = mmap.mmap(-1, 8)

    def count() -> int:
        return int.from_bytes(counted[:8], "big")

    with closing(split(lambda: Flooding(counted), 1)) as carrier:
        carrier.start(Host("web1"), _JOB)
        wait_until(lambda: count() > 10)
        carrier.interrupt("web1")
        time.sleep(0.5)
        before = count()
        time.sleep(0.5)
        assert count() == before < 1024
        number = 1
        while (event := taken(carrier)).document["type"] != "end":
            number += 1
        assert event.document["status"] == "ended"
        assert number < 3 * before


class Nesting(Waiting):
    """Hosts of which one says what is nested too deeply to be passed on."""

    def start(self, host: Host, _job: Job) -> None:
        """Say it."""
        document: dict[str, Any] = {"type": "log"}
        for _ in range(3000 if host.name == "web1" else 0):
            document = {"type": "log", "more": document}
        self._events.append(HostEvent(host.name, document))


def test_what_cannot_be_passed_on_ends_its_host_alone() -> None:
    """A document that is nested too deeply."""
    with closing(split(Nesting, 1)) as carrier:
        assert {name: each["type"] for name, each in started(carrier, *hosts_of("web1", "web2")).items()} == {
            "web1": "end",
            "web2": "log",
        }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_of_a_terminal_end_no_process(number: int) -> None:
    """Only the interrupts of the first one count: a host goes on."""
    with closing(split(Waiting)) as carrier:
        pids = {each["pid"] for each in started(carrier, *hosts_of("web1", "web2")).values()}
        for pid in pids:
            os.kill(pid, number)
        assert carrier.next_event(0.2) is None
        for name in ("web1", "web2"):
            carrier.interrupt(name)
        assert {each["code"] for each in ended(carrier, {"web1", "web2"}).values()} == {0}


_PARENT: Final = """
import os, signal, sys
from tests.fleet.test_split_carrier import Host, Waiting, hosts_of, split, started
carrier = split(Waiting, 3)
found = started(carrier, *hosts_of("web1", "web2", "web3"))
print(*(each["pid"] for each in found.values()), flush=True)
getattr(carrier, sys.argv[1])() if sys.argv[1] == "close" else os.kill(os.getpid(), int(sys.argv[1]))
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["close", str(int(signal.SIGKILL))])
def test_no_process_outlives_the_first_one(how: str) -> None:
    """Whether that is killed, or closes the carrier and goes on."""
    command = [sys.executable, "-c", _PARENT, how]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(each) for each in parent.stdout.readline().split()]
        assert len(set(pids)) == 3
        wait_until(lambda: not any(_runs(pid) for pid in pids))
        assert (parent.poll() is None) == (how == "close")


def _runs(pid: int) -> bool:
    found = process_tree.row(pid)
    return found is not None and found.state != "Z"


class Asking(Waiting):
    """Hosts that end with a digest of their password, or with why there is none."""

    def __init__(self, passwords: BecomePasswords) -> None:
        """Use the passwords of the run."""
        super().__init__()
        self._passwords = passwords

    def start(self, host: Host, _job: Job) -> None:
        """End."""
        assert host.become_password is not None
        try:
            found = sha256(self._passwords.read(host.become_password).reveal().encode()).hexdigest()
        except ResourceError as error:
            found = str(error)
        self._events.append(end(host.name, "lost", error=found))


def test_a_password_is_read_once_for_all_processes(tmp_path: Path) -> None:
    """By the first of them; why it cannot be read is said to each that needs it."""
    passwords = BecomePasswords()
    source = ValueSource("command", "sh -c 'echo read >>count; sleep 0.2; echo geheim'", str(tmp_path))
    with closing(split(lambda: Asking(passwords), 3, passwords)) as carrier:
        for host in hosts_of("web1", "web2", "web3", "web4", become_password=source):
            carrier.start(host, _JOB)
        digest = sha256(b"geheim").hexdigest()
        assert {each["error"] for each in ended(carrier, {"web1", "web2", "web3", "web4"}).values()} == {digest}
        assert (tmp_path / "count").read_text() == "read\n"
        missing = hosts_of("db1", "db2", become_password=ValueSource("file", "nowhere", str(tmp_path)))
        for host in missing:
            carrier.start(host, _JOB)
        why = f"become_password: {tmp_path}/nowhere: No such file or directory"
        assert {each["error"] for each in ended(carrier, {"db1", "db2"}).values()} == {why}


@pytest.mark.usefixtures("_unmeasured")
def test_only_runs_over_many_hosts_are_split() -> None:
    """Up to 2,000 one process carries all, and nothing that splits is imported."""
    processors = len(os.sched_getaffinity(0))
    assert process_count(2000, 500) == 1
    assert process_count(2001, 500) == min(processors, 32)
    assert process_count(3, 500, above=2) == min(processors, 32)
    assert process_count(2001, 1) == 1
    code = """
import sys
from resource_api.cli import hosted_run
from resource_api.fleet.payload import Payloads
for processes in (1, 2):
    carrier = hosted_run.make_carrier(Payloads(), {"at_once": 500}, ["asyncssh"], processes)
    print("resource_api.fleet.carriers.split_carrier" in sys.modules, "multiprocessing" in sys.modules)
    carrier.close()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True True"]
