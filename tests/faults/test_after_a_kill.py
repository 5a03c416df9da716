"""Other commands after a crash than the same run again: nothing is lost either."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import invariants

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

FOREIGN = {"etc/near": "not ours\n", "etc/theirs": "theirs\n"}
FLOOR = 150
RESOURCES: dict[str, dict[str, Any]] = {
    "File[@/etc/near]": {"content": "near\n"},
    "File[@/d]": {"ensure": "directory"},
    **{f"Thing[@/d/t{number}]": {"text": f"thing {number}", "notify": "Daemon[@/daemon]"} for number in range(4)},
    **{f"File[@/d/f{number}]": {"content": f"file {number}\n"} for number in range(3)},
    "Daemon[@/daemon]": {"reads": ["@/d/t1", "@/d/f1"]},
    "Thing[@/last]": {"text": "last"},
}


@pytest.fixture
def machine(bench: Make) -> Any:
    """Return a small apply on a new machine."""
    machine = bench("apply", RESOURCES, foreign=FOREIGN)
    assert len(machine.points) >= FLOOR
    return machine


def test_a_run_may_be_killed_while_it_recovers_from_a_kill(machine: Any) -> None:
    """After any number of killed runs, the first complete one converges."""
    order = random.Random(7)  # noqa: S311 - the same choice every time is the purpose
    reached = 0
    for point in machine.sample(3):
        machine.kill(point)
        later = order.choices(machine.points, k=3)
        reached += sum([machine.kill_again(item) for item in later])
        invariants.hold(machine, f"{point}, then {', '.join(map(str, later))}")
    assert reached


def test_destroy_after_a_kill_deletes_everything_of_ours(machine: Any) -> None:
    """Also a resource that was created and not yet recorded."""
    for point in machine.sample(3):
        machine.kill(point)
        report, events = machine.run_in_process("destroy")
        assert report.exit_code == 0, (str(point), [str(line) for line in events])
        after = machine.observe()
        assert {name for name in after.tree if not name.endswith(".resource-api~")} == {"etc", *FOREIGN}, str(point)
        assert not after.state.records
        assert not after.state.intents


def test_a_targeted_run_after_a_kill_keeps_the_other_intents(machine: Any) -> None:
    """Resources that it does not read are still in doubt, and ours."""
    for point in machine.sample(3):
        machine.kill(point)
        report, _ = machine.run_in_process("apply", targets=("Thing[@/last]".replace("@", str(machine.world)),))
        assert report.exit_code == 0
        invariants.hold(machine, f"{point}, then a target")
