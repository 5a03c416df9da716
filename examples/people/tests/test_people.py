"""Thirty people from an encrypted file: planned, edited, and made for real on an overlay of this machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyrage
import pytest
import yaml

from tests import command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

EXAMPLE: Final = Path(__file__).resolve().parents[1]
FILE: Final = "stacks/default.yaml.age"


class Site:
    """A copy of the example, and the command in it."""

    def __init__(self, home: Path) -> None:
        """Copy the files; git keeps no modes."""
        self.home = home / "people"
        shutil.copytree(EXAMPLE, self.home)
        (self.home / "example.key").chmod(0o600)
        self._environment = command.environment_of(
            home, RESOURCE_API_STATE="memory:", RESOURCE_API_INPUTS_KEY="age:example.key"
        )

    def people(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the people in the encrypted file."""
        lines = (self.home / "example.key").read_text(encoding="ascii").split()
        identity = pyrage.x25519.Identity.from_str(lines[-1])
        people: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
            pyrage.decrypt((self.home / FILE).read_bytes(), [identity])
        )["people"]
        return people

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command; no hash of a password is in its output."""
        process = command.run(words, cwd=self.home, env={**self._environment, **environment}, text=True, timeout=100)
        assert process.returncode == 0, process.stderr
        assert not [name for name, person in self.people().items() if person["hash"] in process.stdout + process.stderr]
        return process


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a copy of the example."""
    return Site(tmp_path)


def test_each_person_has_an_account_and_a_key(site: Site) -> None:
    """The plan shows their names and shells; only the hashes are masked."""
    people = site.people()
    assert len(people) == 30
    plan = site.run("plan", "site.yaml").stdout
    assert f"Plan: {2 + 2 * len(people)} to create; 0 unchanged." in plan
    for name, person in people.items():
        assert f"+ User[{name}] (from for_each, key '{name}')" in plan
        assert f"+ Ssh_authorized_key[{name}@people] (from for_each, key '{name}')" in plan
        assert person["key"] in plan
    assert plan.count("password: <sensitive>") == len(people)


def test_a_person_is_added_with_an_editor(site: Site) -> None:
    """The next plan has two resources more, and the file is still encrypted for its recipients."""
    before = site.people()
    added = "text + text[text.index('  whitfield:') :].replace('whitfield', 'yukihiro').replace('Diffie', 'Matsumoto')"
    script = f"import sys; path = sys.argv[1]; text = open(path).read(); open(path, 'w').write({added})"
    (site.home / "editor.py").write_text(script)
    result = site.run("inputs", "edit", FILE, EDITOR=f"{sys.executable} editor.py")
    assert result.stdout == f"{FILE}: encrypted for 1 recipient.\n"
    assert (site.home / FILE).read_text().startswith("-----BEGIN AGE ENCRYPTED FILE-----\n")
    assert site.people().keys() - before.keys() == {"yukihiro"}
    assert f"Plan: {4 + 2 * len(before)} to create" in site.run("plan", "site.yaml").stdout


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("useradd") is None, reason="only root can rehearse accounts")
def test_the_accounts_are_made_and_nothing_changes_again(site: Site) -> None:
    """Their passwords and keys are those of the file."""
    person = site.people()["ada"]
    tests = (
        f"getent shadow ada | grep -qF '{person['hash']}'",
        f"grep -qF '{person['key']}' /home/ada/.ssh/authorized_keys",
        "id -nG ada | grep -qw developers",
    )
    (site.home / "check").write_text("#!/bin/sh -e\n" + "\n".join(tests) + "\n")
    lines = site.run("rehearse", "site.yaml", "--test", f"sh -e {site.home}/check").stdout.splitlines()
    verdicts = [line.split() for line in lines[lines.index("Verdicts:") + 1 :] if line.startswith("  ")]
    assert verdicts
    assert [line for line in verdicts if "ok" not in line] == []
