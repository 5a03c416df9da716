"""A converted playbook leaves a machine as Ansible does: after one of them, the other has nothing to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import command
from tests.namespaces import private_mounts
from tests.peers.ansible_environment import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAYBOOKS: Final = command.ROOT / "tests" / "convert" / "playbooks"
CHANGES: Final = ("created", "updated", "replaced", "deleted", "refreshed", "ran", "failed")
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can add users and mount"),
]


@pytest.fixture
def _private_etc(tmp_path: Path) -> Iterator[None]:
    """Mount a copy over /etc, visible to this thread and its programs only."""
    subprocess.run(["cp", "-a", "/etc", tmp_path / "etc"], check=True)
    with private_mounts():
        subprocess.run(["mount", "--bind", tmp_path / "etc", "/etc"], check=True)
        yield


class Machine:
    """A directory that a playbook fills, and a copy of the playbooks."""

    def __init__(self, home: Path, name: str) -> None:
        """Use the playbook of this name."""
        self.top = home / "top"
        self.top.mkdir()
        self._site = home / "site"
        shutil.copytree(PLAYBOOKS, self._site)
        self._playbook = f"{name}.yml"
        self._environment = command.environment_of(home, RESOURCE_API_STATE=f"sqlite:{home}/state.db")

    def ansible(self) -> dict[str, int]:
        """Run the playbook; return the counts of tasks by their results."""
        words = [str(program("ansible-playbook")), "-i", "localhost,", "-c", "local", "-e", f"top={self.top}"]
        environment = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_DEPRECATION_WARNINGS": "False"}
        ended = subprocess.run(
            [*words, "-e", f"ansible_python_interpreter={program('python')}", self._playbook],
            cwd=self._site,
            env={**os.environ, **environment, "HOME": str(self.top.parent)},
            text=True,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        stats: dict[str, int] = json.loads(ended.stdout)["stats"]["localhost"]
        return stats

    def apply(self) -> dict[str, Any]:
        """Convert the playbook and apply the manifest; return the summary."""
        converted = self._run("convert", self._playbook)
        assert converted.returncode == 0, converted.stderr
        (self._site / "site.yaml").write_text(converted.stdout)
        applied = self._run("apply", "site.yaml", "-i", f"top={self.top}", "--json")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        summary: dict[str, Any] = json.loads(applied.stdout.splitlines()[-1])
        return summary

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return command.run(list(words), cwd=self._site, env=self._environment, text=True)


@pytest.mark.usefixtures("_private_etc")
@pytest.mark.parametrize("name", ["files", "users"])
def test_after_the_playbook_the_manifest_has_nothing_to_do(name: str, tmp_path: Path) -> None:
    """Not even modes and owners differ."""
    machine = Machine(tmp_path, name)
    assert machine.ansible()["changed"] > 0
    summary = machine.apply()
    assert {name: summary[name] for name in CHANGES if summary[name]} == {}
    assert summary["unchanged"] > 0


@pytest.mark.usefixtures("_private_etc")
@pytest.mark.parametrize("name", ["files", "users"])
def test_after_the_manifest_the_playbook_has_nothing_to_do(name: str, tmp_path: Path) -> None:
    """Each module reports that nothing was changed."""
    machine = Machine(tmp_path, name)
    assert machine.apply()["created"] > 0
    assert machine.ansible()["changed"] == 0
