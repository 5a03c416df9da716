"""The mounts of this machine, and what becomes of each on an overlay."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.overlay import namespaces

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
