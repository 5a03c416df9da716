"""Editing lines keeps every byte outside the edited lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.edit import Lines, edit_lines, printable, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT = st.one_of(
    st.binary(),
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"# x", b"\xff", b" ", b"\x00", b"\xc2\x85"])).map(b"".join),
)
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), min_size=1)


@given(CONTENT)
def test_lines_that_are_not_edited_keep_their_bytes(content: bytes) -> None:
    """Splitting a file and joining it returns the same bytes."""
    assert Lines(content).content == content


@given(CONTENT)
def test_assigning_a_line_to_itself_changes_nothing(content: bytes) -> None:
    """It holds for every line end and encoding."""
    file = Lines(content)
    for number, line in enumerate(file):
        file[number] = line
    assert file.content == content


@given(CONTENT, st.lists(TEXT, min_size=1, max_size=4))
def test_deleting_an_added_line_restores_the_bytes(content: bytes, texts: list[str]) -> None:
    """A file without a last newline has none afterwards, and a lone carriage return is kept."""
    file = Lines(content)
    for text in texts:
        file.append(text)
    assert list(file)[-len(texts) :] == texts
    for _ in texts:
        del file[len(file) - 1]
    assert file.content == content


@given(CONTENT, TEXT, st.integers(min_value=0))
def test_inserting_and_deleting_a_line_restores_the_bytes(content: bytes, text: str, place: int) -> None:
    """The lines around an insertion do not change."""
    file = Lines(content)
    before = list(file)
    number = place % (len(file) + 1)
    file.insert(number, text)
    assert list(file) == [*before[:number], text, *before[number:]]
    del file[number]
    assert file.content == content


def test_one_index_names_the_line_to_delete() -> None:
    """A negative one counts from the end; a slice is refused, as in an assignment, instead of deleting nothing."""
    file = Lines(b"a\nb\nc")
    del file[-1]
    assert file.content == b"a\nb"
    with pytest.raises(TypeError):
        del file[0:1]  # type: ignore[arg-type] # what is refused
    with pytest.raises(IndexError):
        del file[2]
    assert file.content == b"a\nb"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b"new\n"),
        (b"a", b"a\nnew"),
        (b"a\n", b"a\nnew\n"),
        (b"a\r\n", b"a\r\nnew\r\n"),
        (b"a\r\nb", b"a\r\nb\r\nnew"),
    ],
)
def test_a_new_line_ends_as_the_others_do(content: bytes, expected: bytes) -> None:
    """A new line gets the line end of the file."""
    file = Lines(content)
    file.append("new")
    assert file.content == expected


def test_a_replaced_line_keeps_its_line_end() -> None:
    """It holds for mixed and missing line ends too."""
    file = Lines(b"a\r\nb\nc")
    for number, text in enumerate("xyz"):
        file[number] = text
    assert file.content == b"x\r\ny\nz"


def test_a_line_cannot_contain_a_line_break() -> None:
    """A second line in a text would be an entry that was not declared."""
    with pytest.raises(ValueError, match="line break"):
        Lines(b"").append("127.0.0.1 a\n10.0.0.1 bank.example")


def test_bytes_that_are_not_utf_8_are_printable_and_kept() -> None:
    """A text with a lone surrogate could not be printed."""
    (line,) = Lines(b"caf\xe9\n")
    assert printable(line) == "caf\ufffd"


def add(text: str) -> Callable[[Lines], None]:
    """Return an edit that appends a line."""
    return lambda file: file.append(text)


def test_a_concurrent_write_is_not_lost(tmp_path: Path) -> None:
    """The edit is repeated on the new content."""
    path = tmp_path / "file"
    path.write_bytes(b"ours\n")
    disturbances = ["one", "two"]

    def change(file: Lines) -> None:
        if disturbances:
            with path.open("a") as second:
                second.write(f"{disturbances.pop(0)}\n")
        file.append("added")

    edit_lines(str(path), change, mode=0o644)
    assert path.read_bytes() == b"ours\none\ntwo\nadded\n"


def test_a_file_that_appears_during_an_edit_is_not_lost(tmp_path: Path) -> None:
    """It was missing at the first read."""
    path = tmp_path / "file"

    def change(file: Lines) -> None:
        if not path.exists():
            path.write_bytes(b"theirs\n")
        file.append("added")

    edit_lines(str(path), change, mode=0o644)
    assert path.read_bytes() == b"theirs\nadded\n"


def test_a_write_before_the_rename_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last check follows the slow part, and the discarded attempt leaves nothing behind."""
    path = tmp_path / "file"
    path.write_bytes(b"a\n")
    replace = files.Batch.replace
    calls: list[Any] = []

    def slow(self: files.Batch, *arguments: Any, **options: Any) -> None:
        replace(self, *arguments, **options)
        if not calls:
            path.write_bytes(b"b\n")
        calls.append(arguments)

    monkeypatch.setattr(files.Batch, "replace", slow)
    edit_lines(str(path), add("added"), mode=0o644)
    assert path.read_bytes() == b"b\nadded\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_an_edit_fails_for_a_file_that_keeps_changing(tmp_path: Path) -> None:
    """The error says so, and the file is not changed."""
    path = tmp_path / "file"

    def change(file: Lines) -> None:
        path.write_bytes(b"x" * (len(path.read_bytes()) + 1 if path.exists() else 1))
        file.append("added")

    with pytest.raises(ResourceError, match="changed by others"):
        edit_lines(str(path), change, mode=0o644)
    assert set(path.read_bytes()) == {ord("x")}


def test_an_edit_without_a_change_writes_nothing(tmp_path: Path) -> None:
    """Inode and times stay, and a missing file is not created."""
    path = tmp_path / "file"
    path.write_bytes(b"a")
    before = path.stat()
    edit_lines(str(path), lambda _: None, mode=0o644)
    edit_lines(str(tmp_path / "missing"), lambda _: None, mode=0o644)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_trusted_link_stays_and_its_target_is_edited(tmp_path: Path) -> None:
    """An example is an /etc/hosts that is a link."""
    (tmp_path / "real").write_bytes(b"a\n")
    (tmp_path / "link").symlink_to("real")
    edit_lines(str(tmp_path / "link"), add("b"), mode=0o644)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"a\nb\n"


def test_only_a_new_file_gets_the_given_mode_and_owner(tmp_path: Path) -> None:
    """An existing file keeps its own."""
    path = tmp_path / "file"
    edit_lines(str(path), add("a"), mode=0o600, uid=65534, gid=65534)
    assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (0o600, 65534)
    path.chmod(0o640)
    edit_lines(str(path), add("b"), mode=0o600, uid=0, gid=0)
    assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (0o640, 65534)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It does not block."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ""):
        with pytest.raises(OSError, match="not a regular file"):
            read_lines(f"{tmp_path}/{name}".rstrip("/"))
    assert list(read_lines(f"{tmp_path}/missing/file")) == []
