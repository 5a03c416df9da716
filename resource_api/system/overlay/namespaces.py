"""Call the system for namespaces, mounts and capabilities, which Python 3.11 does not offer."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

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
_SET_DEATH_SIGNAL: Final = 1
_DROP_BOUND: Final = 24
_AMBIENT: Final = (47, 4)
_SIGKILL: Final = 9
_MOUNT_SETATTR: Final = 442
_AT_CWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "s390x": 217, "ppc64le": 203}
# ioctl(2) of netdevice(7): set the flags of an interface; the flag of an interface that is up.
_SET_FLAGS: Final = 0x8914
_UP: Final = 0x1
_CAPABILITY_VERSION: Final = 0x20080522

_libc: Final = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this process, or its children for a new process table, to new namespaces. Raise ``OSError``."""
    _checked("unshare", _libc.unshare(flags))


def make_mounts_private() -> None:
    """Hide later mounts of this namespace from other namespaces. Raise ``OSError``."""
    _checked("/", _libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))


def mount(kind: str, target: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system of a kind. Raise ``OSError``."""
    name = kind.encode()
    _checked(f"{kind} on {target}", _libc.mount(name, os.fsencode(target), name, ctypes.c_ulong(flags), data.encode()))


def bind(source: str, target: str, flags: int | None = None, *, recursive: bool = False) -> None:
    """Mount a file or directory at a second path, with other ``flags`` unless None. Raise ``OSError``."""
    how = _BIND | (_RECURSIVE if recursive else 0)
    _checked(target, _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(how), None))
    if flags is not None:
        how = _BIND | _REMOUNT | flags
        _checked(target, _libc.mount(None, os.fsencode(target), None, ctypes.c_ulong(how), None))


def make_read_only(target: str) -> None:
    """Make a mount and all mounts beneath it read-only. Raise ``OSError``; ``ENOSYS`` before Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    path = os.fsencode(target)
    _checked(target, _libc.syscall(_MOUNT_SETATTR, _AT_CWD, path, _AT_RECURSIVE, ctypes.byref(attributes), size))


def unmount(target: str) -> None:
    """Remove a mount at once, even while it is in use. Raise ``OSError``."""
    _checked(target, _libc.umount2(os.fsencode(target), _DETACH))


def change_root(directory: str) -> None:
    """Make a mounted directory the root, and leave the former root. Raise ``OSError``."""
    os.chdir(directory)
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        msg = f"pivot_root is not known for {machine}"
        raise OSError(msg)
    _checked("pivot_root", _libc.syscall(_PIVOT_ROOT[machine], b".", b"."))
    unmount(".")
    os.chdir("/")


def start_loopback() -> None:
    """Start the interface ``lo`` of a new network namespace. Raise ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14s", b"lo", _UP, b""))


def die_with(parent: int, number: int = _SIGKILL) -> None:
    """Send this process a signal when its parent dies, or at once if ``parent`` is no longer its parent."""
    _checked("prctl", _libc.prctl(_SET_DEATH_SIGNAL, number, 0, 0, 0))
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def drop_capabilities(numbers: Iterable[int]) -> None:
    """Drop capabilities of this process and its descendants permanently. Raise ``OSError``."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable, for the capabilities from 0 and from 32 on.
    sets = (ctypes.c_uint32 * 6)()
    _checked("capget", _libc.capget(ctypes.byref(header), ctypes.byref(sets)))
    for number in numbers:
        # A capability unknown to the kernel cannot be dropped, and no process has it.
        if _libc.prctl(_DROP_BOUND, number, 0, 0, 0) and ctypes.get_errno() != errno.EINVAL:
            _checked("prctl", -1)
        for index in range(3):
            sets[3 * (number // 32) + index] &= ~(1 << number % 32)
    _libc.prctl(*_AMBIENT, 0, 0, 0)
    _checked("capset", _libc.capset(ctypes.byref(header), ctypes.byref(sets)))


def _checked(name: str, result: int) -> None:
    """Raise ``OSError`` with ``name`` for a failed call."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


#: Settings in ``/proc/sys`` that forbid users to make namespaces, or to mount in them, and their values.
_FORBIDDING: Final = {
    "user/max_user_namespaces": "0",
    # Debian and its relatives.
    "kernel/unprivileged_userns_clone": "0",
    # Ubuntu.
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}


def unshare_as_user(flags: int) -> None:
    """Move this process of a user other than root to a new user namespace, user_namespaces(7), and other new ones.

    It keeps its user and group there and has all capabilities; files of other users have ``unknown_user``. Raise
    ``OSError`` with the setting that forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(NEW_USERS | flags)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        make_mounts_private()
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
