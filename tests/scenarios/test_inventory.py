"""A remote service with latency: concurrent calls, a killed run, and secrets that are not stored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios import inventory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.scenarios.inventory import Site

PASSWORD = "opens-no-console-9071"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a separate site for each test."""
    yield from inventory.site(tmp_path)


def hosts(site: Site, server: Any, count: int) -> None:
    """Write a manifest with ``count`` hosts of a service."""
    site.write("token", "token-one")
    resources = {
        f"Inventory_host[h{number}]": {"address": f"10.0.{number // 250}.{number % 250 + 1}", "password": PASSWORD}
        for number in range(count)
    }
    config = {"url": server.url, "token": "${inputs.token}"}
    site.write(
        "site.json",
        json.dumps(
            {
                "project": "inventory",
                "inputs": {"token": {"type": "Sensitive[String]"}},
                "providers": {"lab": {"type": "inventory_host", "config": config}},
                "defaults": {"Inventory_host": {"provider": "lab"}},
                "resources": resources,
            }
        ),
    )


def words(*more: str) -> list[str]:
    """Return the arguments that apply the manifest."""
    return ["apply", "site.json", "-i", "token=@token", *more]


def test_two_hundred_hosts_are_created_twenty_at_a_time(site: Site) -> None:
    """Each host takes one request, at most twenty run at once, and a second run changes nothing."""
    server = site.serve(latency=0.05)
    hosts(site, server, 200)
    result = site.run(*words("--parallel", "20"))
    assert (result.code, "200 created" in result.out) == (0, True), result.err
    assert (server.counted["POST"], server.most_at_once) == (200, 20)
    # One read before, and one after each of the twenty calls; the read of the plan takes at most two requests.
    assert server.counted["GET"] <= 22
    assert "200 unchanged" in site.run(*words("--parallel", "20")).out
    gone = site.run("destroy", "site.json", "--yes", "-i", "token=@token", "--parallel", "20")
    assert (gone.code, inventory.names(server), server.counted["DELETE"]) == (0, [], 200), gone.err


@pytest.mark.parametrize("after", [1, 30, 70])
def test_a_killed_run_converges_without_duplicates(site: Site, after: int) -> None:
    """The run after a SIGKILL creates only the missing hosts, and no secret is in the state files."""
    server = site.serve(latency=0.05)
    hosts(site, server, 120)
    process = subprocess.Popen(
        [sys.executable, "-m", "resource_api", *words("--parallel", "8")],
        cwd=site.home,
        env=site.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 30
    while len(server.inventory.find(None)) < after and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(0.2)  # requests already sent arrive
    assert after <= len(server.inventory.find(None)) < 120
    result = site.run(*words("--parallel", "8"))
    assert result.code == 0, result.err
    assert "in doubt: the last run did not see the outcome of its create" in result.err
    created = server.inventory.find(None)
    assert len(created) == 120
    assert max(host["id"] for host in created) == "host-000120"
    assert "120 unchanged" in site.run(*words()).out
    assert all(record["owned"] for reference, record in site.recorded().items() if reference.startswith("Inventory"))
    datas = [path.read_bytes() for path in site.home.rglob("*") if "state.db" in str(path) and path.is_file()]
    assert datas
    assert not [data for data in datas if PASSWORD.encode() in data or b"token-one" in data]
