"""``agent status --on``: how the agents of all hosts are, read there (real hosts)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.fleet.ssh_fleet import SshFleet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ADDRESSES: Final = {"web1": "127.38.0.1", "web2": "127.38.0.2", "db1": "127.38.0.3", "new1": "127.38.0.4"}


def last_run(ended: float, failure: str = "") -> str:
    """Return the record of an agent's last run."""
    fields = ("problem", "version", "signer", "run", "boot_id")
    record = {
        **dict.fromkeys(fields, ""), "format": 1, "source": "/srv/site", "manifest": "site.yaml", "mode": "apply",
        "project": "web", "failure": failure, "trust": "directory", "generation": 0, "corrective": 0,
        "exit_code": 1 if failure else 0, "summary": {"unchanged": 3}, "period": 1e9, "started": ended,
        "ended": ended, "ended_boot": 1.0,
    }  # fmt: skip
    return json.dumps(record)


@pytest.fixture
def fleet(tmp_path: Path, home: Path, server: Server) -> SshFleet:
    """Return two agents that are well, one that fails, and a host without one."""
    result = SshFleet(tmp_path / "site", home, server, ADDRESSES)
    for name, failure in (("web1", ""), ("web2", ""), ("db1", "File[/a]: disk full")):
        directory = f"/hosts/{ADDRESSES[name]}/state/agent"
        server.run("mkdir", "-p", "-m", "1777", f"/hosts/{ADDRESSES[name]}")
        server.run("mkdir", "-p", "-m", "700", f"/hosts/{ADDRESSES[name]}/state", directory)
        server.path(f"{directory}/status.json").write_text(last_run(1.79e9, failure))
    return result


def test_the_agents_of_hosts_are_shown_with_equal_ones_once(fleet: SshFleet) -> None:
    """A variable of this machine names no directory there; 1 where one needs attention."""
    variable = {"RESOURCE_API_AGENT": "/nowhere"}
    result = fleet.run("agent", "status", "--on", "all", **variable)
    assert result.code == 1
    assert result.out.splitlines()[:-1] == [
        "web[1:2] (2 hosts):",
        "  /srv/site site.yaml (apply)",
        "  - all is well",
        "db1:",
        "  /srv/site site.yaml (apply)",
        "  - File[/a]: disk full",
        "new1:",
        "  - it has not run yet",
    ]
    assert fleet.run("agent", "status", "--on", "web[1:2]", **variable).code == 0
    events = fleet.run("agent", "status", "--on", "web1,db1", "--json").events("result")
    assert {event["host"]: event["document"]["code"] for event in events} == {"web1": 0, "db1": 4}


def test_the_directory_of_an_agent_can_be_given(fleet: SshFleet, server: Server) -> None:
    """It is one of the host."""
    directory = f"/hosts/{ADDRESSES['new1']}/own"
    server.run("mkdir", "-p", "-m", "1777", f"/hosts/{ADDRESSES['new1']}")
    server.run("mkdir", "-p", "-m", "700", directory)
    server.path(f"{directory}/status.json").write_text(last_run(1.79e9))
    result = fleet.run("agent", "status", "--on", "new1", "--directory", directory)
    assert (result.code, "all is well" in result.out) == (0, True), result.out
