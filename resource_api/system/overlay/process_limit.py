"""Limit the number of processes in a new process table.

Root's processes are limited by ``pid_max`` where each table has its own (Linux 6.14), which needs no cleaning up,
otherwise by a control group, cgroups(7), of either version; another user's by ``RLIMIT_NPROC``, which root ignores.
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

#: The largest number of processes.
PROCESSES: Final = 2048
_PID_MAX: Final = "sys/kernel/pid_max"
#: Controllers in ``/proc/self/cgroup`` ("" in version 2) → directories of control groups that can limit processes.
_HIERARCHIES: Final = {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "pids": ("/sys/fs/cgroup/pids",)}
_NAME: Final = "resource-api-rehearsal."
_MISSING: Final = (
    f"the number of processes cannot be limited: /proc/{_PID_MAX} is that of the whole machine (Linux before 6.14), "
    "and no control group with pids.max can be made in /sys/fs/cgroup"
)


class ProcessLimit:
    """The limit of one new process table: created and removed outside the table, enforced by its first process."""

    def __init__(self) -> None:
        """Open the settings of this machine; change nothing."""
        # Open until the end, so that a second look-up of the same setting finds the same inode.
        self._pid_max = os.open(f"/proc/{_PID_MAX}", os.O_RDONLY)
        self._name = f"{_NAME}{os.getpid()}.{os.urandom(4).hex()}"
        self._parents = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in _directories()]

    def enforce(self) -> None:
        """Enforce the limit, in the first process of the table, which has private mounts. Raise ``OSError``."""
        if os.geteuid():
            _limit_user()
        elif os.stat(f"/proc/{_PID_MAX}").st_ino != os.fstat(self._pid_max).st_ino:
            _set_pid_max()
        elif not any(self._enter(parent) for parent in self._parents):
            raise OSError(_MISSING)

    def remove(self) -> None:
        """Remove the control group, after all processes have ended."""
        for parent in self._parents:
            with suppress(OSError):
                os.rmdir(self._name, dir_fd=parent)

    def _enter(self, parent: int) -> bool:
        """Create a control group that limits processes and enter it; return whether that succeeded."""
        # The lock protects a group that is created and not yet entered from other runs' removal of leftovers.
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
    """Limit the processes of this user in this user namespace; before Linux 5.14 in all namespaces."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _set_pid_max() -> None:
    # A new /proc, because the settings in a container's /proc may be read-only.
    namespaces.mount("proc", "/proc")
    try:
        _write(f"/proc/{_PID_MAX}", str(PROCESSES))
    finally:
        namespaces.unmount("/proc")


def _directories() -> Iterator[str]:
    """Yield the control groups of this process and their parents, innermost first in each hierarchy."""
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for base in _HIERARCHIES.get(controllers, ()):
            # A path outside the control group namespace begins with /.. and is not visible.
            parts = [] if path.startswith("/..") else path.strip("/").split("/")
            for count in range(len(parts), -1, -1):
                directory = "/".join((base, *parts[:count]))
                if os.path.exists(f"{directory}/cgroup.procs"):
                    yield directory


def _remove_leftovers(parent: int) -> None:
    """Remove the groups of killed runs; the kernel refuses to remove a group that has processes."""
    for name in os.listdir(parent):
        if name.startswith(_NAME):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)


def _write(path: str, text: str, directory: int | None = None) -> None:
    with opened(path, os.O_WRONLY, directory) as descriptor:
        os.write(descriptor, text.encode())
