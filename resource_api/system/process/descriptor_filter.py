"""Mask secrets in output that is written directly to the standard descriptors, in a process of its own.

Providers, C libraries and programs that inherit descriptors 1 and 2 bypass the log. Both descriptors become a pipe into
the filter, which passes each line on to the former standard error as a line of the log. It is a process and not a
thread, so that no output is lost when the run crashes or is killed; it ends when the last writer has closed the pipe.
The run's own output does not pass through it.
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
from resource_api.system.log import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.values.masking import Mask

#: The lowest number for pipes: code that closes "all" descriptors reuses lower numbers for its own files.
_FIRST_DESCRIPTOR: Final = 200
_CHUNK: Final = 64 * 1024
#: Longest line in bytes that is collected before it is passed on without its end.
_LONGEST_LINE: Final = 64 * 1024
#: Seconds that the run's own output waits for other output, which may be endless.
_WAIT_SECONDS: Final = 0.2
#: Bytes of the length of a secret in a message to the filter; a byte before it tells whether it is a declared input.
_LENGTH_BYTES: Final = 4
#: The answer of `ioctl` for an empty pipe.
_EMPTY_PIPE: Final = bytes(4)


class DescriptorFilter:
    """The filter process and its pipes; the run calls ``learn`` with each secret, ``drain`` before its own lines."""

    def __init__(self, mask: Mask, format_line: Callable[[str], str]) -> None:
        """Start the filter process, and make descriptors 1 and 2 its pipe, so that all output to them is masked.

        ``mask`` has the secrets. ``format_line`` returns the text to print for a line: one line without control
        characters. It is called in the filter process, and must import nothing. Raise ``OSError`` if no process can be
        started.
        """
        # Index the secrets now: the forked process must import nothing, as another thread may hold an import lock.
        mask("")
        self._mask = mask
        self._format_line = format_line
        self._lock = threading.RLock()
        #: Whether the filter has read data that it has not passed on; shared by both processes.
        self._busy = mmap.mmap(-1, 1)
        #: The number of bytes in the output pipe, as `ioctl` wrote it last.
        self._unread = bytearray(_EMPTY_PIPE)
        output, written = os.pipe()
        secrets, learned = os.pipe()
        # No handler of the run may be called in the filter, which goes on until the last writer has ended.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            if os.fork() == 0:
                self._serve(output, secrets)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            #: The ends of the pipes to write output and secrets to.
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
        """Send a secret to the filter process, to mask it in all later output; ``declared`` as for ``Mask.learn``."""
        data = secret.encode("utf-8", "surrogatepass")
        frame = bytes([declared]) + len(data).to_bytes(_LENGTH_BYTES, "little") + data
        with self._lock:
            try:
                while frame:
                    frame = frame[os.write(self._learned, frame) :]
            except BrokenPipeError:  # the filter was killed, and no output arrives
                return

    def drain(self) -> None:
        """Wait until all earlier output is passed on, so that a line that the run itself writes next comes after it."""
        # Called before each line, nearly always with an empty pipe. With bytes, `ioctl` would raise and drop an error.
        fcntl.ioctl(self._written, termios.FIONREAD, self._unread)
        if self._unread != _EMPTY_PIPE or self._busy[0]:
            self._wait()

    def _wait(self) -> None:
        """Wait until the filter has passed on all output or has ended; for a limited time, as output may be endless."""
        until, pause = time.monotonic() + _WAIT_SECONDS, 0.00005
        reader = select.poll()
        reader.register(self._written, 0)  # reports only that no reader is left: the filter has ended
        while not reader.poll(0) and time.monotonic() < until:
            time.sleep(pause)
            pause *= 2
            fcntl.ioctl(self._written, termios.FIONREAD, self._unread)
            if self._unread == _EMPTY_PIPE and not self._busy[0]:
                return

    def _serve(self, output: int, secrets: int) -> NoReturn:
        """Run the filter in the forked process, then end this process.

        The filter ends when all writers have closed its pipe. It therefore closes all descriptors but the reading ends
        of its pipes and descriptor 2, the real standard error: otherwise it would be a writer itself, and never end.
        """
        try:
            # In the background of the terminal, and in the session of the run: so no subreaper takes it for an orphan.
            os.setpgid(0, 0)
            output, secrets = os.dup2(output, 0), os.dup2(secrets, 1)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            _FilterLoop(self._mask, self._format_line, self._busy, output, secrets).run()
        finally:
            os._exit(0)


class _FilterLoop:
    """The loop of the filter process: it copies ``output``, masked, to descriptor 2, the former standard error."""

    def __init__(self, mask: Mask, format_line: Callable[[str], str], busy: mmap.mmap, *descriptors: int) -> None:
        """Prepare the loop of the filter process.

        ``descriptors``: its pipes, output of the run and new secrets. ``busy``: memory shared with the run, 1 while
        output was read and is not passed on.
        """
        output, secrets = descriptors
        mask.on_secret = None  # inherited by the fork: in the run it sends each new secret to this process
        self._format_line = format_line
        self._mask = mask
        self._busy = busy
        self._output = output
        self._secrets = secrets
        #: The beginning of a message about a secret, see ``_LENGTH_BYTES``, whose end has not arrived.
        self._unread = b""
        self._lines = LineSplitter(mask, keep_ends=True)

    def run(self) -> None:
        """Pass on output, masked by all secrets that came before, until all writers have closed the pipe."""
        poller = select.poll()
        for descriptor in (self._output, self._secrets):
            poller.register(descriptor, select.POLLIN)
        chunk: bytes | None = None
        while chunk != b"":
            if self._output in {descriptor for descriptor, _ in poller.poll()}:
                self._busy[0] = 1
                chunk = os.read(self._output, _CHUNK)
                # After the reading: a secret is sent before it can be printed, so those in the chunk have arrived.
                self._learn()
                self._pass_on(self._lines.feed(chunk, _LONGEST_LINE) if chunk else self._lines.rest())
                self._busy[0] = 0
            elif not self._learn():
                poller.unregister(self._secrets)

    def _learn(self) -> bool:
        """Read all secrets that have arrived, to mask them in later output; return False if the pipe is closed.

        The last one may have arrived in part: its beginning waits in ``_unread`` for the rest.
        """
        while select.select([self._secrets], [], [], 0)[0]:
            if not (chunk := os.read(self._secrets, _CHUNK)):
                return False
            self._unread += chunk
            while len(self._unread) > _LENGTH_BYTES:
                start = 1 + _LENGTH_BYTES  # behind the byte of ``declared`` and the length, see ``learn``
                end = start + int.from_bytes(self._unread[1:start], "little")
                if len(self._unread) < end:
                    break
                secret = self._unread[start:end].decode("utf-8", "surrogatepass")
                self._mask.learn(secret, declared=bool(self._unread[0]))
                self._unread = self._unread[end:]
        return True

    def _pass_on(self, lines: Sequence[str]) -> None:
        """Write lines to the former standard error as log lines, so that none resembles a message of the run."""
        data = "".join(map(self._printed, lines)).encode()
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:
                select.select([], [2], [])
            except OSError:
                return  # as for lines of the log: a closed pipe or a full disk stops no run

    def _printed(self, line: str) -> str:
        """Return a line as it is printed: masked, and in the form of a log line; its line end is kept."""
        text = self._mask(line).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        whole = text.endswith("\n")
        return self._format_line(text.removesuffix("\n").removesuffix("\r")) + ("\n" if whole else "")


def _move(descriptor: int) -> int:
    """Move a descriptor to a high number: a low one, once closed, could become a file that gets the secrets."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    return moved
