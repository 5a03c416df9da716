"""Run a program as another user: read the account, and change the identity of a child before it executes anything.

The change happens in the child of this process, after fork and before exec. No other program runs on the way: it would
be root with the environment that is meant for the user's program, and the user could choose its code by LD_PRELOAD.
How a child is started must not enter here. Needs Linux.
"""

from __future__ import annotations

import errno
import os
import pwd
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.process import process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEYCTL_JOIN_SESSION_KEYRING: Final = 1
#: The number of the system call keyctl(2), which has no function in the C library, by machine.
_KEYCTL: Final = {
    "x86_64": 250,
    "aarch64": 219,
    "riscv64": 219,
    "i686": 288,
    "armv7l": 311,
    "ppc64le": 271,
    "s390x": 280,
}
#: Version 3 and thread 0, the calling one (capset(2)); three empty sets of 64 bits.
_CAPABILITY_HEADER: Final = struct.pack("=Ii", 0x20080522, 0)
_NO_CAPABILITIES: Final = bytes(24)


class Identity(NamedTuple):
    """A user as whom a program is run, with all groups, and what is in the account."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def is_own(self) -> bool:
        """Whether this process runs as that user already."""
        return self.uid == os.geteuid()

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that login(1) would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def find(user: str) -> Identity:
    """Return the identity of an account. Raise ``KeyError`` when there is none of that name."""
    account = pwd.getpwnam(user)
    groups = tuple(os.getgrouplist(user, account.pw_gid))
    return Identity(user, account.pw_uid, account.pw_gid, groups, account.pw_dir, account.pw_shell)


def is_own(user: str) -> bool:
    """Return whether this process runs as the user of that name."""
    try:
        return find(user).is_own
    except KeyError:
        return False


def prepare() -> None:
    """Load what ``assume`` needs: loading it in a forked child is not safe."""
    process_tree.prepare()
    _capset()
    _libc()


def assume(identity: Identity) -> None:
    """Make this process, a forked child without descriptors of its parent, that user for good. Raise ``OSError``.

    Until it executes a program it contains the memory of its parent. The user must therefore not trace it: the kernel
    decides by ``dumpable``, which a change of identity may set to the system's default (prctl(2)).
    """
    prctl = process_tree.prepare()
    prctl(process_tree.SET_DUMPABLE, 0, 0, 0, 0)
    join_new_session_keyring()
    os.setgroups(identity.groups)
    os.setresgid(*[identity.gid] * 3)
    os.setresuid(*[identity.uid] * 3)
    prctl(process_tree.SET_DUMPABLE, 0, 0, 0, 0)
    if _capset()(_CAPABILITY_HEADER, _NO_CAPABILITIES) != 0 or os.getresuid() != (identity.uid,) * 3:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def join_new_session_keyring() -> None:
    """Leave the caller's session keyring: a process that possesses it may read its keys (keyctl(2)).

    A kernel without keyrings, and a sandbox that forbids the call, have no such keyring. Raise ``OSError`` otherwise.
    """
    call = _KEYCTL.get(os.uname().machine)
    if call is not None:
        libc, get_errno = _libc()
        if libc.syscall(call, _KEYCTL_JOIN_SESSION_KEYRING, None) == -1 and (
            (number := get_errno()) not in {errno.ENOSYS, errno.EPERM}
        ):
            raise OSError(number, os.strerror(number))


@cache
def _libc() -> tuple[Any, Callable[[], int]]:
    import ctypes

    return ctypes.CDLL(None, use_errno=True), ctypes.get_errno


@cache
def _capset() -> Any:
    import ctypes

    return ctypes.CDLL(None).capset
