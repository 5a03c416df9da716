"""What can be wrong with a host: each has one clear end, and all the others end well beside it (law F4)."""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet.ssh_connections import SshConnections
from tests.fleet.carrier_compliance import Trial, trial
from tests.fleet.faults import ENDS, EVENT, HAVE, PATIENCE, PROGRAM_ENDS, Faults, Proxy, know, ssh_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

_GOOD: Final = ("good1", "good2", "good3")
_ENDS: Final = {"asyncssh": ENDS, "ssh": PROGRAM_ENDS}


@pytest.fixture
def prepared(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """The needs of jobs."""
    directory = tmp_path / "trial"
    directory.mkdir()
    return trial(directory, tmp_path_factory.getbasetemp().parent / "payload")


@pytest.fixture
def connections(prepared: Trial, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshConnections]:
    """Connections that give up a silent host early."""
    monkeypatch.setattr("resource_api.fleet.transport.KEEPALIVE_SECONDS", 0.5)
    ssh_connections = SshConnections(prepared.payloads, environment={"HOME": str(home)}, transports=["asyncssh", "ssh"])
    yield ssh_connections
    ssh_connections.close()


def _take(
    connections: SshConnections, names: set[str], proxies: Mapping[str, Proxy]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the documents of each host, up to its end; cut the connection of one whose job is being done."""
    entries: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    until = time.monotonic() + PATIENCE
    while names - {name for name, all_ in entries.items() if all_ and all_[-1]["type"] == "end"}:
        event = connections.next_event(until - time.monotonic())
        assert event is not None, {name: all_[-1:] for name, all_ in entries.items()}
        entries[event.host].append(event.document)
        if event.document["type"] == "step_start" and event.host in proxies:
            proxies[event.host].cut()
    return entries


@pytest.mark.parametrize("transport", _ENDS)
def test_each_fault_has_one_clear_end_and_harms_no_otherssh_host(
    server: Server, home: Path, prepared: Trial, connections: SshConnections, transport: str
) -> None:
    """Whatever hosts do, those beside them end well, and memory does not grow with the data that is sent."""
    know(server, home / ".ssh" / "known_hosts")
    ends = _ENDS[transport]
    with ExitStack() as stack:
        faults = Faults(server, stack, transport)
        hosts = {name: faults.host(name, number) for number, name in enumerate(ends, 10)}
        hosts |= {name: ssh_host(server, name, number) for number, name in enumerate(_GOOD)}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name, host in hosts.items():
            path = "wait" if name.endswith("in its job") else ""
            declared = {"a": {"wait": "/nonexistent"} if path else {}}
            (home.parent / "trial" / name).mkdir(exist_ok=True)
            connections.start(host, prepared.job(declared, host=name))
        result = _take(connections, set(hosts), faults.proxies)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert {name: result[name][-1]["code"] for name in _GOOD} == dict.fromkeys(_GOOD, 0)
    assert all(document.get("message") != "mine" for name in _GOOD for document in result[name])
    wrong = {
        name: result[name][-1]
        for name, (status, text) in ends.items()
        if (result[name][-1]["status"], text in str(result[name][-1]["error"])) != (status, True)
    }
    assert wrong == {}
    assert all(str(result[name][-1]["error"]).isprintable() for name in ends)
    assert grown < 48 << 10, grown


@pytest.mark.parametrize("transport", _ENDS)
def test_a_host_that_never_stops_costs_no_otherssh_host(
    server: Server, prepared: Trial, connections: SshConnections, transport: str
) -> None:
    """The others end while events of one go on for ever; it is read only as fast as its events are taken."""
    flooding = ssh_host(server, "flooding", 100)._replace(transport=transport)
    server.profile(flooding.address, f"{HAVE} exec yes '{EVENT % ('x' * 900)}'")
    hosts = {name: ssh_host(server, name, 101 + number) for number, name in enumerate(_GOOD)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connections.start(flooding, prepared.job({}, host="flooding"))
    for name, host in hosts.items():
        connections.start(host, prepared.job({"a": {}}, host=name))
    ended: dict[str, Any] = {}
    until = time.monotonic() + PATIENCE
    while not ended.keys() >= set(_GOOD):
        event = connections.next_event(until - time.monotonic())
        assert event is not None
        if event.document["type"] == "end":
            ended[event.host] = event.document["code"]
    assert ended == dict.fromkeys(_GOOD, 0)
    time.sleep(0.5)  # nothing is taken meanwhile
    connections.abandon("flooding")
    while (event := connections.next_event(PATIENCE)) is not None and event.document["type"] != "end":
        pass
    assert event is not None
    assert event.document["status"] == "lost"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 48 << 10, grown


@pytest.mark.parametrize("transport", _ENDS)
def test_the_start_is_found_after_output_of_a_login_without_a_newline(
    server: Server, prepared: Trial, connections: SshConnections, transport: str
) -> None:
    """A login file that sets the title of a terminal harms no job."""
    host = ssh_host(server, "titled", 111)._replace(transport=transport)
    server.profile(host.address, r"printf '\033]0;%s\007' titled; printf 'RApi '")
    connections.start(host, prepared.job({"a": {}}, host="titled"))
    assert _take(connections, {"titled"}, {})["titled"][-1]["code"] == 0


@pytest.mark.parametrize("transport", _ENDS)
def test_a_host_that_is_connected_and_never_answers_has_the_limit_of_connections(
    server: Server, prepared: Trial, connections: SshConnections, transport: str
) -> None:
    """The lines that it printed are the reason; the limit does not hold for the job."""
    host = ssh_host(server, "mute", 112)._replace(transport=transport, connect_timeout=3.0)
    server.profile(host.address, r"printf 'Welcome\nenter your\033 badge: '; exec sleep 50")
    connections.start(host, prepared.job({"a": {}}, host="mute"))
    began = time.monotonic()
    end = _take(connections, {"mute"}, {})["mute"][-1]
    assert time.monotonic() - began < 20
    printed = r"Welcome | enter your\x1b badge:"
    assert (end["status"], end["error"]) == (
        "unreachable",
        (
            "it was connected, and no program has answered within 3 s: "
            f"see what its login waits for, or raise --connect-timeout; it printed: {printed}"
        ),
    )


@pytest.mark.parametrize("transport", _ENDS)
def test_an_interrupted_host_without_a_job_ends_at_once(
    server: Server, prepared: Trial, connections: SshConnections, transport: str
) -> None:
    """It is not waited for: nothing was sent."""
    host = ssh_host(server, "slow", 113)._replace(transport=transport, connect_timeout=PATIENCE)
    server.profile(host.address, "exec sleep 50")
    connections.start(host, prepared.job({"a": {}}, host="slow"))
    time.sleep(1)
    connections.interrupt("slow")
    began = time.monotonic()
    end = _take(connections, {"slow"}, {})["slow"][-1]
    assert time.monotonic() - began < 5
    assert (end["status"], end["error"]) == ("unreachable", "interrupted before the job was sent")


def test_the_clock_of_a_host_decides_nothing(server: Server, prepared: Trial, connections: SshConnections) -> None:
    """One that is years behind does its job, and its events have its own time."""
    host = ssh_host(server, "late", 110)
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    server.profile(host.address, f"export LD_PRELOAD={library} FAKETIME=-3000d DONT_FAKE_MONOTONIC=1")
    connections.start(host, prepared.job({"a": {}}, host="late"))
    late = _take(connections, {"late"}, {})["late"]
    assert late[-1]["code"] == 0
    assert late[0]["timestamp"] < "2020"
