"""Copies of files, listed and restored by the command."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench


@pytest.fixture
def path(bench: Bench) -> Path:
    """Return a file that two runs have overwritten: it was ``one``, then ``two``, and is ``three``."""
    bench.environment["RESOURCE_API_BACKUPS"] = f"{bench.home}/copies"
    path = bench.home / "f"
    path.write_text("one")
    path.chmod(0o600)
    for text in ("two", "three"):
        result = bench.apply(f"resources:\n  File[{path}]: {{content: {text}, mode: '0644', backup: true}}\n")
        assert result.code == 0, result.err
    return path


def test_a_copy_is_restored_and_the_restoration_undone(bench: Bench, path: Path) -> None:
    """With content and mode; an older one by the first digits of its SHA-256."""
    result = bench.run("backup", "restore", str(path))
    assert (result.code, path.read_text(), str(path) in result.out) == (0, "two", True)
    assert bench.run("backup", "restore", "f").code == 0
    assert path.read_text() == "three"
    oldest = bench.run("backup", "list", "--json").document[0]
    assert bench.run("backup", "restore", "f", "--at", oldest["sha256"][:8].upper(), "--json").document == oldest
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("one", 0o600)


def test_a_directory_is_not_restored_by_a_copy_of_a_file_in_it(bench: Bench, path: Path) -> None:
    """Also not the root directory, beneath which all copies are listed."""
    for directory in ("/", str(bench.home)):
        result = bench.run("backup", "restore", directory)
        assert (result.code, f"no copy of {directory};" in result.err, path.read_text()) == (1, True, "three")
    assert len(bench.run("backup", "list", "/", "--json").document) == 2


def test_a_list_shows_each_copy_and_no_content(bench: Bench, path: Path) -> None:
    """Of a path, or of all beneath a directory, with the whole path; text and JSON."""
    lines = bench.run("backup", "list", str(bench.home)).out.splitlines()
    assert [line.split()[-1] for line in lines] == ["path", str(path), str(path)]
    assert [line.split()[3:5] for line in lines[1:]] == [["3", "0600"], ["3", "0644"]]
    assert bench.run("backup", "list", "/nowhere", "--json").document == []
    assert not any(text in json.dumps(bench.run("backup", "list", "--json").document) for text in ('"one"', '"two"'))


def test_the_paths_of_copies_stand_in_one_column(bench: Bench, path: Path) -> None:
    """Also where the names of groups have different lengths."""
    assert bench.apply(f"resources:\n  File[{path}]: {{content: four, group: nogroup, backup: true}}\n").code == 0
    assert bench.apply(f"resources:\n  File[{path}]: {{content: five, group: root, backup: true}}\n").code == 0
    lines = bench.run("backup", "list").out.splitlines()
    assert {line.index(word) for line, word in zip(lines, ("path", *[str(path)] * 4), strict=True)} == {
        lines[0].index("path")
    }


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("restore f --at abc", 64, "--at abc: give at least 4 digits"),
        ("restore f --at wxyz", 1, "there is no copy with a SHA-256 that begins with wxyz of"),
        ("restore nosuch", 1, "'resource-api backup list' shows all"),
        ("list --directory f", 1, "cannot be read: not a directory"),
    ],
)
def test_what_cannot_be_restored_is_an_error(bench: Bench, path: Path, words: str, code: int, reason: str) -> None:
    """The file stays as it is."""
    result = bench.run("backup", *words.split())
    assert (result.code, path.read_text()) == (code, "three")
    assert reason in result.err


def test_a_directory_that_is_gone_is_named(bench: Bench, path: Path) -> None:
    """A copy is restored into the directory that it was in; that one is not made."""
    (bench.home / "d").mkdir()
    (bench.home / "d" / "a").write_text("x")
    assert bench.run("resource", "file", f"{bench.home}/d", "ensure=absent", "force=true", "backup=true").code == 0
    result = bench.run("backup", "restore", "d/a")
    assert (result.code, f"no such file or directory: {path.parent}/d" in result.err) == (1, True)
