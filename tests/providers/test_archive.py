"""Archives in private directories: what is packed is unpacked, everything else stays, and nothing is lost."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.plugins.registry import Registry
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from resource_api import Resource
    from resource_api.model.report import RunReport

REGISTRY = Registry.from_path()
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def packed(**files: str) -> dict[str, Any]:
    """Return the declaration of an archive of texts; ``__`` in a name is a slash."""
    return {"archive": {"files": {name.replace("__", "/"): {"asset": {"text": text}} for name, text in files.items()}}}


def run(top: Path, *, again: bool = True, **attributes: Any) -> RunReport:
    """Apply a manifest of one archive twice: the second run must change nothing."""
    manifest = {"resources": {f"Archive[{top}]": attributes}}
    report = Runtime(REGISTRY).apply(manifest)
    assert report.summary.failed == 0, [step.error for step in report.steps]
    if again:
        assert Runtime(REGISTRY).apply(manifest).summary.unchanged == 1
    return report


def refused(top: Path, **attributes: Any) -> str:
    """Apply a manifest that must fail and return the error; nothing below the parent may change."""
    before = tree(top.parent)
    report = Runtime(REGISTRY).apply({"resources": {f"Archive[{top}]": attributes}})
    assert report.summary.failed == 1
    assert tree(top.parent) == before
    return report.steps[0].error


def tree(top: Path) -> dict[str, Any]:
    """Return the content of a directory: texts, targets of links, None for directories."""
    return {
        str(path.relative_to(top)): str(path.readlink())
        if path.is_symlink()
        else None
        if path.is_dir()
        else path.read_bytes().decode("utf-8", "replace")
        for path in sorted(top.rglob("*"))
    }


def mode(path: Path) -> str:
    """Return the permission bits of a file."""
    return f"{stat.S_IMODE(path.lstat().st_mode):04o}"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a directory to unpack into, in a directory of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return home / "site"


class TestUnpacking:
    """The members of an archive are unpacked."""

    def test_members_are_unpacked_and_removed(self, top: Path) -> None:
        """The record beside the directory is readable by the owner only."""
        assert run(top, source=packed(index="hi", css__a="a")).summary.created == 1
        assert tree(top) == {"index": "hi", "css": None, "css/a": "a"}
        assert mode(top.parent / ".site.archive~") == "0600"
        assert run(top, ensure="absent").summary.deleted == 1
        assert tree(top.parent) == {}

    def test_another_archive_replaces_the_first(self, top: Path) -> None:
        """Members that it does not contain are removed, directories too; equal files are not written."""
        run(top, source=packed(same="s", old="o", gone__x="x", turned="file", dir__x="x"))
        inode = (top / "same").stat().st_ino
        assert run(top, source=packed(same="s", new="n", turned__x="x", dir="file")).summary.updated == 1
        assert tree(top) == {"same": "s", "new": "n", "turned": None, "turned/x": "x", "dir": "file"}
        assert (top / "same").stat().st_ino == inode
        run(top, ensure="absent")
        assert tree(top.parent) == {}

    def test_files_from_elsewhere_stay(self, top: Path) -> None:
        """An update and a deletion keep them, with their directories."""
        run(top, source=packed(a__x="x", b__x="x"))
        (top / "a" / "mine").write_text("mine", encoding="utf-8")
        run(top, source=packed(b__y="y"))
        assert tree(top) == {"a": None, "a/mine": "mine", "b": None, "b/y": "y"}
        run(top, ensure="absent")
        assert tree(top.parent) == {"site": None, "site/a": None, "site/a/mine": "mine"}

    def test_existing_directories_stay_as_they_are(self, top: Path) -> None:
        """Their permissions stay too, and even empty ones are not removed."""
        (top / "etc").mkdir(parents=True, mode=0o700)
        run(top, source=packed(etc__x="x"), mode="0644")
        assert mode(top / "etc") == "0700"
        run(top, ensure="absent")
        assert tree(top.parent) == {"site": None, "site/etc": None}

    def test_altered_members_are_restored(self, top: Path) -> None:
        """Content, permissions, missing and replaced members are restored; the plan names them."""
        run(top, source=packed(a="a", b="b", c__x="x", d="d"))
        (top / "a").write_text("other", encoding="utf-8")
        (top / "b").chmod(0o600)
        (top / "c" / "x").unlink()
        (top / "d").unlink()
        (top / "d").symlink_to("a")
        plan = Runtime(REGISTRY).plan(
            {"resources": {f"Archive[{top}]": {"source": packed(a="a", b="b", c__x="x", d="d")}}}
        )
        assert plan.steps[0].decision.differences[0].message == "not as it was unpacked: a, b, c/x, d"
        run(top, source=packed(a="a", b="b", c__x="x", d="d"))
        assert tree(top) == {"a": "a", "b": "b", "c": None, "c/x": "x", "d": "d"}
        assert mode(top / "b") == "0644"

    def test_a_declared_mode_replaces_the_modes_of_the_archive(self, top: Path, tmp_path: Path) -> None:
        """Users who may read a directory may enter it; an executable file stays executable."""
        (tmp_path / "in" / "bin").mkdir(parents=True)
        for name, bits in (("bin/run", 0o4777), ("key", 0o600), ("page", 0o664)):
            (tmp_path / "in" / name).write_text(name, encoding="utf-8")
            (tmp_path / "in" / name).chmod(bits)
        source = {"archive": {"directory": str(tmp_path / "in")}}
        run(top, source=source)
        assert [mode(top / name) for name in ("bin", "bin/run", "key", "page")] == ["0755", "0755", "0600", "0644"]
        assert run(top, source=source, mode="640").summary.updated == 1
        assert [mode(top / name) for name in ("", "bin", "bin/run", "key")] == ["0750", "0750", "0750", "0640"]
        assert run(top, source=source).summary.unchanged == 1

    @root_only
    def test_all_members_get_the_declared_owner(self, top: Path) -> None:
        """Files, directories and links get it, and keep it when the declaration is removed."""
        run(top, source=packed(a__x="x"), owner="nobody", group=12345)
        result = {(path.lstat().st_uid, path.lstat().st_gid) for path in (top, top / "a", top / "a" / "x")}
        assert result == {(65534, 12345)}
        os.chown(top / "a" / "x", 0, 0)
        assert run(top, source=packed(a__x="x"), owner="65534").summary.updated == 1
        assert (top / "a" / "x").stat().st_gid == 12345

    def test_files_of_all_kinds_are_unpacked(self, top: Path, tmp_path: Path) -> None:
        """A tar file is unpacked, and its links keep their targets."""
        (tmp_path / "in" / "d").mkdir(parents=True)
        (tmp_path / "in" / "d" / "x").write_bytes(b"x" * 1_000_000)
        (tmp_path / "in" / "l").symlink_to("d/x")
        with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "in", ".")
        run(top, source={"archive": {"file": str(tmp_path / "t.tar.gz")}})
        assert tree(top) == {"d": None, "d/x": "x" * 1_000_000, "l": "d/x"}
        (tmp_path / "in" / "l").unlink()
        (tmp_path / "in" / "l").symlink_to("d")
        run(top, source={"archive": {"directory": str(tmp_path / "in")}})
        assert (top / "l").readlink() == Path("d")

    def test_a_new_limit_is_no_reason_to_unpack_again(self, top: Path) -> None:
        """A limit is a parameter and not part of the state."""
        run(top, source=packed(a="a"))
        assert run(top, source=packed(a="a"), max_size=5, max_members=7).summary.unchanged == 1


class TestRefused:
    """Nothing is changed, and the error names the remedy."""

    def test_a_conflicting_file_is_named(self, top: Path) -> None:
        """With ``force`` files and links are replaced, directories never."""
        (top / "d").mkdir(parents=True)
        (top / "a").write_text("mine", encoding="utf-8")
        (top / "l").symlink_to("a")
        source = packed(a="a", d="d", l__x="x")
        error = refused(top, source=source)
        assert error == (
            "'a' is there already and did not come from an archive; with force it is replaced;"
            " 'd' is a directory and should be a file; 'l' is a link and should be a directory"
        )
        assert "'d' is a directory and should be a file" in refused(top, source=source, force=True)
        (top / "d").rmdir()
        run(top, source=source, force=True)
        assert tree(top) == {"a": "a", "d": "d", "l": None, "l/x": "x"}

    def test_equal_files_are_adopted(self, top: Path) -> None:
        """An example is a lost record."""
        run(top, source=packed(a="a", b__x="x"))
        (top.parent / ".site.archive~").unlink()
        assert run(top, source=packed(a="a", b__x="x")).summary.created == 1

    def test_a_created_directory_with_other_content_is_not_removed(self, top: Path) -> None:
        """Not even a file of the archive replaces it."""
        run(top, source=packed(a__b__x="x"))
        (top / "a" / "b" / "mine").write_text("mine", encoding="utf-8")
        assert "'a' is a directory and should be a file" in refused(top, source=packed(a="a"), force=True)

    def test_a_file_in_place_of_the_directory_is_an_error(self, top: Path) -> None:
        """The error contains its path."""
        top.write_text("mine", encoding="utf-8")
        assert refused(top, source=packed(a="a")) == f"'{top}' is a file and should be a directory"

    def test_the_parent_directory_must_exist(self, top: Path) -> None:
        """It is not created."""
        top = top.parent / "missing" / "site"
        report = Runtime(REGISTRY).apply({"resources": {f"Archive[{top}]": {"source": packed(a="a")}}})
        assert report.steps[0].error == f"no such file or directory: {top.parent}"

    def test_the_limits_hold(self, top: Path) -> None:
        """They count bytes and members."""
        assert "larger than 3 bytes together" in refused(top, source=packed(a="aa", b="bb"), max_size=3)
        assert "more than 1 members" in refused(top, source=packed(a="aa", b="bb"), max_members=1)

    def test_a_source_changed_after_the_plan_is_refused(self, top: Path, tmp_path: Path) -> None:
        """It holds for a file of a directory, and for a packed file."""
        (tmp_path / "in").mkdir()
        for name, spelt in (("in/x", {"directory": "in"}), ("t", {"file": "t"})):
            with tarfile.open(tmp_path / "t", "w"):
                (tmp_path / "in" / "x").write_text("one", encoding="utf-8")
            (tmp_path / "site.json").write_text(
                json.dumps({"resources": {f"Archive[{top}]": {"source": {"archive": spelt}}}}), encoding="utf-8"
            )
            runtime = Runtime(REGISTRY)
            plan = runtime.plan(str(tmp_path / "site.json"))
            (tmp_path / name).write_text("two", encoding="utf-8")
            assert "has changed since this run" in runtime.apply(plan).steps[0].error
            assert tree(top.parent) == {}

    @pytest.mark.parametrize("path", ["/", "/x" * 2 + "x" * 300])
    def test_an_impossible_path_is_an_error_in_the_manifest(self, path: str) -> None:
        """It is reported before anything is read."""
        with pytest.raises(ManifestError, match=r"directory of its own|longer than \d+ bytes"):
            Runtime(REGISTRY).validate({"resources": {f"Archive[{path}]": {"source": packed(a="a")}}})

    @root_only
    def test_a_record_that_other_users_could_write_is_refused(self, top: Path) -> None:
        """It could list files that another user wants removed."""
        run(top, source=packed(a="a"))
        record = top.parent / ".site.archive~"
        record.chmod(0o666)
        assert "cannot be trusted: other users can write it" in refused(top, ensure="absent")
        record.chmod(0o600)
        os.chown(record, 12345, -1)
        assert "cannot be trusted: other users can write it" in refused(top, ensure="absent")

    @pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[]"])
    def test_a_damaged_record_is_an_error(self, top: Path, text: str) -> None:
        """It does not count as absent."""
        run(top, source=packed(a="a"))
        (top.parent / ".site.archive~").write_text(text, encoding="utf-8")
        assert "is damaged; remove it" in refused(top, source=packed(a="a"))

    def test_a_record_with_a_name_outside_is_damaged(self, top: Path) -> None:
        """A valid record never contains such a name."""
        run(top, source=packed(a="a"))
        record = top.parent / ".site.archive~"
        document = json.loads(record.read_text(encoding="utf-8"))
        document["members"].append(["../x", "file", 0o644, ""])
        record.write_text(json.dumps(document), encoding="utf-8")
        assert "is damaged" in refused(top, ensure="absent")

    @root_only
    def test_a_link_of_the_owner_is_not_followed(self, top: Path, tmp_path: Path) -> None:
        """A user who owns the directory cannot redirect a write."""
        run(top, source=packed(a__x="x"), owner="nobody")
        (tmp_path / "elsewhere").mkdir()
        (top / "a").rename(top / "b")
        (top / "a").symlink_to(tmp_path / "elsewhere")
        report = Runtime(REGISTRY).apply({"resources": {f"Archive[{top}]": {"source": packed(a__x="y")}}})
        assert "symbolic link on the path" in report.steps[0].error
        assert tree(tmp_path / "elsewhere") == {}


class TestShown:
    """What the user sees."""

    def test_a_plan_shows_the_digests(self, top: Path) -> None:
        """The plan shows the digest of the present archive and that of the declared one."""
        run(top, source=packed(a="a"))
        plan = Runtime(REGISTRY).plan({"resources": {f"Archive[{top}]": {"source": packed(a="b")}}})
        [difference] = plan.steps[0].decision.differences
        assert difference.message == f"changed from {difference.is_} to {difference.should}"
        assert str(difference.is_).startswith("sha256:")


class TestArchive(WholeFiles, ProviderCompliance):
    """An archive of texts, and another one."""

    type_name = "archive"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "source": packed(index="one", css__a="a"), "mode": "640"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "source": packed(index="two")}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return the record of an archive, and a directory on the way to one, in a directory of another user."""
        directory = directory_of_nobody(tmp_path)
        record, below = ({**present, "path": str(directory / name)} for name in ("ra-test-b", "link/ra-test-c"))
        return [
            Neighbour(
                str(directory / ".ra-test-b.archive~"), b"{}", "nobody", [record, {**record, "ensure": "absent"}]
            ),
            Neighbour(str(directory / "link"), b"", "nobody", [below], ["link", "directory link", "fifo"]),
        ]
