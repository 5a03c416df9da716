"""``python -m benchmarks.split_hosts [COUNT] [--at-once N]``: what a run costs that is split over processes, as root.

Hosts are addresses of one real sshd on this machine, and then simulated ones, which answer at once. The same processors
do the work of all hosts, so wall time says nothing. What tells is the processor time of the busiest process, since that
bounds how many hosts a second are served where there are processors for all. The two kinds of runs alternate.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import simulated_hosts
from benchmarks.ssh_hosts import Hosts
from resource_api.cli import hosted_run
from resource_api.cli.main import run
from resource_api.fleet.carriers import carrier
from tests.fleet.sshd import started_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.fleet.carriers.carrier import Carrier

_PROCESSES: Final = 2
_ROUNDS: Final = 3
_SIMULATED: Final = 10_000


class Used(NamedTuple):
    """Processor seconds and MiB of the first process, and of each of the others: the mean, and the largest."""

    first: float
    memory: float
    other: float = 0.0
    other_memory: float = 0.0


def _measured(processes: int, file: str, arguments: Sequence[str]) -> None:
    """Run the command in so many processes, and write what it has used."""
    carrier.process_count = lambda *_: processes
    if arguments[0] == "simulated":
        hosted_run.make_carrier = lambda *given: _simulated(given[-1])
        simulated_hosts.apply(int(arguments[1]), Path(arguments[2]))
    else:
        run(list(arguments))
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = Used(_seconds(own), own.ru_maxrss / 1024)
    if processes > 1:
        found = found._replace(other=_seconds(others) / processes, other_memory=others.ru_maxrss / 1024)
    Path(file).write_text(json.dumps(found))


def _seconds(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def _simulated(processes: int) -> Carrier:
    from resource_api.fleet.carriers.read_become_password import BecomePasswords
    from resource_api.fleet.carriers.split_carrier import SplitCarrier

    if processes == 1:
        return simulated_hosts.Answering()
    return SplitCarrier(simulated_hosts.Answering, processes, BecomePasswords(), lambda _host: "")


def _rows(name: str, count: int, hosts: Hosts, words: Sequence[str]) -> Iterator[str]:
    """Yield the medians of runs that are not split, and of those that are."""
    found: dict[int, list[Used]] = {1: [], _PROCESSES: []}
    file = hosts.directory / "used"
    for _ in range(_ROUNDS):
        for processes, all_ in found.items():
            command = [sys.executable, "-m", "benchmarks.split_hosts", "--measured", str(processes), str(file), *words]
            subprocess.run(  # noqa: S603 - our own command
                command, cwd=hosts.directory, env=hosts.environment, stdout=subprocess.DEVNULL, check=True
            )
            all_.append(Used(*json.loads(file.read_text())))
    for processes, all_ in found.items():
        first, memory, other, other_memory = map(statistics.median, zip(*all_, strict=True))
        split = (str(processes), f"{1000 * other / count:.2f}", f"{other_memory:.0f}") if processes > 1 else ("-",) * 3
        yield f"| {name} | {count} | {1000 * first / count:.2f} | {memory:.0f} | {' | '.join(split)} |"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_hosts", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100, help="hosts of the real sshd")
    parser.add_argument("--at-once", default="50", metavar="N", help="hosts side by side")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for each in ("server", "shared", "home", "home/simulated"):
            (directory / each).mkdir()
        with started_server(directory / "server", directory / "shared") as server:
            hosts = Hosts(server, directory / "home")
            words = hosts.prepare(arguments.count)
            hosts.measure("first contact", [sys.executable, "-m", "resource_api", *words], arguments.count)
            real = _rows("no change, by SSH", arguments.count, hosts, [*words, "--at-once", arguments.at_once])
            simulated = ["simulated", str(_SIMULATED), str(hosts.directory / "simulated")]
            sys.stdout.write("| what | hosts | ms in the first process, each host | MiB |")
            sys.stdout.write(" others | ms in each, each host | MiB |\n| --- | --- | --- | --- | --- | --- | --- |\n")
            for rows in (real, _rows("simulated", _SIMULATED, hosts, simulated)):
                for row in rows:
                    sys.stdout.write(f"{row}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measured"]:
        _measured(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        main()
