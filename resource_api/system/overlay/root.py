"""Build a root directory whose files are those of this machine, and whose changes are kept in memory.

What is written on the file systems of the machine goes to one tmpfs, which is bounded; ``/proc``, ``/sys``, ``/dev``
and ``/run`` are made anew.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.filesystem.directories import opened
from resource_api.system.overlay import namespaces
from resource_api.system.overlay.namespaces import NO_DEVICES, NO_EXECUTION, NO_SETUID, READ_ONLY, bind, mount

if TYPE_CHECKING:
    from collections.abc import Sequence


#: What an overlay has of its own.
REPLACED: Final = ("/proc", "/sys", "/dev", "/run")
#: Kinds of file systems that show the kernel or the network, wherever they are mounted.
_HIDDEN: Final = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs"}
)
#: Kinds of file systems that are kept elsewhere, or may be.
_SHARED: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
)
_FLAGS: Final = {
    "ro": namespaces.READ_ONLY,
    "nosuid": namespaces.NO_SETUID,
    "nodev": namespaces.NO_DEVICES,
    "noexec": namespaces.NO_EXECUTION,
}


class Mount(NamedTuple):
    """One mounted file system."""

    place: str
    kind: str
    #: Its flags, as for mount(2).
    flags: int

    @property
    def kept(self) -> bool:
        """Whether an overlay takes it over."""
        below = any(self.place == each or self.place.startswith(f"{each}/") for each in REPLACED)
        return not (below or self.kind in _HIDDEN)

    @property
    def writable(self) -> bool:
        """Whether what is written there is written on a disk or in the memory of this machine."""
        shared = self.kind in _SHARED or self.kind.startswith("fuse")
        return not (shared or self.flags & namespaces.READ_ONLY)


def mounts() -> Sequence[Mount]:
    """Return the mounts, outer ones first. Raise ``OSError``."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        # The root of chroot(2) need not be a mount.
        found = {"/": Mount("/", "", 0), **{mount.place: mount for mount in map(_parse, file)}}
    return [found[place] for place in sorted(found)]


def _parse(line: str) -> Mount:
    """Return a line of ``/proc/self/mountinfo`` as a mount; proc(5) has the format."""
    mine, _, its = line.partition(" - ")
    fields = mine.split(" ")
    flags = 0
    for option in (*fields[5].split(","), *its.split(" ")[2].strip().split(",")):
        flags |= _FLAGS.get(option, 0)
    place = os.fsencode(fields[4]).decode("unicode_escape").encode("latin-1")
    return Mount(os.fsdecode(place), its.split(" ")[0], flags)


#: Where the tmpfs is mounted while the root is built: nothing of it is taken over, and every machine has it.
BASE: Final = "/run"
ROOT: Final = f"{BASE}/root"
LAYERS: Final = f"{BASE}/layers"
#: Directories in which everybody may write, below those of root, which an overlay of another user cannot copy.
_OF_EVERYBODY: Final = ("/var/tmp",)  # noqa: S108 - nothing is written there


def cover_as_root(found: Sequence[Mount]) -> None:
    """Mount all that is taken over of the machine below ``ROOT``. Raise ``OSError``."""
    for each in found:
        if each.kept and os.path.exists(f"{ROOT}{each.place}"):  # otherwise another mount hides it
            _cover(each.place, each, "")


def cover_as_user(found: Sequence[Mount]) -> None:
    """Do the same as another user than root. Raise ``OSError``."""
    try:
        os.setxattr(LAYERS, "user.overlay.", b"")
    except OSError as error:
        raise OSError(
            error.errno, "a user who is not root needs Linux 6.6, for attributes of files in memory"
        ) from error
    mounts = {each.place: each for each in found}
    used = filter(os.path.isdir, (os.getcwd(), os.path.expanduser("~")))
    places = (*mounts, *_OF_EVERYBODY, *map(_where_to_cover, used))
    divided = {above for place in places for above in _above(place)} - {*REPLACED}
    bind(ROOT, ROOT)  # a root must be a mount
    waiting = [("/", mounts["/"])]
    while waiting:
        directory, on = waiting.pop()
        with suppress(PermissionError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.path in divided and entry.is_dir(follow_symlinks=False):
                    os.mkdir(f"{ROOT}{entry.path}")
                    waiting.append((entry.path, mounts.get(entry.path, on)))
                else:
                    _take_over(entry, mounts.get(entry.path, on))
        os.chmod(f"{ROOT}{directory}", _mode(directory))


def _above(place: str) -> list[str]:
    """Return all directories that contain a path: ``/`` and ``/var`` for ``/var/tmp``."""
    parts = place.split("/")
    return ["/".join(parts[:count]) or "/" for count in range(1, len(parts))] if place != "/" else []


def _where_to_cover(path: str) -> str:
    """Return the directory that must have an overlay of its own, so that the user can write in ``path`` or beneath.

    An overlay of a user makes a copy of each directory between its root and a change: all of them must be the user's.
    """
    way = [*_above(path), path]
    own = (number for number, place in enumerate(way) if os.stat(place).st_uid == os.geteuid())
    place = way[max(next(own, len(way)) - 1, 0)]
    # What the user can write to is not divided: what is made in it would not be reported.
    return "/" if any(os.access(above, os.W_OK) for above in _above(place)) else place


def _take_over(entry: os.DirEntry[str], on: Mount) -> None:
    """Cover what a directory contains. Only what is a file or a directory: a socket would lead to who listens."""
    target = f"{ROOT}{entry.path}"
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
    elif entry.is_dir():
        os.mkdir(target)
        if on.kept and entry.path not in REPLACED:
            _cover(entry.path, on, "userxattr,")
    elif entry.is_file():
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        bind(entry.path, target, on.flags | NO_DEVICES | READ_ONLY)


def _cover(place: str, on: Mount, options: str) -> None:
    """Mount an overlay of what is at a path, a read-only one unless its mount ``on`` is writable.

    What is read-only is covered too, because who listens on a socket could be reached otherwise.
    """
    flags = on.flags | NO_DEVICES | (0 if on.writable else READ_ONLY)
    if os.path.isdir(place):
        try:
            _overlay(place, flags, options)
        except OSError:  # not every kind of file system can be below an overlay
            if on.place == "/":
                raise
        else:
            return
    elif not os.path.isfile(place):
        return
    bind(place, f"{ROOT}{place}", flags | READ_ONLY)


def _overlay(place: str, flags: int, options: str) -> None:
    made = f"{LAYERS}/{len(os.listdir(LAYERS))}"
    upper, work = f"{made}/upper", f"{made}/work"
    for directory in (made, upper, work):
        os.mkdir(directory)
    about = os.stat(place)
    if os.geteuid() == 0:  # anybody else owns all that is made
        os.chown(upper, about.st_uid, about.st_gid)
    os.chmod(upper, _mode(place))
    os.symlink(place, f"{made}/place")
    # A number, because options of a mount are separated by commas, which a path may contain.
    with opened(place, os.O_PATH) as descriptor:
        layers = f"lowerdir=/proc/self/fd/{descriptor},upperdir={upper},workdir={work}"
        mount("overlay", f"{ROOT}{place}", flags, options + layers)


def _mode(place: str) -> int:
    """Return the mode of a directory without what this user may not do, who will own it. As root, the mode."""
    mode = stat.S_IMODE(os.stat(place).st_mode)
    for may, bits in ((os.R_OK, 0o444), (os.W_OK, 0o222), (os.X_OK, 0o111)):
        if not os.access(place, may):
            mode &= ~bits
    return mode


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
        cover_as_root(mounts)
    else:
        cover_as_user(mounts)
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
