"""A new type works as it is written, and no existing file is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from resource_api import Registry, Runtime
from resource_api.cli.commands import new
from resource_api.model.values.errors import UsageError

ROOT: Final = Path(__file__).resolve().parents[3]
NAMES: Final = ["note", "x", "apt_key2", "sample", "class", "n" * new.LONGEST]


def run(directory: Path, *arguments: str) -> str:
    """Run a Python tool in ``directory`` as a type's author would; return its output if it fails, else nothing."""
    process = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return "" if process.returncode == 0 else process.stdout + process.stderr


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file beneath ``directory`` with its content."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_three_files_are_written_where_the_loader_finds_them(name: str, tmp_path: Path) -> None:
    """The type and its provider are found by that name; the name of the template is replaced everywhere."""
    directory = tmp_path / "new" / "modules"
    written = new.write_type(name, directory)
    assert [str(path.relative_to(directory)) for path in written] == [
        f"types/{name}.py",
        f"providers/{name}.py",
        f"tests/test_{name}.py",
    ]
    registry = Registry.from_path(directory)
    assert registry.type(name).name == name
    assert registry.provider(name).__name__ == "Provider"
    assert name == "sample" or not any(b"sample" in text.lower() for text in contents(directory).values())


SHARED = pytest.mark.parametrize("shared", [False, True], ids=["alone", "with shared code"])


@SHARED
def test_shared_code_is_written_once(shared: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """The second type uses the file that the first has brought, as its author has changed it since."""
    written = {path.relative_to(tmp_path).as_posix() for path in new.write_type("note", tmp_path, shared=shared)}
    lib = tmp_path / "lib" / "json_files.py"
    assert ("lib/json_files.py" in written) is lib.exists() is shared
    if shared:
        lib.write_text(lib.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    new.write_type("memo", tmp_path, shared=shared)
    registry = Registry.from_path(tmp_path)
    assert all(registry.provider(name) for name in ("note", "memo"))
    assert not shared or lib.read_text(encoding="utf-8").endswith("# changed\n")


@pytest.mark.process
@pytest.mark.parametrize("options", [{}, {"shared": True}, {"http": True}], ids=["alone", "shared", "http"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_linted_and_formatted(name: str, options: dict[str, bool], tmp_path: Path) -> None:
    """It passes the checks of this project, and its formatter changes nothing, whatever the name's length."""
    new.write_type(name, tmp_path, **options)
    config = str(ROOT / "pyproject.toml")
    assert run(tmp_path, "ruff", "check", "--no-cache", "--config", config, ".") == ""
    assert run(tmp_path, "ruff", "format", "--no-cache", "--config", config, "--diff", ".") == ""


@pytest.mark.process
def test_what_is_written_is_typed(tmp_path: Path) -> None:
    """It passes mypy and pyright, both strict, without exceptions."""
    new.write_type("note", tmp_path)
    new.write_type("memo", tmp_path, shared=True)
    new.write_type("zone", tmp_path, http=True)
    new.write_component("page", tmp_path)
    arguments = ["--strict", "--explicit-package-bases", "--no-error-summary", "--follow-imports=silent"]
    assert run(tmp_path, "mypy", *arguments, "types", "providers", "components", "tests", "lib") == ""
    config = {"typeCheckingMode": "strict", "extraPaths": [".", str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    assert run(tmp_path, "pyright", "--pythonpath", sys.executable) == ""


@pytest.mark.process
def test_a_type_of_a_service_passes_its_own_test(tmp_path: Path) -> None:
    """The laws of providers hold for it, against the service that its test runs."""
    new.write_type("zone", tmp_path, http=True)
    assert run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests") == ""
    with pytest.raises(UsageError, match="--shared and --http exclude each other"):
        new.write_type("memo", tmp_path, http=True, shared=True)
    assert not (tmp_path / "types" / "memo.py").exists()


@SHARED
def test_what_is_written_converges(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter of the test
    """It creates, changes, lists and deletes; a second run changes nothing, and undeclared resources remain."""
    monkeypatch.setenv("NOTE_DIRECTORY", str(tmp_path / "notes"))
    new.write_type("note", tmp_path, shared=shared)
    runtime = Runtime(Registry.from_path(tmp_path))
    assert runtime.resources("note") == []
    both = {"Note[a]": {"content": "one", "priority": 3}, "Note[b]": {"content": "two"}}
    assert runtime.apply({"resources": both}).summary.created == 2
    assert runtime.apply({"resources": both}).summary.unchanged == 2
    assert runtime.apply({"resources": {"Note[a]": {"content": "three"}}}).summary.updated == 1
    [first, second] = runtime.resources("note")
    assert first == {"name": "a", "ensure": "present", "content": "three", "priority": 3, "length": 5}
    assert second["name"] == "b"
    assert runtime.apply({"resources": {"Note[a]": {"ensure": "absent"}}}).summary.deleted == 1
    assert [row["name"] for row in runtime.resources("note")] == ["b"]
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["b.json"]


def test_a_file_that_cannot_be_read_is_not_an_absent_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged file is an error that names the file."""
    monkeypatch.setenv("NOTE_DIRECTORY", str(tmp_path))
    new.write_type("note", tmp_path)
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    report = Runtime(Registry.from_path(tmp_path)).apply({"resources": {"Note[a]": {"content": "one"}}})
    assert report.exit_code == 1
    assert f"{tmp_path / 'a.json'} holds no JSON" in report.steps[0].error
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "{"


@pytest.mark.process
def test_its_own_test_runs(tmp_path: Path) -> None:
    """The compliance suite passes for the example, and fails for a broken one."""
    new.write_type("new_note", tmp_path)
    result = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert result == ""
    (tmp_path / "providers" / "new_note.py").write_text(
        (tmp_path / "providers" / "new_note.py")
        .read_text(encoding="utf-8")
        .replace("        self._file(name).unlink()", "        return"),
        encoding="utf-8",
    )
    assert "test_delete_leaves_nothing" in run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("AptKey", "did you mean 'apt_key'?"),
        ("apt-key", "did you mean 'apt_key'?"),
        ("apt key", "did you mean 'apt_key'?"),
        ("9lives", "lower case letters"),
        ("_hidden", "did you mean 'hidden'?"),
        ("../../etc/x", "lower case letters"),
        ("x/y", "lower case letters"),
        ("x\n", "lower case letters"),
        ("", "lower case letters"),
        ("n" * (new.LONGEST + 1), "at most 64"),
        ("user", "comes with the package"),
    ],
)
def test_a_name_that_no_type_can_have_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    """The reason and the nearest valid name are shown before anything is written."""
    with pytest.raises(UsageError, match=reason.replace("?", r"\?")):
        new.write_type(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("accepted", ["types/note.py", "providers/note.py", "tests/test_note.py"])
def test_nothing_is_overwritten(accepted: str, tmp_path: Path) -> None:
    """If one file exists, even as a broken link, none of the three is written."""
    path = tmp_path / accepted
    path.parent.mkdir()
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        new.write_type("note", tmp_path)
    assert contents(tmp_path) == {accepted: b"mine"}
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        new.write_type("note", tmp_path)
    assert contents(tmp_path) == {}


def test_no_part_of_it_remains_after_a_failure(tmp_path: Path) -> None:
    """When the last file cannot be written, the first ones are removed, and the message names it."""
    (tmp_path / "tests").write_text("no directory", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        new.write_type("note", tmp_path)
    assert contents(tmp_path) == {"tests": b"no directory"}


@pytest.mark.process
def test_a_new_component_works_as_it_stands(tmp_path: Path) -> None:
    """It is found, formatted, rehearsed and applied; a second one of that name is refused, and a type's name too."""
    written = [path.relative_to(tmp_path).as_posix() for path in new.write_component("new_note", tmp_path)]
    assert written == ["components/new_note.py", "tests/test_new_note.py"]
    assert run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests") == ""
    config = str(ROOT / "pyproject.toml")
    assert run(tmp_path, "ruff", "check", "--no-cache", "--config", config, ".") == ""
    assert run(tmp_path, "ruff", "format", "--no-cache", "--config", config, "--diff", ".") == ""
    runtime = Runtime(Registry.from_path(tmp_path))
    site = {"resources": {"New_note[a]": {"directory": str(tmp_path / "here")}}}
    assert runtime.apply(site).summary.created == 2
    assert (tmp_path / "here" / "greeting").read_text(encoding="utf-8") == "Hello!\n"
    for name, reason in (("new_note", "exists already"), ("user", "comes with the package")):
        with pytest.raises(UsageError, match=reason):
            new.write_component(name, tmp_path)


def test_the_templates_are_part_of_an_installation() -> None:
    """A data file that ``setup.cfg`` does not list works in a checkout and is missing from the wheel."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    package = ROOT / "resource_api"
    listed = {
        path for pattern in config["options.package_data"]["resource_api"].split() for path in package.glob(pattern)
    }
    data = {path for path in package.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert listed == data
    assert set(new.TEMPLATES.iterdir()) <= listed
