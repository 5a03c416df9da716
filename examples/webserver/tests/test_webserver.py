"""The whole web server on a machine that a real systemd has started: built, used, damaged, mended and removed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.systemd_machine import Machine, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("nginx", "python3-psycopg2")
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

#: What somebody does to the machine by hand → the resource that must be seen as changed.
DAMAGES: Final = {
    "systemctl stop app.service": "Service[app]",
    "rm /srv/www/robots.txt": "File[/srv/www/robots.txt]",
    "sed -i s/Welcome/Hacked/ /etc/app/app.ini": "Ini_setting[title]",
    "rm /etc/sudoers.d/admins": "Sudo_rule[admins]",
    "rm /home/bob/.ssh/authorized_keys": "Ssh_authorized_key[bob@laptop]",
    "usermod --shell /bin/sh alice": "User[alice]",
    "sed -i /db.internal/d /etc/hosts": "Host[db.internal]",
    "hostname other": "Hostname[system]",
    "crontab -u postgres -r": "Cron[backup]",
    "rm /etc/ssl/web/site.pem": "X509_certificate[/etc/ssl/web/site.pem]",
    'runuser -u postgres -- psql -qc "ALTER ROLE app SUPERUSER NOLOGIN"': "Postgresql_role[app]",
    "chmod 777 /var/backups/app": "File[/var/backups/app]",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield a machine without a network, with the packages in the cache of apt, and the application in a repository."""
    options = ("-q", "-y", "--download-only", "-o", "DPkg::Lock::Timeout=120")
    subprocess.run(["apt-get", "install", *options, *PACKAGES], check=True, capture_output=True)
    directory = tmp_path_factory.mktemp("machine")
    (directory / "mounts").mkdir()
    with (
        unchanging_packages(),
        started_machine(directory / "mounts", kept=("postgresql", "postgresql@"), network=False) as machine,
    ):
        machine.run("rm", "-f", "/usr/sbin/policy-rc.d", "/etc/motd")
        machine.run("cp", "-r", str(HOME), "/root/webserver")
        commit = "git -c user.name=ra -c user.email=ra@localhost"
        machine.run(
            "sh",
            "-ec",
            f"git init -q -b main /srv/git/app; cd /srv/git/app; cp /root/webserver/app.py .; {commit} add .;"
            f" {commit} commit -qm 'The application'; git daemon --detach --export-all --base-path=/srv/git",
        )
        yield machine


def command(machine: Machine, *words: str, code: int = 0) -> str:
    """Run the command with the manifest; return what it prints."""
    options = ("/root/webserver/site.yaml", "-i", "repository=git://127.0.0.1/app", "--state", "sqlite:/root/state.db")
    done = machine.command(*words, *options, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def summary(machine: Machine) -> dict[str, int]:
    """Apply; return what the last line counts."""
    last = re.findall(r"^(?:Applied|Destroyed) in [\d.]+ s: (.*)\.$", command(machine, "apply"), re.MULTILINE)[-1]
    return {word: int(number) for number, word in (each.split(" ", 1) for each in last.split(", "))}


def page(machine: Machine, path: str = "/") -> str:
    """Return a page as a visitor sees it who trusts the authority of the site."""
    place = ("--resolve", "www.example.org:443:127.0.0.1", f"https://www.example.org{path}")
    return machine.run("curl", "-sSf", "--cacert", "/etc/ssl/web/ca.pem", *place).stdout


def listing(machine: Machine) -> list[str]:
    """Return what the machine consists of: packages, and the files of /etc, /home and /srv with their contents.

    insserv(8), which openrc brings, writes indexes with the words of a line in the order in which the file system lists
    a directory; that order is no part of their contents.
    """
    contents = f"find /etc /home /srv -xdev -type f ! -path '{INDEXES}' -exec sha256sum {{}} +"
    done = machine.run(
        "sh", "-c", f"dpkg-query -W; {contents}; find /etc /home /srv -xdev -printf '%M %u %p\\n'", timeout=120
    )
    indexes = machine.run("sh", "-c", f"grep -H . {INDEXES}", check=False).stdout.splitlines()
    return sorted([*done.stdout.splitlines(), *(" ".join(sorted(line.split())) for line in indexes)])


@contextmanager
def unchanging_packages() -> Iterator[None]:
    """Keep apt and dpkg from changing this machine: what they change beneath the other one appears there too."""
    with Path("/var/lib/dpkg/lock-frontend").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.timeout(300)
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

    for damage in DAMAGES:
        machine.run("sh", "-c", damage)
    #: Beside what is damaged: what the stopped application keeps waiting, and what reads the certificate.
    expected = {*DAMAGES.values(), "Wait_for[the application]", "Service[nginx]"}
    planned = command(machine, "plan", "--detailed-exitcodes", code=2)
    assert set(re.findall(r"^[^\w\s#] (\w+\[[^\]]+\])", planned, re.MULTILINE)) == expected, planned
    assert summary(machine)["unchanged"] == total - len(expected)
    assert summary(machine) == {"unchanged": total}
    assert page(machine) == "Welcome: visitor 2\n"

    command(machine, "destroy", "--yes")
    after = listing(machine)
    changed = sorted({line.split()[-1] for line in set(before) ^ set(after) if not re.search(CHANGING, line)})
    assert changed == [], "\n".join(sorted(set(before) ^ set(after)))
