"""SIGKILL at the calls by which a run that finds everything in order keeps its conclusion: whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

RESOURCES: dict[str, dict[str, Any]] = {
    **{f"File[@/f{number}]": {"content": f"file {number}\n"} for number in range(9)},
    "Thing[@/thing]": {"text": "thing"},
}


def test_a_conclusion_is_never_half_kept(bench: Make) -> None:
    """Whatever is left of it, the next runs see what is in order, what is not, and mend that alone."""
    machine = bench("apply", RESOURCES, before=[RESOURCES, RESOURCES])
    machine.points = [point for point in machine.points if ".converged" in point.text]
    assert len(machine.points) >= 8
    for point in machine.sample(3):
        machine.kill(point)
        for count in (0, 0, 1, 0, 0):
            if count:
                (machine.world / "f4").write_text("something else\n")
            done = machine.again()
            assert done.returncode == 0, (point, done.stderr)
            updated = f"{count} updated, " if count else ""
            assert f" s: {updated}{10 - count} unchanged." in done.stdout, point
            assert machine.tree() == machine.whole.tree, point
