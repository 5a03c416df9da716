"""Files whose content is kept before it is overwritten or removed, and restored by the command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.filesystem.backups import list_backups
from resource_api.system.log import Log
from tests.providers.applied import REGISTRY, reason, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the copies."""
    monkeypatch.setenv("RESOURCE_API_BACKUPS", f"{tmp_path}/copies")
    return tmp_path / "copies"


def copies(store: Path) -> list[tuple[str, str]]:
    """Return the name and the kept content of each copy."""
    backups = list_backups(str(store))
    return [(item.path.rpartition("/")[2], (store / "contents" / item.sha256).read_text()) for item in backups]


@pytest.mark.parametrize(
    "expected",
    [
        {"content": "new"},
        {"source": "/etc/passwd"},
        {"target": "x"},
        {"ensure": "absent"},
        {"ensure": "directory", "force": True},
    ],
)
def test_the_content_that_a_change_loses_is_kept(tmp_path: Path, store: Path, expected: dict[str, Any]) -> None:
    """Whatever the change is; with its permissions, in a directory that others cannot read."""
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o640)
    assert reason(run({f"File[{path}]": {**expected, "backup": True}})[0]) == ""
    assert copies(store) == [("f", "old")]
    assert list_backups(str(store))[0].mode == 0o640
    assert store.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_removed_is_kept_with_all_its_files(tmp_path: Path, store: Path) -> None:
    """Links and special files are not; another directory can be declared for the copies."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "a").write_text("1")
    (tmp_path / "d" / "b").write_text("2")
    (tmp_path / "d" / "link").symlink_to("b")
    os.mkfifo(tmp_path / "d" / "fifo")
    run({f"File[{tmp_path}/d]": {"ensure": "absent", "force": True, "backup": f"{tmp_path}/others/"}})
    assert copies(tmp_path / "others") == [("b", "2"), ("a", "1")]
    assert not store.exists()


def test_a_file_that_is_destroyed_is_kept(tmp_path: Path, store: Path) -> None:
    """As declared in the run that made it."""
    runtime = Runtime(REGISTRY, state="memory:", log=Log("off"))
    manifest = {"project": "p", "resources": {f"File[{tmp_path}/f]": {"content": "old", "backup": True}}}
    assert runtime.apply(manifest).summary.created == 1
    assert runtime.destroy(manifest).summary.deleted == 1
    assert copies(store) == [("f", "old")]


def test_what_is_not_overwritten_is_not_kept(tmp_path: Path, store: Path) -> None:
    """Neither a file whose mode changes, nor one that is new, nor one whose new content is refused."""
    path = tmp_path / "f"
    path.write_text("same")
    run({f"File[{path}]": {"content": "same", "mode": "0600", "backup": True}})
    run({f"File[{tmp_path}/new]": {"content": "x", "backup": True}})
    refused = {"content": "y", "backup": True, "validate_cmd": "false %"}
    assert "is refused by" in reason(run({f"File[{path}]": refused})[0])
    assert copies(store) == []


def test_a_file_that_cannot_be_kept_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its resource fails, with the reason, and another without copies does not."""
    (tmp_path / "copies").write_text("no directory")
    monkeypatch.setenv("RESOURCE_API_BACKUPS", f"{tmp_path}/copies")
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    report, _ = run({f"File[{tmp_path}/{name}]": {"content": "new", "backup": name == "a"} for name in ("a", "b")})
    assert (report.summary.failed, report.summary.updated) == (1, 1)
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("old", "new")
    with pytest.raises(ManifestError, match="true, false, or the absolute path of a directory"):
        Runtime(REGISTRY).validate({"resources": {"File[/a]": {"backup": "main"}}})
