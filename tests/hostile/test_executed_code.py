"""Programs of root never execute what others can change: scripts, sources, environments, their working directory."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from resource_api.plugins.module_path import BUNDLED
from resource_api.plugins.registry import Registry
from resource_api.system.log import Log
from tests.bundled import directory_of_nobody
from tests.providers.applied import reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and a neighbour")
BOTH_WAYS = (
    "or declare the 'user' as whom it runs; or, if you trust everybody who can write there, give --trust-path DIR"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a directory of root that every user can enter, and in which a sentinel appears if a spy is executed."""
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    return tmp_path


def plant(directory: Path, observed: Path, neighbour: Path | None = None) -> None:
    """Put into a directory whatever programs execute, and give one file of it, or the directory, to nobody."""
    spy = f"echo executed >> {observed}"
    for name, text in {
        "Makefile": f"all:\n\t{spy}\n",
        "package.json": json.dumps({"scripts": {"build": spy}}),
        "script": f"#!/bin/sh\n{spy}\n",
        "script.py": f"open({str(observed)!r}, 'w')\n",
        "module.py": "",
        "data": "",
    }.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    shutil.chown(neighbour or directory, "nobody")


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("make", False),
        ("nice -n 5 make", False),
        ("env A=b make", False),
        ("/bin/sh script", False),
        ("bash -c 'make -s'", False),
        ("./script", True),
        (". ./script", True),
        ("true && make | cat", True),
        ("if true; then python3 script.py; fi", True),
        ("X=1 sh ./script", True),
        (f"{sys.executable} -c 'import module'", False),
        ("perl -e 1", False),
    ],
)
def test_what_lies_in_the_directory_of_a_command(workspace: Path, command: str, *, shell: bool) -> None:
    """It is refused with path, owner and mode unless a declared user executes it, or it is trusted."""
    source, path = workspace / "source", workspace / "seen"
    source.mkdir()
    plant(source, path)
    declared = {"command": command, "shell": shell, "cwd": str(source)}
    error = reason(run({"Exec[it]": declared})[0])
    assert f"'{source}' belongs to nobody and has mode 0755; nobody is neither root nor you" in error, error
    assert BOTH_WAYS in error
    assert not path.exists()
    assert "others could have" not in reason(run({"Exec[it]": {**declared, "user": "nobody"}})[0])
    trusting = Runtime(Registry.from_path(trust=[str(source)]), log=Log("off"))
    report = trusting.apply({"project": "p", "resources": {"Exec[it]": declared}})
    assert "others could have changed" not in reason(report)


@pytest.mark.parametrize(
    "command",
    [
        "make -C SOURCE",
        "make --directory=SOURCE",
        "make -f SOURCE/Makefile",
        "sh SOURCE/script",
        "python3 SOURCE/script.py",
        ["sh", "-c", "cd SOURCE && make"],
        ["sh", "-c", ". SOURCE/script"],
        ["sh", "-c", "(cd SOURCE; ./script)"],
        ["timeout", "9", "sh", "SOURCE/script"],
        ["git", "-C", "SOURCE", "status"],
        ["npm", "--prefix", "SOURCE", "run", "build"],
    ],
)
@pytest.mark.parametrize("type_name", ["exec", "wait_for", "assert"])
def test_what_a_command_names(workspace: Path, command: str | list[str], type_name: str) -> None:
    """A script or a source that belongs to another user is not executed, whichever type runs the command."""
    source, path = workspace / "source", workspace / "seen"
    source.mkdir()
    plant(source, path, source / "Makefile")
    shutil.chown(source / "script", "nobody")
    words = [word.replace("SOURCE", str(source)) for word in ([command] if isinstance(command, str) else command)]
    extra = {"wait_for": {"timeout": 1}}.get(type_name, {})
    declared = {"command": words[0] if isinstance(command, str) else words, **extra}
    error = reason(run({f"{type_name.capitalize()}[it]": declared})[0])
    assert "belongs to nobody" in error, error
    assert BOTH_WAYS in error
    assert not path.exists()


def planned(resources: dict[str, Any]) -> list[str]:
    """Return the error of each step of a plan."""
    plan = Runtime(Registry.from_path(), log=Log("off")).plan({"project": "p", "resources": resources})
    return [step.error for step in plan.steps]


def test_the_plan_refuses_a_command_as_its_run_would(workspace: Path) -> None:
    """With path, owner and mode, where the command is due; not where an earlier step may change who owns the path."""
    source, path = workspace / "source", workspace / "seen"
    source.mkdir()
    plant(source, path)
    declared: dict[str, Any] = {"command": "make", "cwd": str(source)}
    (error,) = planned({"Exec[it]": declared})
    assert f"'{source}' belongs to nobody and has mode 0755; nobody is neither root nor you" in error
    assert error == reason(run({"Exec[it]": declared})[0])
    assert planned({"Exec[it]": {**declared, "user": "nobody"}}) == [""]
    assert planned({"Exec[it]": {**declared, "creates": str(source)}}) == [""]
    owned = {f"File[{source}]": {"ensure": "directory", "owner": "root"}, "Exec[it]": declared}
    assert planned(owned) == ["", ""]
    assert run(owned)[0].exit_code == 0
    assert path.exists()


@pytest.mark.parametrize("mode", [0o2775, 0o1777, 0o757])
def test_a_directory_of_a_team_is_others(workspace: Path, mode: int) -> None:
    """A group with members, and everybody, may put something there."""
    source = workspace / "source"
    source.mkdir()
    shutil.chown(source, group="games")
    source.chmod(mode)
    error = reason(run({"Exec[it]": {"command": "make", "cwd": str(source)}})[0])
    assert f"'{source}' belongs to root and has mode {mode:04o}" in error


@pytest.mark.parametrize(
    "declared",
    [
        {"command": "touch new", "cwd": "NEIGHBOUR"},
        {"command": ["sh", "-c", "cat NEIGHBOUR/data > /dev/null"]},
        {"command": "cp NEIGHBOUR/data /dev/null"},
        {"command": "make", "cwd": "OWN"},
        {"command": ["sh", "-c", "cd OWN && make && ./script"]},
        {"command": "true", "cwd": "/tmp"},  # noqa: S108 - as in manifests
    ],
)
def test_what_executes_nothing_of_others_runs(workspace: Path, declared: dict[str, Any]) -> None:
    """Data of others may be read and written, and sources of root may be built."""
    file, directory = workspace / "own", workspace / "other"
    file.mkdir()
    directory.mkdir()
    plant(file, workspace / "seen", file / "data")
    shutil.chown(file / "data", "root")
    plant(directory, workspace / "never")
    names = {"OWN": str(file), "NEIGHBOUR": str(directory)}

    def named(text: str) -> str:
        for name, path in names.items():
            text = text.replace(name, path)
        return text

    arguments = {
        key: named(value) if isinstance(value, str) else [named(item) for item in value]
        for key, value in declared.items()
    }
    assert reason(run({"Exec[it]": arguments})[0]) == ""
    assert not (workspace / "never").exists()


def test_variables_that_name_code(workspace: Path) -> None:
    """Programs of a shell are searched in directories of others no more than modules of Python."""
    second = directory_of_nobody(workspace)
    for variable in ("PYTHONPATH", "PATH", "LD_PRELOAD"):
        declared = {"command": "true", "shell": True, "environment": {variable: f"{second}:/usr/bin"}}
        assert "belongs to nobody" in reason(run({"Exec[it]": declared})[0])
    assert "belongs to nobody" in reason(
        run({"Exec[it]": {"command": ["sh", "-c", "x"], "path": [str(second), "/bin"]}})[0]
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment of Python with pip that no test changes."""
    path = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    return path


def _path_file(venv: Path, observed: Path) -> None:
    (library,) = (venv / "lib").glob("python3*/site-packages")
    (library / "spy.pth").write_text(f"import os; open({str(observed)!r}, 'w')\n")
    shutil.chown(library / "spy.pth", "nobody")


def _library(venv: Path, observed: Path) -> None:
    (library,) = (venv / "lib").glob("python3*/site-packages")
    (library / "spy.pth").write_text(f"import os; open({str(observed)!r}, 'w')\n")
    shutil.chown(library, "nobody")


def _searched(venv: Path, observed: Path) -> None:
    (library,) = (venv / "lib").glob("python3*/site-packages")
    second = directory_of_nobody(venv.parent)
    (second / "sitecustomize.py").write_text(f"open({str(observed)!r}, 'w')\n")
    (library / "editable.pth").write_text(f"{second}\n")


def _searched_by_link(venv: Path, observed: Path) -> None:
    _searched(venv, observed)
    (path,) = venv.glob("lib/python3*/site-packages/editable.pth")
    path.rename(venv.parent / "editable.pth")
    path.symlink_to(venv.parent / "editable.pth")


def _searched_beside(venv: Path, observed: Path) -> None:
    _searched(venv, observed)
    (path,) = venv.glob("lib/python3*/site-packages/editable.pth")
    path.write_text("../../../../nobody\n")


def _source(venv: Path, observed: Path) -> None:
    source = venv.parent / "source"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(observed)!r}, 'w')\nfrom setuptools import setup\nsetup(name='pk')\n")
    shutil.chown(source / "setup.py", "nobody")


@pytest.mark.parametrize("change", [_path_file, _library, _searched, _searched_by_link, _searched_beside, _source])
def test_an_environment_of_python(workspace: Path, environment: Path, change: Callable[[Path, Path], None]) -> None:
    """Root's pip imports nothing of others, and builds no source of theirs."""
    venv, path = Path(shutil.copytree(environment, workspace / "venv", symlinks=True)), workspace / "seen"
    change(venv, path)
    source = {"source": str(workspace / "source")} if change is _source else {}
    declared = {"Python_package[pk]": {"virtualenv": str(venv), **source}}
    (warning,) = warned(declared)
    assert "belongs to nobody" in warning
    error = reason(run(declared)[0])
    assert "belongs to nobody" in error, error
    assert BOTH_WAYS in error
    assert not path.exists()


def test_an_environment_that_is_made_again(workspace: Path, environment: Path) -> None:
    """Python executes packages that are there already while it installs pip."""
    venv, path = Path(shutil.copytree(environment, workspace / "venv", symlinks=True)), workspace / "seen"
    _path_file(venv, path)
    for link in (venv / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python3")
    error = reason(run({f"Python_venv[{venv}]": {"python": sys.executable}})[0])
    assert "belongs to nobody" in error, error
    assert not path.exists()


def test_every_provider_that_runs_programs_in_directories_checks_them() -> None:
    """A call with a directory, or of a program that a manifest names, is in a module with that check."""
    unchecked = []
    for file in sorted([*Path(BUNDLED, "lib").glob("*.py"), *Path(BUNDLED, "providers").rglob("*.py")]):
        text = file.read_text()
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        created = [
            call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Command" and call.args
        ]
        names = [call for call in created if not isinstance(call.args[0], ast.Constant)]
        inside = [call for call in calls if any(keyword.arg == "cwd" for keyword in call.keywords)]
        checked = "check_code(" in text or "executed_code.check(" in text
        if (names or inside) and not checked:
            unchecked.append(file.name)
    # It runs no program; and what is beneath /usr is the system's.
    assert unchecked == ["postgresql.py", "prerequisites.py"]
