"""The machine of a developer, on one that a real systemd has started: made, used by its account, mended and removed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.systemd_machine import Machine, download_packages, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME: Final = Path(__file__).resolve().parents[1]
#: Services that a login needs, and the manager of a user's own services.
LOGIN: Final = ("dbus", "dbus-org.freedesktop.login1", "systemd-logind", "user@", "user-runtime-dir@")
ZSHRC: Final = "export EDITOR=vi\nalias ll='ls -l'\n"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/lib/systemd/systemd").exists() or shutil.which("apt-get") is None,
    reason="only root can start a machine, and this one needs systemd and apt",
)

#: What somebody does to the machine by hand → the resource that must be seen as changed.
DAMAGES: Final = {
    "rm /home/alice/.zshrc": "File[/home/alice/.zshrc]",
    "sed -i s/example.org/example.com/ /home/alice/.gitconfig": "File[/home/alice/.gitconfig]",
    'echo \'{"editor": {"tabSize": 8}}\' >/home/alice/.config/editor.json': "Json_setting[spaces]",
    "echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/developers": "Sudo_rule[developers]",
    "rm /home/alice/.venv/bin/python3": "Python_venv[/home/alice/.venv]",
    "touch -d '5 weeks ago' /home/alice/Downloads/setup.bin": "Tidy[/home/alice/Downloads]",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yield a machine without a network, with the repository of the settings."""
    download_packages("git", "zsh", "jq", "sudo", "cron", "python3-venv")
    with started_machine(tmp_path_factory.mktemp("machine"), stored=LOGIN, network=False) as machine:
        machine.run("cp", "-r", HOME, "/root/workstation")
        machine.run("mkdir", "-p", "/srv/git/dotfiles")
        machine.write("/srv/git/dotfiles/zshrc", ZSHRC)
        commit = "git -c user.name=ra -c user.email=ra@localhost"
        machine.run(
            "sh",
            "-ec",
            f"cd /srv/git/dotfiles; git init -q -b main; {commit} add .; {commit} commit -qm 'Settings of the shell';"
            " git daemon --detach --export-all --base-path=/srv/git",
        )
        yield machine


def command(machine: Machine, *words: str, code: int = 0) -> str:
    """Run the command with the manifest; return its output."""
    options = ("/root/workstation/site.yaml", "-i", "dotfiles=git://127.0.0.1/dotfiles", "--state", "sqlite:/root/s.db")
    result = machine.command(*words, *options, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def as_alice(machine: Machine, script: str) -> str:
    """Return the output of a script that the account runs in its own shell."""
    return machine.run("su", "--login", "alice", "--command", script).stdout


def listing(machine: Machine) -> set[str]:
    """Return the files of /etc, /home and /usr/local with their modes and owners."""
    listing_text = machine.run("find", "/etc", "/home", "/usr/local", "-xdev", "-printf", "%M %u %p\n").stdout
    return {
        line
        for line in listing_text.splitlines()
        if not re.search(r"ra-test|/etc/(passwd|group|g?shadow|sub.id)-$", line)
    }


def test_a_developer_can_work_on_the_machine(machine: Machine) -> None:
    """One apply makes the account with its tools and services; a second one changes nothing; damages are mended."""
    before = listing(machine)
    first = command(machine, "apply")
    assert "failed" not in first
    again = re.search(r"^Applied in .* s: (\d+) unchanged\.$", command(machine, "apply"), re.MULTILINE)
    assert again is not None
    assert int(again[1]) > 35
    output = as_alice(machine, "zsh -ic 'echo $SHELL $EDITOR; today'")
    assert re.fullmatch(r"/usr/bin/zsh vi\n\d{4}-\d\d-\d\d\n", output)
    assert as_alice(machine, "git config user.email; git config alias.st") == "alice@example.org\nstatus --short\n"
    assert as_alice(machine, ".venv/bin/python -m pip --version").startswith("pip ")
    assert "apt-get upgrade" in machine.run("sudo", "-l", "-U", "alice").stdout
    assert machine.run("curl", "-sSf", "http://dev.example.test:8123/").stdout == "<p>Hello, Alice Example</p>\n"
    settings = json.loads(machine.read("/home/alice/.config/editor.json"))
    assert settings == {"editor": {"tabSize": 4, "formatOnSave": True}}

    for damage in DAMAGES:
        machine.run("sh", "-c", damage)
    planned = command(machine, "plan", "--detailed-exitcodes", code=2)
    expected = {*DAMAGES.values(), "Json_setting[on save]"}
    assert set(re.findall(r"^[^\w\s#] (\w+\[[^\]]+\])", planned, re.MULTILINE)) == expected, planned
    assert f"{int(again[1]) - len(expected)} unchanged" in command(machine, "apply")
    assert again[1] + " unchanged" in command(machine, "plan", "--detailed-exitcodes")
    # An account is not removed while it runs something.
    machine.run("sh", "-ec", "loginctl disable-linger alice; systemctl stop user@$(id -u alice)")
    command(machine, "destroy", "--yes")
    assert listing(machine) == before
