"""Look up an account, and change the identity of a forked child to it before exec. Linux only.

No helper program such as ``su`` runs in between: it would be root with the environment of the user's program, and the
user could choose its code by LD_PRELOAD.
"""

from __future__ import annotations

import errno
import os
import pwd
import struct
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.system import c_library

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """A user to run a program as: the account's fields, and all groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def is_own(self) -> bool:
        """Whether this process already runs as that user."""
        return self.uid == os.geteuid()

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that login(1) would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def find(user: str) -> Identity:
    """Return the identity of an account. Raise ``KeyError`` for an unknown name."""
    account = pwd.getpwnam(user)
    groups = tuple(os.getgrouplist(user, account.pw_gid))
    return Identity(user, account.pw_uid, account.pw_gid, groups=groups, home=account.pw_dir, shell=account.pw_shell)


def is_own(user: str) -> bool:
    """Return whether this process runs as the user called ``user``."""
    try:
        return find(user).is_own
    except KeyError:
        return False


def assume(identity: Identity) -> None:
    """Make this process, a forked child without descriptors of its parent, that user permanently. Raise ``OSError``.

    Until exec it contains its parent's memory, so the user must not be able to trace it: ``dumpable`` forbids that, and
    is set twice because a change of identity may reset it to the system's default (prctl(2)).
    """
    c_library.prctl(c_library.SET_DUMPABLE)
    join_new_session_keyring()
    os.setgroups(identity.groups)
    os.setresgid(*[identity.gid] * 3)
    os.setresuid(*[identity.uid] * 3)
    c_library.prctl(c_library.SET_DUMPABLE)
    c_library.call("capset", _CAPABILITY_HEADER, _NO_CAPABILITIES)
    if os.getresuid() != (identity.uid,) * 3:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def join_new_session_keyring() -> None:
    """Leave the caller's session keyring: a process that possesses it may read its keys (keyctl(2)).

    Do nothing where the kernel has no keyrings or a sandbox forbids the call. Raise ``OSError`` for other failures.
    """
    call = _KEYCTL.get(os.uname().machine)
    if call is not None:
        try:
            c_library.call("syscall", call, _KEYCTL_JOIN_SESSION_KEYRING, None)
        except OSError as error:
            if error.errno not in {errno.ENOSYS, errno.EPERM}:
                raise
