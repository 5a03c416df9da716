"""``python -m benchmarks.faulty_hosts [ROUNDS]``: how much longer sound hosts take beside faulty ones, as root.

Hosts are addresses of one real sshd. What a host computes is computed elsewhere, so each sound one waits for a second
in place of its work, and then ends well. There are 36 of them, and four more that are sound or
have one fault; or nineteen, each with another one. The times of the 36 are compared. Runs with and without faults
alternate, and the shortest of each kind are compared: the longer ones had other work beside them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.fleet.ssh_connections import SshConnections
from tests.fleet.carrier_compliance import trial
from tests.fleet.faults import ENDS, HAVE, PATIENCE, Faults, know, ssh_host
from tests.fleet.sshd import started_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.fleet.connections import Host
    from tests.fleet.carrier_compliance import Trial
    from tests.fleet.sshd import Server

#: Hosts of which the times are compared, and those that are sound or faulty beside them.
_SOUND: Final = 36
_OTHERS: Final = 4
_WORK: Final = f'{HAVE} read -r job; sleep 1; echo \'RApi {{"kind":"end","code":0}}\'; exit 0'
_FIRST: Final = 100


class Bench:
    """Forty sound hosts, and runs over them beside others."""

    def __init__(self, server: Server, directory: Path) -> None:
        """Prepare the hosts."""
        self._server = server
        self._home = directory / "home"
        (self._home / ".ssh").mkdir(parents=True, mode=0o700)
        know(server, self._home / ".ssh" / "known_hosts")
        (directory / "shared" / "trial").mkdir()
        self._trial: Trial = trial(directory / "shared" / "trial", directory / "payload")
        sound = [ssh_host(server, f"sound{number}", _FIRST + number) for number in range(_SOUND)]
        spare = [ssh_host(server, f"spare{number}", _FIRST + _SOUND + number) for number in range(len(ENDS))]
        for host in (*sound, *spare):
            server.profile(host.address, _WORK)
        self._sound, self._spare = sound, spare

    def noise(self, rounds: int) -> Sequence[float]:
        """Return the same where all are sound: what other work on this machine makes of it."""
        return self._compared(rounds, (), _OTHERS)

    def growth(self, faults: Sequence[str], rounds: int) -> Sequence[float]:
        """Return how much longer the last sound host, and all together, take where others have these faults."""
        return self._compared(rounds, faults, len(faults))

    def _compared(self, rounds: int, faults: Sequence[str], spare: int) -> Sequence[float]:
        pairs = [(self._seconds((), spare), self._seconds(faults, spare)) for _ in range(rounds)]
        alone, beside = zip(*pairs, strict=True)
        return tuple(min(map(what, beside)) / min(map(what, alone)) - 1 for what in (max, statistics.fmean))

    def _seconds(self, faults: Sequence[str], spare: int) -> list[float]:
        """Return after how many seconds each sound host has ended; the others are sound where no faults are given."""
        with ExitStack() as stack:
            made = Faults(self._server, stack)
            beside = [made.host(fault, number, f"faulty{number}") for number, fault in enumerate(faults)]
            hosts = list(self._sound)
            for number, host in enumerate(beside or self._spare[:spare]):
                hosts.insert(number * (_SOUND // spare + 1), host)
            environment = {"HOME": str(self._home)}
            connections = stack.enter_context(closing(SshConnections(self._trial.payloads, environment=environment)))
            return self._run(connections, hosts, made)

    def _run(self, connections: SshConnections, hosts: Sequence[Host], faults: Faults) -> list[float]:
        jobs = {host.name: self._trial.job(self._declared(host, faults), host=host.name) for host in hosts}
        began, ended = time.monotonic(), dict[str, float]()
        for host in hosts:
            connections.start(host, jobs[host.name])
        while len(ended) < _SOUND:
            event = connections.next_event(PATIENCE)
            if event is None:
                raise SystemExit(f"only {len(ended)} sound hosts have ended")
            document: Mapping[str, object] = event.document
            if document["type"] == "step_start" and event.host in faults.proxies:
                faults.proxies[event.host].cut()
            if document["type"] == "end" and event.host.startswith("sound"):
                if document["code"] != 0:
                    raise SystemExit(f"{event.host}: {document}")
                ended[event.host] = time.monotonic() - began
        return list(ended.values())

    @staticmethod
    def _declared(host: Host, faults: Faults) -> dict[str, dict[str, str]]:
        return {"a": {"wait": "/nonexistent"} if host.name in faults.proxies else {}}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faulty_hosts", description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=5, help="pairs of runs for each kind of fault")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for part in ("server", "shared"):
            (directory / part).mkdir()
        with started_server(directory / "server", directory / "shared") as server:
            bench = Bench(server, directory)
            sys.stdout.write("| what is wrong | the last sound host | all of them |\n| --- | --- | --- |\n")
            for fault in ("nothing", *ENDS, "each of these, on one host each"):
                faults = [fault] * _OTHERS if fault in ENDS else list(ENDS) if "each" in fault else []
                last, mean = bench.growth(faults, rounds) if faults else bench.noise(rounds)
                sys.stdout.write(f"| {fault} | {last:+.1%} | {mean:+.1%} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
