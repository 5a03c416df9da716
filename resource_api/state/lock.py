"""One run at a time: an advisory lock that the kernel releases when its holder ends, and a note about the holder.

The lock is a file of its own that is never unlinked; otherwise two processes could lock two files of the same name. The
note serves messages only: no decision depends on it.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.permissions import user_name

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds between two attempts while waiting.
_PAUSE: Final = 0.05
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC  # to follow a link would lock or empty another file
_PRIVATE: Final = 0o600
#: The start time in ``/proc/PID/stat``: field 22 of proc_pid_stat(5), counted from 0 after field 2, the program.
_START_TIME: Final = 22 - 3

#: Descriptors of the locks that this process holds. A forked child closes its copies, which would keep them locked.
_held: set[int] = set()


def _close_inherited() -> None:
    """Close the descriptors of the parent's locks in a forked child, so that these locks end with the parent."""
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited)


class Holder(NamedTuple):
    """The holder of a lock. ``boot`` and ``started`` (ticks since boot) distinguish it from a later process."""

    pid: int
    user: str
    command: str
    since: str
    boot: str
    started: str

    def __str__(self) -> str:
        """Return the process, its user and command, and since when it holds the lock."""
        return f"pid {self.pid} ({self.user}) has been running '{self.command}' since {self.since}"

    @property
    def alive(self) -> bool:
        """Whether the process still runs, as far as this process can see."""
        return self.boot == boot_id() and self.started == start_time(self.pid)


class Lock:
    """The lock ``PATH.lock`` and the note ``PATH.holder`` beside the file that they protect."""

    def __init__(self, path: str) -> None:
        """Open nothing yet; ``path`` is that of the file that the lock protects."""
        self._path = f"{path}.lock"
        self._note = f"{path}.holder"
        #: The descriptor of the lock file while this process holds the lock, or -1.
        self._fd = -1

    @contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """Hold the lock, waiting up to ``timeout`` seconds; an exception of a signal handler ends the wait.

        Raises ``StateLocked`` naming the holder, ``StateError`` when the file cannot be opened.
        """
        self._acquire(timeout)
        try:
            yield
        finally:
            self._release()

    def write_holder(self, command: str) -> None:
        """Write a note of this process and its ``command``, for the message of a process that has to wait.

        The boot and the start time in it distinguish this process from a later one with the same number. A failure is
        ignored, because the note is not the lock.
        """
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        holder = Holder(
            os.getpid(), user_name(os.getuid()), command, since=since, boot=boot_id(), started=start_time(os.getpid())
        )
        with suppress(OSError):
            fd = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, _PRIVATE)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, _PRIVATE)
                file.write(json.dumps(holder._asdict()).encode())

    def other_holder(self) -> str:
        """Return, for messages only, the other process that holds the lock by its note, or an empty text."""
        holder = self.holder()
        return str(holder) if holder and holder.pid != os.getpid() and holder.alive else ""

    def holder(self) -> Holder | None:
        """Return the holder in the last note, or None; for messages only: the note may be older than the lock."""
        try:
            with os.fdopen(os.open(self._note, os.O_RDONLY | _FLAGS), "rb") as file:
                return Holder(**json.loads(file.read(4096)))
        except (OSError, ValueError, TypeError):
            return None

    def _acquire(self, timeout: float) -> None:
        """Try to lock the file until that succeeds or the time is over. Raises ``StateLocked`` with the holder."""
        deadline = time.monotonic() + timeout
        while not self._try_lock():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                holder = self.holder()
                who = str(holder) if holder and holder.alive else "another process holds the lock"
                msg = f"state is locked: {who}; --lock-timeout waits for it"
                error = StateLocked(msg)
                error.holder = who
                raise error
            time.sleep(min(_PAUSE, remaining))

    def _try_lock(self) -> bool:
        """Open the lock file and lock it, without waiting; return whether that succeeded. Raises ``StateError``."""
        with errors_as(StateError, OSError, f"{self._path}: the lock cannot be opened: "):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, _PRIVATE)
        if self._lock_file(fd):
            _held.add(fd)
            self._fd = fd
            return True
        os.close(fd)
        return False

    def _lock_file(self, fd: int) -> bool:
        """Lock an open file; return whether it is locked and still the one at its path.

        A file that has replaced it meanwhile has a lock of its own, which another process may hold. The file is closed
        before a ``StateError``.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked, current = os.fstat(fd), os.lstat(self._path)
            if stat.S_IMODE(locked.st_mode) != _PRIVATE:  # the umask applied
                os.fchmod(fd, _PRIVATE)
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:
            os.close(fd)
            raise StateError(f"{self._path}: cannot be locked: {error.strerror}") from error
        return (locked.st_dev, locked.st_ino) == (current.st_dev, current.st_ino)

    def _release(self) -> None:
        """Remove the note, unlock the file and close it; nothing in a forked child: the lock belongs to its parent.

        The note is removed before the lock, because afterwards it could be that of the next holder.
        """
        fd, self._fd = self._fd, -1
        if fd in _held:
            _held.discard(fd)
            with suppress(OSError):
                os.unlink(self._note)
            # A child that is being forked has a copy: closing only this descriptor would keep the lock.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def boot_id() -> str:
    """Return the boot id (random(4)), "" if unknown."""
    return _read_proc("sys/kernel/random/boot_id").strip()


def start_time(pid: int) -> str:
    """Return the start time of a process in ticks since boot (proc_pid_stat(5), field 22); "" if there is none.

    It distinguishes a process from a later one with the same number.
    """
    _, _, after_program = _read_proc(f"{pid}/stat").rpartition(")")  # a program's name may have spaces
    fields = after_program.split()
    return fields[_START_TIME] if len(fields) > _START_TIME else ""


def _read_proc(name: str) -> str:
    """Return the content of a file below ``/proc``; "" if it cannot be read, as that of a process that has ended."""
    try:
        with open(f"/proc/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
