"""Runs one program and owns whatever it starts, until it ends or is stopped. Needs Linux 5.3.

``sh`` is asked to fork, to set the child up and to reap it; pipes, waiting and killing are ours. With descriptors of
ours in ``_out`` and ``_err`` it starts no reader: no callback can lose an exception, a slow consumer slows the
program down, and nothing waits for a daemon that kept the program's stdout.

What a program may be called with, what is logged, and words for people do not belong here: see ``command``.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    import codecs
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType, TracebackType

STDOUT: Final = 1
STDERR: Final = 2
GRACE: Final = 2.0  # seconds from SIGTERM to SIGKILL

_CHUNK: Final = 65536
_CAPACITY: Final = 262144  # of stdout's pipe: fewer, larger turns for programs that say much
_LINGER: Final = 0.1  # seconds that others may still write into the pipes of a program that has ended
_KILL: Final = 5.0  # seconds after which what SIGKILL has not ended is left to the kernel
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37
_CODEC: Final = "resource_api_argv"

_LOCK: Final = threading.RLock()  # the registry, and: no scan sees a child that is not yet registered
_running: set[Process] = set()
_ended = 0  # how many programs have left the registry
_adopters: list[int] = []  # one entry per tree that is being stopped; the first holds what to restore


class Invocation(NamedTuple):
    """What is run: an absolute path, its arguments (surrogate escapes stand for bytes), the whole environment."""

    path: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    input: bytes | None = None


class Process:
    """A running program; leaving its ``with`` before it has ended stops it and everything that it has started.

    ``exit_code`` is None while it runs and negative after a signal. Raises ``OSError`` when it cannot be started.
    """

    def __init__(self, invocation: Invocation) -> None:
        """Start the program in a session of its own."""
        self.exit_code: int | None = None
        self.stopped = False
        self._stopping = threading.RLock()
        self._out, out = os.pipe2(os.O_CLOEXEC)
        self._err, err = os.pipe2(os.O_CLOEXEC)
        try:
            _widen(out)
            with _LOCK:
                self._child = _spawn(invocation, out, err)
                self.pid: int = self._child.pid
                self._watch = _watch(self.pid)
                self.start = _start_of(self.pid)
                _running.add(self)
        except BaseException:
            os.close(self._out)
            os.close(self._err)
            raise
        finally:
            os.close(out)
            os.close(err)

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Stop what has not ended, whatever the reason for leaving: an error, an interrupt, a closed iterator."""
        global _ended  # noqa: PLW0603 - one registry per process, as children are
        try:
            if self.exit_code is None:
                self.stop(GRACE)
        finally:
            with _LOCK:
                _running.discard(self)
                _ended += 1
                for fd in {self._watch, self._out, self._err} - {-1}:
                    os.close(fd)

    def chunks(self, patience: Callable[[], float]) -> Iterator[tuple[int, bytes]]:
        """Yield what arrives on ``STDOUT`` and ``STDERR`` until the program has ended, in constant memory.

        ``patience`` is asked before each wait how many seconds it may take; it ends the reading by raising.
        Whoever still holds the pipes after the end is heard for 0.1 s and then left alone.
        """
        streams = {self._out: STDOUT, self._err: STDERR}
        poller = select.poll()
        for fd in (*streams, self._watch):
            poller.register(fd, select.POLLIN)
        until, owed = 0.0, 2 * _CAPACITY
        while streams or self.exit_code is None:
            ended = self.exit_code is not None
            ready = poller.poll(1000 * (max(0.0, until - time.monotonic()) if ended else patience()))
            for fd, _ in ready:
                if fd == self._watch:
                    poller.unregister(fd)
                    self._reap()
                    until = time.monotonic() + _LINGER
                elif chunk := os.read(fd, _CHUNK):
                    owed -= len(chunk) if ended else 0
                    yield streams[fd], chunk
                else:
                    poller.unregister(fd)
                    del streams[fd]
            if ended and (not ready or (owed < 0 and time.monotonic() > until)):
                return

    def has_ended(self) -> bool:
        """Whether the program itself is gone; what it has started may still run."""
        return self.exit_code is not None or _readable(self._watch, 0)

    def stop(self, grace: float) -> None:
        """End the program and all its descendants: SIGTERM, ``grace`` seconds, SIGKILL. A program that ended is left.

        Safe from any thread. Output that arrives in the meantime is dropped when there is a grace.
        """
        with self._stopping, _adopting():
            with _LOCK:
                if self not in _running or self.has_ended():
                    return
                tree = _Tree(self)
            self.stopped = True
            try:
                if grace:
                    tree.terminate()
                until = time.monotonic() + grace
                while tree.alive() and time.monotonic() < until:
                    self._discard(0.02)
            finally:
                tree.kill()
            if _readable(self._watch, 1000):
                self._reap()

    def _reap(self) -> None:
        self.exit_code = self._child.wait()

    def _discard(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        poller = select.poll()
        for fd in (self._out, self._err):
            poller.register(fd, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            for fd, _ in poller.poll(1000 * left):
                if not os.read(fd, _CHUNK):
                    poller.unregister(fd)


def stop_all() -> None:
    """Kill every program that is running now, with all descendants and without grace; returns when they are gone."""
    with _LOCK:
        running = list(_running)
    for process in running:
        process.stop(0)


class _Row(NamedTuple):
    """One line of the process table; ``start`` (clock ticks) tells a process from a later one of the same number."""

    pid: int
    state: str
    parent: int
    session: int
    start: int


class _Tree:
    """The descendants of one program, also those in sessions of their own whose parents are gone.

    The program is a subreaper (see ``_enter``): while it lives, its orphans are its children. While it is being
    stopped we are one too; an orphan that comes to us then is its own, unless another program has ended meanwhile,
    whose daemons are none of our business.
    """

    def __init__(self, root: Process) -> None:
        """Remember whose children we had before, so as to know what is adopted later."""
        self._root = root
        self._ended = _ended
        self._starts = {root.pid: root.start}
        self._sessions = {root.pid}
        self._before = {row.pid for row in _table().values() if row.parent == os.getpid()}

    def alive(self) -> list[_Row]:
        """Look again, and give the members that still run."""
        with _LOCK:
            table = _table()
            others = {process for process in _running if process is not self._root}
            undoubted = self._ended == _ended and not any(map(Process.has_ended, others))
            strangers = self._before | {process.pid for process in others}
        while fresh := [row for row in table.values() if self._joins(row, table, strangers if undoubted else None)]:
            self._starts.update((row.pid, row.start) for row in fresh)
            self._sessions.update(row.session for row in fresh)
        members = [row for row in table.values() if self._starts.get(row.pid) == row.start]
        for row in members:
            if row.state == "Z" and row.parent == os.getpid() and row.pid != self._root.pid:
                with suppress(ChildProcessError):
                    os.waitpid(row.pid, os.WNOHANG)
        return [row for row in members if row.state not in "ZX"]

    def _joins(self, row: _Row, table: Mapping[int, _Row], strangers: set[int] | None) -> bool:
        if self._starts.get(row.pid) == row.start or row.session == os.getsid(0):
            return False
        parent = table.get(row.parent)
        inherited = parent is not None and self._starts.get(parent.pid) == parent.start
        adopted = row.parent == os.getpid() and strangers is not None and row.pid not in strangers
        return inherited or adopted or row.session in self._sessions

    def _freeze(self) -> list[_Row]:
        """Stop members until no new one appears: what is stopped cannot fork, so none slips away."""
        frozen: dict[int, _Row] = {}
        for _ in range(50):
            fresh = [row for row in self.alive() if row.pid not in frozen]
            if not fresh:
                break
            for row in fresh:
                _send(row, signal.SIGSTOP)
                frozen[row.pid] = row
        return list(frozen.values())

    def terminate(self) -> None:
        """Ask all members to end, at one moment: no parent sees a child end and goes on with its next step."""
        members = self._freeze()
        for number in (signal.SIGTERM, signal.SIGCONT):
            for row in members:
                _send(row, number)

    def kill(self) -> None:
        """End all members, and leave no zombie of theirs among our children."""
        until = time.monotonic() + _KILL
        while (members := self._freeze()) and time.monotonic() < until:
            for row in members:
                _send(row, signal.SIGKILL)
            time.sleep(0.002)
        self.alive()


def _table() -> dict[int, _Row]:
    rows = (_row(int(name)) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - bare names, fast
    return {row.pid: row for row in rows if row}


def _row(pid: int) -> _Row | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - thousands of them, in a hurry
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Row(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19])) if fields else None


def _start_of(pid: int) -> int:
    row = _row(pid)
    return row.start if row else -1


def _send(row: _Row, number: int) -> None:
    """Signal exactly this process, never a later one of the same number; one that is gone needs none."""
    with suppress(OSError):
        fd = os.pidfd_open(row.pid)
        try:
            if _start_of(row.pid) == row.start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)


@contextmanager
def _adopting() -> Iterator[None]:
    """Be a subreaper for a while, then again what we were before: the program that embeds us may have its own ideas."""
    with _LOCK:
        if not _adopters:
            import ctypes  # noqa: PLC0415 - only when something has to be stopped

            before = ctypes.c_int()
            _prctl()(_GET_SUBREAPER, ctypes.addressof(before), 0, 0, 0)
            _prctl()(_SET_SUBREAPER, 1, 0, 0, 0)
            _adopters.append(before.value)
        _adopters.append(1)
    try:
        yield
    finally:
        with _LOCK:
            _adopters.pop()
            if len(_adopters) == 1:
                _prctl()(_SET_SUBREAPER, _adopters.pop(), 0, 0, 0)


@cache
def _prctl() -> Any:
    import ctypes  # noqa: PLC0415 - with the first program

    function = ctypes.CDLL(None).prctl
    function.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return function


def _watch(pid: int) -> int:
    """Give a descriptor that becomes readable when the child ends; -1 if it has ended and been reaped already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def _readable(fd: int, milliseconds: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(milliseconds))


def _widen(pipe: int) -> None:
    import fcntl  # noqa: PLC0415 - with the first program

    with suppress(OSError):  # a user's share of pipe memory may be spent; 64 KiB do as well
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _CAPACITY)


@cache
def _sh() -> Any:
    """Import ``sh`` without what it does to everybody else: it replaces ``glob.glob`` and logs arguments."""
    import codecs  # noqa: PLC0415 - as sh, with the first program
    import glob  # noqa: PLC0415
    import logging  # noqa: PLC0415

    original, ours = glob.glob, "sh" not in sys.modules
    import sh  # noqa: PLC0415

    if ours:
        glob.glob = original
    logging.getLogger("sh").setLevel(logging.CRITICAL + 1)
    codecs.register(_codec)
    for fd in range(3):  # sh moves descriptors onto 0-2; a pipe must not lie there when the caller has closed them
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return sh


def _codec(name: str) -> codecs.CodecInfo | None:
    """Let ``sh``, which encodes strictly, pass surrogate escapes as the bytes that they stand for."""
    import codecs  # noqa: PLC0415

    def encode(text: str, _errors: str = "strict") -> tuple[bytes, int]:
        return text.encode("utf-8", "surrogateescape"), len(text)

    return codecs.CodecInfo(encode, codecs.utf_8_decode, name=name) if name == _CODEC else None


def _spawn(invocation: Invocation, out: int, err: int) -> Any:
    sh = _sh()
    _prctl()
    stdin = _stdin(invocation.input)
    options = {"in": stdin, "out": out, "err": err, "env": dict(invocation.env), "cwd": invocation.cwd}
    options |= {"bg": 1, "bg_exc": False, "new_session": True, "tty_out": False, "no_pipe": True}
    options |= {"preexec_fn": _enter, "encoding": _CODEC}
    try:
        command = sh.Command(invocation.path)
        return command(*invocation.arguments, **{f"_{name}": value for name, value in options.items()}).process
    except sh.CommandNotFound:
        raise FileNotFoundError(2, os.strerror(2)) from None
    except sh.ForkException as error:
        _tidy(error)
        number = int((str(error).rpartition("[Errno ")[2].partition("]")[0]) or 0)
        raise OSError(number, os.strerror(number)) from None
    except BaseException as error:
        _tidy(error)
        raise
    finally:
        os.close(stdin)


def _stdin(data: bytes | None) -> int:
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:  # noqa: PTH123 - a descriptor has no path
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _enter() -> None:
    """Prepare the child: it adopts its orphans; signals, mask and umask are as at login.

    A subreaper's mark survives exec and is not inherited, so the program's daemons leave us when it ends.
    """
    _prctl()(_SET_SUBREAPER, 1, 0, 0, 0)
    os.umask(0o022)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _tidy(error: BaseException) -> None:
    """Take back what ``sh`` leaves when it fails half-way: descriptors, the child, a collector switched off."""
    import gc  # noqa: PLC0415

    tb = error.__traceback__
    while tb and type(tb.tb_frame.f_locals.get("self")).__name__ != "OProc":
        tb = tb.tb_next
    if tb is None:
        return
    ...
