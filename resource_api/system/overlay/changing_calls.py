"""Stop a process and its descendants at each system call that changes a file, to count the calls or to kill the run.

The kernel asks this process before each call, seccomp_unotify(2). A kill of the whole run right before a call simulates
a crash of the machine. Writes to mapped memory are not seen.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import select
import signal
import socket
import stat
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.overlay import call_filters as bpf
from resource_api.system.overlay.isolated_run import IsolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Calls by name: the number on x86-64 and on arm64, None where there is none.
_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "write": (1, 64), "pwrite64": (18, 68), "writev": (20, 66), "pwritev": (296, 70), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "fallocate": (285, 47), "truncate": (76, 45), "ftruncate": (77, 46),
    "open": (2, None), "creat": (85, None), "openat": (257, 56),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
#: Call → index of the argument that is the descriptor to write to, which need not be a file.
_WRITES: Final = {"write": 0, "pwrite64": 0, "writev": 0, "pwritev": 0, "sendfile": 0, "copy_file_range": 2}
#: Call → index of the argument with the flags, which tell whether it creates or truncates a file.
_OPENS: Final = {"open": 1, "openat": 2}
_MAKES: Final = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
#: Machine → its column in the table, its number in filters, and the number of seccomp(2).
_MACHINES: Final = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}

_PASS, _HOLD = (bpf.RETURN, 0, 0, bpf.ALLOW), (bpf.RETURN, 0, 0, bpf.ASK)
# struct seccomp_data: the number of the call, the machine, the address of the instruction, six arguments.
_DATA: Final = "iIQ6Q"
_QUESTION: Final = struct.Struct(f"QII{_DATA}")
_ANSWER: Final = struct.Struct("QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE: Final = 1
#: Milliseconds between two calls of ``stopped``.
_PATIENCE: Final = 200


class Held(NamedTuple):
    """The end of a held run."""

    #: The number of changing calls, with the call at which it was killed.
    changes: int
    #: The program and the call at which it was killed, ``mv: rename``, or "".
    killed_at: str
    #: The exit code of the process, or None if it was killed.
    exit_code: int | None


def run(function: Callable[[], int], kill_at: int, section: Callable[[], int], stopped: Callable[[], bool]) -> Held:
    """Call ``function`` in a forked process, which exits with the returned code.

    All processes of this process table except this one and the first are killed right before changing call number
    ``kill_at`` (0: never), and when ``stopped`` returns True: call this on an overlay only. Consecutive calls for which
    ``section`` returns the same number, unless it is 0, count as one. Raise ``IsolationError`` if the kernel refuses.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = os.fork()
            if not child:
                _be_held(function, theirs)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        os.waitpid(child, 0)
        msg = "the kernel does not let system calls be watched: cuts cannot be made"
        raise IsolationError(msg)
    watched = os.pidfd_open(child)
    try:
        count, killed_at = _watch(descriptors[0], watched, kill_at, section, stopped)
        if kill := bool(killed_at) or stopped():
            os.kill(-1, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if kill:
            _kill_others()
    finally:
        os.close(watched)
        os.close(descriptors[0])
    return Held(count, killed_at, os.WEXITSTATUS(status) if os.WIFEXITED(status) else None)


def _be_held(function: Callable[[], int], channel: socket.socket) -> NoReturn:
    """Call ``function`` in the forked process, whose calls are held."""
    code = 1
    try:
        listener = _install()
        socket.send_fds(channel, [b"+"], [listener])
        os.close(listener)
        channel.close()
        code = function()
    finally:
        os._exit(code)


def _watch(
    listener: int, child: int, kill_at: int, section: Callable[[], int], stopped: Callable[[], bool]
) -> tuple[int, str]:
    """Answer the kernel until the child ends or must be killed; return the count, and the call to kill it at or ""."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    poller.register(child, select.POLLIN)
    names = _names()
    count = counted = 0
    while not stopped():
        ready = [descriptor for descriptor, _ in poller.poll(_PATIENCE)]
        if child in ready:
            break
        if listener not in ready or (question := _receive(listener)) is None:
            continue
        identifier, process, call, arguments = question
        name = names[call]
        part = section()
        if not (part and part == counted) and (name not in _WRITES or _is_file(process, arguments[_WRITES[name]])):
            count, counted = count + 1, part
            if count == kill_at:
                return count, f"{_program(process)}: {name}"
        with suppress(FileNotFoundError):  # the process was killed
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(identifier, 0, 0, _CONTINUE))
    return count, ""


def _receive(listener: int) -> tuple[int, int, int, tuple[int, ...]] | None:
    """Return a question (identifier, process, number of the call, arguments), or None if the process has ended."""
    buffer = bytearray(_QUESTION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.EINTR}:
            return None
        raise
    identifier, process, _, call, _, _, *arguments = _QUESTION.unpack(buffer)
    return identifier, process, call, tuple(arguments)


def _is_file(process: int, descriptor: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(f"/proc/{process}/fd/{descriptor & 0xFFFFFFFF}").st_mode)
    except OSError:  # it has ended, or runs as another user
        return False


def _program(process: int) -> str:
    try:
        with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a program"


def _kill_others() -> None:
    """Kill all other processes, until the first process of the table has reaped them."""
    with suppress(ProcessLookupError):
        while True:
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.001)


def _names() -> Mapping[int, str]:
    """Return this machine's numbers of calls, with their names. Raise ``IsolationError`` for an unknown machine."""
    if platform.machine() not in _MACHINES:
        msg = f"cuts need the numbers of system calls, which are known for x86-64 and arm64, not {platform.machine()}"
        raise IsolationError(msg)
    column = _MACHINES[platform.machine()][0]
    return {number: name for name, numbers in _CALLS.items() if (number := numbers[column]) is not None}


def _install() -> int:
    """Hold this process and its descendants from now on; return the listener."""
    _, machine, call = _MACHINES[platform.machine()]
    return bpf.install_with_listener(_filter(machine), call)


def _filter(machine: int) -> list[bpf.Instruction]:
    """Return the instructions that pass all calls but those of the table."""
    code = [(bpf.LOAD, 0, 0, bpf.MACHINE), (bpf.EQUAL, 1, 0, machine), _PASS, (bpf.LOAD, 0, 0, bpf.NUMBER)]
    for number, name in _names().items():
        if name in _OPENS:
            flags = bpf.ARGUMENTS + 8 * _OPENS[name]
            makes = [(bpf.LOAD, 0, 0, flags), (bpf.ANY_BIT, 0, 1, _MAKES), _HOLD, _PASS]
            code += [(bpf.EQUAL, 0, len(makes), number), *makes]
        else:
            code += [(bpf.EQUAL, 0, 1, number), _HOLD]
    return [*code, _PASS]
