"""Real directory trees: copied, purged within bounds, given to owners, and left alone where they say so."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.filesystem.backups import list_backups
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.namespaces import private_mounts
from tests.providers.applied import REGISTRY, converge, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a directory with a file, a program, a link, and a directory with a private file."""
    top = tmp_path / "source"
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "private").write_text("secret")
    (top / "inner" / "private").chmod(0o600)
    (top / "page").write_text("hello")
    (top / "page").chmod(0o666)
    (top / "program").write_text("#!/bin/sh\n")
    (top / "program").chmod(0o4775)
    (top / "link").symlink_to("page")
    return top


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return the path of the tree, which does not exist."""
    return tmp_path / "tree"


def content(top: Path) -> dict[str, str]:
    """Return what is in a directory: texts, targets of links, empty for directories."""
    return {
        str(path.relative_to(top)): f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_text() * path.is_file()
        if path.is_file()
        else ""
        for path in sorted(top.rglob("*"))
    }


def mode(path: Path) -> int:
    """Return the permission bits of a file."""
    return path.lstat().st_mode & 0o7777


def apply(top: Path, **attributes: Any) -> None:
    """Apply a tree twice: the second run must change nothing."""
    converge({f"File_tree[{top}]": attributes})


def refused(top: Path, **attributes: Any) -> str:
    """Apply a tree that must fail; return why. Nothing may have changed."""
    before = content(top)
    report, _ = run({f"File_tree[{top}]": attributes})
    assert (report.summary.failed, content(top)) == (1, before)
    return reason(report)


def test_a_tree_is_copied_with_its_modes(source: Path, top: Path) -> None:
    """Without set-id bits and rights to write for others; links stay links; a private file stays private."""
    apply(top, source=str(source))
    assert content(top) == content(source)
    assert [mode(top / name) for name in ("page", "program", "inner/private", "inner")] == [0o644, 0o755, 0o600, 0o755]


@pytest.mark.parametrize("damage", ["content", "mode", "gone", "kind", "target"])
def test_what_differs_is_repaired_and_named(source: Path, top: Path, damage: str) -> None:
    """Each difference is one of the source; all else in the tree is not written."""
    apply(top, source=str(source))
    status = (top / "program").stat()
    page, link = top / "page", top / "link"
    if damage == "content":
        page.write_text("HELLO")
    elif damage == "mode":
        page.chmod(0o600)
    elif damage in {"gone", "kind"}:
        page.unlink()
    if damage == "kind":
        page.symlink_to("nowhere")
    if damage == "target":
        link.unlink()
        link.symlink_to("inner")
    _, lines = run({f"File_tree[{top}]": {"source": str(source)}})
    assert lines == [f"notice: File_tree[{top}]: source: differs in {'link' if damage == 'target' else 'page'}"]
    assert (content(top), mode(page), (top / "program").stat()) == (content(source), 0o644, status)


def test_owners_and_modes_are_for_what_is_copied_or_for_all(source: Path, top: Path) -> None:
    """A mode in letters tells programs from other files; a number gives directories the right to enter."""
    apply(top, source=str(source), mode="0640")
    assert [mode(top / name) for name in ("page", "program", "inner")] == [0o640, 0o640, 0o750]
    (top / "other").write_text("")
    (top / "other").chmod(0o700)
    apply(top, source=str(source), mode="u=rwX,go=rX", owner="1")
    assert [mode(top / name) for name in ("page", "program", "other")] == [0o644, 0o755, 0o700]
    assert {name for name in ("", "page", "link", "inner", "other") if (top / name).lstat().st_uid == 0} == {"other"}
    apply(source, mode="u=rwX,g=rX,o=", owner="daemon", group="daemon")
    result = {(path.lstat().st_uid, path.lstat().st_gid) for path in (source, *source.rglob("*"))}
    assert (result, mode(source / "page"), mode(source / "program")) == ({(1, 1)}, 0o640, 0o750)


def test_what_is_not_in_the_source_is_purged_within_a_bound(source: Path, top: Path) -> None:
    """Beyond it nothing is removed; what is ignored stays, with the directories that contain it."""
    apply(top, source=str(source))
    (top / "extra" / "deep").mkdir(parents=True)
    (top / "extra" / "deep" / "file").write_text("1")
    (top / "kept").mkdir()
    (top / "kept" / "x.swp").write_text("2")
    (top / "kept" / "gone").write_text("3")
    expected: dict[str, Any] = {"source": str(source), "purge": True, "ignore": "*.swp"}
    reason = refused(top, **expected, max_purged=3)
    assert (
        "4 files and directories are not in the source, such as extra, extra/deep, extra/deep/file and 1 more" in reason
    )
    assert "at most 3 are purged, raise max_purged if that is right" in reason
    apply(top, **expected)
    assert content(top) == content(source) | {"kept": "", "kept/x.swp": "2"}


def test_a_pattern_with_a_slash_is_for_a_path(source: Path, top: Path) -> None:
    """Any other is for a name, at any depth; what is ignored in the source is not copied."""
    (source / "inner" / "cache").mkdir()
    (source / "inner" / "cache" / "x").write_text("")
    apply(top, source=str(source), ignore=["inner/cache", "pro*"])
    assert content(top) == {"inner": "", "inner/private": "secret", "link": "-> page", "page": "hello"}


def test_another_kind_is_replaced_with_force_only(source: Path, top: Path) -> None:
    """A directory where the source has a file, and the reverse; never one that contains what is ignored."""
    (top / "page").mkdir(parents=True)
    (top / "page" / "x").write_text("")
    (top / "inner").write_text("")
    reason = refused(top, source=str(source))
    assert "is there, and something else in the source: inner, page; with force it is replaced" in reason
    assert "because it contains what is ignored: page" in refused(top, source=str(source), force=True, ignore="x")
    apply(top, source=str(source), force=True)
    assert content(top) == content(source)


def test_what_is_overwritten_and_purged_is_kept(source: Path, top: Path, tmp_path: Path) -> None:
    """As with `file`; and all of a tree that is removed."""
    apply(top, source=str(source))
    (top / "page").write_text("old")
    (top / "extra").write_text("x")
    apply(top, source=str(source), purge=True, backup=f"{tmp_path}/copies")
    names = [backup.path.rpartition("/")[2] for backup in list_backups(f"{tmp_path}/copies")]
    assert names == ["extra", "page"]
    run({f"File_tree[{top}]": {"ensure": "absent", "backup": f"{tmp_path}/copies"}})
    assert (top.exists(), len(list_backups(f"{tmp_path}/copies"))) == (False, 5)


def test_nothing_is_changed_above_a_limit(source: Path, top: Path) -> None:
    """Too many members of the tree or the source, and too deep ones."""
    apply(top, source=str(source))
    assert "has more than 4 files and directories; raise max_files" in refused(top, source=str(source), max_files=4)
    assert "raise max_files if that is right" in refused(top, ensure="absent", max_files=4)
    (source / "/".join("d" * 102)).mkdir(parents=True)
    assert "has directories more than 100 levels deep" in refused(top, source=str(source))


def test_a_source_that_cannot_be_copied_is_an_error(source: Path, top: Path) -> None:
    """A missing one never empties a tree; a FIFO is not copied; a plan warns of a missing one."""
    apply(top, source=str(source))
    os.mkfifo(source / "fifo")
    assert "neither a file, a directory nor a link: fifo" in refused(top, source=str(source))
    assert "no such file or directory: /nowhere" in refused(top, source="/nowhere", purge=True)
    assert warned({f"File_tree[{top}]": {"source": "/nowhere"}}) == ["the directory '/nowhere' does not exist"]
    (top.parent / "file").write_text("")
    assert "not a directory" in reason(run({f"File_tree[{top.parent}/file]": {}})[0])


def test_another_filesystem_is_not_entered(source: Path, top: Path) -> None:
    """Its mount point is named, until it is ignored."""
    (top / "mounted").mkdir(parents=True)
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "ra-test", top / "mounted"], check=True)
        assert f"another filesystem is mounted at '{top}/mounted'; name it in 'ignore'" in refused(
            top, source=str(source)
        )
        apply(top, source=str(source), purge=True, ignore="mounted")


def test_an_owner_that_is_made_later_is_no_problem_of_the_plan(source: Path, top: Path) -> None:
    """The plan says that all members differ; a run without the user fails."""
    apply(top, source=str(source))
    expected = {f"File_tree[{top}]": {"source": str(source), "owner": "ra-test-nobody"}}
    plan = Runtime(REGISTRY).plan({"project": "p", "resources": expected})
    assert "differs in ., inner, inner/private and 3 more" in str(plan)
    assert "ra-test-nobody" in reason(run(expected)[0])


@pytest.mark.parametrize(
    ("path", "attributes", "reason"),
    [
        ("/srv", {}, "a system directory is not managed with all that is in it"),
        ("/srv/a/b", {"source": "/srv/a"}, "the directory is in its source"),
        ("/srv/a", {"source": "/srv//a/b/"}, "the source is in the directory"),
        ("/srv/a", {"source": "/srv/a"}, "the directory is in its source"),
        ("/srv/a", {"purge": True}, "purge needs a source: everything would be removed"),
    ],
)
def test_what_cannot_be_meant_is_refused(path: str, attributes: dict[str, Any], reason: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {f"File_tree[{path}]": attributes}})


class TestFileTree(WholeFiles, ProviderCompliance):
    """A tree that is copied, and then belongs to somebody else."""

    type_name = "file_tree"

    @pytest.fixture
    def present(self, source: Path, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "source": str(source), "purge": True}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "owner": "daemon", "group": "1", "mode": "u=rwX,go="}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a tree in a directory of another user, and a source that is theirs."""
        theirs = directory_of_nobody(tmp_path)
        mine = {**present, "path": str(theirs / "ra-test-b")}
        return [Neighbour(mine["path"], b"theirs", "nobody", [mine], ("link", "directory link", "fifo"))]
