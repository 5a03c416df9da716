"""The power is cut under a run, on a filesystem that writes nothing by itself (as root, with a loop device).

``ext4`` is stopped as it is on disk. A killed process flushes nothing, so that a kill at a call and then the cut are a
loss of power at that call.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[..., Any]

#: ext4's ioctl that stops a mounted filesystem.
SHUTDOWN = 0x8004587D
FLOOR = 150
RESOURCES: dict[str, dict[str, Any]] = {
    "File[@/d]": {"ensure": "directory"},
    **{f"File[@/d/f{number}]": {"content": f"file {number}\n" * 400, "mode": "0640"} for number in range(10)},
    "File[@/d/link]": {"ensure": "link", "target": "f1"},
    "File[@/late]": {"content": "late\n"},
}


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[None]:
    """Mount a filesystem that writes nothing by itself and does not flush what is renamed over something."""
    subprocess.run(["mount", "-o", "loop,commit=600,noauto_da_alloc", str(image), str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def cut_power(place: Path, mode: int) -> None:
    """Stop a filesystem: 2 drops all that was not flushed, 1 writes names and sizes before."""
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", mode))
    finally:
        os.close(fd)


def copied(image: Path, name: str) -> Path:
    """Copy what is on a disk: one that is mounted somewhere else too stays without power when it is mounted again."""
    copy = image.with_name(name)
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
    return copy


@pytest.fixture
def image(memory: Path) -> Path:
    """Give an empty filesystem in a file, to be copied for each cut."""
    path = memory / "image"
    with path.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)
    return path


@pytest.mark.parametrize("mode", [2, 1])
def test_what_a_run_that_ended_well_has_done_survives_a_loss_of_power(bench: Make, image: Path, mode: int) -> None:
    """After exit code 0 every file and all of the state are there; cut earlier, the next run needs no help."""
    machine = bench("apply", RESOURCES)
    assert len(machine.points) >= FLOOR
    for number, point in enumerate(chain([None], machine.sample(2, 6))):
        disk = copied(image, f"{number}")
        with mounted(disk, machine.disk):
            machine.reset()
            subprocess.run(["sync", "-f", str(machine.disk)], check=True)
            if point is None:
                assert machine.again().returncode == 0
            else:
                machine.kill_again(point)
            cut_power(machine.disk, mode)
        with mounted(copied(disk, f"{number}-after"), machine.disk):
            if point is None:
                kept = machine.look()
                assert kept.tree == machine.whole.tree
                assert kept.records == machine.whole.records
            machine.holds(f"a loss of power, mode {mode}, at {point or 'the end'}")


def test_a_filesystem_without_power_loses_what_is_not_flushed(memory: Path, image: Path) -> None:
    """The switch works: a file that was only written is not there."""
    disk = memory / "plain"
    disk.mkdir()
    with mounted(image, disk):
        (disk / "only-written").write_text("text", encoding="utf-8")
        cut_power(disk, 2)
    with mounted(copied(image, "after"), disk):
        assert not (disk / "only-written").exists()
