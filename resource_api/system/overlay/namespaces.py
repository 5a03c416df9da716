"""Call the system for namespaces, mounts and capabilities, which Python 3.11 does not offer."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system import c_library

if TYPE_CHECKING:
    from collections.abc import Iterable

# Flags of unshare(2), mount(2) and umount2(2).
NEW_MOUNTS: Final = 0x20000
NEW_HOST_NAME: Final = 0x4000000
NEW_IPC: Final = 0x8000000
NEW_USERS: Final = 0x10000000
NEW_PROCESSES: Final = 0x20000000
NEW_NETWORK: Final = 0x40000000
READ_ONLY: Final = 0x1
NO_SETUID: Final = 0x2
NO_DEVICES: Final = 0x4
NO_EXECUTION: Final = 0x8
_REMOUNT: Final = 0x20
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 1 << 18
_DETACH: Final = 0x2

# Operations of prctl(2), and the numbers of system calls without a function in every C library.
_DROP_BOUND: Final = 24
_CLEAR_AMBIENT: Final = (47, 4)
_MOUNT_SETATTR: Final = 442
_AT_CWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "s390x": 217, "ppc64le": 203}
# ioctl(2) of netdevice(7): set the flags of an interface; the flag of an interface that is up.
_SET_FLAGS: Final = 0x8914
_UP: Final = 0x1
_CAPABILITY_VERSION: Final = 0x20080522


def unshare(flags: int) -> None:
    """Move this process, or its children for a new process table, to new namespaces. Raise ``OSError``."""
    c_library.call("unshare", flags, path="unshare")


def make_mounts_private() -> None:
    """Hide later mounts of this namespace from other namespaces. Raise ``OSError``."""
    c_library.call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None, path="/")


def mount(kind: str, target: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system of a kind. Raise ``OSError``."""
    name, path = kind.encode(), f"{kind} on {target}"
    c_library.call("mount", name, os.fsencode(target), name, ctypes.c_ulong(flags), data.encode(), path=path)


def bind(source: str, target: str, flags: int | None = None, *, recursive: bool = False) -> None:
    """Make a file or directory ``source`` visible at ``target`` too, to build a root of parts of the machine's.

    ``flags``: those of the mount at ``target``, None: those of the mount of ``source``. ``recursive``: with all mounts
    beneath ``source``.
    """
    first, point = ctypes.c_ulong(_BIND | (_RECURSIVE if recursive else 0)), os.fsencode(target)
    c_library.call("mount", os.fsencode(source), point, None, first, None, path=target)
    if flags is not None:  # the kernel ignores them in the first call
        c_library.call("mount", None, point, None, ctypes.c_ulong(_BIND | _REMOUNT | flags), None, path=target)


def make_read_only(target: str) -> None:
    """Make a mount and all mounts beneath it read-only, such as the machine's ``/sys`` on an overlay.

    The kernel finds the mounts beneath it itself. Raise ``OSError``; ``ENOSYS`` before Linux 5.12.
    """
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    arguments = os.fsencode(target), _AT_RECURSIVE, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes))
    c_library.call("syscall", _MOUNT_SETATTR, _AT_CWD, *arguments, path=target)


def unmount(target: str) -> None:
    """Remove a mount at once, even while it is in use. Raise ``OSError``."""
    c_library.call("umount2", os.fsencode(target), _DETACH, path=target)


def change_root(directory: str) -> None:
    """Make a mounted directory the root of this mount namespace, so that no path leads to the former one.

    Raise ``OSError``.
    """
    os.chdir(directory)
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(f"pivot_root is not known for {machine}")
    c_library.call("syscall", _PIVOT_ROOT[machine], b".", b".", path="pivot_root")
    unmount(".")  # the former root, now mounted over the new one: pivot_root(2)
    os.chdir("/")


def start_loopback() -> None:
    """Start the interface ``lo`` of a new network namespace. Raise ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14s", b"lo", _UP, b""))


def drop_capabilities(numbers: Iterable[int]) -> None:
    """Drop capabilities, by number, permanently from all sets of this process and descendants. Raise ``OSError``."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable, for the capabilities from 0 and from 32 on.
    sets = (ctypes.c_uint32 * 6)()
    c_library.call("capget", ctypes.byref(header), ctypes.byref(sets), path="capget")
    for number in numbers:
        try:
            c_library.prctl(_DROP_BOUND, number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a capability unknown to the kernel, which no process has
                raise
        # Of three 32-bit words for each half of the numbers: capability 35 is bit 3 of the words from 3 on.
        for index in range(3):
            sets[3 * (number // 32) + index] &= ~(1 << number % 32)
    with suppress(OSError):  # before Linux 4.3 there is no ambient set
        c_library.prctl(*_CLEAR_AMBIENT)
    c_library.call("capset", ctypes.byref(header), ctypes.byref(sets), path="capset")


#: Settings in ``/proc/sys`` that forbid users to make namespaces, or to mount in them, and their values.
_FORBIDDING: Final = {
    "user/max_user_namespaces": "0",
    # Debian and its relatives.
    "kernel/unprivileged_userns_clone": "0",
    # Ubuntu.
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}


def unshare_as_user(flags: int) -> None:
    """Move this process of a user other than root to new namespaces, in which it may mount: user_namespaces(7).

    There it has all capabilities, but none that counts outside. User and group stay the same; files of all other users
    seem to belong to ``unknown_user``. Raise ``OSError`` with the setting of the system that forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(NEW_USERS | flags)
        # The kernel wants ``setgroups`` denied before a user may map a group.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        make_mounts_private()
        # A trial: some systems allow users namespaces, and refuse them mounts there.
        mount("tmpfs", "/proc")
        unmount("/proc")
    except OSError as error:
        raise OSError(error.errno, f"a user who is not root {_reason(error)}") from error


def unknown_user() -> int:
    """Return the number of all users without one in this namespace, root included. Raise ``OSError``."""
    with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
        return int(file.read())


def _reason(error: OSError) -> str:
    """Return why the kernel refuses namespaces: the setting that forbids them, or the error itself."""
    for name, value in _FORBIDDING.items():
        try:
            with open(f"/proc/sys/{name}", encoding="ascii") as file:
                if file.read().strip() == value:
                    return f"may not make namespaces: /proc/sys/{name} is {value}"
        except OSError:
            continue
    return f"may not make namespaces: {error.filename}: {error.strerror}"
