"""Editing lines keeps every byte that is not named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.line_editor import Lines, edit_lines, printable, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT = st.one_of(
    st.binary(),
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"# x", b"\xff", b" ", b"\x00", b"\xc2\x85"])).map(b"".join),
)
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), min_size=1)


@given(CONTENT)
def test_what_is_not_edited_keeps_its_bytes(content: bytes) -> None:
    """Taking a file apart and together again gives the very bytes."""
    assert Lines(content).content == content


@given(CONTENT)
def test_a_line_that_is_said_again_keeps_its_bytes(content: bytes) -> None:
    """Assigning every line to itself is no edit, whatever its line end and encoding."""
    file = Lines(content)
    for number, line in enumerate(file):
        file[number] = line
    assert file.content == content


@given(CONTENT, st.lists(TEXT, min_size=1, max_size=4))
def test_deleting_what_was_added_gives_the_very_bytes_of_before(content: bytes, texts: list[str]) -> None:
    """A file without a last newline has none afterwards, and a lone carriage return survives."""
    file = Lines(content)
    for text in texts:
        file.append(text)
    assert list(file)[-len(texts) :] == texts
    for _ in texts:
        del file[len(file) - 1]
    assert file.content == content


@given(CONTENT, TEXT, st.integers(min_value=0))
def test_inserting_and_deleting_anywhere_is_no_edit(content: bytes, text: str, place: int) -> None:
    """The lines around an insertion do not change."""
    file = Lines(content)
    before = list(file)
    number = place % (len(file) + 1)
    file.insert(number, text)
    assert list(file) == [*before[:number], text, *before[number:]]
    del file[number]
    assert file.content == content


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
    """Line ends are the file's own."""
    file = Lines(content)
    file.append("new")
    assert file.content == expected


def test_a_replaced_line_keeps_its_line_end() -> None:
    """Also where line ends are mixed, or missing."""
    file = Lines(b"a\r\nb\nc")
    for number, text in enumerate("xyz"):
        file[number] = text
    assert file.content == b"x\r\ny\nz"


def test_a_line_break_cannot_get_into_a_line() -> None:
    """A second line in the text of one would be an entry that nobody asked for."""
    with pytest.raises(ValueError, match="line break"):
        Lines(b"").append("127.0.0.1 a\n10.0.0.1 bank.example")


def test_what_is_no_utf_8_is_shown_replaced_and_kept_in_the_file() -> None:
    """A text with half a surrogate could be printed nowhere."""
    (line,) = Lines(b"caf\xe9\n")
    assert printable(line) == "caf\ufffd"


def add(text: str) -> Callable[[Lines], None]:
    """Give the edit that puts a line at the end."""
    return lambda file: file.append(text)


def test_what_others_write_during_an_edit_is_not_lost(tmp_path: Path) -> None:
    """The edit is made again, on what they have written."""
    path = tmp_path / "file"
    path.write_bytes(b"ours\n")
    disturbances = ["one", "two"]

    def change(file: Lines) -> None:
        if disturbances:
            with path.open("a") as other:
                other.write(f"{disturbances.pop(0)}\n")
        file.append("added")

    edit_lines(str(path), change, mode=0o644)
    assert path.read_bytes() == b"ours\none\ntwo\nadded\n"


def test_a_file_that_appears_during_an_edit_is_not_lost(tmp_path: Path) -> None:
    """It was missing at the first look."""
    path = tmp_path / "file"

    def change(file: Lines) -> None:
        if not path.exists():
            path.write_bytes(b"theirs\n")
        file.append("added")

    edit_lines(str(path), change, mode=0o644)
    assert path.read_bytes() == b"theirs\nadded\n"


def test_a_write_between_the_new_content_and_its_renaming_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look comes after the slow part, and the discarded attempt leaves nothing behind."""
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


def test_a_file_that_never_rests_is_given_up(tmp_path: Path) -> None:
    """With a sentence, and without having touched it."""
    path = tmp_path / "file"

    def change(file: Lines) -> None:
        path.write_bytes(b"x" * (len(path.read_bytes()) + 1 if path.exists() else 1))
        file.append("added")

    with pytest.raises(ResourceError, match="changed by others"):
        edit_lines(str(path), change, mode=0o644)
    assert set(path.read_bytes()) == {ord("x")}


def test_no_change_touches_nothing(tmp_path: Path) -> None:
    """Neither inode nor time of the file; and a missing file is not made."""
    path = tmp_path / "file"
    path.write_bytes(b"a")
    before = path.stat()
    edit_lines(str(path), lambda _: None, mode=0o644)
    edit_lines(str(tmp_path / "missing"), lambda _: None, mode=0o644)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_link_that_can_be_trusted_stays_and_its_file_is_edited(tmp_path: Path) -> None:
    """As where /etc/hosts is a link to where the machine keeps it."""
    (tmp_path / "real").write_bytes(b"a\n")
    (tmp_path / "link").symlink_to("real")
    edit_lines(str(tmp_path / "link"), add("b"), mode=0o644)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"a\nb\n"


def test_a_new_file_gets_what_is_asked_and_an_existing_one_keeps_its_own(tmp_path: Path) -> None:
    """Mode and owner are the file's, not the editor's."""
    path = tmp_path / "file"
    edit_lines(str(path), add("a"), mode=0o600, uid=65534, gid=65534)
    assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (0o600, 65534)
    path.chmod(0o640)
    edit_lines(str(path), add("b"), mode=0o600, uid=0, gid=0)
    assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (0o640, 65534)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe does not make anybody wait."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ""):
        with pytest.raises(OSError, match="no regular file"):
            read_lines(f"{tmp_path}/{name}".rstrip("/"))
    assert list(read_lines(f"{tmp_path}/missing/file")) == []
