"""The units of ``agent unit``: verified and rated by the real systemd-analyze, and started by a real systemd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import command
from tests.systemd_machine import ROOT, Machine, started_machine
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts services")

STATE = 'sqlite:/srv/100% $HOME "of\\ours"'
SITE = "project: web\nresources:\n  File[/srv/ra-agent]: {content: Hello}\n"


def units(home: Path, *options: str) -> dict[str, Path]:
    """Return what ``agent unit`` prints as files, by name."""
    process = command.run(
        ["agent", "unit", "--from", "/srv/site", *options, "site.yaml"],
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "RESOURCE_API_STATE": STATE},
        text=True,
    )
    assert process.returncode == 0, process.stderr
    entries = {}
    for text in re.split(r"^# /etc/systemd/system/", process.stdout, flags=re.MULTILINE)[1:]:
        name, _, content = text.partition("\n")
        entries[name] = home / name
        entries[name].write_text(content)
    return entries


@pytest.mark.parametrize(
    ("options", "most"), [((), 8.2), (("--mode", "noop"), 4.0), (("--timer", "--every", "6h"), 8.2)]
)
def test_the_units_are_verified_and_rated(tmp_path: Path, options: tuple[str, ...], most: float) -> None:
    """No line is unknown or misread; the exposure that the page names is not exceeded."""
    result = units(tmp_path, *options)
    process = subprocess.run(
        ["systemd-analyze", "verify", *result.values()], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    service = result["resource-api-agent.service"]
    words = ["systemd-analyze", "security", "--offline=true", service]
    rated = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    exposure = re.search(r"Overall exposure level for .*: ([\d.]+)", rated)
    assert exposure is not None
    assert float(exposure[1]) <= most
    assert 'Environment="RESOURCE_API_STATE=sqlite:/srv/100%% $HOME \\"of\\\\ours\\""' in service.read_text()
    assert ("resource-api-agent.timer" in result) == ("--timer" in options)


def test_the_units_read_no_relative_path(tmp_path: Path) -> None:
    """Which would be another file where the service runs; nor is a period accepted that no timer can have."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for words, reason in (
        (("--from", "site"), "'site' would be another file in a service"),
        (("--from", "file://site"), "'site' would be another file in a service"),
        (("--from", "https://x/x.bundle", "--signers", "signers"), "'signers' would be another file"),
        (("--from", "/srv", "--timer", "--every", "7m"), "a period that divides an hour"),
    ):
        process = command.run(["agent", "unit", *words, "site.yaml"], cwd=tmp_path, env=environment, text=True)
        assert (process.returncode, reason in process.stderr) == (64, True), process.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Start a machine with a site."""
    path = tmp_path_factory.mktemp("machine") / "mounts"
    path.mkdir()
    with started_machine(path) as machine:
        machine.run("mkdir", "-p", "/srv/site")
        machine.write("/srv/site/site.yaml", SITE)
        yield machine


def install(machine: Machine, *options: str) -> None:
    """Write the units of an agent, whose program is this checkout's."""
    printed = machine.command("agent", "unit", "--from", "/srv/site", *options, "site.yaml").stdout
    for text in printed.split("# /etc/systemd/system/")[1:]:
        name, _, content = text.partition("\n")
        here = f"ExecStart={sys.executable} -P -m resource_api "
        content = re.sub(r"^ExecStart=\S*resource-api ", here, content, flags=re.MULTILINE)
        more = f"[Service]\nEnvironment=PYTHONPATH={ROOT} PYTHONDONTWRITEBYTECODE=1\n"
        machine.write(f"/etc/systemd/system/{name}", content.replace("[Service]\n", more))
    machine.run("systemctl", "daemon-reload")


def processor_ticks(machine: Machine, pid: str) -> int:
    """Return the processor time of a process in hundredths of a second (proc_pid_stat(5))."""
    return sum(map(int, machine.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:13]))


def test_a_service_converges_sleeps_and_stops(machine: Machine) -> None:
    """Drift is corrected; between runs it needs at most 30 MiB and no processor time; stopping it is no failure."""
    install(machine, "--every", "2s", "--splay", "0")
    machine.run("systemctl", "start", "resource-api-agent.service")
    wait_until(lambda: machine.read("/srv/ra-agent") == "Hello")
    machine.write("/srv/ra-agent", "Bye")
    wait_until(lambda: machine.read("/srv/ra-agent") == "Hello")
    # A run may be going on, but the main process sleeps.
    pid = machine.run("systemctl", "show", "-P", "MainPID", "resource-api-agent.service").stdout.strip()
    kib = re.search(r"VmHWM:\s+(\d+) kB", machine.read(f"/proc/{pid}/status"))
    assert kib is not None
    assert int(kib[1]) <= 30 * 1024
    before = processor_ticks(machine, pid)
    time.sleep(2)
    assert processor_ticks(machine, pid) - before <= 2
    machine.run("systemctl", "stop", "resource-api-agent.service")
    assert machine.run("systemctl", "show", "-P", "Result", "resource-api-agent.service").stdout == "success\n"
    # It may be stopped in the middle of a run, which is then reported as what it is.
    status = machine.command("agent", "status", check=False)
    assert status.returncode in ({4, 6} if "- interrupted\n" in status.stdout else {0, 2}), status


def test_a_timer_runs_once_and_noop_changes_nothing(machine: Machine) -> None:
    """The service of a timer can be started by hand; one that only reports reads all that it needs."""
    machine.write("/srv/ra-agent", "Bye")
    install(machine, "--timer", "--mode", "noop")
    machine.run("systemctl", "start", "resource-api-agent.timer")
    output = machine.run("systemctl", "list-timers", "resource-api-agent.timer").stdout
    assert "resource-api-agent.service" in output
    machine.run("systemctl", "start", "resource-api-agent.service")
    assert machine.read("/srv/ra-agent") == "Bye"
    status = machine.command("agent", "status", check=False)
    assert (status.returncode, "1 would be changed" in status.stdout) == (2, True), status.stdout
    machine.run("systemctl", "stop", "resource-api-agent.timer")
