"""Limit how many processes there may be in a new process table.

For root by its ``pid_max`` where every table has its own, which needs no cleaning up: Linux since 6.14. Otherwise by a
control group, cgroups(7), of either version. For another user by ``RLIMIT_NPROC``, which does not hold for root.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.filesystem.directories import opened
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
        self._name = f"{_NAME}{os.getpid()}.{os.urandom(4).hex()}"
        self._parents = [os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in _directories()]

    def enforce(self) -> None:
        """Put the limit in force, in the first process, which has mounts of its own. Raise ``OSError``."""
        if os.geteuid():
            _limit_user()
        elif os.stat(f"/proc/{_PID_MAX}").st_ino != os.fstat(self._pid_max).st_ino:
            _set_pid_max()
        elif not any(self._enter(parent) for parent in self._parents):
            raise OSError(_MISSING)

    def remove(self) -> None:
        """Remove what is left of it; all processes have ended."""
        for parent in self._parents:
            with suppress(OSError):
                os.rmdir(self._name, dir_fd=parent)

    def _enter(self, parent: int) -> bool:
        """Return whether a control group that limits processes could be made and entered."""
        # Under a lock, so that nobody takes a group for left that is made and not yet entered.
        fcntl.flock(parent, fcntl.LOCK_EX)
        try:
            _remove_leftovers(parent)
            with suppress(OSError):
                os.mkdir(self._name, dir_fd=parent)
                with suppress(OSError):
                    _write(f"{self._name}/pids.max", str(PROCESSES), parent)
                    _write(f"{self._name}/cgroup.procs", "0", parent)
                    return True
                os.rmdir(self._name, dir_fd=parent)
        finally:
            fcntl.flock(parent, fcntl.LOCK_UN)
        return False


def _limit_user() -> None:
    """Limit the processes of this user: those of this user namespace; before Linux 5.14 all of them."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _set_pid_max() -> None:
    # In a new /proc, because the settings in the one of a container may be read-only.
    namespaces.mount("proc", "/proc")
    try:
        _write(f"/proc/{_PID_MAX}", str(PROCESSES))
    finally:
        namespaces.unmount("/proc")


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
    with opened(path, os.O_WRONLY, directory) as descriptor:
        os.write(descriptor, text.encode())
