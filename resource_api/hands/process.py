"""Runs one program and owns whatever it starts, until it ends or is stopped. Needs Linux 5.3.

``sh`` is asked to fork, to set the child up and to reap it; pipes, waiting and killing are ours. With descriptors of
ours in ``_out`` and ``_err`` it starts no reader: no callback can lose an exception, a slow consumer slows the
program down, and nothing waits for a daemon that kept the program's stdout.

What a program may be called with, what is logged, and words for people do not belong here: see ``command``.
"""

from __future__ import annotations

import codecs
import errno
import gc
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from resource_api.hands import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

STDOUT: Final = 1
STDERR: Final = 2
GRACE: Final = 2.0  # seconds from SIGTERM to SIGKILL

_CHUNK: Final = 65536
_OWED: Final = 131072  # bytes that two pipes can still hold when the program has ended
_LINGER: Final = 0.1  # seconds that others may still write into the pipes of a program that has ended
_CODEC: Final = "resource_api_argv"

_LOCK: Final = threading.RLock()  # the registry, and: no scan sees a child that is not yet registered
_running: Final[set[Process]] = set()
_ended = 0  # how many programs have left the registry


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
        self._watch = -1  # readable when the program has ended
        self._row: descendants.Row | None = None
        sh, child, ends = _sh(), None, list[int]()
        try:
            for _ in range(2):
                ends += os.pipe2(os.O_CLOEXEC)
            self._out, _, self._err, _ = ends
            with _LOCK:
                child = self._child = _spawn(sh, invocation, ends[1], ends[3])
                self.pid: int = child.pid
                with suppress(ProcessLookupError, FileNotFoundError):  # it can have ended and been reaped already
                    self._watch = os.pidfd_open(self.pid)
                    self._row = descendants.read(self.pid)
                if self._watch < 0:
                    self._reap()
                _running.add(self)
        except BaseException:
            if child:
                _kill(child.pid)
            for fd in {*ends[::2], self._watch} - {-1}:
                os.close(fd)
            raise
        finally:
            for fd in ends[1::2]:
                os.close(fd)

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
        for fd in {*streams, self._watch} - {-1}:
            poller.register(fd, select.POLLIN)
        until, owed = time.monotonic() + _LINGER, _OWED
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
        with self._stopping, descendants.adopting():
            with _LOCK:
                if self not in _running or self.has_ended() or self._row is None:
                    return
                before = _ended
                tree = descendants.Tree(self._row, lambda: self._scan(before))
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

    def _scan(self, before: int) -> descendants.Scan:
        with _LOCK:
            rows = descendants.table()
            others = _running - {self}
            # Only one that is alive after the look has kept all its orphans to itself until then.
            certain = _ended == before and not any(map(Process.has_ended, others))
            return rows, {other.pid for other in others} if certain else None

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


def _kill(pid: int) -> None:
    """End a child that is not registered yet, with the group that it leads by now."""
    for call, argument in ((os.killpg, signal.SIGKILL), (os.kill, signal.SIGKILL), (os.waitpid, 0)):
        with suppress(OSError):
            call(pid, argument)


def _readable(fd: int, milliseconds: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(milliseconds))


@cache
def _sh() -> Any:
    """Import ``sh`` without what it does to everybody else: it replaces ``glob.glob`` and logs arguments."""
    import glob  # noqa: PLC0415 - as sh, with the first program
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

    def encode(text: str, _errors: str = "strict") -> tuple[bytes, int]:
        return text.encode("utf-8", "surrogateescape"), len(text)

    return codecs.CodecInfo(encode, codecs.utf_8_decode, name=name) if name == _CODEC else None


def _spawn(sh: Any, invocation: Invocation, out: int, err: int) -> Any:
    descendants.prepare()
    stdin = _stdin(invocation.input)
    options = {"in": stdin, "out": out, "err": err, "env": dict(invocation.env), "cwd": invocation.cwd}
    options |= {"bg": 1, "bg_exc": False, "new_session": True, "preexec_fn": _enter, "encoding": _CODEC}
    try:
        command = sh.Command(invocation.path)
        return command(*invocation.arguments, **{f"_{name}": value for name, value in options.items()}).process
    except sh.CommandNotFound:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    except BaseException as error:
        _tidy(error)
        number = 0
        if isinstance(error, sh.ForkException):  # it holds the child's traceback as text
            number = int(str(error).rpartition("[Errno ")[2].partition("]")[0] or errno.EINVAL)
        elif isinstance(error, RuntimeError):  # no thread for the reaper
            number = errno.EAGAIN
        if number:
            raise OSError(number, os.strerror(number)) from None
        raise
    finally:
        os.close(stdin)


def _stdin(data: bytes | None) -> int:
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _enter() -> None:
    """Prepare the child: it adopts its orphans; signals, their mask and the umask are as at login."""
    descendants.adopt_orphans()
    os.umask(0o022)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _tidy(error: BaseException) -> None:
    """Take back what ``sh`` leaves when it fails half-way: descriptors, the child, a collector switched off."""
    trace = error.__traceback__
    while trace and type(trace.tb_frame.f_locals.get("self")).__name__ != "OProc":
        trace = trace.tb_next
    if trace is None:
        return
    local = trace.tb_frame.f_locals
    child, pid = local["self"], getattr(local["self"], "pid", None)
    left: list[int | None] = []
    if pid is not None:
        _kill(pid)
        if type(error).__name__ == "ForkException":
            left = [local["session_pipe_read"], local["session_pipe_write"]]
    elif isinstance(error, OSError):
        left = [local.get(f"{name}_pipe_{end}") for name in ("session", "exc") for end in ("read", "write")]
        left += [getattr(child, f"_{name}_child_fd", None) for name in ("stdin", "stdout", "stderr")]
        if local.get("gc_enabled"):
            gc.enable()
    for fd in filter(None, left):
        os.close(fd)
