"""Run a function in a process that has an overlay of this machine, and nothing else in common with it.

Three processes: one waits outside; one is the first of a new process table, builds the root and waits for all others;
one calls the function. When any of the first two ends, however it ends, the kernel kills all others and removes the
mounts, and with the last of them what was written.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError, reason
from resource_api.system.overlay import namespaces, root
from resource_api.system.overlay.mount_table import mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.system.overlay.mount_table import Mount

#: The capabilities that reach beyond the overlay (capabilities(7)), by number.
_NET_ADMIN: Final = 12
_NET_RAW: Final = 13
_DROPPED: Final = {
    "DAC_READ_SEARCH": 2,
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_PTRACE": 19,
    "SYS_PACCT": 20,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "SYS_RESOURCE": 24,
    "SYS_TIME": 25,
    "SYS_TTY_CONFIG": 26,
    "MKNOD": 27,
    "AUDIT_CONTROL": 30,
    "MAC_OVERRIDE": 32,
    "MAC_ADMIN": 33,
    "SYSLOG": 34,
    "WAKE_ALARM": 35,
    "BLOCK_SUSPEND": 36,
    "PERFMON": 38,
    "BPF": 39,
    "CHECKPOINT_RESTORE": 40,
}
#: How many processes there may be.
PROCESSES: Final = 2048
#: The first version of Linux in which ``pid_max`` is a limit of one process table.
_OWN_PID_MAX: Final = (6, 14)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# ioctl(2) of netdevice(7): set the flags of an interface; that it is up.
_SET_FLAGS: Final = 0x8914
_UP: Final = 0x1
_FAILED: Final = b"-"
_RETURNED: Final = b"+"


class IsolationError(ResourceAPIError):
    """What an isolated run needs is missing on this machine, or refused to this user."""


class Isolation(NamedTuple):
    """How far a run is isolated."""

    #: The bound of what is written, as for tmpfs(5): bytes, with k, m or g, or a percentage of the memory.
    size: str = "25%"
    #: Whether the network is that of the machine; otherwise there is none.
    network: bool = False
    #: Descriptors that the function uses, beside the standard ones.
    kept: Collection[int] = ()
    #: The handlers of signals that the function is called with; those of the caller.
    handlers: Mapping[int, Any] = {}


class Overlay(NamedTuple):
    """What the function of an isolated run is called with."""

    #: A descriptor of the directory with the upper layers; ``layers`` reads it.
    layers: int


class Ended(NamedTuple):
    """How an isolated run has ended."""

    #: What the function has returned; None: it was killed.
    answer: bytes | None
    #: The number of the signal that was passed on to it; 0: none.
    signal: int = 0


def run(function: Callable[[Overlay], bytes], isolation: Isolation) -> Ended:
    """Call ``function`` in isolation; return what it has returned. Raise ``IsolationError``.

    Its standard output and error are those of this process; other descriptors are closed there unless kept. A signal
    that would interrupt this process is passed on to it. This process must have one thread.
    """
    _check()
    found = mounts()
    isolation = isolation._replace(handlers={number: signal.getsignal(number) for number in _SIGNALS})
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    here = os.getpid()
    child = os.fork()
    if not child:
        _never_return(lambda: _outside(function, isolation, found, theirs, here), theirs)
    os.close(theirs)
    passed = _pass_signals(child)
    try:
        answer = b"".join(iter(lambda: os.read(ours, 1 << 16), b""))
        os.waitpid(child, 0)
    finally:
        os.close(ours)
        number = passed()
    if answer.startswith(_FAILED):
        raise IsolationError(answer[1:].decode())
    return Ended(answer[1:] if answer else None, number)


def _check() -> None:
    """Raise ``IsolationError`` where the kernel lacks what cannot be tried without danger."""
    if os.geteuid() != 0:
        msg = "an isolated run needs root, to mount an overlay of every file system"
        raise IsolationError(msg)
    if _kernel() < _OWN_PID_MAX:
        msg = f"an isolated run needs Linux 6.14, to limit the number of its processes; this is {os.uname().release}"
        raise IsolationError(msg)


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


def _pass_signals(child: int) -> Callable[[], int]:
    """Pass signals on to a process; return the function that ends this and returns the number of the last one."""
    came = [0]

    def handle(number: int, _frame: Any) -> None:
        came[0] = number
        with suppress(ProcessLookupError):
            os.kill(child, number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)

    def end() -> int:
        for number, handler in before.items():
            signal.signal(number, handler)
        return came[0]

    return end


def _never_return(function: Callable[[], int], pipe: int) -> NoReturn:
    """End this process with what ``function`` returns; write what it raises to a pipe."""
    code = 1
    try:
        code = function()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        os.write(pipe, _FAILED + f"this machine cannot be isolated: {where}{error.strerror or error}".encode())
    except BaseException as error:  # noqa: BLE001 - the last frame of this process
        os.write(pipe, _FAILED + f"this machine cannot be isolated: {reason(error)}".encode())
    finally:
        os._exit(code)


def _outside(
    function: Callable[[Overlay], bytes], isolation: Isolation, found: Sequence[Mount], pipe: int, parent: int
) -> int:
    """Be the process that waits outside of the new process table; return the exit code."""
    os.setsid()
    flags = namespaces.NEW_MOUNTS | namespaces.NEW_PROCESSES | namespaces.NEW_IPC | namespaces.NEW_HOST_NAME
    namespaces.unshare(flags | (0 if isolation.network else namespaces.NEW_NETWORK))
    namespaces.die_with(parent)
    child = os.fork()
    if not child:
        _never_return(lambda: _first(function, isolation, found, pipe), pipe)
    os.close(pipe)
    _pass_signals(child)
    os.waitpid(child, 0)
    return 0


def _first(function: Callable[[Overlay], bytes], isolation: Isolation, found: Sequence[Mount], pipe: int) -> int:
    """Be the first process of the new table: build the root, and wait for all that is started; return 0."""
    # The parent has the number 0 here.
    namespaces.die_with(0)
    directory = os.getcwd()
    layers = root.build(found, isolation.size)
    with suppress(OSError):
        os.chdir(directory)
    if not isolation.network:
        _start_loopback()
    _limit_processes()
    child = os.fork()
    if not child:
        _never_return(lambda: _inside(function, isolation, layers, pipe), pipe)
    os.close(pipe)
    os.close(layers)
    _pass_signals(child)
    ended = 0
    while ended != child:
        ended, _ = os.wait()
    return 0


def _limit_processes() -> None:
    # /proc/sys is read-only by now, but this process may still mount.
    place = "/run/limits"
    os.mkdir(place)
    namespaces.mount("proc", place)
    try:
        with open(f"{place}/sys/kernel/pid_max", "w", encoding="ascii") as file:
            file.write(str(PROCESSES))
    finally:
        namespaces.unmount(place)
        os.rmdir(place)


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14s", b"lo", _UP, b""))


def _inside(function: Callable[[Overlay], bytes], isolation: Isolation, layers: int, pipe: int) -> int:
    """Give up what reaches beyond the overlay, and call the function; return 0."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    kept = {layers, pipe, *isolation.kept}
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:  # noqa: PLR2004 - the standard streams
            with suppress(OSError):
                os.close(int(name))
    # 1 is the limit with which no program of core_pattern is started either, core(5).
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    namespaces.join_session_keyring()
    network = (_NET_ADMIN, _NET_RAW) if isolation.network else ()
    namespaces.drop_capabilities((*_DROPPED.values(), *network))
    for number, handler in isolation.handlers.items():
        signal.signal(number, handler)
    answer = function(Overlay(layers))
    sys.stdout.flush()
    sys.stderr.flush()
    view = memoryview(_RETURNED + answer)
    while view:
        view = view[os.write(pipe, view) :]
    return 0
