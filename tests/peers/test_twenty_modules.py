"""Twenty modules of Ansible and its collections: plan, apply, second run, a wrong argument, a secret, another host."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests import command
from tests.fleet.ssh_fleet import SshFleet
from tests.fleet.sshd import started_server
from tests.namespaces import private_mounts
from tests.peers.ansible_environment import program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fleet.sshd import Server

SECRET: Final = "swordfish-4217"
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can add users and mount"),
]


class Case(NamedTuple):
    """A module with its arguments, in which `TOP` is a directory, and a part of the plan."""

    module: str
    arguments: dict[str, Any]
    shown: str
    #: Whether Ansible sees that nothing is left to do.
    is_idempotent: bool = True


CASES: Final = [
    Case("ansible.builtin.file", {"path": "TOP/d", "state": "directory"}, "state: absent → directory"),
    Case("lineinfile", {"path": "TOP/text", "line": "two"}, "(line added)"),
    Case("blockinfile", {"path": "TOP/text", "block": "b = 1"}, "Block inserted"),
    Case("replace", {"path": "TOP/text", "regexp": "one", "replace": "three"}, "1 replacements made"),
    Case("copy", {"dest": "TOP/copy", "content": "hello\n"}, "hello"),
    Case("template", {"src": "TOP/text", "dest": "TOP/rendered"}, "rendered"),
    Case("command", {"cmd": "touch TOP/made", "creates": "TOP/made"}, "Command would have run"),
    Case("shell", {"cmd": "echo hi > TOP/shell", "creates": "TOP/shell"}, "Command would have run"),
    Case("group", {"name": "ra-test-twenty", "gid": 54_020}, "its check mode reports a change"),
    Case("user", {"name": "ra-test-twenty", "create_home": False}, "its check mode reports a change"),
    Case("known_hosts", {"name": "h", "key": "h ssh-ed25519 AAAAC3Nz", "path": "TOP/known"}, "TOP/known"),
    Case(
        "unarchive",
        {"src": "TOP/a.tar", "dest": "TOP", "remote_src": True, "creates": "TOP/inner"},
        "check mode",
        is_idempotent=False,
    ),
    Case("tempfile", {"path": "TOP", "state": "file"}, "check mode", is_idempotent=False),
    Case(
        "community.general.ini_file",
        {"path": "TOP/i", "section": "s", "option": "o", "value": "1"},
        "section and option added",
    ),
    Case(
        "community.general.sudoers",
        {"name": "x", "user": "root", "commands": ["/bin/true"], "sudoers_path": "TOP", "validation": "absent"},
        "its check mode",
    ),
    Case("community.general.archive", {"path": "TOP/text", "dest": "TOP/text.gz", "format": "gz"}, "its check mode"),
    Case("community.general.filesize", {"path": "TOP/sized", "size": "2MB"}, "its check mode"),
    Case(
        "community.general.pam_limits",
        {"domain": "x", "limit_type": "hard", "limit_item": "core", "value": "0", "dest": "TOP/limits"},
        "TOP/limits",
    ),
    Case(
        "community.general.pamd",
        {
            "name": "login",
            "type": "auth",
            "control": "optional",
            "module_path": "pam_faildelay.so",
            "module_arguments": "delay=1",
            "path": "TOP/pam.d",
        },
        "its check mode",
    ),
    Case(
        "community.general.cronvar",
        {"name": "EMAIL", "value": "a@example.org", "cron_file": "ra-test-twenty"},
        "check mode",
        is_idempotent=False,
    ),
    Case(
        "ansible.posix.authorized_key",
        {
            "user": "root",
            "key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1TS2OhzHh8x1VBq3cMPvIi0ZMRpcpXlHVYeR0nQn1k x",
            "path": "TOP/keys",
        },
        "TOP/keys",
    ),
    Case(
        "ansible.posix.sysctl",
        {"name": "vm.swappiness", "value": "60", "sysctl_file": "TOP/sysctl.conf", "reload": False},
        "its check mode",
    ),
]


class Site:
    """A directory with a manifest, a state and files for modules."""

    def __init__(self, home: Path) -> None:
        """Keep everything below ``home``."""
        self.home = home
        self.top = home / "top"
        (self.top / "pam.d").mkdir(parents=True)
        (self.top / "text").write_text("one\n")
        (self.top / "sysctl.conf").write_text("")
        (self.top / "pam.d" / "login").write_text("auth       optional   pam_faildelay.so  delay=3000000\n")
        (self.top / "inner-file").write_text("inner")
        subprocess.run(
            ["tar", "-C", self.top, "--transform=s/inner-file/inner/", "-cf", self.top / "a.tar", "inner-file"],
            check=True,
        )
        (self.top / "inner-file").unlink()
        self._environment = command.environment_of(home, RESOURCE_API_STATE=f"sqlite:{home}/state.db")

    def write(self, tasks: Mapping[str, Case], **sections: Any) -> None:
        """Write a manifest with a resource for each task."""
        rows = {
            f"Ansible_module[{name}]": {
                "module": case.module,
                "args": self.arguments(case.arguments),
                "python": str(program("python")),
            }
            for name, case in tasks.items()
        }
        path = self.home / "site.json"
        path.write_text(json.dumps({"project": "p", **sections, "resources": rows}, indent=1))
        path.chmod(0o600)

    def arguments(self, value: Any) -> Any:
        """Return arguments with the directory."""
        return json.loads(json.dumps(value).replace("TOP", str(self.top)))

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command about the manifest; return its exit code and all output."""
        ended = command.run([words[0], "site.json", *words[1:]], cwd=self.home, env=self._environment, text=True)
        return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a new directory, with a copy over /etc that only this thread and its programs see."""
    subprocess.run(["cp", "-a", "/etc", tmp_path / "etc"], check=True)
    with private_mounts():
        subprocess.run(["mount", "--bind", tmp_path / "etc", "/etc"], check=True)
        yield Site(tmp_path)


def part(text: str, name: str) -> str:
    """Return the lines of a plan about a task."""
    match = re.search(rf"^~ Ansible_module\[{re.escape(name)}\].*?(?=^[~+P]|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[0] if match else ""


def test_twenty_modules_are_planned_applied_and_silent(site: Site) -> None:
    """The plan has the message or the difference of each one, and changes nothing."""
    tasks = {case.module: case for case in CASES}
    assert len(tasks) >= 20
    site.write(tasks)
    code, text = site.run("plan")
    assert code == 0, text
    missing = {
        name: part(text, name) for name, case in tasks.items() if site.arguments(case.shown) not in part(text, name)
    }
    assert missing == {}
    assert sorted(path.name for path in site.top.iterdir()) == ["a.tar", "pam.d", "sysctl.conf", "text"]
    code, text = site.run("apply")
    assert (code, f"{len(tasks)} run" in text) == (0, True), text
    code, text = site.run("apply")
    repeated = sum(not case.is_idempotent for case in CASES)
    assert (code, f"{repeated} run, {len(tasks) - repeated} unchanged" in text) == (0, True), text


def test_a_wrong_argument_of_each_is_found_before_anything_is_changed(site: Site) -> None:
    """With its name; only some action plugins find it at the turn of the module."""
    tasks = {case.module: case._replace(arguments={**case.arguments, "nonsense": 1}) for case in CASES}
    site.write(tasks)
    code, text = site.run("plan")
    unfound = {name for name in tasks if not re.search(rf"Ansible_module\[{re.escape(name)}\]: .*nonsense", text)}
    assert (code, unfound - {"copy", "template", "unarchive", "shell"}) == (65, set()), text
    assert not (site.top / "d").exists()


def test_a_secret_of_each_is_in_no_output_and_no_state(site: Site) -> None:
    """Nor in the difference that a module shows."""
    inputs = {"secret": {"type": "Sensitive[String]", "default": SECRET}}
    content = {"lineinfile": "line", "blockinfile": "block", "copy": "content", "replace": "replace"}
    content |= {"community.general.ini_file": "value", "community.general.pam_limits": "comment"}
    content |= {"user": "comment", "command": "stdin", "shell": "stdin"}
    tasks = {
        case.module: case._replace(arguments={**case.arguments, content[case.module]: "x ${inputs.secret}"})
        for case in CASES
        if case.module in content
    }
    # A program that ends without reading its input fails, if it ends before the input is written.
    for name in ("command", "shell"):
        tasks[name].arguments["cmd"] = "sh -c 'cat > TOP/read'"
    site.write(tasks, inputs=inputs)
    texts = [site.run(*words)[1] for words in (("plan",), ("plan", "--json"), ("apply", "-d"))]
    assert f"{len(tasks)} run" in texts[-1]
    assert [SECRET in text for text in texts] == [False, False, False]
    assert SECRET in (site.top / "copy").read_text()
    states = [path for path in site.home.glob("state.db*") if path.is_file()]
    assert states
    assert [path for path in states if SECRET.encode() in path.read_bytes()] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a real sshd."""
    with started_server(tmp_path_factory.mktemp("sshd"), tmp_path_factory.getbasetemp()) as result:
        yield result


def test_modules_run_on_another_host(tmp_path: Path, server: Server) -> None:
    """By `--on`: with the plan's difference, a silent second run, and a secret in no output."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    server.known_hosts(home / ".ssh" / "known_hosts")
    fleet = SshFleet(tmp_path / "site", home, server, {"web1": "127.4.20.1"})
    rows = {
        "Ansible_module[line]": {
            "module": "lineinfile",
            "args": {"path": f"{tmp_path}/a", "line": "l ${inputs.secret}", "create": True},
        },
        "Ansible_module[copy]": {"module": "copy", "args": {"dest": f"{tmp_path}/b", "content": "hello"}},
        "Ansible_module[ini]": {
            "module": "community.general.ini_file",
            "args": {"path": f"{tmp_path}/c", "section": "s", "option": "o", "value": "1"},
        },
    }
    rows = {name: {**row, "python": str(program("python"))} for name, row in rows.items()}
    inputs = {"secret": {"type": "Sensitive[String]", "default": SECRET}}
    fleet.write(json.dumps({"project": "p", "inputs": inputs, "resources": rows}))
    plan = fleet.run("plan", "site.yaml", "--on", "web1")
    assert (plan.code, "section and option added" in plan.out, SECRET in plan.out + plan.err) == (0, True, False)
    applied = fleet.run("apply", "site.yaml", "--on", "web1")
    assert (applied.code, SECRET in applied.out + applied.err) == (0, False), applied.out + applied.err
    assert (tmp_path / "a").read_text() == f"l {SECRET}\n"
    again = fleet.run("apply", "site.yaml", "--on", "web1", "--detailed-exitcodes")
    assert again.code == 0, again.out
