"""One run at a time: an advisory lock that the kernel frees when its holder dies, and a note of who holds it.

The lock is a file of its own that is never unlinked, so that no two processes can lock two files of one name. The note
is for people only: nothing is ever decided by it. What the lock protects does not enter here.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError, StateLocked

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds between two tries while waiting: short, so that a lock that comes free is taken at once.
_PAUSE: Final = 0.05
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC

#: Locks that this process holds; a forked child closes them, or its descendants would keep them.
_held: set[int] = set()


def _forget() -> None:
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class Holder(NamedTuple):
    """Who holds a lock; ``boot`` and ``started`` (ticks since boot) tell a process from a later one of the same pid."""

    pid: int
    user: str
    command: str
    since: str
    boot: str
    started: str

    def __str__(self) -> str:
        """Say who, which command, since when."""
        return f"pid {self.pid} ({self.user}) has been running '{self.command}' since {self.since}"

    @property
    def alive(self) -> bool:
        """Whether the very process that wrote this still runs, as far as can be seen from here."""
        return self.boot == _boot() and self.started == _started(self.pid)


class Lock:
    """The lock ``PATH.lock`` and the note ``PATH.holder`` beside what they protect."""

    def __init__(self, path: str) -> None:
        """Know where; nothing is opened yet."""
        self._path = f"{path}.lock"
        self._note = f"{path}.holder"
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

    def announce(self, command: str) -> None:
        """Note who we are and what for; a disk that does not take the note is no obstacle."""
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        holder = Holder(os.getpid(), _user(), command, since, _boot(), _started(os.getpid()))
        with suppress(OSError):
            fd = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
            try:
                os.fchmod(fd, 0o600)
                os.write(fd, json.dumps(holder._asdict()).encode())
            finally:
                os.close(fd)

    def holder(self) -> Holder | None:
        """Give who noted itself last, or None; only what people are told rests on it."""
        try:
            fd = os.open(self._note, os.O_RDONLY | _FLAGS)
            with os.fdopen(fd, "rb") as file:
                return Holder(**json.loads(file.read(4096)))
        except (OSError, ValueError, TypeError):
            return None

    def _acquire(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._try():
            left = deadline - time.monotonic()
            if left <= 0:
                raise StateLocked(self._who())
            time.sleep(min(_PAUSE, left))

    def _try(self) -> bool:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except OSError as error:
            msg = f"{self._path}: the lock cannot be opened: {error.strerror}"
            raise StateError(msg) from error
        if self._take(fd):
            _held.add(fd)
            self._fd = fd
            return True
        os.close(fd)
        return False

    def _take(self, fd: int) -> bool:
        """Lock an open file; whether it worked, and it is still the one that the name leads to."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen, named = os.fstat(fd), os.lstat(self._path)
            if stat.S_IMODE(seen.st_mode) != 0o600:  # noqa: PLR2004 - what the umask took away
                os.fchmod(fd, 0o600)
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:
            os.close(fd)
            msg = f"{self._path}: cannot be locked: {error.strerror}"
            raise StateError(msg) from error
        return (seen.st_dev, seen.st_ino) == (named.st_dev, named.st_ino)

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd in _held:
            _held.discard(fd)
            with suppress(OSError):
                os.unlink(self._note)  # noqa: PTH108 - pathlib is imported for nothing else
            # A child that is just being forked still has a copy, and closing ours alone would leave it locked.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _who(self) -> str:
        holder = self.holder()
        who = str(holder) if holder and holder.alive else "another process holds the lock"
        return f"state is locked: {who}; --lock-timeout waits for it"


def _user() -> str:
    import pwd  # noqa: PLC0415 - reads the user database

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _boot() -> str:
    return _proc("sys/kernel/random/boot_id").strip()


def _started(pid: int) -> str:
    """Give when a process was started, in ticks since boot; empty when there is none (proc_pid_stat(5), field 22)."""
    fields = _proc(f"{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""  # noqa: PLR2004 - the 22nd, counted after the second


def _proc(name: str) -> str:
    try:
        with open(f"/proc/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return ""
