"""Kill the machine that asks, a connection, or a run on a host, at any moment; then run again, and count effects.

``python -m tests.fleet.kills ROUNDS [SEED [TRANSPORT]]`` starts an sshd of its own, as root.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.connections import LIBRARY, Host
from resource_api.fleet.ssh_connections import SshConnections
from tests.fleet.carrier_compliance import trial
from tests.fleet.sshd import started_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.fleet.archives import Archives
    from resource_api.fleet.job import HostJob
    from tests.fleet.carrier_compliance import Trial
    from tests.fleet.sshd import Server

#: Resources that each round declares anew.
_EACH: Final = 12
_PATIENCE: Final = 60.0
_ADDRESS: Final = "127.7.0.1"


class Rounds:
    """Rounds on one host: each has new resources, a run that is killed, and one that is not."""

    def __init__(self, server: Server, prepared: Trial, home: Path, seed: int, transport: str = LIBRARY) -> None:
        """Use a server and the needs of jobs; ``home`` knows the server's keys."""
        self.transport = transport
        self.server = server
        self.trial = prepared
        self.home = home
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.runs = 0
        #: Seconds that a run takes there.
        self.usual = 1.0
        #: What was killed, and how often there was nothing to kill any more.
        self.kills = Counter[str]()

    def run(self, rounds: int) -> None:
        """Run some rounds; raise ``AssertionError`` unless every effect was done exactly once."""
        kinds = ("controller", "connection", "run")
        for number in range(rounds):
            names = [f"{number}-{index}" for index in range(_EACH)]
            kind = kinds[number % len(kinds)]
            controller = self._start(names)
            if kind == "controller" and number % 2:
                time.sleep(self.random.uniform(0, 0.1))
            else:
                self._await(running=True, unless=controller)
                time.sleep(self.random.uniform(0, self.usual))
            killed = self._kill(kind, controller)
            self.kills[kind if killed else "nothing"] += 1
            controller.end()
            self._await(running=False)
            controller = self._start(names)
            self._await(running=True, unless=controller)
            began = time.monotonic()
            self._await(running=False)
            self.usual = time.monotonic() - began
            ended = controller.end()
            assert ended == "ended 0", (number, kind, ended)
            effects = Counter(self.trial.effects("web1"))
            assert all(count == 1 for count in effects.values()), (number, kind, effects.most_common(3))
            path = self.trial.directory_of("web1")
            assert [name for name in names if not Path(path, name).exists()] == [], (number, kind)

    def _start(self, names: list[str]) -> Controller:
        """Start a process that takes a job to the host and says how it has ended."""
        self.runs += 1
        resources: Mapping[str, Mapping[str, Any]] = {name: {} for name in names}
        job = self.trial.job(resources, run=str(self.runs), lock_timeout=_PATIENCE)
        identity = str(self.server.identity)
        host = Host("web1", _ADDRESS, self.server.port, "root", identity=identity, transport=self.transport)
        return Controller(lambda: _ended(self.trial.payloads, host, job, self.home))

    def _kill(self, kind: str, controller: Controller) -> bool:
        """Kill something of a run; return whether there was something to kill."""
        if kind == "controller":
            return controller.kill()
        processes = self.server.processes(_ADDRESS)
        if kind == "connection":
            # What has lost its parent has the first process, which is the server itself.
            parents = {_parent(pid) for pid in processes} - {self.server.pid}
            processes = [pid for pid in parents if _name(pid) == "sshd"]
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(processes)

    def _await(self, *, running: bool, unless: Controller | None = None) -> None:
        """Wait until something runs on the host, or nothing any more; not where a controller has ended."""
        until = time.monotonic() + _PATIENCE
        while bool(self.server.processes(_ADDRESS)) != running and not (unless and unless.has_ended()):
            assert time.monotonic() < until, f"running: {not running}"
            time.sleep(0.01)


class Controller:
    """A copy of this process that does one thing, and writes what has come of it."""

    def __init__(self, work: Callable[[], str]) -> None:
        """Do ``work`` in the copy."""
        self._result, theirs = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            with suppress(BaseException):
                os.write(theirs, work().encode())
            os._exit(0)
        os.close(theirs)

    def kill(self) -> bool:
        """Kill it; return whether it had not ended."""
        running = not self.has_ended()
        os.kill(self._pid, signal.SIGKILL)
        return running

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> str:
        """Wait for its end and return what it has written."""
        with os.fdopen(self._result, encoding="utf-8") as file:
            text = file.read()
        os.waitpid(self._pid, 0)
        return text


def _ended(payloads: Archives, host: Host, job: HostJob, home: Path) -> str:
    """Take a job to its host and return how it has ended."""
    connections = SshConnections(payloads, environment={"HOME": str(home)}, transports=[host.transport])
    connections.start(host, job)
    while (event := connections.next_event(_PATIENCE)) is not None:
        if event.document["type"] == "end":
            status, code, error = (event.document[name] for name in ("status", "code", "error"))
            return f"{status} {code}{error or ''}"
    return "nothing"


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").partition("(")[2].rpartition(")")
        return [name, *rest.split()]
    return ["", "", "0"]


def _parent(pid: int) -> int:
    return int(_stat(pid)[2])


def _name(pid: int) -> str:
    return _stat(pid)[0]


def _main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for word in ("server", "shared/trial", "home/.ssh"):
            (directory / word).mkdir(parents=True)
        with started_server(directory / "server", directory / "shared") as server:
            server.known_hosts(directory / "home/.ssh/known_hosts")
            prepared = trial(directory / "shared/trial", directory / "payload")
            seed, transport = [*arguments[1:], *("0", LIBRARY)[len(arguments) - 1 :]]
            rounds = Rounds(server, prepared, directory / "home", int(seed), transport)
            rounds.run(int(arguments[0]))
            count = len(prepared.effects("web1"))
            sys.stdout.write(f"{dict(rounds.kills)}: {count} effects, each once\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
