"""``run --on WHERE -- COMMAND...``: one program on many hosts (contract §10.11)."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.test_hosted_commands import Fleet, without_times
from tests.fleet.test_hosted_commands import shared as shared  # noqa: PLC0414 - a fixture
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def fleet(tmp_path: Path, shared: Path) -> Fleet:
    """Return hosts of one test."""
    return Fleet(tmp_path, shared)


def test_a_program_runs_on_each_host_and_equal_output_is_shown_once(fleet: Fleet) -> None:
    """Several words are executed as they are, one is a line for sh; no manifest and no state are needed."""
    (fleet.home / "site.yaml").unlink()
    result = fleet.run("run", "--on", "web,db1", "--", "echo", "a  b", "$HOME;")
    assert (result.code, result.err) == (0, "")
    assert without_times(result.out).splitlines() == [
        "web[1:3],db1 (4 hosts):",
        "  a  b $HOME;",
        "Ran on 4 hosts in 1.0 s: 4 succeeded, 0 failed, 0 unreachable, 0 untouched.",
    ]
    line = 'case $HOST_HOME in *db1) echo other >&2;; *) printf "\\033one"; esac; cat; pwd | wc -l'
    result = fleet.run("run", "--on", "web,db1", "--", line)
    assert result.out.splitlines()[:-1] == [
        "web[1:3] (3 hosts):",
        "  \\x1bone1",
        "db1:",
        "  1",
        "  other",
    ]
    assert list(fleet.home.rglob("*.db")) == []


def test_the_exit_codes_of_programs_are_told_and_any_other_than_0_is_1(fleet: Fleet) -> None:
    """Also after a signal, and where there is no such program; an unreachable host has none."""
    line = "case $HOST_HOME in *web1) exit 0;; *web2) exit 2;; *web3) kill -9 $$;; esac; echo x"
    result = fleet.run("run", "--on", "web,gone1", "--json", "--", line)
    assert result.code == 1
    ends = [document for document in map(json.loads, result.out.splitlines()) if document["type"] == "host_end"]
    assert {end["host"]: (end["exit_code"], end["status"], end["error"]) for end in ends} == {
        "web1": (0, "unchanged", None),
        "web2": (2, "failed", "ended with exit code 2"),
        "web3": (137, "failed", "ended with exit code 137"),
        "gone1": (None, "unreachable", "unreachable: connection refused (gone1:22)"),
    }
    missing = fleet.run("run", "--on", "web1", "--", "no-such-program", "x")
    assert missing.code == 1
    assert "  Error: ended with exit code 127" in missing.out
    assert "1 failed" in missing.out


def test_batches_of_a_program_stop_at_the_first_failure(fleet: Fleet) -> None:
    """As for every command with hosts."""
    result = fleet.run("run", "--on", "web", "--batches", "1", "--", "touch $HOST_HOME/ran; false")
    assert result.code == 1
    assert "Batch 1 of 3: 1 host, 1 failed.\n" in result.out
    assert [path.parent.name for path in fleet.home.glob("hosts/*/ran")] == ["web1"]


def test_much_output_of_a_program_is_cut(fleet: Fleet) -> None:
    """The end of each stream is kept."""
    result = fleet.run("run", "--on", "web1", "--", "seq 1 100000; echo end >&2")
    lines = result.out.splitlines()
    assert (result.code, lines[1], lines[-3:-1]) == (0, "  … (523359 bytes before this)", ["  100000", "  end"])


def test_an_interrupt_ends_a_program_with_its_descendants(fleet: Fleet) -> None:
    """The second Ctrl-C is passed on to the hosts."""
    command = fleet.command("run", "--on", "web1", "--", "sleep 50 & echo $! >$HOST_HOME/pid; wait")
    with subprocess.Popen(command, cwd=fleet.home, env=fleet.environment, stderr=subprocess.PIPE, text=True) as process:
        pid = fleet.home / "hosts" / "web1" / "pid"
        wait_until(lambda: pid.exists() and pid.read_text().strip())
        sleeper = int(pid.read_text())
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    wait_until(lambda: not Path(f"/proc/{sleeper}").exists())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run -- true", "run needs --on WHERE: it runs a command on other hosts"),
        ("run --on web", "Missing argument 'COMMAND...'"),
        ("run --on web --rerun last -- true", "No such option '--rerun'"),
    ],
)
def test_a_program_needs_hosts_and_words(fleet: Fleet, words: str, message: str) -> None:
    """Nothing is run here."""
    result: Any = fleet.run(*words.split())
    assert (result.code, message in result.err) == (64, True), result.err
