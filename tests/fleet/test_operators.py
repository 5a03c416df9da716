"""Commands of two operators on one host: the host puts them in order, whatever their clocks say (real hosts)."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.fleet.ssh_fleet import SshFleet
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ADDRESS: Final = "127.37.0.1"
SITE: Final = """\
project: web
inputs: {text: {type: String, default: none}}
resources:
  File[/hosts/127.37.0.1/motd]: {content: "${inputs.text}"}
  Exec[wait]:
    command: "touch /hosts/127.37.0.1/begun; while [ -e /hosts/127.37.0.1/hold ]; do sleep 0.05; done"
    shell: true
"""


@pytest.fixture
def fleet(tmp_path: Path, home: Path, server: Server) -> SshFleet:
    """Return one host, which two names and several operators know."""
    result = SshFleet(tmp_path / "site", home, server, {"web1": ADDRESS, "alias1": ADDRESS})
    result.write(SITE)
    server.run("mkdir", "-p", "-m", "1777", f"/hosts/{ADDRESS}")
    server.run("rm", "-f", *(f"/hosts/{ADDRESS}/{name}" for name in ("motd", "begun", "hold")))
    return result


def apply(fleet: SshFleet, text: str, **environment: str) -> int:
    """Apply a text and return the exit code."""
    return fleet.run("apply", "site.yaml", "--on", "web1", "-i", f"text={text}", **environment).code


def test_no_clock_of_an_operator_keeps_another_one_out(fleet: SshFleet, server: Server) -> None:
    """Two hours fast, then right, then two hours slow: the last command is what holds."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    for text, clock in (("fast", "+2h"), ("right", ""), ("slow", "-2h"), ("again", "")):
        shifted = {"LD_PRELOAD": str(library), "FAKETIME": clock, "NO_FAKE_STAT": "1"} if clock else {}
        assert apply(fleet, text, **shifted) == 0
        assert server.path(f"/hosts/{ADDRESS}/motd").read_text() == text


def test_a_host_that_another_operator_changes_says_who(fleet: SshFleet, server: Server) -> None:
    """With the command, the user, the machine, and since when; afterwards the same command is carried out."""
    server.path(f"/hosts/{ADDRESS}/hold").touch()
    first = subprocess.Popen(
        [sys.executable, "-m", "resource_api", "apply", "site.yaml", "--on", "web1", "-i", "text=first"],
        cwd=fleet.site,
        env={**fleet.environment, "SUDO_USER": "alice"},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(server.path(f"/hosts/{ADDRESS}/begun").exists)
        result = fleet.run("apply", "site.yaml", "--on", "web1", "-i", "text=second")
        assert result.code == 75
        assert f"has been running 'apply of alice@{socket.gethostname()}' since 2" in result.out
    finally:
        server.path(f"/hosts/{ADDRESS}/hold").unlink()
        assert first.wait(60) == 0
    assert apply(fleet, "second") == 0
    assert server.path(f"/hosts/{ADDRESS}/motd").read_text() == "second"


def test_a_host_with_two_names_is_done_under_one(fleet: SshFleet) -> None:
    """The other is refused with that reason."""
    result = fleet.run("apply", "site.yaml", "--on", "web1,alias1", "--at-once", "1")
    assert result.code == 75
    assert (
        "another job of this run was given to this host, as where two names select it; nothing was done" in result.out
    )


def test_damage_of_a_host_is_mended_by_the_command_that_its_message_names(fleet: SshFleet, server: Server) -> None:
    """With the host, given here; nobody logs in there."""
    assert apply(fleet, "one") == 0
    state = server.path(f"/hosts/{ADDRESS}/state/state.db")
    for file in (*state.parent.glob("state.db-*"), state):
        file.write_bytes(b"damaged" * 100)
    result = fleet.run("apply", "site.yaml", "--on", "web1", "-i", "text=two")
    found = re.search(r"'(resource-api state recover --on web1)' restores", result.out)
    assert (result.code, bool(found)) == (1, True), result.out
    assert fleet.run(*shlex.split(found[1])[1:] if found else ()).code == 0
    assert apply(fleet, "two") == 0
    assert server.path(f"/hosts/{ADDRESS}/motd").read_text() == "two"
