"""The machine of `examples/webserver`: bare, with the repository of the application; and what may happen to it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.systemd_machine import ROOT, Machine, download_packages, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOME: Final = ROOT / "examples" / "webserver"
#: What the machine lacks, and apt installs on it without a network.
PACKAGES: Final = ("nginx", "python3-psycopg2")
#: The address of the repository, on the machine.
REPOSITORY: Final = "git://127.0.0.1/app"
_DATABASE: Final = "runuser -u postgres -- psql -XqAt -c"


class Damage(NamedTuple):
    """What somebody does to the machine by hand: a command, the resource that it changes, a test that it is mended."""

    command: str
    resource: str
    mended: str


DAMAGES: Final = (
    Damage("systemctl stop app.service", "Service[app]", "systemctl is-active app.service"),
    Damage("rm /srv/www/robots.txt", "File[/srv/www/robots.txt]", "grep Disallow /srv/www/robots.txt"),
    Damage("sed -i s/Welcome/Hacked/ /etc/app/app.ini", "Ini_setting[title]", "grep Welcome /etc/app/app.ini"),
    Damage("rm /etc/sudoers.d/admins", "Sudo_rule[admins]", "grep app.service /etc/sudoers.d/admins"),
    Damage(
        "rm /home/bob/.ssh/authorized_keys",
        "Ssh_authorized_key[bob@laptop]",
        "grep bob@laptop /home/bob/.ssh/authorized_keys",
    ),
    Damage("usermod --shell /bin/sh alice", "User[alice]", "getent passwd alice | grep :/bin/bash$"),
    Damage("sed -i /db.internal/d /etc/hosts", "Host[db.internal]", "grep db.internal /etc/hosts"),
    Damage("hostname other", "Hostname[system]", 'test "$(hostname)" = web1'),
    Damage("crontab -u postgres -r", "Cron[backup]", "crontab -u postgres -l | grep pg_dump"),
    Damage(
        "rm /etc/ssl/web/site.pem",
        "X509_certificate[/etc/ssl/web/site.pem]",
        "openssl verify -CAfile /etc/ssl/web/ca.pem /etc/ssl/web/site.pem",
    ),
    Damage(
        f'{_DATABASE} "ALTER ROLE app SUPERUSER NOLOGIN"',
        "Postgresql_role[app]",
        f"{_DATABASE} '\\du app' | grep '^app||'",
    ),
    Damage("chmod 777 /var/backups/app", "File[/var/backups/app]", 'test "$(stat -c %a /var/backups/app)" = 750'),
)


def mended(machine: Machine) -> list[str]:
    """Return the resources of those damages that are not on the machine, or no longer."""
    return [
        damage.resource for damage in DAMAGES if machine.run("sh", "-c", damage.mended, check=False).returncode == 0
    ]


@contextmanager
def bare_machine(directory: Path, *packages: str) -> Iterator[Machine]:
    """Start a machine without a network, with packages in the cache of apt, and the application in a repository.

    ``directory`` is empty. ``packages`` are further ones in the cache.
    """
    download_packages(*PACKAGES)
    download_packages(*packages)
    mounts = directory / "mounts"
    mounts.mkdir()
    services = ("postgresql", "postgresql@")
    with started_machine(mounts, stored=services, network=False) as machine:
        machine.run("rm", "-f", "/usr/sbin/policy-rc.d", "/etc/motd")
        machine.run("cp", "-r", HOME, "/root/webserver")
        commit = "git -c user.name=ra -c user.email=ra@localhost"
        machine.run(
            "sh",
            "-ec",
            f"git init -q -b main /srv/git/app; cd /srv/git/app; cp /root/webserver/app.py .; {commit} add .;"
            f" {commit} commit -qm 'The application'; git daemon --detach --export-all --base-path=/srv/git",
        )
        yield machine


def page(machine: Machine, path: str = "/") -> str:
    """Return a page as a visitor sees it who trusts the authority of the site."""
    location = ("--resolve", "www.example.org:443:127.0.0.1", f"https://www.example.org{path}")
    return machine.run("curl", "-sSf", "--cacert", "/etc/ssl/web/ca.pem", *location).stdout
