"""Copies of files: what is kept, for how long, and what is never restored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError
from resource_api.system.filesystem import backups
from resource_api.system.filesystem.backups import MAX_AGE, MAX_SIZE, Backup, BackupStore, list_backups, within_bounds
from tests.bundled import directory_of_nobody

if TYPE_CHECKING:
    from pathlib import Path

NOW = 10.0 * MAX_AGE
COPIES = st.builds(
    Backup,
    path=st.just("/f"),
    sha256=st.sampled_from([letter * 64 for letter in "abcd"]),
    size=st.integers(0, MAX_SIZE),
    mode=st.just(0o644),
    uid=st.just(0),
    gid=st.just(0),
    time=st.floats(NOW - 2 * MAX_AGE, NOW),
)


def kept(store: Path, path: Path) -> Backup:
    """Keep a copy of a file; return it."""
    with BackupStore(str(store)) as backup:
        backup.keep(str(path))
    return list_backups(str(store))[-1]


def test_the_directory_may_be_named_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path in the variable begins at the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(backups.DIRECTORY_VARIABLE, "copies")
    (tmp_path / "f").write_text("old")
    with BackupStore(backups.backup_directory()) as store:
        store.keep(f"{tmp_path}/f")
    assert [backup.path for backup in list_backups(f"{tmp_path}/copies")] == [f"{tmp_path}/f"]


@given(st.lists(COPIES, max_size=8))
def test_the_newest_copies_that_fit_are_kept(found: list[Backup]) -> None:
    """The kept ones are the end of the list; one more would be too old, or too much."""
    found.sort(key=lambda item: item.time)
    rest = within_bounds(found, NOW)
    assert rest == found[len(found) - len(rest) :]
    sizes = {value.sha256: value.size for value in found[::-1]}
    assert all(NOW - entry.time <= MAX_AGE for entry in rest)
    if len(rest) < len(found):
        next_one = found[-len(rest) - 1]
        observed = {element.sha256: element.size for element in (next_one, *rest)}
        assert NOW - next_one.time > MAX_AGE or sum(observed.values()) > MAX_SIZE or sizes != observed


@pytest.mark.parametrize("wrong", [0.0, NOW + 1e9])
def test_a_copy_of_a_wrong_clock_costs_no_other_its_place(wrong: float) -> None:
    """A machine may begin in 1970; that copy is as old as the one before it."""
    times = (NOW - 2 * MAX_AGE, NOW - 60, wrong, NOW)
    copies = [Backup(f"/{number}", "0" * 64, 1, mode=0, uid=0, gid=0, time=time) for number, time in enumerate(times)]
    assert within_bounds(copies, NOW) == copies[1:]


def test_a_content_is_stored_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask; the index has each file that had it."""
    store, path = tmp_path / "copies", tmp_path / "f"
    path.write_text("secret")
    before = os.umask(0)
    try:
        first, second = kept(store, path), kept(store, path)
    finally:
        os.umask(before)
    assert (first.sha256, first.path, len(list_backups(str(store)))) == (second.sha256, str(path), 2)
    assert {item.stat().st_mode & 0o077 for item in (store, *store.rglob("*"))} == {0}
    assert [entry.read_text() for entry in (store / "contents").iterdir()] == ["secret"]


def test_the_oldest_copies_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the contents that no other copy needs; a run that needs more room for itself keeps nothing."""
    store, path = tmp_path / "copies", tmp_path / "f"
    monkeypatch.setattr(backups, "MAX_SIZE", 10)
    for number in range(4):
        path.write_text(f"text{number}")
        kept(store, path)
    assert sorted(entry.read_text() for entry in (store / "contents").iterdir()) == ["text2", "text3"]
    assert len(list_backups(str(store))) == 2
    path.write_text("x" * 11)
    with pytest.raises(ResourceError, match="no copy is kept of it: one run keeps at most"):
        kept(store, path)


def test_half_a_line_in_the_index_hides_no_other_copy(tmp_path: Path) -> None:
    """A run that was killed while it wrote the index has changed no file; the next one begins a new line."""
    store, path = tmp_path / "copies", tmp_path / "f"
    path.write_text("one")
    kept(store, path)
    with (store / "index").open("a") as index:
        index.write('["/etc/motd", "0a0')
    kept(store, path)
    assert [backup.path for backup in list_backups(str(store))] == [str(path)] * 2


def test_a_damaged_copy_is_not_restored(tmp_path: Path) -> None:
    """The file stays as it is; so it does for a copy whose content is gone."""
    store, path = tmp_path / "copies", tmp_path / "f"
    path.write_text("one")
    copy = kept(store, path)
    path.write_text("two")
    (store / "contents" / copy.sha256).write_text("three")
    with BackupStore(str(store)) as backup, pytest.raises(ResourceError, match="is damaged"):
        backup.restore(copy)
    (store / "contents" / copy.sha256).unlink()
    with BackupStore(str(store)) as backup, pytest.raises(FileNotFoundError):
        backup.restore(copy)
    assert path.read_text() == "two"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_no_copy_is_kept_where_others_can_write(tmp_path: Path) -> None:
    """They could read it, or put another into its place; a link in their tree is never followed."""
    theirs = directory_of_nobody(tmp_path)
    with pytest.raises(PermissionError, match="no copies are kept where other users can write"):
        BackupStore(str(theirs / "copies"))
    (theirs / "link").symlink_to("/etc/shadow")
    with BackupStore(str(tmp_path / "copies")) as store:
        store.keep(str(theirs))
        store.keep(str(theirs / "link"))
    assert list_backups(str(tmp_path / "copies")) == []


def test_a_very_deep_directory_is_not_kept(tmp_path: Path) -> None:
    """Each level holds a directory open; what is to be removed with copies stays."""
    path = tmp_path / "/".join("d" * 102)
    path.mkdir(parents=True)
    with BackupStore(str(tmp_path / "copies")) as store, pytest.raises(ResourceError, match="100 levels deep"):
        store.keep(str(tmp_path / "d"))
