"""Files, directories and links in directories of their own: what is declared is there, and what is there is shown."""

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

from resource_api import CannotList, Change, Context, Sensitive
from resource_api.model.values.values import same_value
from resource_api.plugins import loader
from resource_api.plugins.module_path import BUNDLED
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api import Resource

TYPE = Registry.from_path().type("file")
types = loader.execute(f"{BUNDLED}/types/file.py", "ra_test_file_type")
file = loader.execute(f"{BUNDLED}/providers/file.py", "ra_test_file")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def read(*paths: Path | str) -> dict[str, Any]:
    """Give the rows by path, and the reason for what cannot be read."""
    provider, context = file.Provider(), Context(TYPE, RunContext(Log("off")), reading=True)
    found = {row["path"]: row for row in provider.get(context, [str(path) for path in paths])}
    assert provider.canonicalize(context, [dict(row) for row in found.values()]) == list(found.values())
    assert all(TYPE.accepts[key](value) for row in found.values() for key, value in row.items())
    return found | {name: outcome.reason for name, outcome in context.outcomes.items()}


def settle(*wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give canonical resources, with defaults, that are valid."""
    provider = file.Provider()
    given_ = [{"ensure": "present", "force": False, **should, "path": str(should["path"])} for should in wanted]
    assert all(TYPE.accepts[key](value) for should in given_ for key, value in should.items())
    canonical: list[dict[str, Any]] = provider.canonicalize(None, given_)
    assert provider.canonicalize(None, [dict(should) for should in canonical]) == canonical
    assert [problem for should in canonical for problem in provider.validate(None, should)] == []
    return canonical


def differences(row: Mapping[str, Any] | None, should: Mapping[str, Any]) -> list[str]:
    """Compare as the runtime does."""
    if row is None or should["ensure"] == "absent":
        return [] if row is None and should["ensure"] == "absent" else ["ensure"]
    found = []
    for attribute in TYPE.managed:
        if attribute in should:
            verdict = file.Provider().insync(None, should["path"], attribute, row, should)
            if verdict is None:
                verdict = same_value(row.get(attribute), should[attribute])
            if verdict is not True:
                found.append(attribute)
    return found


def change(*wanted: Mapping[str, Any]) -> dict[str, str]:
    """Call ``set`` for what differs, in order; give the failures by path."""
    canonical = settle(*wanted)
    is_ = read(*(should["path"] for should in canonical))
    changes = {s["path"]: Change(is_.get(s["path"]), s) for s in canonical if differences(is_.get(s["path"]), s)}
    context = Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name) for name in changes})
    file.Provider().set(context, changes)
    return {name: outcome.reason for name, outcome in context.outcomes.items() if outcome.status == "failed"}


def write(*wanted: Mapping[str, Any]) -> None:
    """Bring files to what they should be, and see that they are so, and that nothing is left to do."""
    assert change(*wanted) == {}
    canonical = settle(*wanted)
    after = read(*(should["path"] for should in canonical))
    assert {s["path"]: differences(after.get(s["path"]), s) for s in canonical} == {s["path"]: [] for s in canonical}


class TestFiles:
    """A regular file with content, a source, or neither."""

    def test_a_file_is_made_changed_and_removed(self, tmp_path: Path) -> None:
        """What is read back is what was declared."""
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
    def test_every_text_comes_back_as_it_was_declared(
        self, tmp_path_factory: pytest.TempPathFactory, content: str
    ) -> None:
        """Line ends, byte order marks and nothing at all are kept."""
        path = tmp_path_factory.getbasetemp() / "text"
        write({"path": path, "content": content})
        assert path.read_bytes() == content.encode()

    def test_a_file_without_content_is_made_empty_and_then_left_alone(self, tmp_path: Path) -> None:
        """What is not declared is not managed."""
        path = tmp_path / "f"
        write({"path": path})
        assert path.read_bytes() == b""
        path.write_text("people's")
        write({"path": path, "mode": "0600"})
        assert path.read_text(encoding="utf-8") == "people's"

    def test_what_is_as_declared_is_not_written(self, tmp_path: Path) -> None:
        """Neither inode nor any time changes, and a mode alone changes no content."""
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

    def test_bytes_that_are_no_text_are_copied_from_a_source(self, tmp_path: Path) -> None:
        """Every byte of it, also of what is longer than a content can be; a later change is copied again."""
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

    def test_a_source_that_is_made_in_the_same_call_is_copied(self, tmp_path: Path) -> None:
        """Also when it replaces an older one."""
        (tmp_path / "a").write_text("old")
        write(
            {"path": tmp_path / "a", "content": "new"},
            {"path": tmp_path / "b", "source": str(tmp_path / "a")},
            {"path": tmp_path / "c", "source": str(tmp_path / "b")},
        )
        assert (tmp_path / "c").read_text(encoding="utf-8") == "new"

    def test_a_source_that_cannot_be_copied_fails_and_changes_nothing(self, tmp_path: Path) -> None:
        """Missing, or no regular file."""
        path = tmp_path / "f"
        path.write_text("kept")
        failed = change({"path": path, "source": f"{tmp_path}/missing"})
        assert failed == {str(path): f"no such file or directory: {tmp_path}/missing"}
        with pytest.raises(OSError, match="not a regular file"):
            differences(read(path)[str(path)], settle({"path": path, "source": str(tmp_path)})[0])
        assert path.read_text(encoding="utf-8") == "kept"
        assert os.listdir(tmp_path) == ["f"]  # noqa: PTH208 - names

    def test_a_secret_content_is_written_and_compared(self, tmp_path: Path) -> None:
        """It arrives wrapped, and the file holds what is wrapped."""
        path = tmp_path / "f"
        write({"path": path, "content": Sensitive("hunter2"), "mode": "0600"})
        assert path.read_text(encoding="utf-8") == "hunter2"

    def test_many_files_fail_and_succeed_each_for_itself(self, tmp_path: Path) -> None:
        """One without a directory, and one in a file's place, do not stop the others."""
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
            f"{tmp_path}/d": "it is a directory and should be a file;"
            " with force it is replaced, and what is in it is lost",
            f"{tmp_path}/e": "there is no user 'ra-test-nobody'",
        }
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d", "z"]


class TestDirectoriesAndLinks:
    """What else a path can be, and what becomes of it."""

    def test_a_tree_is_made_in_one_call_and_removed_in_one(self, tmp_path: Path) -> None:
        """Parents before children, and the other way round."""
        paths = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"]
        write(*({"path": path, "ensure": "directory"} for path in paths), {"path": paths[2] / "f", "content": "x"})
        write({"path": paths[2] / "f", "ensure": "absent"}, *({"path": p, "ensure": "absent"} for p in paths[::-1]))
        assert list(tmp_path.iterdir()) == []

    def test_who_may_read_a_directory_may_enter_it(self, tmp_path: Path) -> None:
        """One mode serves files and directories, as with Puppet."""
        path = tmp_path / "d"
        write({"path": path, "ensure": "directory", "mode": "0640"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o750
        told = file.Provider().insync(None, str(path), "mode", read(path)[str(path)], {"mode": "0400"})
        assert told == (False, "changed from 0750 to 0500")
        write({"path": path, "ensure": "directory", "mode": "2700"})
        assert stat.S_IMODE(path.stat().st_mode) == 0o2700

    def test_a_link_is_made_by_its_target_alone_and_leads_elsewhere_later(self, tmp_path: Path) -> None:
        """The target is kept as written; it need not exist; a mode does not apply."""
        path = tmp_path / "l"
        write({"path": path, "target": "nowhere", "mode": "0644"})
        assert os.readlink(path) == "nowhere"  # noqa: PTH115 - as written
        assert read(path)[str(path)]["ensure"] == "link"
        write({"path": path, "ensure": "link", "target": "/"})
        assert path.resolve() == Path("/")
        write({"path": path, "ensure": "absent", "force": True})
        assert Path("/etc").exists()
        assert not path.is_symlink()

    def test_files_and_links_take_each_others_place(self, tmp_path: Path) -> None:
        """What a link led to is not touched."""
        path, target = tmp_path / "f", tmp_path / "target"
        target.write_text("kept")
        write({"path": path, "content": "x"})
        write({"path": path, "target": str(target)})
        write({"path": path, "content": "y"})
        assert target.read_text(encoding="utf-8") == "kept"

    @pytest.mark.parametrize(
        "wanted", [{"ensure": "absent"}, {"content": "x"}, {"target": "x"}], ids=["absent", "file", "link"]
    )
    def test_a_directory_with_something_in_it_goes_only_by_force(self, tmp_path: Path, wanted: dict[str, Any]) -> None:
        """Without it the resource fails, says how, and nothing is lost."""
        path = tmp_path / "d"
        path.mkdir()
        (path / "precious").touch()
        failed = change({"path": path, **wanted})
        assert "with force" in failed[str(path)]
        assert (path / "precious").exists()
        write({"path": path, "force": True, **wanted})
        assert not path.is_dir()

    def test_a_file_makes_way_for_a_directory_only_by_force(self, tmp_path: Path) -> None:
        """Its content would be lost."""
        path = tmp_path / "f"
        path.write_text("precious")
        assert "with force" in change({"path": path, "ensure": "directory"})[str(path)]
        write({"path": path, "ensure": "directory", "force": True})
        assert path.is_dir()

    def test_an_empty_directory_goes_without_force(self, tmp_path: Path) -> None:
        """Nothing is lost with it."""
        (tmp_path / "d").mkdir()
        write({"path": tmp_path / "d", "ensure": "absent"})


class TestOwners:
    """By name or number, as the system knows them."""

    @root_only
    def test_owners_are_given_by_name_or_number_and_shown_by_name(self, tmp_path: Path) -> None:
        """A number that has no name is shown as it is; changing an owner alone keeps the rest."""
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
        """The owner of what a link leads to does not change."""
        write(
            {"path": tmp_path / "d", "ensure": "directory", "owner": "daemon"},
            {"path": tmp_path / "l", "target": "d", "owner": "bin"},
        )
        write({"path": tmp_path / "l", "target": "d", "owner": "sys"})
        assert (tmp_path / "d").owner() == "daemon"


class TestReading:
    """What exists is shown, what cannot be is said, and nothing is followed."""

    def test_what_is_missing_is_missing(self, tmp_path: Path) -> None:
        """Also where its directory is missing, or is a file."""
        (tmp_path / "f").touch()
        assert read(tmp_path / "x", tmp_path / "x/y/z", tmp_path / "f/x") == {}

    def test_the_root_is_a_directory(self) -> None:
        """The one path that ends in a slash."""
        assert read("/")["/"]["ensure"] == "directory"

    def test_special_files_are_named_and_not_opened(self, tmp_path: Path) -> None:
        """They fail alone."""
        os.mkfifo(tmp_path / "fifo")
        (tmp_path / "f").touch()
        found = read(tmp_path / "fifo", tmp_path / "f", "/dev/null")
        assert found[f"{tmp_path}/fifo"] == "is a fifo, which is not managed"
        assert found["/dev/null"] == "is a character device, which is not managed"
        assert found[f"{tmp_path}/f"]["ensure"] == "file"

    def test_what_is_long_or_no_text_has_no_content(self, tmp_path: Path) -> None:
        """A mebibyte is shown, more is not read."""
        for name, content in {"full": b"x" * (1 << 20), "long": b"x" * ((1 << 20) + 1), "latin": b"caf\xe9"}.items():
            (tmp_path / name).write_bytes(content)
        rows = read(*tmp_path.iterdir())
        assert {Path(path).name: sorted(row.keys() & {"content", "checksum"}) for path, row in rows.items()} == {
            "full": ["checksum", "content"],
            "long": [],
            "latin": ["checksum"],
        }
        write({"path": tmp_path / "long", "content": "short"})

    def test_what_no_file_can_be_called_fails_alone(self, tmp_path: Path) -> None:
        """Half a character has no bytes; a name can be too long."""
        (tmp_path / "f").touch()
        found = read(tmp_path / "f", f"{tmp_path}/\ud800", f"{tmp_path}/{'x' * 256}")
        assert found[f"{tmp_path}/f"]["ensure"] == "file"
        assert "surrogates" in found[f"{tmp_path}/\ud800"]
        assert found[f"{tmp_path}/{'x' * 256}"] == "file name too long"
        failed = change({"path": tmp_path / "a", "content": "\ud800"}, {"path": tmp_path / "b", "content": "b"})
        assert list(failed) == [f"{tmp_path}/a"]
        assert (tmp_path / "b").exists()

    def test_all_files_cannot_be_listed(self) -> None:
        """There are too many, and nobody asked."""
        with pytest.raises(CannotList):
            file.Provider().get(Context(TYPE, RunContext(Log("off")), reading=True))


class TestDeclarations:
    """How it may be written, and what is refused before anything is touched."""

    @pytest.mark.parametrize(
        ("written", "canonical"),
        [("/a//b/", "/a/b"), ("/./a/.", "/a"), ("//", "/"), ("/", "/"), ("/a/.b", "/a/.b"), ("/...", "/...")],
    )
    def test_a_path_has_one_spelling(self, written: str, canonical: str) -> None:
        """No needless slash or dot."""
        assert settle({"path": written})[0]["path"] == canonical

    @pytest.mark.parametrize("path", ["a", "", "/a/../b", "/..", "/a\n", "/a\0b"])
    def test_a_path_is_absolute_and_goes_down_only(self, path: str) -> None:
        """What could lead elsewhere, or forge a line, is no path."""
        assert not TYPE.accepts["path"](path)

    @pytest.mark.parametrize("mode", [420, "u=rw", "0888", "64", "00644", "0644\n"])
    def test_a_mode_is_three_or_four_octal_digits_in_quotes(self, mode: Any) -> None:
        """Anything else would be taken for another mode one day."""
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
    def test_what_excludes_each_other_is_refused(self, should: dict[str, Any], attribute: str) -> None:
        """The problem names the attribute."""
        problems = file.Provider().validate(None, {"path": "/x", **should})
        assert [problem.attribute for problem in problems] == [attribute]

    def test_what_must_be_there_first_comes_first(self) -> None:
        """Every directory on the way, and the source."""
        assert list(types.files({"path": "/a/b/c", "source": "/s"})) == ["/a/b", "/a", "/", "/s"]
        assert list(types.files({"path": "/"})) == []


class TestFile(ProviderCompliance):
    """A file of a directory of its own, which hardly anything is known of at first."""

    type_name = "file"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "content": "${one}\n", "mode": "640"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "content": "two\n"}

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: [(path, path.lstat()) for path in sorted(tmp_path.rglob("*"))]


class TestDirectory(ProviderCompliance):
    """A directory."""

    type_name = "file"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": str(tmp_path / "ra-test-a"), "ensure": "directory", "mode": "0700"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "mode": "0750"}


class TestLink(ProviderCompliance):
    """A symbolic link that leads nowhere."""

    type_name = "file"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": str(tmp_path / "ra-test-a"), "ensure": "link", "target": "ra-test-nowhere"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "target": "ra-test-elsewhere"}


class TestAsset(ProviderCompliance):
    """A file with the content of an asset."""

    type_name = "file"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        (tmp_path / "one").write_bytes(b"\xff")
        return {"path": str(tmp_path / "ra-test-a"), "content": {"asset": {"file": str(tmp_path / "one")}}}

    @pytest.fixture
    def updated(self, present: Resource, tmp_path: Path) -> Resource:
        (tmp_path / "two").write_text("two\n", encoding="utf-8")
        return {**present, "content": {"asset": {"file": str(tmp_path / "two")}}}
