"""Waits for files, lines, ports and programs."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from resource_api.testing import ProviderCompliance
from tests.providers.applied import reason, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resource_api import Resource


class TestWaitFor(ProviderCompliance):
    """A wait is due until its condition holds."""

    type_name = "wait_for"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Iterator[Resource]:
        """Return a wait for a file that somebody makes while a run waits."""
        ready = tmp_path / "ready"
        maker = threading.Timer(2, ready.touch)
        maker.start()
        yield {"name": "ra-test", "path": str(ready), "interval": 0.1}
        maker.cancel()

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user is read."""
        return "it reads the files that the manifest names, and keeps nothing of them"


def test_a_wait_ends_when_its_condition_holds(tmp_path: Path) -> None:
    """It is a change; what holds from the start is none."""
    log = tmp_path / "log"
    log.write_text("starting\n")
    declared = {"path": str(log), "pattern": "ready", "interval": 0.1}
    writer = threading.Timer(0.3, log.write_text, ["starting\nready\n"])
    writer.start()
    report, lines = run({"Wait_for[x]": declared})
    writer.join()
    assert (report.exit_code, report.summary.ran) == (0, 1)
    assert lines == ["notice: Wait_for[x]: Holds now"]
    assert run({"Wait_for[x]": declared})[0].summary.ran == 0


def test_a_wait_fails_when_its_time_is_over(tmp_path: Path) -> None:
    """With the condition that does not hold."""
    report, _ = run({"Wait_for[x]": {"path": f"{tmp_path}/no", "interval": 0.1, "timeout": 0.3}})
    assert re.fullmatch(
        rf"'{tmp_path}/no' does not exist \(its timeout has passed, after 0\.\d s\)", str(reason(report))
    )


def test_a_noop_run_waits_for_nothing(tmp_path: Path) -> None:
    """It says what does not hold yet."""
    report, lines = run({"Wait_for[x]": {"path": f"{tmp_path}/no"}}, noop=True)
    assert report.exit_code == 0
    assert lines == ["notice: Wait_for[x]: executed (noop)"]
