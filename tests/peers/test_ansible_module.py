"""Modules of the real Ansible, which is installed into an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.testing import ProviderCompliance
from tests import command
from tests.peers.ansible_environment import program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from resource_api import Resource

SECRET: Final = "swordfish-4217"
pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


def interpreter() -> str:
    """Return the Python of Ansible."""
    return str(program("python"))


class TestAnsibleModule(ProviderCompliance):
    """A module is due while its check mode reports a change."""

    type_name = "ansible_module"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        """Return a line of a file that is missing."""
        args = {"path": str(tmp_path / "file"), "line": "hello", "create": True}
        return {"name": "ra-test", "module": "lineinfile", "args": args, "python": interpreter()}

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user is read."""
        return "it reads what the module reads, and keeps nothing of it"


class Site:
    """A directory with a manifest and a state."""

    def __init__(self, home: Path) -> None:
        """Keep everything below ``home``."""
        self.home = home
        self.environment = command.environment_of(home, RESOURCE_API_STATE=f"sqlite:{home}/state.db")

    def write(self, resources: dict[str, dict[str, Any]], **sections: Any) -> None:
        """Write a manifest; each module runs with the installed Ansible."""
        declared = {
            name: {**attributes, "python": interpreter()} if "module" in attributes else attributes
            for name, attributes in resources.items()
        }
        (self.home / "site.json").write_text(json.dumps({"project": "p", **sections, "resources": declared}, indent=1))

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command about the manifest; return its exit code and all output."""
        ended = command.run([arguments[0], "site.json", *arguments[1:]], cwd=self.home, env=self.environment, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    def start(self) -> subprocess.Popen[str]:
        """Start ``apply``, and return it as soon as its module sleeps."""
        process = subprocess.Popen(
            [sys.executable, "-m", "resource_api", "apply", "site.json"],
            cwd=self.home,
            env=self.environment,
            text=True,
            stderr=subprocess.PIPE,
        )
        end = time.monotonic() + 30
        while not any("sleep 4217" in line for line in processes()) and time.monotonic() < end:
            time.sleep(0.05)
        return process


def processes() -> Sequence[str]:
    """Return the command lines of all processes."""
    return subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout.splitlines()


def left() -> Sequence[str]:
    """Return the helpers and their modules that run, after a second in which they may end."""
    end = time.monotonic() + 5
    while (lines := [line for line in processes() if "sleep 4217" in line or "ansible_helper" in line]) and (
        time.monotonic() < end
    ):
        time.sleep(0.05)
    return lines


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a new directory."""
    return Site(tmp_path)


def test_the_plan_shows_the_difference_and_a_second_run_is_silent(site: Site) -> None:
    """The reason is the module's message."""
    (site.home / "motd").write_text("one\n")
    line = {"module": "lineinfile", "args": {"path": f"{site.home}/motd", "line": "two"}}
    directory = {"module": "ansible.builtin.file", "args": {"path": f"{site.home}/d", "state": "directory"}}
    site.write({"Ansible_module[line]": line, "Ansible_module[directory]": directory})
    code, text = site.run("plan")
    assert code == 0
    assert "~ Ansible_module[line] (line added)" in text
    assert f"{site.home}/motd (content) changed" in text
    assert "+two" in text
    assert "state: absent → directory" in text
    assert not (site.home / "d").exists()
    assert "2 run, 0 unchanged" in site.run("apply")[1]
    assert (site.home / "motd").read_text() == "one\ntwo\n"
    code, text = site.run("apply")
    assert (code, "2 unchanged" in text, "line added" in text) == (0, True, False)
    assert left() == []


def test_others_refer_to_the_result(site: Site) -> None:
    """After it ran in this run, or from its check mode where there was nothing to do."""
    echo = {"module": "command", "args": {"cmd": "echo hi"}}
    directory = {"module": "file", "args": {"path": f"{site.home}/d", "state": "directory"}}
    file = {"content": "${Ansible_module[echo].result.stdout} ${Ansible_module[directory].result.path}"}
    resources = {"Ansible_module[echo]": echo, "Ansible_module[directory]": directory, f"File[{site.home}/out]": file}
    site.write(resources)
    assert "(known after apply)" in site.run("plan")[1]
    code, text = site.run("apply")
    assert (code, "1 created, 2 run" in text) == (0, True), text
    assert (site.home / "out").read_text() == f"hi {site.home}/d"
    code, text = site.run("apply")
    assert (code, "1 run, 2 unchanged" in text) == (0, True), text


def test_a_module_with_an_action_plugin_runs_in_a_play(site: Site) -> None:
    """Texts in its arguments are no templates."""
    copy = {"module": "copy", "args": {"dest": f"{site.home}/c", "content": "a {{ b }}\n", "mode": "0600"}}
    site.write({"Ansible_module[copy]": copy})
    assert "a {{ b }}" in site.run("plan")[1]
    assert "1 run" in site.run("apply")[1]
    assert (site.home / "c").read_text() == "a {{ b }}\n"
    assert "1 unchanged" in site.run("apply")[1]


def test_a_wrong_module_and_a_wrong_argument_are_errors_with_their_place(site: Site) -> None:
    """All of them at once; those of an action plugin with the line of the resource."""
    wrong = {"module": "lineinfile", "args": {"path": "/x", "lin": "two"}}
    site.write({"Ansible_module[a]": wrong, "Ansible_module[b]": {"module": "lineinfil"}})
    code, text = site.run("plan")
    assert code == 65
    assert "site.json:6:4: Ansible_module[a]: lineinfile: Unsupported parameters for" in text
    assert "module: lin. Supported parameters include: " in text
    assert "site.json:13:4: Ansible_module[b]: Ansible has no module 'lineinfil'" in text
    site.write({"Ansible_module[c]": {"module": "copy", "args": {"dst": "/x"}}})
    code, text = site.run("plan")
    assert code == 1
    assert "Ansible_module[c]: copy: src (or content) is required (site.json:4)" in text


def test_a_secret_is_passed_by_stdin_only(site: Site) -> None:
    """It is in no command line, no output, no log and no state; what contains it is hidden."""
    inputs = {"password": {"type": "Sensitive[String]", "default": SECRET}}
    seen = f"ps -eo args > {site.home}/seen; cat"
    shell = {"module": "shell", "args": {"cmd": seen, "stdin": "${inputs.password}"}}
    line = {"module": "lineinfile", "args": {"path": f"{site.home}/f", "line": "p ${inputs.password}", "create": True}}
    file = {"content": "${Ansible_module[shell].result.stdout}"}
    resources = {"Ansible_module[shell]": shell, "Ansible_module[line]": line, f"File[{site.home}/copy]": file}
    site.write(resources, inputs=inputs)
    (site.home / "site.json").chmod(0o600)
    texts = [site.run(*words)[1] for words in (("plan",), ("plan", "--json"), ("apply", "-d"))]
    assert (site.home / "copy").read_text() == SECRET
    assert (site.home / "f").read_text() == f"p {SECRET}\n"
    assert all(SECRET not in text for text in texts)
    assert "<sensitive>" in texts[0]
    assert "ansible_helper.py" in (site.home / "seen").read_text()
    assert SECRET not in (site.home / "seen").read_text()
    state = [path for path in site.home.rglob("state.db*") if path.is_file()]
    assert state
    assert all(SECRET.encode() not in path.read_bytes() for path in state)


def test_a_module_without_check_mode_runs_in_every_apply(site: Site) -> None:
    """Its message says so in the plan; a failure of the module fails the resource."""
    site.write({"Ansible_module[get]": {"module": "uri", "args": {"url": "http://127.0.0.1:9/"}}})
    assert "does not support check mode" in site.run("plan")[1]
    code, text = site.run("apply")
    assert code == 1
    assert "Connection refused" in text


@pytest.mark.parametrize("how", ["killed", "interrupted", "timeout"])
def test_nothing_is_left_of_a_module_that_is_ended(site: Site, how: str) -> None:
    """By a kill of the run, by a second interrupt, or at the end of its time."""
    sleep: dict[str, Any] = {"module": "command", "args": {"cmd": "sleep 4217"}}
    site.write({"Ansible_module[sleep]": {**sleep, "timeout": 2} if how == "timeout" else sleep})
    process = site.start()
    if how == "killed":
        process.kill()
    elif how == "interrupted":
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=30)
    assert process.returncode == {"killed": -signal.SIGKILL, "interrupted": 130, "timeout": 1}[how]
    expected = {"killed": "", "interrupted": "stopped, as the run was interrupted", "timeout": "timed out"}
    assert expected[how] in text
    assert left() == []


def test_an_interpreter_without_ansible_is_a_clear_failure(site: Site) -> None:
    """In one sentence."""
    site.write({"Ansible_module[a]": {"module": "lineinfile", "args": {}}})
    text = (site.home / "site.json").read_text().replace(interpreter(), "/usr/bin/python3")
    (site.home / "site.json").write_text(text)
    code, text = site.run("plan")
    assert code == 1
    assert "Ansible_module[a]: '/usr/bin/python3' returned 1: No module named 'ansible' (site.json:4)" in text
