"""Build a root directory whose files are those of this machine, and whose changes are kept in memory.

What is written on the file systems of the machine goes to one tmpfs, which is bounded; ``/proc``, ``/sys``, ``/dev``
and ``/run`` are made anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.system.overlay import mount_overlays, namespaces
from resource_api.system.overlay.mount_overlays import BASE, LAYERS, ROOT
from resource_api.system.overlay.namespaces import NO_DEVICES, NO_EXECUTION, NO_SETUID, READ_ONLY, bind, mount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.system.overlay.mount_table import Mount

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_NO_PROGRAMS: Final = NO_SETUID | NO_DEVICES | NO_EXECUTION
_NAMESERVERS: Final = "/etc/resolv.conf"


def build(mounts: Sequence[Mount], size: str) -> int:
    """Build the root and change to it; return a descriptor of the directory that holds the upper layers.

    In private mounts. ``size`` bounds all that is written, as for tmpfs(5). Raise ``OSError``.
    """
    nameservers = _nameservers()
    mount("tmpfs", BASE, NO_DEVICES, f"size={size},mode=755")
    os.mkdir(ROOT)
    os.mkdir(LAYERS)
    if os.geteuid() == 0:
        mount_overlays.cover_as_root(mounts)
    else:
        mount_overlays.cover_as_user(mounts)
    _make_proc()
    bind("/sys", f"{ROOT}/sys", recursive=True)
    namespaces.make_read_only(f"{ROOT}/sys")
    _make_dev()
    _make_run(nameservers)
    layers = os.open(LAYERS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    namespaces.change_root(ROOT)
    return layers


def _make_proc() -> None:
    """Mount a ``/proc`` of the new processes, in which nothing can be written but what belongs to one of them."""
    proc = f"{ROOT}/proc"
    try:
        mount("proc", proc, _NO_PROGRAMS)
    except PermissionError as error:
        msg = "/proc: parts of it are hidden, as in a container; only root can mount another one"
        raise OSError(error.errno, msg) from error
    for name in os.listdir(proc):
        path = f"{proc}/{name}"
        if not (name.isdecimal() or os.path.islink(path)):
            bind(path, path, _NO_PROGRAMS | READ_ONLY)


def _make_dev() -> None:
    made, dev = f"{BASE}/dev", f"{ROOT}/dev"
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
    made, run = f"{BASE}/run", f"{ROOT}/run"
    os.mkdir(made)
    os.mkdir(f"{made}/rehearsal", 0o700)
    os.mkdir(f"{made}/lock")
    os.chmod(f"{made}/lock", 0o1777)  # noqa: S103 - as everywhere
    bind(made, run)
    if user := os.geteuid():
        os.makedirs(f"{made}/user/{user}", 0o700)
        os.chmod(f"{made}/user", 0o555)  # noqa: S103 - as above
        os.chmod(made, 0o555)  # noqa: S103 - as above
    if nameservers is not None:
        path = f"{ROOT}{os.path.realpath(_NAMESERVERS)}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(nameservers)


def _nameservers() -> bytes | None:
    """Return what ``/etc/resolv.conf`` holds if that is a link into ``/run``."""
    if os.path.realpath(_NAMESERVERS).startswith(f"{BASE}/"):
        with suppress(OSError), open(_NAMESERVERS, "rb") as file:
            return file.read()
    return None
