"""Loss of power during a run, on a filesystem that writes nothing by itself (as root, with a loop device)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import invariants, power

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., Any]

#: A sweep of losses of power.
pytestmark = pytest.mark.whole

FLOOR = 150
RESOURCES: dict[str, dict[str, Any]] = {
    "File[@/d]": {"ensure": "directory"},
    **{f"File[@/d/f{number}]": {"content": f"file {number}\n" * 400, "mode": "0640"} for number in range(10)},
    "File[@/d/link]": {"ensure": "link", "target": "f1"},
    "File[@/late]": {"content": "late\n"},
}


@pytest.mark.parametrize("mode", power.MODES)
def test_the_result_of_a_successful_run_survives_a_loss_of_power(bench: Make, memory: Path, mode: int) -> None:
    """After exit code 0 every file and all of the state exist; after an earlier cut the next run recovers by itself."""
    machine, image = bench("apply", RESOURCES), power.make_image(memory)
    assert len(machine.points) >= FLOOR
    for point in chain([None], machine.sample(3)):
        with power.lost(machine, image, point, mode):
            if point is None:
                stored = machine.observe()
                assert stored.tree == machine.whole.tree
                assert stored.records == machine.whole.records
            invariants.hold(machine, f"a loss of power, mode {mode}, at {point or 'the end'}")


def test_a_filesystem_without_power_loses_unflushed_data(bench: Make, memory: Path) -> None:
    """The simulated cut is effective: a file that was written and not flushed does not exist afterwards."""
    machine, image = bench("apply", RESOURCES), power.make_image(memory)
    written = machine.disk / "only-written"
    with power.copied(image, "image-before") as disk:
        with power.mounted_machine(machine, disk):
            written.write_text("text", encoding="utf-8")
            power.cut(machine.disk, 2)
        with power.copied(disk, "image-after") as after, power.mounted_machine(machine, after):
            assert not written.exists()
