"""The whole web server on a machine that a real systemd has started: built, used, damaged, mended and removed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import webserver
from tests.webserver import DAMAGES, page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.systemd_machine import Machine

#: What is not as before when all is removed: settings that were there before, backups that tools write, and what other
#: tests do meanwhile on the machine beneath.
CHANGING: Final = (
    r"ra-test|"
    r"/etc/hostname$|/etc/systemd/system/multi-user.target.wants(/postgresql.service)?$"
    r"|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|/etc/\.pwd\.lock$"
)

#: The indexes of insserv(8).
INDEXES: Final = "/etc/init.d/.depend.*"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/lib/systemd/systemd").exists() or shutil.which("apt-get") is None,
    reason="only root can start a machine, and this one needs systemd and apt",
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield a machine that is not a web server yet."""
    with webserver.bare_machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


def command(machine: Machine, *words: str, code: int = 0) -> str:
    """Run the command with the manifest; return its output."""
    options = (
        "/root/webserver/site.yaml",
        "-i",
        f"repository={webserver.REPOSITORY}",
        "--state",
        "sqlite:/root/state.db",
    )
    result = machine.command(*words, *options, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def summary(machine: Machine) -> dict[str, int]:
    """Apply; return the counts of the last line."""
    last = re.findall(r"^(?:Applied|Destroyed) in [\d.]+ s: (.*)\.$", command(machine, "apply"), re.MULTILINE)[-1]
    return {word: int(number) for number, word in (entry.split(" ", 1) for entry in last.split(", "))}


def listing(machine: Machine) -> list[str]:
    """Return the parts of the machine: packages, and the files of /etc, /home and /srv with their contents.

    insserv(8), which openrc brings, writes indexes with the words of a line in the order in which the file system lists
    a directory; that order is no part of their contents.
    """
    contents = f"find /etc /home /srv -xdev -type f ! -path '{INDEXES}' -exec sha256sum {{}} +"
    result = machine.run(
        "sh", "-c", f"dpkg-query -W; {contents}; find /etc /home /srv -xdev -printf '%M %u %p\\n'", timeout=120
    )
    indexes = machine.run("sh", "-c", f"grep -H . {INDEXES}", check=False).stdout.splitlines()
    return sorted([*result.stdout.splitlines(), *(" ".join(sorted(line.split())) for line in indexes)])


def test_the_web_server_is_built_used_damaged_mended_and_removed(machine: Machine) -> None:
    """One apply makes a site that answers over TLS; a second one changes nothing; each damage is seen and mended."""
    before = listing(machine)
    first = summary(machine)
    assert first["created"] > 30
    assert "failed" not in first
    assert page(machine) == "Welcome: visitor 1\n"
    assert page(machine, "/static/robots.txt") == "User-agent: *\nDisallow:\n"
    total = sum(first.values())
    assert summary(machine) == {"unchanged": total}

    assert webserver.mended(machine) == [damage.resource for damage in DAMAGES]
    for damage in DAMAGES:
        machine.run("sh", "-c", damage.command)
    assert webserver.mended(machine) == []
    #: Beside the damaged resources: the one that waits for the stopped application, and the reader of the certificate.
    expected = {*(damage.resource for damage in DAMAGES), "Wait_for[the application]", "Service[nginx]"}
    planned = command(machine, "plan", "--detailed-exitcodes", code=2)
    assert set(re.findall(r"^[^\w\s#] (\w+\[[^\]]+\])", planned, re.MULTILINE)) == expected, planned
    # Whoever waits for the application finds it there, or not yet.
    assert summary(machine)["unchanged"] - (total - len(expected)) in {0, 1}
    assert webserver.mended(machine) == [damage.resource for damage in DAMAGES]
    assert summary(machine) == {"unchanged": total}
    assert page(machine) == "Welcome: visitor 2\n"

    command(machine, "destroy", "--yes")
    after = listing(machine)
    changed = sorted({line.split()[-1] for line in set(before) ^ set(after) if not re.search(CHANGING, line)})
    assert changed == [], "\n".join(sorted(set(before) ^ set(after)))
