"""``Runtime.cancel`` ends a run of an embedding program after its running calls, as the first signal ends a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import Event, Log, Registry, Runtime, StepEnd

if TYPE_CHECKING:
    from pathlib import Path


def _manifest(path: Path) -> dict[str, object]:
    return {"resources": {f"File[{path}/a]": {"content": "text"}, f"Exec[touch {path}/b]": {}}}


def test_a_cancelled_run_finishes_its_call_and_skips_the_remaining_steps(tmp_path: Path) -> None:
    """The exit code is 1, and a later run does the rest."""

    def listen(event: Event) -> None:
        if isinstance(event, StepEnd) and not (tmp_path / "b").exists():
            runtime.cancel()

    runtime = Runtime(Registry.from_path(), log=Log("off"), on_event=listen)
    report = runtime.apply(_manifest(tmp_path))
    assert [step.status for step in report.steps] == ["success", "skipped"]
    assert (report.exit_code, (tmp_path / "a").exists()) == (1, True)
    assert Runtime(Registry.from_path(), log=Log("off")).apply(_manifest(tmp_path)).exit_code == 0
    assert (tmp_path / "b").exists()


def test_a_cancellation_before_a_run_is_not_lost(tmp_path: Path) -> None:
    """It ends the next run before its first call, and only that one."""
    runtime = Runtime(Registry.from_path(), log=Log("off"))
    runtime.cancel()
    assert [step.status for step in runtime.apply(_manifest(tmp_path)).steps] == ["skipped", "skipped"]
    assert list(tmp_path.iterdir()) == []
    assert runtime.apply(_manifest(tmp_path)).summary.skipped == 0
