"""Build a root directory whose files are those of this machine, and whose changes are kept in memory.

Each writable file system has an overlay with an upper layer on one tmpfs, which is bounded; what is shared with other
machines is read-only; ``/proc``, ``/sys``, ``/dev`` and ``/run`` are made anew.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.overlay import namespaces
from resource_api.system.overlay.namespaces import NO_DEVICES, NO_EXECUTION, NO_SETUID, READ_ONLY, bind, mount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.system.overlay.mount_table import Mount

#: Where the tmpfs is mounted while the root is built: nothing of it is taken over, and every machine has it.
_BASE: Final = "/run"
_ROOT: Final = f"{_BASE}/root"
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_NO_PROGRAMS: Final = NO_SETUID | NO_DEVICES | NO_EXECUTION
_NAMESERVERS: Final = "/etc/resolv.conf"


def build(mounts: Sequence[Mount], size: str) -> int:
    """Build the root and change to it; return a descriptor of the directory that holds the upper layers.

    ``size`` bounds all that is written, as for tmpfs(5). Raise ``OSError``.
    """
    namespaces.make_mounts_private()
    nameservers = _nameservers()
    places = [(each, os.open(each.place, os.O_PATH)) for each in mounts]
    mount("tmpfs", _BASE, NO_DEVICES, f"size={size},mode=755")
    os.mkdir(_ROOT)
    os.mkdir(f"{_BASE}/layers")
    _overlay("/", "/", _ROOT, NO_DEVICES)
    for each, descriptor in places:
        _take_over(each, f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
    _make_proc()
    bind("/sys", f"{_ROOT}/sys", recursive=True)
    namespaces.make_read_only(f"{_ROOT}/sys")
    _make_dev()
    _make_run(nameservers)
    layers = os.open(f"{_BASE}/layers", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    namespaces.change_root(_ROOT)
    return layers


def _overlay(lower: str, place: str, target: str, flags: int) -> None:
    """Mount an overlay over the directory ``lower``, which is known as ``place``."""
    # A number, because options of a mount are separated by commas, which a path may contain.
    made = f"{_BASE}/layers/{len(os.listdir(f'{_BASE}/layers'))}"
    upper, work = f"{made}/upper", f"{made}/work"
    for directory in (made, upper, work):
        os.mkdir(directory)
    about = os.stat(lower)
    os.chown(upper, about.st_uid, about.st_gid)
    os.chmod(upper, stat.S_IMODE(about.st_mode))
    os.symlink(place, f"{made}/place")
    mount("overlay", target, flags, f"lowerdir={lower},upperdir={upper},workdir={work}")


def _take_over(found: Mount, source: str) -> None:
    target = f"{_ROOT}{found.place}"
    if not os.path.exists(target):
        return  # another mount hides it
    flags = found.flags | NO_DEVICES
    if found.writable and os.path.isdir(source):
        with suppress(OSError):  # not every kind of file system can be below an overlay
            _overlay(source, found.place, target, flags)
            return
    bind(source, target, flags | READ_ONLY)


def _make_proc() -> None:
    """Mount a ``/proc`` of the new processes, in which nothing can be written but what belongs to one of them."""
    proc = f"{_ROOT}/proc"
    mount("proc", proc, _NO_PROGRAMS)
    for name in os.listdir(proc):
        path = f"{proc}/{name}"
        if not (name.isdecimal() or os.path.islink(path)):
            bind(path, path, _NO_PROGRAMS | READ_ONLY)


def _make_dev() -> None:
    made, dev = f"{_BASE}/dev", f"{_ROOT}/dev"
    os.mkdir(made)
    bind(made, dev)
    for name in _DEVICES:
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        bind(f"/dev/{name}", f"{dev}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"{dev}/{name}")
        os.chmod(f"{dev}/{name}", mode)
    mount("devpts", f"{dev}/pts", NO_SETUID | NO_EXECUTION, "newinstance,ptmxmode=0666,mode=620")


def _make_run(nameservers: bytes | None) -> None:
    made, run = f"{_BASE}/run", f"{_ROOT}/run"
    os.mkdir(made)
    os.mkdir(f"{made}/lock")
    os.chmod(f"{made}/lock", 0o1777)  # noqa: S103 - as everywhere
    bind(made, run)
    if nameservers is not None:
        path = f"{_ROOT}{os.path.realpath(_NAMESERVERS)}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(nameservers)


def _nameservers() -> bytes | None:
    """Return what ``/etc/resolv.conf`` holds if that is a link into ``/run``."""
    if os.path.realpath(_NAMESERVERS).startswith(f"{_BASE}/"):
        with suppress(OSError), open(_NAMESERVERS, "rb") as file:
            return file.read()
    return None
