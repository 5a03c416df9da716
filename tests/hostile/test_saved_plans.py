"""Saved plans in directories that other users can write to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests import command

ROOT: Final = Path(__file__).resolve().parents[2]
NOBODY: Final = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a manifest of one file in ``directory``."""
    manifest = {"resources": {f"File[{directory}/made]": {"content": "made"}}}
    (directory / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    arguments = [*words, "--state", f"sqlite:{directory}/state/state.db"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return command.run(arguments, cwd=directory, env=environment, text=True)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a directory of another user."""
    directory = tmp_path / "shared"
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    return directory


def test_a_saved_plan_that_others_can_change_is_a_warning(tmp_path: Path, shared: Path) -> None:
    """It decides what is done, as the manifest does that it was made of."""
    assert run(tmp_path, "plan", "site.json", "-o", "plan.json").returncode == 0
    assert "others can change" not in run(tmp_path, "apply", "plan.json", "--noop").stderr
    (tmp_path / "plan.json").rename(shared / "plan.json")
    result = run(tmp_path, "apply", "shared/plan.json")
    assert f"others can change this plan: '{shared}' belongs to nobody" in result.stderr
    assert (tmp_path / "made").read_text() == "made"


def test_a_plan_is_saved_into_a_new_file(tmp_path: Path, shared: Path) -> None:
    """A file or link that another user has put there is replaced or refused, never written to."""
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (shared / "link").symlink_to(victim)
    (shared / "file").write_text("theirs")
    (shared / "file").chmod(0o666)
    os.chown(shared / "file", NOBODY, NOBODY)
    with (shared / "file").open(encoding="utf-8") as held:
        assert run(tmp_path, "plan", "site.json", "-o", "shared/file").returncode == 0
        assert held.read() == "theirs"
    status = (shared / "file").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, 0, 0o600)
    assert "cannot save the plan" in run(tmp_path, "plan", "site.json", "-o", "shared/link").stderr
    assert victim.read_text() == "keep"
    words = (sys.executable, "-P", "-m", "resource_api", "plan", "site.json", "--state", "memory:", "-o", "/dev/stdout")
    process = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"format_version"' in process.stdout + process.stderr
