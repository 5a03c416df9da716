"""Files, directories and links in private directories: they are created as declared, and read as they are."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import CannotList, Change, Context, Runtime, Sensitive
from resource_api.model.values.values import same_value
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.providers.applied import warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Resource

TYPE = Registry.from_path().type("file")
types = bundled.execute("types", "file")
file = bundled.execute("providers", "file")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def read(*paths: Path | str) -> dict[str, Any]:
    """Return the rows by path, or the reason why a file cannot be read."""
    provider, context = file.Provider(), Context(TYPE, RunContext(Log("off")), reading=True)
    entries = {row["path"]: row for row in provider.get(context, [str(path) for path in paths])}
    assert provider.canonicalize(context, [dict(row) for row in entries.values()]) == list(entries.values())
    assert all(TYPE.accepts[key](value) for row in entries.values() for key, value in row.items())
    return entries | {name: outcome.reason for name, outcome in context.outcomes.items()}


def canonicalized(*expected: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return canonical, valid resources with defaults."""
    provider = file.Provider()
    given_ = [{"ensure": "present", "force": False, **should, "path": str(should["path"])} for should in expected]
    assert all(TYPE.accepts[key](value) for should in given_ for key, value in should.items())
    canonical: list[dict[str, Any]] = provider.canonicalize(None, given_)
    assert provider.canonicalize(None, [dict(should) for should in canonical]) == canonical
    assert [problem for should in canonical for problem in provider.validate(None, should)] == []
    return canonical


def differences(row: Mapping[str, Any] | None, should: Mapping[str, Any]) -> list[str]:
    """Compare as the runtime does."""
    if row is None or should["ensure"] == "absent":
        return [] if row is None and should["ensure"] == "absent" else ["ensure"]
    entries = []
    for attribute in TYPE.managed:
        if attribute in should:
            verdict = file.Provider().insync(None, should["path"], attribute, row, should)
            if verdict is None:
                verdict = same_value(row.get(attribute), should[attribute])
            if verdict is not True:
                entries.append(attribute)
    return entries


def change(*expected: Mapping[str, Any]) -> dict[str, str]:
    """Call ``set`` for the differing resources, in order; return the failures by path."""
    canonical = canonicalized(*expected)
    is_ = read(*(should["path"] for should in canonical))
    changes = {s["path"]: Change(is_.get(s["path"]), s) for s in canonical if differences(is_.get(s["path"]), s)}
    context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name) for name in changes})
    file.Provider().set(context, changes)
    return {name: outcome.reason for name, outcome in context.outcomes.items() if outcome.status == "failed"}


def write(*expected: Mapping[str, Any]) -> None:
    """Apply resources, and check that they are then as declared and that a second run changes nothing."""
    assert change(*expected) == {}
    canonical = canonicalized(*expected)
    after = read(*(should["path"] for should in canonical))
    assert {s["path"]: differences(after.get(s["path"]), s) for s in canonical} == {s["path"]: [] for s in canonical}


class TestFiles:
    """A regular file with content, a source, or neither."""

    def test_a_file_is_created_changed_and_removed(self, tmp_path: Path) -> None:
        """The declared attributes are read back."""
        path = tmp_path / "f"
        write({"path": path, "content": "one\n", "mode": "640"})
        row = read(path)[str(path)]
        assert row == {
            "path": str(path),
            "ensure": "file",
            "content": "one\n",
            "checksum": hashlib.sha256(b"one\n").hexdigest(),
            "mode": "0640",
            "owner": pwd.getpwuid(os.geteuid()).pw_name,
            "group": row["group"],
            "uid": os.geteuid(),
            "gid": path.stat().st_gid,
        }
        write({"path": path, "content": "two\n"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        write({"path": path, "ensure": "absent"})
        assert read(path) == {}

    @given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
    def test_every_text_is_read_back_as_declared(self, tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
        """Line ends, byte order marks and empty texts are kept."""
        path = tmp_path_factory.getbasetemp() / "text"
        write({"path": path, "content": content})
        assert path.read_bytes() == content.encode()

    def test_a_file_without_content_is_created_empty_and_then_kept(self, tmp_path: Path) -> None:
        """Undeclared attributes are not managed."""
        path = tmp_path / "f"
        write({"path": path})
        assert path.read_bytes() == b""
        path.write_text("people's")
        write({"path": path, "mode": "0600"})
        assert path.read_text(encoding="utf-8") == "people's"

    def test_a_file_as_declared_is_not_written(self, tmp_path: Path) -> None:
        """Inode and times stay, and a new mode alone changes no content."""
        path = tmp_path / "f"
        write({"path": path, "content": "x", "mode": "0644"})
        before = path.stat()
        write({"path": path, "content": "x", "mode": "0644", "owner": os.geteuid()})
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
            before.st_ino,
            before.st_mtime_ns,
            before.st_ctime_ns,
        )
        write({"path": path, "content": "x", "mode": "0600"})
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_any_bytes_are_copied_from_a_source(self, tmp_path: Path) -> None:
        """It holds for files above the limit for texts too; a later change is copied again."""
        source, path = tmp_path / "source", tmp_path / "f"
        source.write_bytes(bytes(range(256)) * 8192)
        write({"path": path, "source": str(source)})
        assert path.read_bytes() == source.read_bytes()
        assert "content" not in read(path)[str(path)]
        inode = path.stat().st_ino
        write({"path": path, "source": str(source)})
        assert path.stat().st_ino == inode
        source.write_bytes(b"\xff")
        write({"path": path, "source": str(source)})
        row = read(path)[str(path)]
        assert row["checksum"] == hashlib.sha256(b"\xff").hexdigest()
        assert "content" not in row

    def test_a_source_written_in_the_same_call_is_copied(self, tmp_path: Path) -> None:
        """It holds for a source that replaces an older file too."""
        (tmp_path / "a").write_text("old")
        write(
            {"path": tmp_path / "a", "content": "new"},
            {"path": tmp_path / "b", "source": str(tmp_path / "a")},
            {"path": tmp_path / "c", "source": str(tmp_path / "b")},
        )
        assert (tmp_path / "c").read_text(encoding="utf-8") == "new"

    def test_a_source_that_cannot_be_copied_fails_and_changes_nothing(self, tmp_path: Path) -> None:
        """It may be missing, or not a regular file."""
        path = tmp_path / "f"
        path.write_text("kept")
        failed = change({"path": path, "source": f"{tmp_path}/missing"})
        assert failed == {str(path): f"no such file or directory: {tmp_path}/missing"}
        with pytest.raises(OSError, match="not a regular file"):
            differences(read(path)[str(path)], canonicalized({"path": path, "source": str(tmp_path)})[0])
        assert path.read_text(encoding="utf-8") == "kept"
        assert os.listdir(tmp_path) == ["f"]  # noqa: PTH208 - names

    def test_a_secret_content_is_written_and_compared(self, tmp_path: Path) -> None:
        """It arrives wrapped, and the file contains the plain text."""
        path = tmp_path / "f"
        write({"path": path, "content": Sensitive("hunter2"), "mode": "0600"})
        assert path.read_text(encoding="utf-8") == "hunter2"

    def test_each_file_of_a_call_fails_alone(self, tmp_path: Path) -> None:
        """A missing directory and a file in place of a directory do not stop the others."""
        (tmp_path / "d").mkdir()
        failed = change(
            {"path": tmp_path / "a", "content": "a"},
            {"path": tmp_path / "missing/b", "content": "b"},
            {"path": tmp_path / "d", "content": "d"},
            {"path": tmp_path / "e", "content": "e", "owner": "ra-test-nobody"},
            {"path": tmp_path / "z", "content": "z"},
        )
        assert failed == {
            f"{tmp_path}/missing/b": f"no such file or directory: {tmp_path}/missing",
            f"{tmp_path}/d": "it is a directory and should be a file: declare 'ensure: directory' to keep it;"
            " with force it is replaced, and what is in it is lost",
            f"{tmp_path}/e": "there is no user 'ra-test-nobody'",
        }
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d", "z"]


class TestDirectoriesAndLinks:
    """Directories, links, and changes from one kind to another."""

    def test_a_plan_warns_of_a_directory_in_place_of_a_file(self, tmp_path: Path) -> None:
        """And of the reverse, unless it is forced; a link is replaced by a file."""
        (tmp_path / "d").mkdir()
        (tmp_path / "f").touch()
        (tmp_path / "l").symlink_to("d")
        entries = {
            name: bool(warned({f"File[{tmp_path}/{name}]": attributes}))
            for name, attributes in {
                "d": {"mode": "0700"},
                "./d": {"content": "", "force": True},
                "f": {"ensure": "directory"},
                "l": {"ensure": "directory"},
                "./l": {"content": ""},
                "./f": {"target": "d"},
            }.items()
        }
        assert entries == {"d": True, "./d": False, "f": True, "l": True, "./l": False, "./f": False}
        (reason,) = warned({f"File[{tmp_path}/d]": {"mode": "0700"}})
        assert "it is a directory and should be a file: declare 'ensure: directory' to keep it" in reason
        (reason,) = warned({f"File[{tmp_path}/l]": {"ensure": "directory"}})
        assert "declare 'ensure: link' to keep it; with force it is replaced, and what it leads to stays" in reason

    def test_what_comes_before_without_being_required_does_not_hide_that_warning(self, tmp_path: Path) -> None:
        """Another resource does not remove what is in the way; one that is required may."""
        (tmp_path / "d").mkdir()
        before = {f"File[{tmp_path}/a]": {"content": ""}}
        conflict = f"File[{tmp_path}/d]"
        assert warned({**before, conflict: {"content": ""}})
        assert not warned({**before, conflict: {"content": "", "require": f"File[{tmp_path}/a]"}})

    def test_a_tree_is_created_and_removed_in_one_call_each(self, tmp_path: Path) -> None:
        """Parents come before children, and children are removed first."""
        paths = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"]
        write(*({"path": path, "ensure": "directory"} for path in paths), {"path": paths[2] / "f", "content": "x"})
        write({"path": paths[2] / "f", "ensure": "absent"}, *({"path": p, "ensure": "absent"} for p in paths[::-1]))
        assert list(tmp_path.iterdir()) == []

    def test_a_directory_can_be_entered_by_users_who_may_read_it(self, tmp_path: Path) -> None:
        """One mode serves files and directories, as in Puppet."""
        path = tmp_path / "d"
        write({"path": path, "ensure": "directory", "mode": "0640"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o750
        messages = file.Provider().insync(None, str(path), "mode", read(path)[str(path)], {"mode": "0400"})
        assert messages == (False, "changed from 0750 to 0500")
        write({"path": path, "ensure": "directory", "mode": "2700"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o2700

    def test_a_target_declares_a_link_and_can_change(self, tmp_path: Path) -> None:
        """The target is kept as written and need not exist; a mode does not apply."""
        path = tmp_path / "l"
        write({"path": path, "target": "nowhere", "mode": "0644"})
        assert os.readlink(path) == "nowhere"  # noqa: PTH115 - as written
        assert read(path)[str(path)]["ensure"] == "link"
        write({"path": path, "ensure": "link", "target": "/"})
        assert path.resolve() == Path("/")
        write({"path": path, "ensure": "absent", "force": True})
        assert Path("/etc").exists()
        assert not path.is_symlink()

    def test_files_and_links_replace_each_other(self, tmp_path: Path) -> None:
        """The former target of the link stays unchanged."""
        path, target = tmp_path / "f", tmp_path / "target"
        target.write_text("kept")
        write({"path": path, "content": "x"})
        write({"path": path, "target": str(target)})
        write({"path": path, "content": "y"})
        assert target.read_text(encoding="utf-8") == "kept"

    @pytest.mark.parametrize(
        "expected", [{"ensure": "absent"}, {"content": "x"}, {"target": "x"}], ids=["absent", "file", "link"]
    )
    def test_a_directory_with_content_is_removed_only_with_force(
        self, tmp_path: Path, expected: dict[str, Any]
    ) -> None:
        """Without ``force`` the resource fails with advice, and nothing is lost."""
        path = tmp_path / "d"
        path.mkdir()
        (path / "precious").touch()
        failed = change({"path": path, **expected})
        assert "with force" in failed[str(path)]
        assert (path / "precious").exists()
        write({"path": path, "force": True, **expected})
        assert not path.is_dir()

    def test_a_file_is_replaced_by_a_directory_only_with_force(self, tmp_path: Path) -> None:
        """Its content would be lost."""
        path = tmp_path / "f"
        path.write_text("precious")
        assert "with force" in change({"path": path, "ensure": "directory"})[str(path)]
        write({"path": path, "ensure": "directory", "force": True})
        assert path.is_dir()

    def test_a_link_is_replaced_by_a_directory_only_with_force(self, tmp_path: Path) -> None:
        """What it leads to stays."""
        path, target = tmp_path / "l", tmp_path / "d"
        target.mkdir()
        (target / "kept").touch()
        path.symlink_to(target)
        assert "what it leads to stays" in change({"path": path, "ensure": "directory"})[str(path)]
        write({"path": path, "ensure": "directory", "force": True})
        assert not path.is_symlink()
        assert [entry.name for entry in target.iterdir()] == ["kept"]

    def test_an_empty_directory_is_removed_without_force(self, tmp_path: Path) -> None:
        """Nothing is lost with it."""
        (tmp_path / "d").mkdir()
        write({"path": tmp_path / "d", "ensure": "absent"})


class TestOwners:
    """Owners by name or number, as the system has them."""

    @root_only
    def test_owners_are_declared_by_name_or_number_and_shown_by_name(self, tmp_path: Path) -> None:
        """A number without a name is shown as it is; changing the owner keeps everything else."""
        path = tmp_path / "f"
        write({"path": path, "content": "x", "owner": "daemon", "group": "daemon", "mode": "0640"})
        write({"path": path, "owner": "1", "group": 1})
        row = read(path)[str(path)]
        assert (row["owner"], row["group"], row["mode"]) == ("daemon", "daemon", "0640")
        write({"path": path, "owner": 54321, "group": "054322"})
        row = read(path)[str(path)]
        assert (row["owner"], row["group"], row["content"]) == ("54321", "54322", "x")

    @root_only
    def test_links_and_directories_have_owners_too(self, tmp_path: Path) -> None:
        """The owner of a link's target does not change."""
        write(
            {"path": tmp_path / "d", "ensure": "directory", "owner": "daemon"},
            {"path": tmp_path / "l", "target": "d", "owner": "bin"},
        )
        write({"path": tmp_path / "l", "target": "d", "owner": "sys"})
        assert (tmp_path / "d").owner() == "daemon"


class TestReading:
    """Files are read without following links, and problems are reported."""

    def test_a_missing_file_is_absent(self, tmp_path: Path) -> None:
        """Its directory may be missing too, or be a file."""
        (tmp_path / "f").touch()
        assert read(tmp_path / "x", tmp_path / "x/y/z", tmp_path / "f/x") == {}

    def test_the_root_is_a_directory(self) -> None:
        """It is the only path that ends in a slash."""
        assert read("/")["/"]["ensure"] == "directory"

    def test_special_files_are_reported_and_not_opened(self, tmp_path: Path) -> None:
        """They fail alone."""
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "f").touch()
        text = read(tmp_path / "fifo", tmp_path / "f", "/dev/null")
        assert text[f"{tmp_path}/fifo"] == "is a fifo, which is not managed"
        assert text["/dev/null"] == "is a character device, which is not managed"
        assert text[f"{tmp_path}/f"]["ensure"] == "file"

    def test_a_file_that_is_large_or_not_text_has_no_content(self, tmp_path: Path) -> None:
        """The limit is one mebibyte."""
        for name, content in {"full": b"x" * (1 << 20), "long": b"x" * ((1 << 20) + 1), "latin": b"caf\xe9"}.items():
            (tmp_path / name).write_bytes(content)
        rows = read(*tmp_path.iterdir())
        assert {Path(path).name: sorted(row.keys() & {"content", "checksum"}) for path, row in rows.items()} == {
            "full": ["checksum", "content"],
            "long": [],
            "latin": ["checksum"],
        }
        write({"path": tmp_path / "long", "content": "short"})

    def test_an_impossible_name_fails_alone(self, tmp_path: Path) -> None:
        """Examples are a lone surrogate and a name that is too long."""
        (tmp_path / "f").touch()
        text = read(tmp_path / "f", f"{tmp_path}/\ud800", f"{tmp_path}/{'x' * 256}")
        assert text[f"{tmp_path}/f"]["ensure"] == "file"
        assert "surrogates" in text[f"{tmp_path}/\ud800"]
        assert text[f"{tmp_path}/{'x' * 256}"] == "file name too long"
        failed = change({"path": tmp_path / "a", "content": "\ud800"}, {"path": tmp_path / "b", "content": "b"})
        assert list(failed) == [f"{tmp_path}/a"]
        assert (tmp_path / "b").exists()

    def test_all_files_cannot_be_listed(self) -> None:
        """Listing raises the reason."""
        with pytest.raises(CannotList):
            file.Provider().get(Context(TYPE, RunContext(Log("off")), reading=True))


class TestDeclarations:
    """Valid declarations, and those that are refused before anything is changed."""

    @pytest.mark.parametrize(
        ("written", "canonical"),
        [("/a//b/", "/a/b"), ("/./a/.", "/a"), ("//", "/"), ("/", "/"), ("/a/.b", "/a/.b"), ("/...", "/...")],
    )
    def test_a_path_has_one_canonical_form(self, written: str, canonical: str) -> None:
        """Needless slashes and dots are removed."""
        assert canonicalized({"path": written})[0]["path"] == canonical

    @pytest.mark.parametrize("path", ["a", "", "/a/../b", "/..", "/a\n", "/a\0b"])
    def test_a_path_is_absolute_and_without_dots(self, path: str) -> None:
        """Other paths could lead elsewhere, or forge a line of output."""
        assert not TYPE.accepts["path"](path)

    @pytest.mark.parametrize(
        ("declared", "planned"),
        [
            ({"ensure": "directory", "mode": "0644"}, "0755"),
            ({"ensure": "directory", "mode": "640"}, "0750"),
            ({"ensure": "directory", "mode": "2700"}, "2700"),
            ({"target": "x", "mode": "0644"}, None),
            ({"ensure": "link", "target": "x", "mode": "u+x"}, None),
            ({"content": "x", "mode": "640"}, "0640"),
        ],
    )
    def test_a_plan_shows_the_mode_that_there_will_be(
        self, declared: dict[str, Any], planned: str | None, tmp_path: Path
    ) -> None:
        """A directory gets the right to enter, a link has no mode; what is applied is as it was planned."""
        path, runtime = tmp_path / "x", Runtime(Registry.from_path())
        manifest = {"project": "modes", "resources": {f"File[{path}]": declared}}
        (step,) = runtime.plan(manifest).steps
        assert step.should.get("mode") == planned
        assert [change.should for change in step.changes if change.attribute == "mode"] == (
            [planned] if planned else []
        )
        assert runtime.apply(manifest).exit_code == 0
        assert read(path)[str(path)].get("mode") == planned
        assert not runtime.apply(manifest).changed

    def test_the_mode_of_a_directory_is_read_as_it_is(self, tmp_path: Path) -> None:
        """One that nobody may enter is changed to what is declared for a directory."""
        path, runtime = tmp_path / "x", Runtime(Registry.from_path())
        path.mkdir(mode=0o600)
        assert read(path)[str(path)]["mode"] == "0600"
        manifest = {"project": "modes", "resources": {f"File[{path}]": {"ensure": "directory", "mode": "0600"}}}
        (step,) = runtime.plan(manifest).steps
        assert [(change.is_, change.should) for change in step.changes] == [("0600", "0700")]
        assert (runtime.apply(manifest).summary.updated, stat.S_IMODE(path.stat().st_mode)) == (1, 0o700)

    @pytest.mark.parametrize("mode", [420, "u=rq", "u", "rwx", "0888", "64", "00644", "0644\n"])
    def test_a_mode_is_octal_digits_in_quotes_or_clauses_of_chmod(self, mode: Any) -> None:
        """Anything else could be read as another mode."""
        assert not TYPE.accepts["mode"](mode)

    @pytest.mark.parametrize(
        ("should", "attribute"),
        [
            ({"ensure": "file", "content": "x", "source": "/x"}, "source"),
            ({"ensure": "directory", "content": "x"}, "content"),
            ({"ensure": "link", "source": "/x", "target": "x"}, "source"),
            ({"ensure": "file", "target": "x"}, "target"),
            ({"ensure": "link"}, "target"),
            ({"ensure": "file", "content": "ä" * (1 << 19) + "x"}, "content"),
        ],
    )
    def test_attributes_that_exclude_each_other_are_refused(self, should: dict[str, Any], attribute: str) -> None:
        """The problem names the attribute."""
        problems = file.Provider().validate(None, {"path": "/x", **should})
        assert [problem.attribute for problem in problems] == [attribute]

    def test_a_file_requires_its_directories_and_source(self) -> None:
        """All directories above are required."""
        assert list(types.files({"path": "/a/b/c", "source": "/s"})) == ["/a/b", "/a", "/", "/s"]
        assert list(types.files({"path": "/"})) == []


class TestFile(WholeFiles, ProviderCompliance):
    """A file whose attributes are mostly undeclared."""

    type_name = "file"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "content": "${one}\n", "mode": "640"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "content": "two\n"}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a source and a directory on the way, both of another user."""
        directory = directory_of_nobody(tmp_path)
        copy = {"path": str(tmp_path / "ra-test-b"), "source": str(directory / "source")}
        below = {**present, "path": str(directory / "link" / "ra-test-c")}
        return [
            Neighbour(copy["source"], b"evil\n", "nobody", [copy], ["link", "directory link", "directory", "fifo"]),
            Neighbour(str(directory / "link"), b"", "nobody", [below], ["link", "directory link", "fifo"]),
        ]


class OtherFile(ProviderCompliance):
    """What the classes below have in common."""

    type_name = "file"

    @pytest.fixture
    def neighbours(self) -> str:
        return "TestFile has the files of neighbours"


class TestDirectory(OtherFile):
    """A directory."""

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": str(tmp_path / "ra-test-a"), "ensure": "directory", "mode": "0700"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "mode": "0750"}


class TestLink(OtherFile):
    """A symbolic link to a missing file."""

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": str(tmp_path / "ra-test-a"), "ensure": "link", "target": "ra-test-nowhere"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "target": "ra-test-elsewhere"}


class TestAsset(OtherFile):
    """A file with the content of an asset."""

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        (tmp_path / "one").write_bytes(b"\xff")
        return {"path": str(tmp_path / "ra-test-a"), "content": {"asset": {"file": str(tmp_path / "one")}}}

    @pytest.fixture
    def updated(self, present: Resource, tmp_path: Path) -> Resource:
        (tmp_path / "two").write_text("two\n", encoding="utf-8")
        return {**present, "content": {"asset": {"file": str(tmp_path / "two")}}}
