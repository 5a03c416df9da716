"""The files of recorded runs: how many and how much is kept, and what a killed run leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resource_api.state.sqlite import run_files

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_runs_are_kept(tmp_path: Path) -> None:
    """The oldest go; what a killed run was writing goes too."""
    path = str(tmp_path / "state.db")
    run_files.write(path, "0", b"0")
    (tmp_path / "state.db.runs" / "20260101T000000.000000Z-dead.json.new").write_bytes(b"half")
    for number in range(1, run_files.RUNS + 3):
        run_files.write(path, f"{number:x}", b"%d" % number)
    assert run_files.runs(path) == [f"{number:x}" for number in range(3, run_files.RUNS + 3)]
    assert run_files.read(path, "3") == b"3"
    assert run_files.read(path, "2") is None
    assert len(list((tmp_path / "state.db.runs").iterdir())) == run_files.RUNS


def test_a_directory_has_a_largest_size(tmp_path: Path) -> None:
    """The oldest go until the rest fits; a run that alone is larger is not kept."""
    path = str(tmp_path / "state.db")
    large = bytes(run_files.BYTES // 2)
    for run in ("a", "b", "c"):
        run_files.write(path, run, large)
    assert run_files.runs(path) == ["b", "c"]
    run_files.write(path, "d", bytes(run_files.BYTES + 1))
    assert run_files.runs(path) == ["b", "c"]


def test_what_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    """A directory or file that is not private is as if it were not there, and nothing is written to it."""
    path = str(tmp_path / "state.db")
    run_files.write(path, "a", b"a")
    directory = tmp_path / "state.db.runs"
    (file,) = directory.iterdir()
    file.chmod(0o644)
    assert run_files.read(path, "a") is None
    file.chmod(0o600)
    directory.chmod(0o755)
    assert run_files.runs(path) == []
    with pytest.raises(PermissionError, match="of this user alone"):
        run_files.write(path, "b", b"b")
    assert list(directory.iterdir()) == [file]
