"""Every bundled type under every fault: killed, refused a call, without power or room. The next run needs no help.

``FAULTS_ALL_POINTS=1`` tries the points that ``points`` selects under each fault; ``FAULTS_TURNS=0``, too, every point.
Otherwise each type is killed at one point and has one of the other faults, by turns: always the same sample, in the
same order. As root, with a loop device.
"""

from __future__ import annotations

import os
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.system.filesystem.files import TEMPORARY_SUFFIX
from tests.faults import invariants, power, report, system
from tests.faults.bench import WHOLE, Bench
from tests.faults.bundled import CASES, ON_A_MACHINE
from tests.faults.system import run
from tests.namespaces import private_kernel
from tests.systemd_machine import INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.tracer import Point


ROOT: Final = Path(__file__).resolve().parents[2]
#: The types that change nothing on this machine.
UNSWEPT: Final = {
    "std",
    *("ansible_module", "assert", "http_resource", "notify", "template", "wait_for"),
    *("mysql_database", "mysql_grant", "mysql_user"),
    *("postgresql_database", "postgresql_grant", "postgresql_role"),
}
#: The fewest calls of a run of any type; a sweep of fewer is one that misses something.
FLOOR: Final = 90
SWEPT: Final = sorted(ON_A_MACHINE if INSIDE.exists() else CASES.keys() - ON_A_MACHINE)
#: The faults other than a kill, of which a sample has one for each type.
OTHERS: Final = ("refused", "cut", "after", "room")
#: The faults at a point, in the order of their turns.
AT_POINTS: Final = ("kill", "refused", "cut")
#: Each call that writes the record is tried with one in how many types.
RECORD_TURNS: Final = 8
ERRORS: Final = ("ENOSPC", "EIO", "EACCES", "EROFS")
KILOBYTES: Final = (0, 4, 16, 40, 80, 120)
INODES: Final = (0, 1, 2, 4, 6, 9)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a system to change")


@pytest.fixture(scope="module")
def furnished() -> Iterator[Path]:
    """Yield the private system that each bench begins with."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as memory:
        with private_kernel():
            system.furnish(Path(memory))
        yield Path(memory)


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """Yield an empty ext4 in a file, to be copied for each cut."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as memory:
        yield power.make_image(Path(memory))


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest, furnished: Path) -> Iterator[Bench]:
    """Yield the bench of a bundled type in namespaces of its own."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as memory, private_kernel():
        bench = Bench(Path(memory), CASES[request.param], furnished)
        bench.name = request.param
        assert len(bench.points) >= FLOOR
        yield bench


def on(fault: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs with the types that have ``fault``."""
    chosen = SWEPT if WHOLE or fault == "kill" or INSIDE.exists() else SWEPT[OTHERS.index(fault) :: len(OTHERS)]
    return pytest.mark.parametrize("bench", chosen, indirect=True, scope="module")


def points(bench: Bench, fault: str) -> list[Point]:
    """Return the points of a sweep: one in a sample, else each call of the type; and by turns what types share.

    The record is written by the same calls for each type: those beside a call of the type are tried with it, the rest
    with one type in ``RECORD_TURNS``. A call of a program of the system has one of the three faults.
    """
    if not WHOLE or os.environ.get("FAULTS_TURNS") == "0":
        return bench.sample(1)
    kinds = [_kind(point) for point in bench.points]
    return [
        point
        for index, (point, kind) in enumerate(zip(bench.points, kinds, strict=True))
        if kind == "type"
        or (kind == "program" and index % len(AT_POINTS) == AT_POINTS.index(fault))
        or (kind == "record" and (set(kinds[max(index - 1, 0) : index + 2]) != {"record"} or _has_turn(bench, index)))
    ]


def _kind(point: Point) -> str:
    """Return whose call a point is: of a ``program`` of the system, of the ``record``, or of the ``type``."""
    if not point.program.startswith("python"):
        return "program"
    return "record" if all(path.startswith("/state") for path in point.text.split()) else "type"


def _has_turn(bench: Bench, index: int) -> bool:
    return (index + SWEPT.index(bench.name)) % RECORD_TURNS == 0


def removes_temporary(point: Point) -> bool:
    """Return whether a call removes a temporary name of ours."""
    return point.call in {"unlink", "unlinkat", "rmdir"} and TEMPORARY_SUFFIX in point.text


def test_every_bundled_type_is_swept() -> None:
    """A type without a case in ``bundled.py`` fails here."""
    assert CASES.keys() | UNSWEPT == {path.stem for path in (ROOT / "types").glob("*.py")}


@on("kill")
def test_a_run_may_be_killed_at_any_system_call(bench: Bench) -> None:
    """With all programs that it has started."""
    with report.sweep(bench, "kill") as tried:
        for point in tried(points(bench, "kill")):
            bench.kill(point)
            invariants.hold(bench, point)


@on("refused")
def test_any_system_call_may_be_refused(bench: Bench) -> None:
    """Exit code 0 with everything done, or a clear error. A temporary name that may not be removed has to stay."""
    refusable = [point for point in points(bench, "refused") if not removes_temporary(point)]
    with report.sweep(bench, "errno") as tried:
        for point, error in zip(tried(refusable), cycle(ERRORS), strict=False):
            invariants.failed_clearly(bench, bench.refuse(point, error), f"{point} refused with {error}")
            invariants.hold(bench, f"{point} refused with {error}")


@on("cut")
def test_the_power_may_be_cut_at_any_system_call(bench: Bench, image: Path) -> None:
    """What was not flushed is lost; every second time names and sizes are not."""
    with report.sweep(bench, "power") as tried:
        for point, mode in zip(tried(points(bench, "cut")), cycle(power.MODES), strict=False):
            with power.lost(bench, image, point, mode):
                invariants.hold(bench, f"a loss of power, mode {mode}, at {point}")


@on("after")
def test_what_a_successful_run_has_done_survives_a_loss_of_power(bench: Bench, image: Path) -> None:
    """All of it is there before the next run."""
    for mode in power.MODES:
        with power.lost(bench, image, None, mode):
            if bench.case.start:
                run(*bench.case.start)
            stored = bench.observe()
            assert stored.tree == bench.whole.tree
            assert stored.records == bench.whole.records


@on("room")
def test_a_run_without_room_loses_nothing(bench: Bench) -> None:
    """Of bytes or of inodes; the next run with room converges. A sample has one of both, by turns of the types."""
    rooms = [("kilobytes", kilobyte) for kilobyte in KILOBYTES] + [("inodes", inode) for inode in INODES]
    turn = SWEPT.index(bench.name) // len(OTHERS) % 2
    for resource, amount in rooms if WHOLE else [rooms[2 + turn * len(KILOBYTES)]]:
        with power.full(bench, **{resource: amount}) as make_room:
            result = bench.again()
            make_room()
            invariants.failed_clearly(bench, result, f"{amount} {resource}")
            invariants.hold(bench, f"{amount} {resource}")
