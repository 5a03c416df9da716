"""Real files that are removed by age, size and name, or stay."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.namespaces import private_mounts
from tests.providers.applied import reason, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api import Resource

DAY = 86400


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a directory with old, large and other files, links out of it, and directories."""
    top = tmp_path / "tree"
    (top / "old" / "deep").mkdir(parents=True)
    (top / "new").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    for name in ("a.log", "b.txt", "old/c.log", "old/deep/d.log", "new/e.log"):
        (top / name).write_text("x" * 2048 if name == "b.txt" else "x")
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo.log")
    for path in (*top.rglob("*"), outside / "kept", outside):
        if path.name not in {"e.log", "new"}:
            when = time.time() - 10 * DAY
            os.utime(path, (when, when), follow_symlinks=False)
    return top


def left(top: Path) -> set[str]:
    """Return what is in a directory."""
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.mark.parametrize(
    ("attributes", "removed"),
    [
        ({"age": "9d"}, {"a.log", "b.txt", "link"}),
        ({"age": "11d"}, set()),
        ({"age": "0s", "type": "ctime", "matches": "*.log"}, {"a.log"}),
        ({"size": "2k"}, {"b.txt"}),
        ({"size": "2049b"}, set()),
        ({"age": "11d", "size": "2k", "matches": ["b*", "c*"], "recurse": True}, {"b.txt"}),
        ({"matches": "?.log", "recurse": 1}, {"a.log", "old/c.log", "new/e.log"}),
        ({"age": "1w", "recurse": True}, {"a.log", "b.txt", "link", "old/c.log", "old/deep/d.log"}),
        (
            {"age": "1w", "recurse": True, "rmdirs": True},
            {"a.log", "b.txt", "link", "old/c.log", "old/deep/d.log", "old/deep", "old"},
        ),
    ],
)
def test_exactly_what_is_declared_is_removed(tree: Path, attributes: dict[str, Any], removed: set[str]) -> None:
    """What a link leads to stays, and so do FIFOs; a noop run removes nothing; a second run has nothing to do."""
    before, resources = left(tree), {f"Tidy[{tree}]": attributes}
    assert run(resources, noop=True)[0].summary.ran == bool(removed)
    assert left(tree) == before
    assert run(resources)[0].summary.ran == bool(removed)
    assert before - left(tree) == removed
    assert (tree.parent / "outside" / "kept").exists()
    assert run(resources)[0].summary.unchanged == 1


def test_a_run_removes_a_limited_number(tmp_path: Path) -> None:
    """The next run removes more, and the log says how much."""
    for number in range(5):
        (tmp_path / f"{number}.tmp").write_text("x" * 1000)
    resources = {"Tidy[rest]": {"path": str(tmp_path), "matches": "*.tmp", "max_files": 3}}
    _, lines = run(resources)
    assert any("Removed 3 files of 2.9 KiB" in line for line in lines)
    assert len(left(tmp_path)) == 2


def test_another_filesystem_is_not_entered(tmp_path: Path) -> None:
    """Its files stay."""
    with private_mounts():
        (tmp_path / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "ra-test", tmp_path / "mounted"], check=True)
        (tmp_path / "mounted" / "a").write_text("x")
        run({f"Tidy[{tmp_path}]": {"matches": "*", "recurse": True, "rmdirs": True}})
        assert left(tmp_path) == {"mounted", "mounted/a"}


def test_a_directory_of_others_cannot_hold_it_up(tmp_path: Path) -> None:
    """A very deep tree and odd names are no obstacle for what is beside them; a link to a directory is not followed."""
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    (tmp_path / "x\n\udcff").write_text("")
    (tmp_path / "z").write_text("")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/socket")
    try:
        assert not reason(run({f"Tidy[{tmp_path}]": {"matches": "*", "recurse": True, "rmdirs": True}})[0])
        assert {path.name for path in tmp_path.iterdir()} == {"d", "socket"}
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_what_is_no_directory_is_an_error_or_tidy(tmp_path: Path) -> None:
    """A missing one needs nothing; a link of the path's last part is followed as the law of links says."""
    (tmp_path / "file").write_text("")
    assert run({f"Tidy[{tmp_path}/missing]": {"age": "1d"}})[0].summary.unchanged == 1
    assert "is not a directory" in reason(run({f"Tidy[{tmp_path}/file]": {"age": "1d"}})[0])


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("/srv/ra-test", {}),
        ("words", {"age": "1d"}),
        ("/", {"age": "1d"}),
        ("x", {"path": "/", "age": "1d"}),
        ("x", {"path": "//", "age": "1d"}),
        ("/.", {"age": "1d"}),
        ("/srv/..", {"age": "1d"}),
        ("/a", {"age": "1y"}),
    ],
)
def test_what_says_too_little_is_refused(name: str, attributes: dict[str, Any]) -> None:
    """Nothing is removed without a rule, and never from the root."""
    with pytest.raises(ManifestError):
        run({f"Tidy[{name}]": attributes})


class TestTidy(ProviderCompliance):
    """A directory with files to remove."""

    type_name = "tidy"

    @pytest.fixture
    def present(self, tree: Path) -> Resource:
        return {"name": "ra-test-a", "path": str(tree), "matches": ["*.log"], "recurse": True}

    @pytest.fixture
    def world(self, tree: Path) -> Callable[[], Any]:
        return lambda: left(tree)

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads only names, times and sizes; what others can do is tested above"
