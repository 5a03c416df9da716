"""SIGKILL while a run that changes nothing saves its conclusion in the no-change cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

RESOURCES: dict[str, dict[str, Any]] = {
    **{f"File[@/f{number}]": {"content": f"file {number}\n"} for number in range(9)},
    "Thing[@/thing]": {"text": "thing"},
}


def test_a_conclusion_is_saved_completely_or_not_at_all(bench: Make) -> None:
    """Whatever part of it was written, the next runs correct exactly the resources that differ."""
    machine = bench("apply", RESOURCES, before=[RESOURCES, RESOURCES])
    machine.points = [point for point in machine.points if ".converged" in point.text]
    assert len(machine.points) >= 8
    for point in machine.sample(3):
        machine.kill(point)
        for count in (0, 0, 1, 0, 0):
            if count:
                (machine.world / "f4").write_text("something else\n")
            result = machine.again()
            assert result.returncode == 0, (point, result.stderr)
            updated = f"{count} updated, " if count else ""
            assert f" s: {updated}{10 - count} unchanged." in result.stdout, point
            assert machine.tree() == machine.whole.tree, point
