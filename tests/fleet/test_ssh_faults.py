"""What can be wrong with a host: each has one clear end, and all the others end well beside it (law F4)."""

from __future__ import annotations

import resource
import select
import socket
import struct
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet.carriers import ssh
from resource_api.fleet.carriers.carrier import Host
from resource_api.fleet.carriers.ssh_carrier import SshCarrier
from resource_api.testing.carrier_examples import Trial, trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

#: Seconds within which every end comes, also on a machine with other work.
_PATIENCE: Final = 50.0
#: What a host does instead of running its job: lines for its login shell.
_HAVE: Final = 'printf \'RApi {"kind":"have"}\\n\'; '
_EVENT: Final = 'RApi {"kind":"event","document":{"type":"log","host":"good1","message":"%s"}}'
_NOISE: Final = "head -c 1073741824 /dev/zero"
_PROFILES: Final[Mapping[str, str]] = {
    "floods with bytes": f"{_NOISE}; exit",
    "floods with errors": f"{_NOISE} >&2; exit",
    "floods with lines": "yes Welcome | head -c 1073741824; exit",
    "lies": f"{_HAVE} printf '%s\\n' '{_EVENT % 'mine'}'; echo 'RApi {{\"kind\":\"end\",\"code\":999}}'; sleep 50",
    "is silent": f"{_HAVE} read -r job; exit 7",
    "kills its run": f"{_HAVE} read -r job; kill -9 $$",
    "has terminal sequences": r"printf '\033]0;owned\007\033[2J broken\n' >&2; exit 9",
    "does not let root be become": "",
    "has no interpreter": "PATH=/nonexistent",
}
_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "floods with bytes": ("unreachable", "it sent what is no event: more than 1 MiB of lines that are no frames"),
    "floods with errors": ("unreachable", "it wrote more than 1 MiB to its standard error"),
    "floods with lines": ("unreachable", "it sent what is no event: more than 1 MiB of lines that are no frames"),
    "lies": ("lost", "it sent what is no event: no exit code"),
    "is silent": ("lost", "the program there has ended with exit code 7"),
    "kills its run": ("lost", "the program there was ended by a signal"),
    "has terminal sequences": ("unreachable", r"\x1b]0;owned\x07\x1b[2J broken"),
    "does not let root be become": ("unreachable", "sudo has refused the password"),
    "has no interpreter": ("unreachable", "not found"),
    "is unknown": ("unreachable", "its address is not known"),
    "has an unknown key": ("unreachable", "is not known; if it is right: resource-api hosts trust has an unknown key"),
    "refuses": ("unreachable", "connection refused (127.4.9.1:1)"),
    "refuses our key": ("unreachable", "permission denied: it accepts no key of ours"),
    "has a full disk": ("unreachable", "No space left on device"),
    "is reset at once": ("unreachable", "the connection was"),
    "is reset in its greeting": ("unreachable", "the connection was"),
    "is reset in its job": ("lost", "the connection was lost"),
    "stalls before the job": ("unreachable", "no answer within 2 s"),
    "stalls in its job": ("lost", "the connection was lost"),
}
#: Bytes from a host after which its connection is reset, or stalls; None: when its job is being done.
_CUTS: Final = {
    "is reset at once": (0, True),
    "is reset in its greeting": (900, True),
    "is reset in its job": (None, True),
    "stalls before the job": (900, False),
    "stalls in its job": (None, False),
}
_GOOD: Final = ("good1", "good2", "good3")


@pytest.fixture
def prepared(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """What jobs need."""
    directory = tmp_path / "trial"
    directory.mkdir()
    return trial(directory, tmp_path_factory.getbasetemp().parent / "payload")


@pytest.fixture
def carrier(prepared: Trial, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshCarrier]:
    """A carrier that is sooner tired of a silent host than others are."""
    monkeypatch.setattr(ssh, "KEEPALIVE_SECONDS", 0.5)
    found = SshCarrier(prepared.payloads, environment={"HOME": str(home)})
    yield found
    found.close()


def _take(carrier: SshCarrier, names: set[str], proxies: Mapping[str, _Proxy]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the documents of each host, up to its end; cut the connection of one whose job is being done."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    until = time.monotonic() + _PATIENCE
    while names - {name for name, all_ in found.items() if all_ and all_[-1]["type"] == "end"}:
        event = carrier.next_event(until - time.monotonic())
        assert event is not None, {name: all_[-1:] for name, all_ in found.items()}
        found[event.host].append(event.document)
        if event.document["type"] == "step_start" and event.host in proxies:
            proxies[event.host].cut()
    return found


def test_each_fault_has_one_clear_end_and_harms_no_other_host(
    server: Server, home: Path, prepared: Trial, carrier: SshCarrier
) -> None:
    """Whatever hosts do, those beside them end well, and memory does not grow with what is sent."""
    known = f"[127.*]:{server.port},![127.4.9.2]:{server.port},127.4.9.9 {server.host_key}\n"
    (home / ".ssh" / "known_hosts").write_text(known, encoding="ascii")
    with ExitStack() as stack:
        proxies = {
            name: stack.enter_context(closing(_Proxy(server.port, after, reset=reset)))
            for name, (after, reset) in _CUTS.items()
        }
        hosts = {
            **_bad_hosts(server, proxies),
            **{name: _host(server, name, number) for number, name in enumerate(_GOOD)},
        }
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name, host in hosts.items():
            place = "wait" if name.endswith("in its job") else ""
            declared = {"a": {"wait": "/nonexistent"} if place else {}}
            (home.parent / "trial" / name).mkdir(exist_ok=True)
            carrier.start(host, prepared.job(declared, host=name))
        found = _take(carrier, set(hosts), proxies)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert {name: found[name][-1]["code"] for name in _GOOD} == dict.fromkeys(_GOOD, 0)
    assert all(document.get("message") != "mine" for name in _GOOD for document in found[name])
    wrong = {
        name: found[name][-1]
        for name, (status, text) in _ENDS.items()
        if (found[name][-1]["status"], text in str(found[name][-1]["error"])) != (status, True)
    }
    assert wrong == {}
    assert all(str(found[name][-1]["error"]).isprintable() for name in _ENDS)
    assert grown < 48 << 10, grown


def test_a_host_that_never_stops_costs_no_other_host(server: Server, prepared: Trial, carrier: SshCarrier) -> None:
    """The others end while events of one go on for ever; it is read only as fast as its events are taken."""
    flooding = _host(server, "flooding", 100)
    server.profile(flooding.address, f"{_HAVE} exec yes '{_EVENT % ('x' * 900)}'")
    hosts = {name: _host(server, name, 101 + number) for number, name in enumerate(_GOOD)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    carrier.start(flooding, prepared.job({}, host="flooding"))
    for name, host in hosts.items():
        carrier.start(host, prepared.job({"a": {}}, host=name))
    ended: dict[str, Any] = {}
    until = time.monotonic() + _PATIENCE
    while not ended.keys() >= set(_GOOD):
        event = carrier.next_event(until - time.monotonic())
        assert event is not None
        if event.document["type"] == "end":
            ended[event.host] = event.document["code"]
    assert ended == dict.fromkeys(_GOOD, 0)
    time.sleep(0.5)  # nothing is taken meanwhile
    carrier.abandon("flooding")
    while (event := carrier.next_event(_PATIENCE)) is not None and event.document["type"] != "end":
        pass
    assert event is not None
    assert event.document["status"] == "lost"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 48 << 10, grown


def test_the_clock_of_a_host_decides_nothing(server: Server, prepared: Trial, carrier: SshCarrier) -> None:
    """One that is years behind does its job, and its events have its own time."""
    host = _host(server, "late", 110)
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    server.profile(host.address, f"export LD_PRELOAD={library} FAKETIME=-3000d DONT_FAKE_MONOTONIC=1")
    carrier.start(host, prepared.job({"a": {}}, host="late"))
    found = _take(carrier, {"late"}, {})["late"]
    assert found[-1]["code"] == 0
    assert found[0]["timestamp"] < "2020"


def _bad_hosts(server: Server, proxies: Mapping[str, _Proxy]) -> dict[str, Host]:
    hosts = {}
    for number, name in enumerate(_ENDS, 10):
        host = hosts[name] = _host(server, name, number)
        if name in _PROFILES:
            server.profile(host.address, _PROFILES[name])
        if name in proxies:
            seconds = 2.0 if name.startswith("stalls") else _PATIENCE
            hosts[name] = host._replace(port=proxies[name].port, address="127.4.9.9", connect_timeout=seconds)
    stranger = str(server.keys / "stranger")
    _fill(server, hosts["has a full disk"].address)
    return {
        **hosts,
        "is unknown": hosts["is unknown"]._replace(address="nosuch.invalid"),
        "has an unknown key": hosts["has an unknown key"]._replace(address="127.4.9.2"),
        "refuses": hosts["refuses"]._replace(address="127.4.9.1", port=1),
        "refuses our key": hosts["refuses our key"]._replace(identity=stranger),
        "does not let root be become": hosts["does not let root be become"]._replace(
            user="deploy", become="sudo", become_password=("command", "echo wrong", "/")
        ),
    }


def _host(server: Server, name: str, number: int) -> Host:
    return Host(name, f"127.4.0.{number + 1}", server.port, "root", identity=str(server.identity))


def _fill(server: Server, address: str) -> None:
    """Give a host a cache on a full disk."""
    server.run("mkdir", "-p", "-m", "700", f"/hosts/{address}/cache")
    server.run("mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", f"/hosts/{address}/cache")


class _Proxy:
    """Passes a connection on to a port; resets or stalls it after so many bytes from there, or when it is told to."""

    def __init__(self, port: int, after: int | None, *, reset: bool) -> None:
        self._port, self._after, self._reset = port, after, reset
        self._listener = socket.create_server(("127.4.9.9", 0))
        self.port = self._listener.getsockname()[1]
        self._control, self._controlled = socket.socketpair()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._counts: dict[socket.socket, int] = {}
        self._cut: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def cut(self) -> None:
        """Cut every connection now."""
        self._control.send(b"c")

    def close(self) -> None:
        """End it."""
        self._control.send(b"e")
        self._thread.join()
        for each in (*self._pairs, self._listener, self._control, self._controlled):
            each.close()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._controlled, *self._pairs], [], [])
            if self._controlled in ready:
                if self._controlled.recv(1) == b"e":
                    return
                for there in list(self._counts):
                    self._end(there)
            elif self._listener in ready:
                client, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._port))
                self._pairs |= {client: there, there: client}
                self._counts[there] = 0
            else:
                self._pass_on(ready[0])

    def _pass_on(self, end: socket.socket) -> None:
        other = self._pairs[end]
        try:
            data = end.recv(65536)
            if data and not self._cut & {end, other}:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(end)
        elif end in self._counts:
            self._counts[end] += len(data)
            if self._after is not None and self._counts[end] > self._after:
                self._end(end)

    def _end(self, there: socket.socket) -> None:
        self._cut.add(there)
        if self._reset:
            self._close(there)

    def _close(self, end: socket.socket) -> None:
        for each in (end, self._pairs.get(end)):
            if each is not None and self._pairs.pop(each, None):
                self._counts.pop(each, None)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(self._reset), 0))
                each.close()
