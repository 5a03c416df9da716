"""System calls that the system refuses: an error that names them, the old state, and a next run that works."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import invariants, power
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

RESOURCES: dict[str, dict[str, Any]] = {
    "File[@/conf]": {"content": "conf\n", "notify": "Daemon[@/daemon]"},
    **{f"Thing[@/t{number}]": {"text": f"thing {number}"} for number in range(4)},
    "Daemon[@/daemon]": {"reads": ["@/conf"]},
    "File[@/last]": {"content": "last\n"},
}
FLOOR = 120


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_refused_system_call_ends_the_run_and_loses_nothing(bench: Make, error: str) -> None:
    """Exit code 74 and the path, unless the call was not essential; then the next run needs no help."""
    machine = bench("apply", RESOURCES)
    machine.points = [point for point in machine.points if "/state" in point.text]
    assert len(machine.points) >= FLOOR
    codes = set()
    for point in machine.sample(3):
        result = machine.refuse(point, error)
        codes.add(result.returncode)
        assert result.returncode in {0, 74}, f"{point}: {result.stderr}"
        if result.returncode:
            assert str(machine.state.parent) in result.stderr.splitlines()[-1], f"{point}: {result.stderr}"
        else:
            assert machine.tree() == machine.whole.tree, point
        invariants.hold(machine, f"{point} refused with {error}")
    assert 74 in codes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_ends_the_run_and_the_next_run_with_space_converges(bench: Make) -> None:
    """At any point; one more run changes nothing."""
    machine = bench("apply", RESOURCES)
    codes = []
    for kilobytes in (0, 4, 16, 40, 80, 120, 160):
        with private_mounts(), power.full(machine, kilobytes=kilobytes) as make_room:
            result = machine.again()
            make_room()
            invariants.failed_clearly(machine, result, f"{kilobytes} KiB")
            invariants.hold(machine, f"{kilobytes} KiB")
        codes.append(result.returncode)
    assert codes.count(74) >= 3, codes
