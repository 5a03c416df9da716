"""Law F3 for SSH: whatever is killed at whatever moment, the next run converges, and no effect is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fleet.carrier_compliance import trial
from tests.fleet.kills import Rounds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process


def test_a_run_after_a_kill_converges(
    server: Server, home: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The process that asks, the connection and the run on the host are killed; all effects are there once."""
    (tmp_path / "trial").mkdir()
    prepared = trial(tmp_path / "trial", tmp_path_factory.getbasetemp().parent / "payload")
    Rounds(server, prepared, home, seed=1).run(3)
    assert len(prepared.effects("web1")) == 36
