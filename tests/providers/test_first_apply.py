"""The first run on a real machine is true: packages, users and commands bring more than they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.systemd_machine import Machine, download_packages, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Title → the resources in the order of the file, without any relationship; a command that tells whether they are so.
CASES: Final = {
    "a package starts and enables its service": (
        """
          Package[nginx-light]: {ensure: present}
          Service[nginx]: {ensure: stopped, enable: false}
        """,
        'test "$(systemctl is-enabled nginx; systemctl is-active nginx)" = "disabled\ninactive"',
    ),
    "a package brings a default file": (
        """
          Package[nginx]: {ensure: present}
          File[/etc/nginx/sites-enabled/default]: {ensure: absent}
        """,
        "test -d /etc/nginx/sites-enabled && test ! -e /etc/nginx/sites-enabled/default",
    ),
    "a command makes a file": (
        """
          Exec[make]: {command: touch /srv/made, creates: /srv/other}
          Exec[mark]: {command: touch /srv/other, creates: /srv/other}
          File[/srv/made]: {ensure: absent}
        """,
        "test ! -e /srv/made",
    ),
    "a new user has a home with files in it": (
        """
          User[ra-first]: {home: /home/ra-first, managehome: true, shell: /bin/bash}
          File[/home/ra-first/.bashrc]: {ensure: absent}
        """,
        "test -d /home/ra-first && test ! -e /home/ra-first/.bashrc",
    ),
    "a package brings a rule for its logs": (
        """
          Package[nginx-light]: {ensure: present}
          Logrotate_rule[nginx]: {ensure: absent}
        """,
        "test ! -e /etc/logrotate.d/nginx",
    ),
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Start a machine without a network, with the packages in the cache of apt."""
    download_packages("nginx", "nginx-light")
    with started_machine(tmp_path_factory.mktemp("machine"), network=False) as machine:
        machine.run("rm", "-f", "/usr/sbin/policy-rc.d")
        yield machine


@pytest.mark.parametrize("title", CASES)
def test_the_first_run_is_true_and_the_second_is_silent(machine: Machine, title: str) -> None:
    """In the order of the file alone; what was there before the run is taken away first."""
    resources, check = CASES[title]
    machine.run("apt-get", "purge", "-qqy", "nginx*", "libnginx*")
    manifest = f"project: {title.replace(' ', '-')}\nresources:\n{resources}"
    machine.apply(manifest)
    machine.run("sh", "-c", check)
    again = machine.apply(manifest, "--detailed-exitcodes", check=False)
    assert again.returncode == 0, again.stdout + again.stderr
