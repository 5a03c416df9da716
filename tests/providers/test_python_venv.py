"""Environments that the real Python makes and uses."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a directory of our own in /srv: all above /tmp is open to others."""
    path = Path(mkdtemp(prefix="ra-test-", dir="/srv" if os.geteuid() == 0 else Path.home()))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def apply(path: Path, **attributes: Any) -> RunReport:
    """Apply a manifest of one environment without pip."""
    resources = {f"Python_venv[{path}]": {"pip": False, **attributes}}
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": resources})


def python(path: Path, code: str) -> str:
    """Return what the interpreter of an environment prints."""
    return subprocess.run([path / "bin/python", "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_python_uses_the_environment(home: Path) -> None:
    """With the packages of the system or without them."""
    venv = home / "venv"
    for system in (False, True):
        assert [apply(venv, system_site_packages=system).summary.unchanged for _ in range(2)] == [0, 1]
        assert python(venv, "import sys; print(sys.prefix)") == str(venv)
        result = python(venv, "import sys; print(any(path.endswith('/dist-packages') for path in sys.path))")
        assert result == str(system)
    assert [apply(venv, ensure="absent").exit_code, venv.exists()] == [0, False]


@pytest.mark.parametrize("damage", ["interpreter", "version", "mark"])
def test_a_broken_environment_is_made_again_and_keeps_its_packages(home: Path, damage: str) -> None:
    """After an upgrade of Python; only one that was never complete is emptied."""
    venv = home / "venv"
    assert apply(venv, system_site_packages=True).exit_code == 0
    package = venv / "package"
    package.touch()
    if damage == "interpreter":
        (venv / "bin/python3").unlink()
        (venv / "bin/python3").symlink_to("/srv/missing")
    elif damage == "version":
        (venv / "pyvenv.cfg").write_text((venv / "pyvenv.cfg").read_text().replace("version = 3.", "version = 2."))
    else:
        (venv / ".resource-api-incomplete").touch()
    report = apply(venv)
    assert (report.exit_code, report.summary.updated) == (0, 1), report.steps
    assert apply(venv).summary.unchanged == 1
    assert python(venv, "print(1)") == "1"
    assert "include-system-site-packages = true" in (venv / "pyvenv.cfg").read_text()
    assert package.exists() == (damage != "mark")


def test_a_directory_with_other_content_fails_and_stays(home: Path) -> None:
    """It may be anything."""
    (home / "file").write_text("mine")
    report = apply(home)
    assert "no environment" in str(report.steps[0].error)
    assert [path.name for path in home.iterdir()] == ["file"]


def test_an_empty_directory_is_used_or_removed(home: Path) -> None:
    """A removal that was killed at its end leaves one."""
    for ensure in ("present", "absent"):
        (home / ensure).mkdir()
        assert [apply(home / ensure, ensure=ensure).summary.unchanged for _ in range(2)] == [0, 1]
        assert (home / ensure / "pyvenv.cfg").exists() == (ensure == "present")
    assert not (home / "absent").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the environment of another user")
def test_an_owner_without_an_account_is_named(home: Path) -> None:
    """In the words of the other types."""
    assert apply(home / "venv", owner="nosuch").steps[0].error == "there is no user 'nosuch'"
    with pytest.raises(ManifestError, match="owner must be a name"):
        apply(home / "venv", owner="65534")


def test_a_directory_or_an_interpreter_that_is_missing_is_reported_by_the_plan(home: Path) -> None:
    """And one that has no module for pip, which Debian has in a package of its own."""
    assert warned({f"Python_venv[{home}/a/venv]": {"pip": False}}) == [f"the directory '{home}/a' does not exist"]
    interpreter = home / "python3"
    interpreter.write_text("#!/bin/sh\nexit 1\n")
    interpreter.chmod(0o755)
    message = f"'{interpreter}' has no module ensurepip, which gives the environment its pip"
    assert warned({f"Python_venv[{home}/venv]": {"python": str(interpreter)}}) == [message]
    assert warned({f"Python_venv[{home}/venv]": {"python": str(interpreter), "pip": False}}) == []


def test_an_environment_where_others_can_write_is_made_by_its_owner(home: Path) -> None:
    """As root it would be made wherever they put a link to."""
    directory = directory_of_nobody(home)
    assert "declare the 'owner'" in str(apply(directory / "venv").steps[0].error)
    assert "declare the 'owner'" in "".join(warned({f"Python_venv[{directory}/venv]": {"pip": False}}))
    assert not (directory / "venv").exists()
    assert [apply(directory / "venv", owner="nobody").summary.unchanged for _ in range(2)] == [0, 1]
    owners = {path.lstat().st_uid for path in (directory / "venv").rglob("*")}
    assert owners == {pwd.getpwnam("nobody").pw_uid}


class TestPythonVenv(ProviderCompliance):
    """An environment without pip, which takes seconds."""

    type_name = "python_venv"

    @pytest.fixture
    def present(self, home: Path) -> Resource:
        return {"path": str(home / "ra-test"), "pip": False}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "system_site_packages": True}

    @pytest.fixture
    def world(self, home: Path) -> Callable[[], Any]:
        return lambda: sorted(home.rglob("*"))

    @pytest.fixture
    def neighbours(self, home: Path) -> list[Neighbour]:
        """Return the configuration of an environment of another user."""
        directory = directory_of_nobody(home)
        (directory / "lib").mkdir()  # an empty directory would be what is left of an environment
        mine = {"path": str(directory), "pip": False}
        return [Neighbour(str(directory / "pyvenv.cfg"), b"home = /srv/evil\n", "nobody", [mine])]
