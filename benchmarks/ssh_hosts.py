"""``python -m benchmarks.ssh_hosts [COUNT ...] [--peers]``: what many hosts cost by SSH, as root.

Hosts are addresses of one real sshd on this machine, so wall time says nothing: the same processors also do the work of
all hosts. Processor time of the machine that asks and of a host are measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.measure import Command, cost
from benchmarks.peers import INSTALLED
from tests.fleet.sshd import started_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.measure import Cost
    from tests.fleet.sshd import Server

ROOT: Final = Path(__file__).resolve().parent.parent
#: Hosts of the tools that need much for each.
_FEW: Final = 20
_FILES: Final = ("a", "b", "c")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    """What one command has cost."""

    name: str
    hosts: int
    #: Seconds of processor time, here and on one host; None: not measured.
    here: Cost
    host: float

    def __str__(self) -> str:
        """Return a line of a table."""
        milliseconds = 1000 * self.here.seconds / self.hosts
        return f"| {self.name} | {self.hosts} | {milliseconds:.1f} | {self.here.memory:.0f} | {self.host:.3f} |"


class Hosts:
    """A server, and a directory with the files of all tools."""

    def __init__(self, server: Server, directory: Path) -> None:
        """Write what does not depend on the number of hosts."""
        self.server = server
        self.directory = directory
        (directory / ".ssh").mkdir()
        self.known_hosts = server.known_hosts(directory / ".ssh" / "known_hosts")
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(directory),
            "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8",
            "RESOURCE_API_FLEET": str(directory / "fleet"),
        }

    def addresses(self, count: int) -> list[str]:
        """Return the addresses of so many hosts that have never been used."""
        self.used = getattr(self, "used", 0) + 1
        return [f"127.{100 + self.used}.{number // 250}.{number % 250 + 1}" for number in range(count)]

    def measure(self, name: str, command: Sequence[str], hosts: int, **more: str) -> Row:
        """Return what a command costs, here and on each host."""
        before = self._used_there()
        here = cost(Command(["env", "-C", str(self.directory), *command], environment={**self.environment, **more}))
        time.sleep(1)  # the last connections end by themselves
        return Row(name, hosts, here, (self._used_there() - before) / hosts)

    def _used_there(self) -> float:
        """Return the processor time of all connections that have ended."""
        fields = Path(f"/proc/{self.server.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / _TICKS

    def ours(self, count: int, transport: str = "asyncssh") -> Iterator[Row]:
        """Yield the first run on hosts, one that changes nothing, and one that changes three files."""
        by = "" if transport == "asyncssh" else f"`transport: {transport}`: "
        run = [sys.executable, "-m", "resource_api", *self.prepare(count, transport)]
        yield self.measure(f"{by}first contact: sent, three files created", run, count)
        yield self.measure(f"{by}no change", run, count)
        self._write_manifest("two")
        yield self.measure(f"{by}three files changed", run, count)

    def prepare(self, count: int, transport: str = "asyncssh") -> list[str]:
        """Write a manifest, and an inventory of hosts that have never been used; return the arguments to apply it."""
        addresses = self.addresses(count)
        common = {"user": "ops", "port": self.server.port, "identity": str(self.server.identity)}
        common["transport"] = transport
        hosts = {f"host{n}": {"address": address} for n, address in enumerate(addresses)}
        inventory = {"defaults": common, "hosts": hosts}
        (self.directory / "hosts.json").write_text(json.dumps(inventory))
        self._write_manifest("one")
        return ["apply", "site.json", "--hosts", "hosts.json", "--on", f"host[0:{count - 1}]"]

    def _write_manifest(self, content: str) -> None:
        files = {f"File[/hosts/${{host.address}}/ops/{name}]": {"content": content} for name in _FILES}
        (self.directory / "site.json").write_text(json.dumps({"project": "bench", "resources": files}))

    def ssh(self, count: int) -> Row:
        """Return what a process of ``ssh`` for each host costs that does nothing there."""
        options = f"-F none -i {self.server.identity} -o UserKnownHostsFile={self.known_hosts} -p {self.server.port}"
        listed = self.directory / "addresses"
        listed.write_text("\n".join(self.addresses(count)))
        script = f"xargs -P {_FEW} -I % ssh {options} ops@% true <{listed}"
        return self.measure("`ssh` HOST true", ["sh", "-c", script], count)

    def pyinfra(self) -> Iterator[Row]:
        """Yield what pyinfra needs for the three files, the first time and again."""
        keys = {"ssh_user": "ops", "ssh_port": self.server.port, "ssh_key": str(self.server.identity)}
        hosts = [(address, keys) for address in self.addresses(_FEW)]
        (self.directory / "inventory.py").write_text(f"hosts = {hosts!r}\n")
        puts = "".join(f"files.put(src='{self._source()}', dest='{name}')\n" for name in _FILES)
        (self.directory / "deploy.py").write_text(f"from pyinfra.operations import files\n{puts}")
        run = [str(INSTALLED / "pyinfra/bin/pyinfra"), "-y", "--parallel", str(_FEW), "inventory.py", "deploy.py"]
        for name in ("pyinfra: three files created", "pyinfra: no change"):
            yield self.measure(name, run, _FEW)

    def ansible(self) -> Iterator[Row]:
        """Yield what Ansible needs for the three files, the first time and again."""
        options = f"-o UserKnownHostsFile={self.known_hosts}"
        lines = [f"{address} ansible_host={address}" for address in self.addresses(_FEW)]
        common = f"ansible_user=ops ansible_port={self.server.port} ansible_python_interpreter=/usr/bin/python3"
        key = f"ansible_ssh_private_key_file={self.server.identity}"
        (self.directory / "inventory.ini").write_text("\n".join([*lines, "[all:vars]", *common.split(), key]))
        copies = [{"copy": {"src": str(self._source()), "dest": name}} for name in _FILES]
        self.server.run("mkdir", "-p", "-m", "1777", "/run/ansible")
        play = [{"hosts": "all", "gather_facts": False, "tasks": copies}]
        (self.directory / "play.json").write_text(json.dumps(play))
        run = [str(INSTALLED / "ansible/bin/ansible-playbook"), "-i", "inventory.ini", "-f", str(_FEW), "play.json"]
        more = {"ANSIBLE_PIPELINING": "1", "ANSIBLE_SSH_COMMON_ARGS": options, "ANSIBLE_REMOTE_TEMP": "/run/ansible"}
        for name in ("Ansible: three files created", "Ansible: no change"):
            yield self.measure(name, run, _FEW, **more)

    def _source(self) -> Path:
        source = self.directory / "source"
        source.write_text("one")
        return source


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ssh_hosts", description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[100, 500], metavar="COUNT", help="numbers of hosts")
    parser.add_argument("--peers", action="store_true", help="measure pyinfra and Ansible too: see install-peers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for part in ("server", "shared", "home"):
            (directory / part).mkdir()
        with started_server(directory / "server", directory / "shared") as server:
            hosts = Hosts(server, directory / "home")
            sys.stdout.write(
                "| what | hosts | ms here, each | MiB here | s on each host |\n| --- | --- | --- | --- | --- |\n"
            )
            for row in _rows(hosts, arguments):
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()


def _rows(hosts: Hosts, arguments: argparse.Namespace) -> Iterator[Row]:
    for count in arguments.counts:
        yield from hosts.ours(count)
    for transport in ("asyncssh", "ssh"):
        yield from hosts.ours(_FEW, transport)
    yield hosts.ssh(100)
    if arguments.peers:
        yield from hosts.pyinfra()
        yield from hosts.ansible()


if __name__ == "__main__":
    main()
