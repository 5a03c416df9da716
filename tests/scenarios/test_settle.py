"""A type whose world shows changes late: the command waits, says so, and can be interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

#: A provider whose rows are seen ``LAG`` seconds after they were changed.
LAGGING = """
    def get(self, context, names=None):
        visible = time.time() - float(os.environ["LAG"])
        return [row for row in self._rows().values() if row.pop("at") <= visible]
    def set(self, context, changes):
        for name, (is_, should) in changes.items():
            if (row := self._rows().get(name)) is None:
                context.notice(name, message="POST")
            self._put(name, {**should, "at": time.time()})
"""
SITE = """
    project: lag
    resources:
      Probe[a]: {size: 1}
"""


@pytest.fixture
def lagging(bench: Bench) -> Bench:
    """Return a bench with the type; how long it lags is in the environment."""
    bench.probe(LAGGING, settle=20)
    provider = bench.modules / "providers" / "probe.py"
    provider.write_text("import time\n" + provider.read_text(encoding="utf-8"), encoding="utf-8")
    bench.environment |= {"RESOURCE_API_STATE": f"sqlite:{bench.home / 'state.db'}", "LAG": "0.4"}
    return bench


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_a_change_is_waited_for(lagging: Bench, isolate: str) -> None:
    """Also where the provider runs in a worker: it is asked again, and the run succeeds."""
    lagging.environment["RESOURCE_API_ISOLATE"] = isolate
    result = lagging.apply(SITE)
    assert (result.code, result.out.partition(": ")[2]) == (0, "1 created, 0 unchanged.\n")
    assert result.lines == ["Notice: Probe[a]: POST", "Notice: Probe[a]: created"]
    assert lagging.apply(SITE, "--detailed-exitcodes").code == 0


def test_an_interrupt_ends_the_waiting_and_keeps_what_was_created(lagging: Bench) -> None:
    """The record is ours and unconfirmed; the next run finds the resource and creates nothing."""
    lagging.environment["LAG"] = "30"
    site = lagging.write("site.yaml", SITE)
    words = [sys.executable, "-m", "resource_api", "apply", str(site), "--json"]
    process = subprocess.Popen(
        words, cwd=lagging.home, env=lagging.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until((lagging.things_of / "probe.json").exists)
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    events = [json.loads(line) for line in out.splitlines()]
    (end,) = [event for event in events if event["type"] == "step_end"]
    assert (process.returncode, end["status"], end["unconfirmed"]) == (130, "failed", True), err
    (record,) = lagging.run("state", "export").document["resources"]
    assert (record["status"], record["owned"]) == ("unconfirmed", True)
    lagging.environment["LAG"] = "0"
    again = lagging.apply(SITE)
    assert (again.code, "POST" in again.err) == (0, False)
    assert "status" not in lagging.run("state", "show", "Probe[a]").out


def test_a_terminal_is_told_for_what_is_waited(lagging: Bench) -> None:
    """After some seconds a line says so elsewhere."""
    lagging.environment["LAG"] = "6"
    result = lagging.apply(SITE)
    assert "Notice: Probe[a]: still waiting to see it as declared (5 s)" in result.err


def test_a_partial_or_unconfirmed_resource_is_taken_as_it_is(lagging: Bench) -> None:
    """``state untaint`` makes it ready; another status is named."""
    lagging.probe(LAGGING)
    provider = lagging.modules / "providers" / "probe.py"
    provider.write_text("import time\n" + provider.read_text(encoding="utf-8"), encoding="utf-8")
    lagging.environment["LAG"] = "30"
    assert lagging.apply(SITE).code == 1
    assert "status: unconfirmed" in lagging.run("state", "show", "Probe[a]").out
    assert lagging.run("state", "untaint", "Probe[a]").code == 0
    refused = lagging.run("state", "untaint", "Probe[a]")
    assert refused.code == 64
    assert "Probe[a] is not tainted, partial or unconfirmed: its status is ready" in refused.err
