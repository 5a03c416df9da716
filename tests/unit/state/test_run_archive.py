"""The files of recorded runs: how many and how much is kept, and what a killed run leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resource_api.state.sqlite import run_archive

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_runs_are_kept(tmp_path: Path) -> None:
    """The oldest go; what a killed run was writing goes too."""
    path = str(tmp_path / "state.db")
    run_archive.write_file(path, "0", b"0")
    (tmp_path / "state.db.runs" / "20260101T000000.000000Z-dead.json.new").write_bytes(b"half")
    for number in range(1, run_archive.RUNS + 3):
        run_archive.write_file(path, f"{number:x}", b"%d" % number)
    assert run_archive.saved_runs(path) == [f"{number:x}" for number in range(3, run_archive.RUNS + 3)]
    assert run_archive.read_file(path, "3") == b"3"
    assert run_archive.read_file(path, "2") is None
    assert len(list((tmp_path / "state.db.runs").iterdir())) == run_archive.RUNS


def test_the_file_of_a_run_stays_beside_those_from_the_future(tmp_path: Path) -> None:
    """A clock that was set back costs no run; those of the wrong time count as the oldest."""
    path = str(tmp_path / "state.db")
    run_archive.write_file(path, "0", b"0")
    for number in range(run_archive.RUNS):
        (tmp_path / "state.db.runs" / f"29990101T000000.{number:06}Z-{number:x}a.json").write_bytes(b"old")
    run_archive.write_file(path, "1", b"1")
    assert run_archive.saved_runs(path)[-2:] == ["0", "1"]
    assert run_archive.saved_runs(path)[0] == "2a"


def test_a_directory_has_a_largest_size(tmp_path: Path) -> None:
    """The oldest go until the rest fits; a run that alone is larger is not kept."""
    path = str(tmp_path / "state.db")
    large = bytes(run_archive.BYTES // 2)
    for run in ("a", "b", "c"):
        run_archive.write_file(path, run, large)
    assert run_archive.saved_runs(path) == ["b", "c"]
    run_archive.write_file(path, "d", bytes(run_archive.BYTES + 1))
    assert run_archive.saved_runs(path) == ["b", "c"]


def test_what_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    """A directory or file that is not private is as if it were not there, and nothing is written to it."""
    path = str(tmp_path / "state.db")
    run_archive.write_file(path, "a", b"a")
    directory = tmp_path / "state.db.runs"
    (file,) = directory.iterdir()
    file.chmod(0o644)
    assert run_archive.read_file(path, "a") is None
    file.chmod(0o600)
    directory.chmod(0o755)
    assert run_archive.saved_runs(path) == []
    with pytest.raises(PermissionError, match="of this user alone"):
        run_archive.write_file(path, "b", b"b")
    assert list(directory.iterdir()) == [file]
