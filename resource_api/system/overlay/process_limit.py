"""Limit how many processes there may be in a new process table.

By its ``pid_max`` where every table has its own, which needs no cleaning up: Linux since 6.14. Otherwise by a control
group, cgroups(7), of either version.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.overlay import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How many processes there may be.
PROCESSES: Final = 2048
_PID_MAX: Final = "sys/kernel/pid_max"
#: Where control groups are that may limit processes, by their controllers in ``/proc/self/cgroup``; none: version 2.
_HIERARCHIES: Final = {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "pids": ("/sys/fs/cgroup/pids",)}
_NAME: Final = "resource-api-rehearsal."
_MISSING: Final = (
    f"the number of processes cannot be limited: /proc/{_PID_MAX} is that of the whole machine (Linux before 6.14), "
    "and no control group with pids.max can be made in /sys/fs/cgroup"
)


class ProcessLimit:
    """The limit of one new process table. Made and removed outside of it, put in force by its first process."""

    def __init__(self) -> None:
        """Look what the machine has; change nothing."""
        # Kept open, because only then two look-ups of the same setting find the same file.
        self._pid_max = os.open(f"/proc/{_PID_MAX}", os.O_RDONLY)
        self._name = f"{_NAME}{os.getpid()}"
        self._parents = [os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in _directories()]

    def has_own_pid_max(self) -> bool:
        """Return whether ``pid_max`` is another setting in the process table of this process than outside."""
        return os.stat(f"/proc/{_PID_MAX}").st_ino != os.fstat(self._pid_max).st_ino

    def enter_group(self) -> None:
        """Make a control group that limits processes, and move this process there. Raise ``OSError``."""
        for parent in self._parents:
            # Nobody takes a group for left that is made and not yet entered.
            fcntl.flock(parent, fcntl.LOCK_EX)
            try:
                _remove_leftovers(parent)
                if self._enter(parent):
                    return
            finally:
                fcntl.flock(parent, fcntl.LOCK_UN)
        raise OSError(_MISSING)

    def _enter(self, parent: int) -> bool:
        with suppress(OSError):
            os.mkdir(self._name, dir_fd=parent)
            with suppress(OSError):
                _write(f"{self._name}/pids.max", str(PROCESSES), parent)
                _write(f"{self._name}/cgroup.procs", "0", parent)
                return True
            os.rmdir(self._name, dir_fd=parent)
        return False

    def remove_group(self) -> None:
        """Remove the control group if there is one; all processes in it have ended."""
        for parent in self._parents:
            with suppress(OSError):
                os.rmdir(self._name, dir_fd=parent)


def set_pid_max() -> None:
    """Set the limit of the process table of this process, which has its own. Raise ``OSError``."""
    # In a new /proc, because /proc/sys is read-only on an overlay; this process may still mount.
    place = "/run/limits"
    os.mkdir(place)
    namespaces.mount("proc", place)
    try:
        _write(f"{place}/{_PID_MAX}", str(PROCESSES))
    finally:
        namespaces.unmount(place)
        os.rmdir(place)


def _directories() -> Iterator[str]:
    """Yield the control groups of this process, and those that contain them, each hierarchy from the inside."""
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for base in _HIERARCHIES.get(controllers, ()):
            # What is outside of the namespace of control groups begins with /.. and cannot be seen.
            parts = [] if path.startswith("/..") else path.strip("/").split("/")
            for count in range(len(parts), -1, -1):
                directory = "/".join((base, *parts[:count]))
                if os.path.exists(f"{directory}/cgroup.procs"):
                    yield directory


def _remove_leftovers(parent: int) -> None:
    """Remove the groups whose makers were killed before they could; one that has processes cannot be removed."""
    for name in os.listdir(parent):
        if name.startswith(_NAME):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)


def _write(path: str, text: str, directory: int | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY, dir_fd=directory)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
