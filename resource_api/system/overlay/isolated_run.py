"""Run a function in a process on an overlay of this machine, isolated from its files and processes.

There are three processes. The first waits outside. The second is the first of a new process table: it builds the root
and reaps all other processes. The third calls the function. When one of the first two ends for any reason, the kernel
kills all others and removes the mounts with all changes.

Signals are passed on from process to process. They are blocked before a process is started, and accepted one by one by
sigwaitinfo(2): the handler of a signal that comes just before a wait begins would only be called when it ends.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ResourceAPIError, reason
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem import directories
from resource_api.system.filesystem.directories import opened, write_all
from resource_api.system.overlay import call_filters, namespaces, overlay
from resource_api.system.process import core_dumps, process_tree
from resource_api.system.process.child import close_all_but, join_new_session_keyring

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.system.overlay.overlay import MountedTree

#: The largest number of processes.
PROCESSES: Final = 2048
_PID_MAX: Final = "sys/kernel/pid_max"
#: Controllers in ``/proc/self/cgroup`` ("" in version 2) → directories of control groups that can limit processes.
_HIERARCHIES: Final = {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "pids": ("/sys/fs/cgroup/pids",)}
_NAME: Final = "resource-api-rehearsal."
#: Attempts to make a control group.
_TRIES: Final = 5
_CANNOT_BE_LIMITED: Final = (
    f"the number of processes cannot be limited: /proc/{_PID_MAX} is that of the whole machine (Linux before 6.14), "
    "and no control group with pids.max can be made in /sys/fs/cgroup"
)


class ProcessLimit:
    """The limit of one new process table: created and removed outside the table, enforced by its first process.

    Root's processes are limited by ``pid_max`` where each table has its own (Linux 6.14), which needs no cleaning up,
    otherwise by a control group, cgroups(7), of either version; another user's by ``RLIMIT_NPROC``, which root ignores.
    """

    def __init__(self) -> None:
        """Open the setting and the control groups that can limit processes, while their paths are those of the machine.

        Inside the new process table the same paths may lead to other files.
        """
        # By its inode ``enforce`` detects whether the table has a setting of its own. Open until the end, so that a
        # second look-up of the same setting finds the same inode.
        self._pid_max = os.open(f"/proc/{_PID_MAX}", os.O_RDONLY)
        self._name = f"{_NAME}{os.getpid()}.{os.urandom(4).hex()}"
        self._parents = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in _directories()]

    def enforce(self) -> None:
        """Limit the number of processes in the new table, so that a fork bomb in it does not stop the whole machine.

        For a user the limit is ``RLIMIT_NPROC``, which root ignores. For root it is the ``pid_max`` of the table if the
        table has its own, otherwise a control group. Call this in the first process of the table, with mounts of its
        own. Raise ``OSError`` if none of these is possible.
        """
        if os.geteuid():
            _limit_user()
        elif os.stat(f"/proc/{_PID_MAX}").st_ino != os.fstat(self._pid_max).st_ino:  # a setting of this table alone
            _set_pid_max()
        elif not any(self._enter(parent) for parent in self._parents):
            raise OSError(_CANNOT_BE_LIMITED)

    def remove(self) -> None:
        """Remove the control group that ``enforce`` may have made, after all its processes have ended."""
        for parent in self._parents:
            with suppress(OSError):
                os.rmdir(self._name, dir_fd=parent)

    def _enter(self, parent: int) -> bool:
        """Create a control group below ``parent``, limit its processes and enter it; return whether it succeeded.

        If not, the caller tries the next ``parent``: some cannot be written to, or cannot limit processes.
        """
        _remove_leftovers(parent)
        for _ in range(_TRIES):
            with suppress(OSError):
                os.mkdir(self._name, dir_fd=parent)
                with suppress(OSError):
                    _write(f"{self._name}/pids.max", str(PROCESSES), parent)
                    _write(f"{self._name}/cgroup.procs", "0", parent)
                    return True
                # Another run that removes leftovers may have removed this group, which nothing had entered.
                os.rmdir(self._name, dir_fd=parent)
        return False


def _limit_user() -> None:
    """Limit the number of processes of the calling user, so that a fork bomb in the overlay cannot stop the machine.

    Root ignores this limit. It counts the processes in the user namespace of the overlay alone; before Linux 5.14 it
    counts all processes of the user on the machine.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _set_pid_max() -> None:
    """Limit the processes of this process table by a setting that each table has for itself since Linux 6.14.

    Unlike a control group, it vanishes with the table.
    """
    # A new /proc, because the settings in a container's /proc may be read-only.
    namespaces.mount("proc", "/proc")
    try:
        _write(f"/proc/{_PID_MAX}", str(PROCESSES))
    finally:
        namespaces.unmount("/proc")


def _directories() -> Iterator[str]:
    """Yield the directories of control groups in which a group with a limit may be made.

    The first is that of this process's group, then follow those of the groups around it, as a group may not allow inner
    groups with limits.
    """
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)  # "5:pids:/user", or in version 2 "0::/user"
        for base in _HIERARCHIES.get(controllers, ()):
            # A path outside the control group namespace begins with /.. and is not visible.
            parts = [] if path.startswith("/..") else path.strip("/").split("/")
            for count in range(len(parts), -1, -1):
                directory = "/".join((base, *parts[:count]))
                if os.path.exists(f"{directory}/cgroup.procs"):
                    yield directory


def _remove_leftovers(parent: int) -> None:
    """Remove the groups of killed runs; the kernel refuses to remove a group that has processes."""
    for name in os.listdir(parent):
        if name.startswith(_NAME):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)


def _write(path: str, text: str, directory: int | None = None) -> None:
    """Write a setting of the kernel, whose path starts at the open ``directory`` if given. Raise ``OSError``."""
    with opened(path, os.O_WRONLY, directory) as descriptor:
        os.write(descriptor, text.encode())


#: The signal of a parent's death, see ``process_tree.end_with``.
PARENT_DIED: Final = signal.SIGRTMAX
_PASSED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals(NamedTuple):
    """The handlers of the signals that are passed on, and the signal mask."""

    handlers: Mapping[int, Any]
    mask: Collection[int]

    def restore(self) -> None:
        """Install the handlers and the mask in this process, as they were before ``signals_blocked``."""
        for number, handler in self.handlers.items():
            # None: the handler was not installed by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def signals_blocked() -> Iterator[Signals]:
    """Block the signals that ``wait`` accepts, in the ``with`` block and in children; yield the former handlers.

    So a signal that comes before ``wait`` stays pending until then, and is not lost. The children restore the handlers
    before they run other code.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_SIGNALS, signal.SIGCHLD, PARENT_DIED})
    before = Signals({number: signal.getsignal(number) for number in (*_PASSED_SIGNALS, signal.SIGCHLD)}, mask)
    # An ignored SIGCHLD is not sent.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield before
    finally:
        before.restore()


def wait(child: int, *, orphans: bool = False) -> int:
    """Wait until a child has ended, and pass signals on to it; return the number of the last one, or 0.

    ``orphans``: reap all other children too, as the first process of a table must, which adopts all orphans. Signals
    that this process ignores, as by nohup(1), are not passed on. When the parent of this process dies, nobody waits for
    the result any more, and the child is killed.
    """
    last = 0
    accepted = {number for number in _PASSED_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    while not _has_ended(child, orphans=orphans):
        number = signal.sigwaitinfo({*accepted, signal.SIGCHLD, PARENT_DIED}).si_signo
        if number == PARENT_DIED:
            os.kill(child, signal.SIGKILL)
        elif number != signal.SIGCHLD:
            last = number
            os.kill(child, number)
    return last


def _has_ended(child: int, *, orphans: bool) -> bool:
    """Reap the children that have ended, and return whether ``child`` was among them.

    Without ``orphans`` only ``child`` is waited for. After its end no further children are reaped.
    """
    while True:
        ended, _ = os.waitpid(-1 if orphans else child, os.WNOHANG)
        if ended in {0, child}:
            return ended == child


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
_FAILED: Final = b"-"
_RETURNED: Final = b"+"


class IsolationError(ResourceAPIError):
    """An isolated run is impossible on this machine, or for this user."""


class Isolation(NamedTuple):
    """The isolation of a run: the limit of its changes, its network, and its descriptors."""

    #: The limit of changes, as for tmpfs(5): bytes, with k, m or g, or a percentage of the memory.
    size: str = "25%"
    #: Whether the run has the machine's network, or none.
    network: bool = False
    #: Returns the descriptors that stay open, beside the standard ones.
    open_descriptors: Callable[[], Collection[int]] = tuple


class Ended(NamedTuple):
    """The end of an isolated run."""

    #: The result of the function, or None if it was killed.
    answer: bytes | None
    #: The number of the last signal that was passed on to it, or 0.
    signal: int = 0


class _Started(NamedTuple):
    """The arguments of the processes of a run."""

    function: Callable[[int], bytes]
    isolation: Isolation
    mounts: Sequence[MountedTree]
    #: The handlers to install before the function is called.
    signals: Signals
    #: A descriptor of a file in memory for the result.
    answer: int


def run(function: Callable[[int], bytes], isolation: Isolation) -> Ended:
    """Call ``function`` in isolation and return its result. Raise ``IsolationError``.

    The function gets the descriptor that ``overlay.build`` returns, and shares standard output and error with this
    process; other descriptors are closed, see ``Isolation``. Signals that would interrupt this process are passed on
    to the function's process. The result comes in a file in memory, whose first byte tells a result from the reason of
    a failure. This process must have a single thread, as it is forked.
    """
    table, parent = overlay.mounts(), os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.memfd_create("answer"), "rb") as answer, signals_blocked() as before:
        started = _Started(function, isolation, table, before, answer.fileno())
        number = wait(_fork(lambda: _outside(started, parent), started.answer))
        answer.seek(0)
        kind, text = answer.read(1), answer.read()
    if kind == _FAILED:
        raise IsolationError(os.fsdecode(text))
    return Ended(text if kind == _RETURNED else None, number)


def _fork(function: Callable[[], None], answer: int) -> int:
    """Return the number of a forked process that calls ``function`` and exits.

    An exception in it is written to the descriptor ``answer``, as the reason why the isolated run is impossible. It is
    not raised further, because the forked process would then go on with the code of the parent's callers.
    """
    if child := os.fork():
        return child
    code = 1
    try:
        function()
        code = 0
    except KeyboardInterrupt:  # after a signal, which the caller knows
        pass
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _write_failure(answer, f"{name}{error.strerror or error}")
    except BaseException as error:  # noqa: BLE001 - the last frame of this process
        _write_failure(answer, reason(error))
    finally:
        os._exit(code)


def _write_failure(answer: int, text: str) -> None:
    """Write the reason why the function was not called, which may name a path of any bytes."""
    _write_answer(answer, _FAILED, os.fsencode(f"this machine cannot be isolated: {text}"))


def _write_answer(descriptor: int, kind: bytes, text: bytes) -> None:
    """Write an answer: its kind as the first byte, then a text.

    The first byte is written last, so that an answer cut short by a kill has no kind.
    """
    os.lseek(descriptor, 1, os.SEEK_SET)
    write_all(descriptor, text)
    os.pwrite(descriptor, kind, 0)


def _outside(started: _Started, parent: int) -> None:
    """Run the process between the caller and the new process table: it makes the namespaces and waits.

    It stays outside the table to remove the limit of processes at the end. ``parent``: the process id of the caller,
    whose death ends this process and the run.
    """
    os.setsid()  # signals of the terminal come through the caller alone
    limit = ProcessLimit()
    flags = namespaces.NEW_MOUNTS | namespaces.NEW_PROCESSES | namespaces.NEW_IPC | namespaces.NEW_HOST_NAME
    flags |= 0 if started.isolation.network else namespaces.NEW_NETWORK
    if os.geteuid() == 0:
        namespaces.unshare(flags)
    else:
        namespaces.unshare_as_user(flags)
    # Not killed at once: the control group must be removed.
    process_tree.end_with(parent, PARENT_DIED)
    wait(_fork(lambda: _first(started, limit), started.answer))
    limit.remove()


def _first(started: _Started, limit: ProcessLimit) -> None:
    """Run the first process of the new process table: build the overlay, start the function in a child, reap orphans.

    At the end of this process the kernel kills all others of the table, so that nothing of the run goes on.
    """
    # The parent has the number 0 here.
    process_tree.end_with(0)
    directory = os.getcwd()
    namespaces.make_mounts_private()
    limit.enforce()
    layers = overlay.build(started.mounts, started.isolation.size)
    with suppress(OSError):
        os.chdir(directory)
    if not started.isolation.network:
        namespaces.start_loopback()
    child = _fork(lambda: _inside(started, layers), started.answer)
    os.close(layers)
    wait(child, orphans=True)


def _dropped(isolation: Isolation) -> Iterable[int]:
    """Return the capabilities that the function inside must not have: those that reach beyond the overlay.

    A user other than root loses all: the user has them only by the user namespace, and would have none on the machine.
    With the machine's network root also loses those to configure it.
    """
    if os.geteuid():
        return range(64)
    return (*_DROPPED.values(), *((_NET_ADMIN, _NET_RAW) if isolation.network else ()))


def _inside(started: _Started, layers: int) -> None:
    """Give up access to everything beyond the overlay, in the process on it, then call the function.

    Beyond it lead the terminal, open descriptors, core dumps, keys, some system calls and capabilities. The result of
    the function is written as the answer.
    """
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    close_all_but({0, 1, 2, layers, started.answer, *started.isolation.open_descriptors()})
    # A limit of 1 also keeps the kernel from starting a program of core_pattern, core(5).
    core_dumps.limit(1)
    with suppress(OSError):
        join_new_session_keyring()
    call_filters.refuse()
    namespaces.drop_capabilities(_dropped(started.isolation))
    if os.geteuid():
        # Here root's files seem to belong to that user.
        directories.ROOT.add(namespaces.unknown_user())
    started.signals.restore()
    answer = started.function(layers)
    sys.stdout.flush()
    sys.stderr.flush()
    _write_answer(started.answer, _RETURNED, answer)
