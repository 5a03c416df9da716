"""Filesystems that end: one whose power is cut, so that what was not flushed is lost, and one that is full."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.faults import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.bench import Bench
    from tests.faults.tracer import Point

#: ext4's ioctl that stops a mounted filesystem.
_SHUTDOWN: Final = 0x8004587D
#: Without flushing anything, and after writing names and sizes.
MODES: Final = (2, 1)


def make_image(memory: Path) -> Path:
    """Return an empty filesystem in a file, to be copied for each cut."""
    path = memory / "image"
    with path.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)
    return path


@contextmanager
def mounted(image: Path, path: Path) -> Iterator[None]:
    """Mount an image; it writes nothing by itself and flushes no file for a rename."""
    subprocess.run(["mount", "-o", "loop,commit=600,noauto_da_alloc", str(image), str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@contextmanager
def mounted_machine(bench: Bench, image: Path) -> Iterator[None]:
    """Mount an image where the machine is."""
    with mounted(image, bench.disk):
        try:
            if bench.place.exists() and bench.case.system:
                system.cover(bench.world)
            yield
        finally:
            if bench.case.system:
                system.uncover()


def cut(path: Path, mode: int) -> None:
    """Stop a filesystem: 2 drops all that was not flushed, 1 writes names and sizes before."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", mode))
    finally:
        os.close(fd)


@contextmanager
def copied(image: Path, name: str) -> Iterator[Path]:
    """Yield a copy of a disk: one that is mounted somewhere else too has no power when it is mounted again."""
    copy = image.with_name(name)
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
    try:
        yield copy
    finally:
        copy.unlink()


@contextmanager
def lost(bench: Bench, image: Path, point: Point | None, mode: int) -> Iterator[None]:
    """Run the case, cut the power at a point or after the end, and give what is on the disk.

    A killed process flushes nothing, so that a kill at a call and then the cut are a loss of power at that call.
    """
    with copied(image, "image-before") as disk:
        with mounted_machine(bench, disk):
            bench.reset()
            subprocess.run(["sync", "-f", str(bench.disk)], check=True)
            result = bench.again(point)
            assert result.returncode == (-9 if point else 0), f"{point}: {result.returncode} {result.stderr}"
            cut(bench.disk, mode)
        with copied(disk, "image-after") as after, mounted_machine(bench, after):
            yield


@contextmanager
def full(bench: Bench, *, kilobytes: int | None = None, inodes: int | None = None) -> Iterator[Callable[[], None]]:
    """Put the machine, before the run, into a filesystem with so much room; yield a function that gives it more."""

    def mount(options: str, *subject: str) -> None:
        subprocess.run(["mount", "-o", f"{options},mode=755", *subject, str(bench.disk)], check=True)

    room = "size=64m,nr_inodes=100000"
    mount(room, "-t", "tmpfs", "none")
    try:
        bench.reset()
        consumed = os.statvfs(bench.disk)
        if kilobytes is not None:
            blocks = max(1, consumed.f_blocks - consumed.f_bfree)  # no blocks would mean any number
            size = blocks * consumed.f_frsize + (kilobytes << 10)
            try:
                mount(f"remount,size={size}")
            except subprocess.CalledProcessError:  # the kernel counts a block of a shared mapping twice
                mount(f"remount,size={size + consumed.f_frsize}")
        if inodes is not None:
            mount(f"remount,nr_inodes={consumed.f_files - consumed.f_ffree + inodes}")
        yield lambda: mount(f"remount,{room}")
    finally:
        if bench.case.system:
            system.uncover()
        subprocess.run(["umount", str(bench.disk)], check=True)
