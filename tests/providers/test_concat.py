"""Real files put together from fragments of a directory, and from files that are named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.filesystem.backups import list_backups
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.applied import REGISTRY, converge, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Return a directory with fragments, and with what is none."""
    directory = tmp_path / "parts"
    (directory / "inner").mkdir(parents=True)
    for name, text in (("9-b", "nine\n"), ("10-a", "ten"), ("x.txt", "x\n"), (".hidden", "no"), ("10-a~", "no")):
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return the path of the file, which does not exist."""
    return tmp_path / "made"


def apply(path: Path, **attributes: Any) -> str:
    """Apply a file twice, the second time without a change; return its content."""
    converge({f"Concat[{path}]": attributes})
    return path.read_text()


def test_fragments_come_in_the_order_of_their_names_or_numbers(parts: Path, target: Path) -> None:
    """Without directories, hidden names and copies of editors; a name without a number is first."""
    assert apply(target, source=str(parts)) == "tennine\nx\n"
    assert apply(target, source=f"{parts}/", order="numeric", ensure_newline=True) == "x\nnine\nten\n"
    assert (
        apply(target, source=str(parts), matches=["*-?", "none"], separator="--\n", header="#\n") == "#\nten--\nnine\n"
    )


def test_named_files_come_in_their_order(parts: Path, target: Path) -> None:
    """And resources that make them come before the file, wherever they stand."""
    expected = {
        f"Concat[{target}]": {"source": [f"{parts}/x.txt", f"{parts}/new", f"{parts}/x.txt"]},
        f"File[{parts}/new]": {"content": "new\n"},
    }
    for text in ("new\n", "newer\n"):
        expected[f"File[{parts}/new]"] = {"content": text}
        report, _ = run(expected)
        assert [step.error for step in report.steps] == ["", ""]
        assert target.read_text() == f"x\n{text}x\n"


def test_a_fragment_that_comes_before_is_seen_in_the_same_run(parts: Path, target: Path) -> None:
    """Also when it alone has changed, or has gone."""
    expected: dict[str, Any] = {f"Concat[{target}]": {"source": str(parts), "matches": "new*"}}
    for text in ("one\n", "two\n"):
        run({**expected, f"File[{parts}/new]": {"content": text, "before": f"Concat[{target}]"}})
        assert target.read_text() == text
    run({**expected, f"File[{parts}/new2]": {"content": "more\n", "before": f"Concat[{target}]"}})
    run({**expected, f"File[{parts}/new]": {"ensure": "absent", "before": f"Concat[{target}]"}})
    assert target.read_text() == "more\n"


@pytest.mark.parametrize("damage", ["content", "mode", "gone"])
def test_what_differs_is_repaired_and_named(parts: Path, target: Path, damage: str) -> None:
    """Rights without a new content keep the file itself."""
    expected = {"source": str(parts), "mode": "0640", "owner": "1", "group": "daemon"}
    text = apply(target, **expected)
    inode = target.stat().st_ino
    if damage == "content":
        target.write_text("other")
    elif damage == "mode":
        target.chmod(0o600)
    else:
        target.unlink()
    _, lines = run({f"Concat[{target}]": expected})
    assert {"content": f"source: differs from the fragments in {parts}", "mode": "mode changed", "gone": "created"}[
        damage
    ] in lines[0]
    status = target.stat()
    assert (target.read_text(), status.st_mode & 0o7777, status.st_uid, status.st_gid) == (text, 0o640, 1, 1)
    assert damage == "gone" or (status.st_ino == inode) == (damage == "mode")


def test_new_content_is_checked_and_the_old_is_kept(parts: Path, target: Path, tmp_path: Path) -> None:
    """As with a file; a refused content changes nothing, also where others could replace what is checked."""
    apply(target, source=str(parts), backup=f"{tmp_path}/copies")
    (parts / "11-bad").write_text("bad\n")
    command = "/bin/sh -c '! grep bad %'"
    expected = {"source": str(parts), "backup": f"{tmp_path}/copies", "validate_cmd": command}
    before = target.read_text()
    assert "the new content is refused by" in reason(run({f"Concat[{target}]": expected})[0])
    assert target.read_text() == before
    (parts / "11-bad").write_text("good\n")
    assert apply(target, **expected) == "tengood\nnine\nx\n"
    assert len(list_backups(f"{tmp_path}/copies")) == 1
    theirs = directory_of_nobody(tmp_path) / "made"
    assert "is not checked by validate_cmd where" in reason(run({f"Concat[{theirs}]": expected})[0])


def test_what_cannot_be_put_together_is_an_error(parts: Path, target: Path) -> None:
    """No fragment, a missing one, one that is no file, and too many bytes; the file stays."""
    before = apply(target, source=str(parts))

    def refused(source: Any, **more: Any) -> str:
        report, _ = run({f"Concat[{target}]": {"source": source, **more}})
        assert target.read_text() == before
        return reason(report)

    assert refused(str(parts), matches="none") == f"there is no fragment in {parts}"
    assert "no such file or directory: /nowhere" in refused(["/nowhere"])
    assert warned({f"Concat[{target}]": {"source": ["/nowhere"]}}) == ["'/nowhere' does not exist"]
    os.mkfifo(parts / "fifo")
    assert "fifo" in refused(str(parts))
    os.truncate(parts / "x.txt", (16 << 20) + 1)
    assert "have more than 16 MiB together" in refused([f"{parts}/x.txt"])


def test_a_link_of_another_user_is_no_fragment(target: Path, tmp_path: Path) -> None:
    """It could lead to a file that only root may read; one of root is followed."""
    theirs = directory_of_nobody(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (theirs / "1").symlink_to(tmp_path / "secret")
    os.chown(theirs / "1", 65534, 65534, follow_symlinks=False)
    error = reason(run({f"Concat[{target}]": {"source": str(theirs)}})[0])
    assert "a symbolic link on the path is not followed" in error
    assert not target.exists()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "1").symlink_to(tmp_path / "secret")
    assert apply(target, source=str(tmp_path / "own")) == "secret"


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"source": "/srv"}, "the file would be one of its own fragments"),
        ({"source": ["/srv/x", "/srv/made"]}, "the file would be one of its own fragments"),
        ({"source": ["/srv/x"], "matches": "*"}, "matches is for the fragments of a directory"),
        ({"source": "parts"}, "must be an absolute path without '..' or a list"),
    ],
)
def test_what_cannot_be_meant_is_refused(attributes: dict[str, Any], reason: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {"Concat[/srv/made]": attributes}})


class TestConcat(WholeFiles, ProviderCompliance):
    """A file from a directory, which then comes from files that are named."""

    type_name = "concat"

    @pytest.fixture
    def present(self, parts: Path, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "source": str(parts), "header": "# made\n"}

    @pytest.fixture
    def updated(self, present: Resource, parts: Path) -> Resource:
        return {**present, "source": [f"{parts}/x.txt", f"{parts}/9-b"], "owner": "daemon", "mode": "0600"}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a file in a directory of another user."""
        mine = {**present, "path": str(directory_of_nobody(tmp_path) / "ra-test-b")}
        return [Neighbour(mine["path"], b"theirs", "nobody", [mine], ("link", "directory link", "directory", "fifo"))]
