"""The invocation of a program, its user, and the steps of a forked child up to exec; ``process`` forks it. Linux only.

The child itself takes on the identity of another user. No helper program such as ``su`` runs in between: it would be
root with the environment of the user's program, and the user could choose its code by LD_PRELOAD.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import signal
import struct
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from resource_api.model.values.start_up import NamedTuple
from resource_api.system import c_library
from resource_api.system.process import process_tree

# Imported whole: a module loaded late would be loaded in the forked child, when it cannot read our files any more.
from resource_api.system.process.core_dumps import restore_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

_LAST_STANDARD_STREAM: Final = 2
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


def find_identity(user: str) -> Identity:
    """Return user, group, all groups and home of an account, to run a program as. Raise ``KeyError`` for no account."""
    account = pwd.getpwnam(user)
    groups = tuple(os.getgrouplist(user, account.pw_gid))
    return Identity(user, account.pw_uid, account.pw_gid, groups=groups, home=account.pw_dir, shell=account.pw_shell)


def is_own_user(user: str) -> bool:
    """Return whether this process runs as the user called ``user``, so that a program needs no change of user."""
    try:
        return find_identity(user).is_own
    except KeyError:
        return False


class Invocation(NamedTuple):
    """A program to run: its absolute path, arguments (surrogate escapes for bytes), and whole environment.

    ``identity`` is the user to run it as, None: this process's user. It reads from the descriptor ``stdin``, or from
    ``input`` if that is None.
    """

    path: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    input: bytes | None = None
    identity: Identity | None = None
    stdin: int | None = None
    #: Whether it changes nothing.
    reading: bool = False
    #: Called in a process between this one and the program, with the process id of the program.
    guard: Callable[[int], NoReturn] | None = None


def prepare() -> None:
    """Load and compute everything that the child needs: loading a library in a forked child is not safe."""
    process_tree.prepare()
    signals()


@cache
def signals() -> Sequence[int]:
    """Return the number of every signal that a process may handle; as plain numbers they are fast to pass on."""
    return sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def open_stdin(invocation: Invocation) -> int:
    """Return a new descriptor for a program's standard input: that of the invocation, its input, or ``/dev/null``."""
    if invocation.stdin is not None:
        return above_standard_streams(os.dup(invocation.stdin))
    data = invocation.input
    if data is None:
        return above_standard_streams(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    # A file in memory: a pipe holds only 64 KiB, and nobody would write the rest while the program runs.
    fd = above_standard_streams(os.memfd_create("input", os.MFD_CLOEXEC))
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def above_standard_streams(fd: int) -> int:
    """Return ``fd``, or a duplicate above 2 if it is 0, 1 or 2, for a descriptor to pass to a child.

    A new descriptor gets such a number if a standard stream of this process is closed. In the child its own standard
    streams would replace it.
    """
    if fd > _LAST_STANDARD_STREAM:
        return fd
    moved, null = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD_STREAM + 1), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)  # it stays open there: a descriptor that ``sh`` opens next would get the number
    if null > _LAST_STANDARD_STREAM:
        os.close(null)
    return moved


def handled_signals() -> Sequence[int]:
    """Return the signals that this process handles or ignores, for its child to reset; call this before a fork."""
    return [number for number in signals() if signal.getsignal(number) is not signal.SIG_DFL]


def enter(parent: int, handled: Sequence[int]) -> None:
    """Prepare the child for exec, so that its program depends on no setting of the run and does not outlive it.

    It ends with ``parent``, adopts orphans of its program, and gets default signals, umask and limit of core dumps.
    ``handled``: the parent's ``handled_signals``; to reset only these is faster than to reset all.
    """
    process_tree.end_with(parent)
    process_tree.adopt_orphans()
    os.umask(0o022)
    restore_limit()
    for number in handled:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def execute(
    invocation: Invocation,
    report: int,
    parent: int,
    handled: Sequence[int],
    streams: Sequence[int] = (),
    *,
    go: int | None = None,
) -> NoReturn:
    """Execute the program in the child, perhaps as another user; never return.

    ``streams``: its new standard streams, for which it starts a session; empty if ``sh`` has set them. ``report``: the
    descriptor to which the number of an error is written. ``go``: a descriptor from which the child awaits a byte of
    its parent before it goes on; it exits if the parent closes the pipe. ``parent``: the process with which it ends;
    ``handled``: the ``handled_signals`` of that. All other descriptors are closed before a change of identity, and the
    directory is entered after it, so that the user's rights decide.
    """
    try:
        if streams:
            os.setsid()
        for standard, stream in enumerate(streams):
            os.dup2(stream, standard)
        if invocation.guard is not None:
            parent = _fork_guarded(invocation.guard, parent)
        close_all_but({0, 1, 2, report, go})
        if go is not None:
            if not os.read(go, 1):
                os._exit(255)
            os.close(go)
        if invocation.identity is not None:
            _assume(invocation.identity)
        os.chdir(invocation.cwd)
        # Only now: a change of identity would undo it.
        enter(parent, handled)
        words = [_encoded(word) for word in (invocation.path, *invocation.arguments)]
        variables = {_encoded(name): _encoded(value) for name, value in invocation.env.items()}
        os.execve(words[0], words, variables)  # noqa: S606 - as the module does with sh
    except BaseException as error:  # noqa: BLE001 - a forked child must not continue as its parent
        number = error.errno if isinstance(error, OSError) else None
        os.write(report, str(number or errno.EINVAL).encode())
    finally:
        os._exit(255)


def _fork_guarded(guard: Callable[[int], NoReturn], parent: int) -> int:
    """Fork again, so that a guardian can end the orphans of a program that crashes.

    The calling process becomes the guardian and never returns: it ends with ``parent``, adopts the child's orphans, and
    calls ``guard`` with the child's process id. Only the child returns, with the guardian's process id.
    """
    process_tree.end_with(parent)
    process_tree.adopt_orphans()
    guardian = os.getpid()
    if program := os.fork():
        guard(program)
    return guardian


def _assume(identity: Identity) -> None:
    """Change the user, groups and keyring of this process, a forked child, to those of ``identity``, permanently.

    Until exec it contains its parent's memory, with secrets, so the user must not be able to trace it: ``dumpable``
    forbids that, and is set twice because a change of identity may reset it to the system's default (prctl(2)). Raise
    ``OSError``.
    """
    c_library.prctl(c_library.SET_DUMPABLE)
    join_new_session_keyring()
    os.setgroups(identity.groups)
    os.setresgid(*[identity.gid] * 3)
    os.setresuid(*[identity.uid] * 3)
    c_library.prctl(c_library.SET_DUMPABLE)
    c_library.call("capset", _CAPABILITY_HEADER, _NO_CAPABILITIES)
    # The program must never run with rights that remain by mistake.
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


def close_all_but(descriptors: Container[int | None]) -> None:
    """Close all descriptors of this process except ``descriptors``: a program must not inherit any other."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in descriptors:
            with suppress(OSError):  # the listing's descriptor is closed already
                os.close(int(name))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
