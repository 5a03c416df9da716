"""A process that masks secrets in what is written directly to the standard descriptors.

Providers, C libraries and programs that inherit descriptors 1 and 2 write there without a call of ours. From the first
secret on, and on a terminal from the first call of a provider on, both are a pipe into this process. It passes
everything on to the former standard error, each line as one of the log. It is a process and not a thread, so that
nothing is lost when the run crashes or is killed; it ends when nobody can write any more. The output of the run itself
does not go through it. When it is needed must not enter here.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import termios
import threading
import time
from typing import TYPE_CHECKING, Final, NoReturn

from resource_api.system import process_guard
from resource_api.system.process.line_splitter import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.masking import Mask

#: Ends of pipes get numbers from here on: code that closes "all" descriptors reuses lower ones for its own files.
_FIRST_DESCRIPTOR: Final = 200
_CHUNK: Final = 64 * 1024
#: Longest line in bytes that is collected before it is passed on without its end.
_LONGEST: Final = 64 * 1024
#: Seconds after which our own output no longer waits for that of others: they may write without end.
_PATIENCE: Final = 0.2
#: A secret on its way to the filter: a byte that says whether it was declared as an input, and its length in so many.
_LENGTH: Final = 4
#: That no byte is in a pipe, as `ioctl` writes it.
_NONE: Final = bytes(4)


class OutputFilter:
    """The two ends of the filter: ``learn`` and ``drain`` are for the run."""

    def __init__(self, mask: Mask, format_line: Callable[[str], str]) -> None:
        """Start the filter with the secrets of ``mask``. Raises ``OSError`` if there can be no other process.

        ``format_line`` returns what is shown of a line: one line, in which nothing controls a terminal. It is called in
        the filter, where nothing may be imported.
        """
        # Index the secrets here: a forked process must import nothing, another thread may hold the lock of a module.
        mask("")
        self._mask = mask
        self._format_line = format_line
        self._lock = threading.RLock()
        #: Whether something has been read and not been passed on yet; shared by both processes.
        self._busy = mmap.mmap(-1, 1)
        #: How many bytes are in the pipe of the output, as `ioctl` has written it last.
        self._unread = bytearray(_NONE)
        output, written = os.pipe()
        secrets, learned = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            if os.fork() == 0:
                self._serve(output, secrets)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._written, self._learned = _move(written), _move(learned)
            os.close(output)
            os.close(secrets)
        for number in (1, 2):
            process_guard.replace_descriptor(number, self._written)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the run needs beside the standard ones."""
        return self._written, self._learned

    def learn(self, secret: str, *, declared: bool) -> None:
        """Have the filter mask another secret in everything that is written after this call."""
        data = secret.encode("utf-8", "surrogatepass")
        frame = bytes([declared]) + len(data).to_bytes(_LENGTH, "little") + data
        with self._lock:
            try:
                while frame:
                    frame = frame[os.write(self._learned, frame) :]
            except BrokenPipeError:  # the filter was killed: nothing that is written arrives anywhere
                return

    def drain(self) -> None:
        """Wait until what was written so far has been passed on, so that our own output comes after it."""
        # Before each line of ours: nearly always there is nothing. With bytes, `ioctl` would raise and drop an error.
        fcntl.ioctl(self._written, termios.FIONREAD, self._unread)
        if self._unread != _NONE or self._busy[0]:
            self._wait()

    def _wait(self) -> None:
        until, pause = time.monotonic() + _PATIENCE, 0.00005
        reader = select.poll()
        reader.register(self._written, 0)
        while not reader.poll(0) and time.monotonic() < until:
            time.sleep(pause)
            pause *= 2
            fcntl.ioctl(self._written, termios.FIONREAD, self._unread)
            if self._unread == _NONE and not self._busy[0]:
                return

    def _serve(self, output: int, secrets: int) -> NoReturn:
        """Be the filter, in the forked process: all signals are blocked there, and nothing else of the run is open."""
        try:
            # Not in the foreground of the terminal, and in the session of the run: such a process is no one's orphan.
            os.setpgid(0, 0)
            output, secrets = os.dup2(output, 0), os.dup2(secrets, 1)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            _Filter(self._mask, self._format_line, self._busy, output, secrets).run()
        finally:
            os._exit(0)


class _Filter:
    """The loop of the filter: from ``output`` to descriptor 2."""

    def __init__(self, mask: Mask, format_line: Callable[[str], str], busy: mmap.mmap, *descriptors: int) -> None:
        output, secrets = descriptors
        mask.on_secret = None
        self._format_line = format_line
        self._mask = mask
        self._busy = busy
        self._output = output
        self._secrets = secrets
        self._unread = b""
        self._lines = LineSplitter(mask, keep_ends=True)

    def run(self) -> None:
        """Pass on what is written until nobody can write any more."""
        poller = select.poll()
        for descriptor in (self._output, self._secrets):
            poller.register(descriptor, select.POLLIN)
        chunk: bytes | None = None
        while chunk != b"":
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._output in ready:
                self._busy[0] = 1
                chunk = os.read(self._output, _CHUNK)
                # A secret was sent before it could be written.
                self._learn()
                self._pass_on(self._lines.feed(chunk, _LONGEST) if chunk else self._lines.rest())
                self._busy[0] = 0
            elif not self._learn():
                poller.unregister(self._secrets)

    def _learn(self) -> bool:
        """Learn all secrets that have arrived; return whether there may be more."""
        while select.select([self._secrets], [], [], 0)[0]:
            if not (chunk := os.read(self._secrets, _CHUNK)):
                return False
            self._unread += chunk
            while len(self._unread) > _LENGTH:
                start = 1 + _LENGTH
                end = start + int.from_bytes(self._unread[1:start], "little")
                if len(self._unread) < end:
                    break
                secret = self._unread[start:end].decode("utf-8", "surrogatepass")
                self._mask.learn(secret, declared=bool(self._unread[0]))
                self._unread = self._unread[end:]
        return True

    def _pass_on(self, lines: Sequence[str]) -> None:
        """Write whole lines, which begin as a log line does, so that none looks like another message of the run."""
        data = "".join(map(self._shown, lines)).encode()
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:
                select.select([], [2], [])
            except OSError:
                return  # as with our own lines: a closed pipe or a full disk stops no run

    def _shown(self, line: str) -> str:
        text = self._mask(line).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        whole = text.endswith("\n")
        return self._format_line(text.removesuffix("\n").removesuffix("\r")) + ("\n" if whole else "")


def _move(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    return moved
