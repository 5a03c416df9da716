"""Namespaces for tests that change what belongs to the machine: entered by one thread, left whatever happens."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.system.process.program_checks import SECURE_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOUNTS: Final = 0x20000
_NAME: Final = 0x4000000
_NETWORK: Final = 0x40000000
_DIRECTORIES: Final = 0x200
_SYS_ADMIN: Final = 1 << 21
_BIND: Final = 0x1000
_DETACH: Final = 0x2
_RECURSIVELY_PRIVATE: Final = 0x4000 | 1 << 18


@contextmanager
def private_mounts() -> Iterator[None]:
    """Let what is mounted be seen by this thread and its child processes, and by nobody else."""
    with _unshared({"mnt": _MOUNTS}):
        yield


@contextmanager
def private_kernel() -> Iterator[None]:
    """Let this thread and what it starts have mounts, a network without interfaces, and a host name of their own."""
    with _unshared({"mnt": _MOUNTS, "net": _NETWORK, "uts": _NAME}):
        yield


@contextmanager
def _unshared(kinds: Mapping[str, int]) -> Iterator[None]:
    libc, here = ctypes.CDLL(None, use_errno=True), Path.cwd()
    before = {kind: os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}
    try:
        assert libc.unshare(sum(kinds.values())) == 0, os.strerror(ctypes.get_errno())
        try:
            assert libc.mount(None, b"/", None, _RECURSIVELY_PRIVATE, None) == 0, os.strerror(ctypes.get_errno())
            yield
        finally:
            # A thread that still runs has our directory and root in common with us; who has that cannot go back.
            assert libc.unshare(_DIRECTORIES) == 0, os.strerror(ctypes.get_errno())
            for kind, flag in kinds.items():
                assert libc.setns(before[kind], flag) == 0, os.strerror(ctypes.get_errno())
    finally:
        for namespace in before.values():
            os.close(namespace)
        os.chdir(here)


def bind(source: Path, target: str) -> None:
    """Mount a directory over another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(os.fsencode(source), target.encode(), None, _BIND, None) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def without_program(name: str) -> Iterator[None]:
    """Hide a program of the system from this thread and its child processes, where the machine has it."""
    programs = [path for directory in SECURE_PATH.split(":") if (path := Path(directory, name)).exists()]
    if not programs:
        yield
        return
    with private_mounts():
        for program in programs:
            bind(Path("/dev/null"), str(program))
        yield


def may_mount() -> bool:
    """Return whether this process may mount file systems; in many containers root may not (capabilities(7))."""
    match = re.search(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) & _SYS_ADMIN)


def mount_memory(target: str) -> None:
    """Mount an empty file system in memory over a directory."""
    libc = ctypes.CDLL(None, use_errno=True)
    data = b"mode=0700,size=75%"
    assert libc.mount(b"tmpfs", target.encode(), b"tmpfs", 0, data) == 0, os.strerror(ctypes.get_errno())


def unmount(target: str) -> None:
    """Remove a mount at once, also while it is in use."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.umount2(target.encode(), _DETACH) == 0, os.strerror(ctypes.get_errno())
