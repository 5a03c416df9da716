"""A worker process as the runtime sees it: its start, frames, output and assets, and the end of it and its programs.

A Python provider is served by a new interpreter, not by a fork, which would inherit every secret, lock and connection
of this process; a provider in another language is an executable. ``proxy`` gives the frames their meaning.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from resource_api.model.values.archive_rules import Limits, Member
from resource_api.model.values.assets import Archive, Asset, Content
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ProviderError
from resource_api.plugins.worker import guardian
from resource_api.plugins.worker.protocol import DISCONNECTED, Decoder, encode, encode_error, unreadable_content
from resource_api.system.log import LineSplitter
from resource_api.system.process import core_dumps, process_tree
from resource_api.system.process.child import Invocation
from resource_api.system.process.process import STDERR, STDOUT, Process, describe_exit, starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.values.masking import Mask
    from resource_api.plugins.worker.protocol import Frame

_CHUNK: Final = 1 << 16
_CONTENT_CHUNK: Final = 1 << 18  # bytes of an asset in one answer
_MAX_LINE: Final = 1 << 16  # bytes of a line; a longer one is split
_TICK: Final = 0.2  # seconds between two calls of ``check`` while waiting
_MAX_CHUNKS: Final = 8  # more chunks than two pipes can hold
_EXECUTION: Final = 1.0  # seconds to wait until a program is executed
#: The code of a Python worker. Its arguments: the descriptors of ``main`` (the third is the lifeline), then options.
_BOOT: Final = (
    "import json, sys; options = json.loads(sys.argv[5]); sys.path[:] = options['path'];"
    " from resource_api.plugins.worker import guardian; guardian.fork(int(sys.argv[3]));"
    " from resource_api.plugins.worker.server import main; main([*map(int, sys.argv[1:5])], options['directories'],"
    " options['trust'], options['core'])"
)


class WorkerLost(ProviderError):  # noqa: N818 - its name is a sentence
    """A worker ended, or had to be killed, before it answered: ``how``, and ``more`` details."""

    def __init__(self, how: str, more: str = "") -> None:
        """Keep the two parts of the message: callers put the method's name between ``how`` and ``more``."""
        super().__init__(how + more)
        self.how = how
        self.more = more


#: Takes the fault of the bytes, returns the error.
_no_frame = partial(WorkerLost, "sent bytes that are no frame")


class AssetSender:
    """The assets and archives that a worker may read in one call: frames hold their digests, answers their bytes."""

    def __init__(self) -> None:
        """Start without contents, which ``encode`` adds as it writes the frames of a call."""
        #: The contents that the call's frames refer to, by kind and digest: the worker may open no others.
        self._contents: dict[tuple[str, str], Content] = {}
        #: The opened contents, by the number that the worker names in its requests.
        self._readers: dict[int, _Reader] = {}
        self._reader_count = 0

    def add(self, content: Content) -> None:
        """Allow the worker to read a content."""
        self._contents[content.word, content.sha256] = content

    def content(self, word: str, sha256: str, origin: str, source: object) -> Content:
        """Return the content that a worker sends back: the one that was added, or one that cannot be read."""
        return self._contents.get((word, sha256)) or unreadable_content(word, sha256, origin, source)

    def answer(self, request: str, body: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
        """Return kind and body of the frame that answers a request to read a content: ``open``, ``member``, ``read``.

        An error of reading is an answer too, raised in the worker. Raise ``LookupError`` for a content that was not
        added, or a reader that was not opened: such a worker is killed.
        """
        try:
            value = self._open(**body) if request == "open" else self._readers[body["reader"]].next(request)
        except LookupError:
            raise
        except Exception as error:  # noqa: BLE001 - raised in the worker
            return "refused", encode_error(error)
        return "answer", {"value": value}

    def close(self) -> None:
        """Close the contents that were not read to their end."""
        while self._readers:
            self._readers.popitem()[1].close()

    def _open(self, word: str, sha256: str, limits: tuple[int, int] | None) -> int:
        """Return the number of a new reader of an added content, an ``asset`` or, within ``limits``, an ``archive``."""
        self._reader_count += 1
        self._readers[self._reader_count] = _Reader(self._contents[word, sha256], limits)
        return self._reader_count


class _Reader:
    """One asset or archive that a worker is reading, piece by piece."""

    def __init__(self, content: Content, limits: tuple[int, int] | None) -> None:
        """Open an asset, or an archive within its ``limits``, to be read piece by piece at the worker's requests."""
        #: The open file of an asset.
        self._file: BinaryIO | None = None
        #: The members of an archive that were not read yet.
        self._members: Iterator[Member] = iter(())
        #: The unread bytes of the asset, or of the archive's present member.
        self._chunks: Iterator[bytes] = iter(())
        if isinstance(content, Archive) and limits is not None:
            self._members = content.members(Limits(*limits))
        elif isinstance(content, Asset):
            self._file = content.open()
            self._chunks = iter(partial(self._file.read, _CONTENT_CHUNK), b"")

    def next(self, request: str) -> object:
        """Return the next chunk of bytes for the request ``read``, or the archive's next member for ``member``.

        A member is returned without its bytes, which the next ``read`` requests get, so that no whole file is held in
        memory. The result is None after the last chunk and the last member.
        """
        if request == "member":
            member = next(self._members, None)
            self._chunks = iter(member.parts if member else ())
            return None if member is None else list(member[:-1])
        chunk = next(self._chunks, None)
        if chunk is None and self._file is not None:
            self._file.close()
        return chunk

    def close(self) -> None:
        """Close the file; nothing more is read."""
        if self._file is not None:
            self._file.close()
        self._members, self._chunks = iter(()), iter(())


class WorkerProcess(Process):
    """A process that serves one provider. One thread at a time may use it."""

    #: The descriptor of its answers, and those of its other streams: descriptor → number of the stream.
    _answers: int
    _streams: Mapping[int, int]
    #: Whether it has ended and its descriptors are closed: their numbers may belong to other files now.
    _closed = False

    def __init__(self, invocation: Invocation, requests: int, log: Callable[[int, str], None], mask: Mask) -> None:
        """Start the process, which reads frames from the other end of ``requests``.

        ``log`` is called with each line that it writes to its standard output (1) or error (2); a long line is cut, but
        not within a secret of ``mask``. Raise ``OSError`` if it cannot be started.
        """
        #: The descriptor that requests are written to. It does not block: a worker that does not read them must not
        #: stop this process.
        self._requests = requests
        os.set_blocking(requests, False)
        self._log = log
        #: The unfinished line of each stream.
        self._lines = {STDOUT: LineSplitter(mask), STDERR: LineSplitter(mask)}
        #: The frames that ``receive`` has not returned yet, and the decoder of the bytes that follow.
        self._frames: deque[Frame] = deque()
        self._decoder = Decoder()
        #: The number of calls until now, the present one included.
        self._calls = 0
        self.begin_call()
        #: The programs that it runs, by process id: ``kill`` ends them too.
        self._programs: dict[int, process_tree.ProcessRow] = {}
        super().__init__(invocation)
        self._poller = select.poll()

    def _watch_streams(self, answers: int, streams: Mapping[int, int]) -> None:
        """Begin to read frames from the descriptor ``answers``, and lines for the log from ``streams``.

        ``streams``: descriptor → standard output or error. The end of the process, seen by ``_watch``, ends a wait too:
        its children may hold the pipes open.
        """
        self._answers, self._streams = answers, streams
        for fd in {answers, *streams, self._watch}:
            self._poller.register(fd, select.POLLIN)

    def begin_call(self) -> int:
        """Count a call that begins, and return its number, which the last frame of the call must repeat.

        By the number a late frame of an earlier call is recognized. A new ``AssetSender`` ends the worker's access to
        the contents of earlier calls.
        """
        self._calls += 1
        self.assets = AssetSender()
        self._decoder.content = self.assets.content
        return self._calls

    def send(self, kind: str, check: Callable[[], None] = lambda: None, /, **body: object) -> None:
        """Send a frame; do nothing after the worker's end, which ``receive`` reports.

        While the pipe is full, its output is read: a worker that writes without reading would otherwise block both.
        ``check`` is then called several times a second, and ends the sending by raising. Raise ``ProviderError`` for a
        frame that is too large, ``WorkerLost`` for bytes that arrive and are no frame.
        """
        data = memoryview(encode(kind, body, self.assets.add))
        with suppress(BrokenPipeError):
            while data and not self._closed:
                try:
                    data = data[os.write(self._requests, data) :]
                except BlockingIOError:
                    if self.has_ended():
                        return
                    check()
                    self._read_until_writable()

    def _read_until_writable(self) -> None:
        """Read the worker's output once, or return as soon as more of a frame can be written.

        The worker may be blocked by its own full pipe: it reads the frame only after its output has been read.
        """
        self._poller.register(self._requests, select.POLLOUT)
        try:
            self._read(_TICK)
        finally:
            self._poller.unregister(self._requests)

    def interrupt(self) -> None:
        """Do nothing; a Python worker, with a pipe for this, calls ``cancel`` of its provider beside the running call.

        A program gets the frame ``cancel`` within its call, or ``close``, instead.
        """

    def receive(self, check: Callable[[], None] = lambda: None) -> Frame:
        """Wait for the next frame; ``check`` is called several times a second, and ends the waiting by raising.

        ``check`` enforces the time limit and interrupts. Raise ``WorkerLost`` when the worker has ended, or has sent
        bytes that are no frame. After its end only the bytes that its pipes may still hold are read.
        """
        chunks = _MAX_CHUNKS
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if frame.kind != "program":
                    return frame
                self._note_program(**frame.body)
            check()
            received = self._read(_TICK)  # adds to ``_frames``
            if self.has_ended():
                # Children that the worker has forked may keep the pipes open and write for ever.
                chunks -= 1
                if chunks < 0 or not received:
                    raise self.end_as_lost()

    def drain(self) -> None:
        """Log the worker's output until now, also an unfinished line, so that it comes before later lines."""
        for _ in range(_MAX_CHUNKS):  # children of the worker may write on for ever
            if not self._read(0):
                break
        for stream, lines in self._lines.items():
            for line in lines.rest():
                self._log(stream, line)

    def begin_close(self, *, interrupted: bool) -> None:
        """Ask it to end; ``interrupted``: the run was interrupted."""
        self.send("close", interrupted=interrupted)

    def end(self, grace: float) -> Iterable[Frame]:
        """Wait up to ``grace`` seconds for the worker's end, then kill it; return the frames that it sent until then.

        The programs that it left running go on; ``kill`` ends those too.
        """
        if self._closed:
            return ()
        until = time.monotonic() + grace
        with suppress(WorkerLost):
            while not self.has_ended() and (seconds := until - time.monotonic()) > 0:
                self._read(seconds)
            self.drain()
        if not self.has_ended():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, signal.SIGKILL)
        self._reap()
        self._close_after_end()
        return self._frames

    def kill(self) -> None:
        """Kill the worker at once, with all its descendants.

        If the worker has ended by itself, ``stop`` does nothing, but its programs may still run, without this process
        as their ancestor. They are found by the worker's session, or by the worker's reports of programs that lead
        sessions of their own.
        """
        if self._closed:
            return
        self.stop(0)
        if not self.stopped and self._row is not None:
            present = {program: process_tree.row(program.pid) for program in self._programs.values()}
            alive = [program for program, row in present.items() if row is not None and row.start == program.start]
            with process_tree.adopting():
                process_tree.Tree(self._row, lambda: (process_tree.table(), None), alive).kill()
        # Only now may the system reuse its process id, which is also the id of its session.
        self._reap()
        self._close_after_end()

    def end_as_lost(self) -> WorkerLost:
        """Kill the descendants of an ended worker, log its last output, and return the error with its exit."""
        self.drain()
        self.kill()
        if self.exit_code == DISCONNECTED:
            return WorkerLost("lost the descriptors that it answers on")
        if (self.exit_code or 0) >= 0:
            return WorkerLost(f"ended with exit code {self.exit_code}")
        memory = self.exit_code == -signal.SIGKILL and not self.stopped
        return WorkerLost(describe_exit(self.exit_code or 0), ", perhaps for want of memory" if memory else "")

    def _read(self, seconds: float) -> bool:
        """Read once, within ``seconds``: frames into ``_frames``, lines into the log. Return whether any came.

        The end of the process ends the waiting, too. Raise ``WorkerLost`` for bytes that are no frame.
        """
        ready = [fd for fd, _ in self._poller.poll(1000 * seconds) if fd not in {self._watch, self._requests}]
        for fd in ready:
            data = os.read(fd, _CHUNK)
            if not data:
                self._poller.unregister(fd)
            elif fd != self._answers:
                self._log_lines(self._streams[fd], data)
            else:
                with errors_as(_no_frame, (ValueError, LookupError, TypeError), ": "):
                    self._frames.extend(self._decoder.feed(data))
        return bool(ready)

    def _log_lines(self, stream: int, data: bytes) -> None:
        """Log the lines that bytes of standard output (1) or error (2) complete."""
        for line in self._lines[stream].feed(data, _MAX_LINE):
            self._log(stream, line)

    def _note_program(self, pid: int, *, running: bool) -> None:
        """Note that the worker has started a program, to kill it if the worker dies, or that the program has ended.

        ``running``: it has started.
        """
        row = process_tree.row(pid) if running else None  # None too for one that has ended already
        if row is not None:
            self._programs[pid] = row
        else:
            self._programs.pop(pid, None)

    def _close_after_end(self) -> None:
        """Close the descriptors; ``_closed`` prevents later uses of their numbers, which other files may get."""
        self._closed = True
        super()._close_after_end()
        os.close(self._requests)


class ProgramWorker(WorkerProcess):
    """An executable that speaks the protocol on its standard input and output, in any language.

    Its lines on standard output without the mark of a frame are logged, as is its standard error.
    """

    def __init__(self, path: str, log: Callable[[int, str], None], mask: Mask) -> None:
        """Start the executable at ``path``, and a guardian of it. Raise ``OSError`` where it cannot be executed."""
        # While this process has ``_lifeline`` open, the guardian ends the orphans of a program that crashes.
        (source, requests), (lifeline, self._lifeline) = (os.pipe2(os.O_CLOEXEC) for _ in range(2))
        guard = partial(guardian.guard, lifeline)
        invocation = Invocation(path, (), os.environ, str(Path.cwd()), stdin=source, guard=guard)
        try:
            super().__init__(invocation, requests, log, mask)
        except BaseException:
            if not self._closed:  # as after an interrupt
                _close((requests, self._lifeline))
            raise
        finally:
            _close((source, lifeline))
        self._await_execution()
        # Unlike a Python worker, it may print lines that are no frames: they are logged.
        self._decoder = Decoder(lambda line: self._log_lines(STDOUT, line + b"\n"))
        self.begin_call()
        self._watch_streams(self._out, {self._err: STDERR})

    def begin_close(self, *, interrupted: bool) -> None:
        """Ask the executable to end; the programs that it leaves running go on then, for any exit code."""
        # Before the request, after which the executable may end at once: the guardian must see it closed.
        self._close_lifeline()
        super().begin_close(interrupted=interrupted)

    def _await_execution(self) -> None:
        """Wait until the executable has been started. Raise ``OSError`` where it cannot be executed.

        The forked child closes the pipe ``_report`` by executing the program, or writes the error to it.
        """
        poller = select.poll()
        poller.register(self._report, select.POLLIN)
        # Bytes (POLLIN) are the error. The wait is limited: a child that another thread forks may hold the pipe open.
        if any(event & select.POLLIN for _, event in poller.poll(1000 * _EXECUTION)):
            self.kill()
            if self.failure is not None:
                raise self.failure

    def _starter(self, _invocation: Invocation) -> Callable[[Invocation, int, int, int], object]:
        # By a fork of this process: only that can have a guardian.
        return starter(reading=True)

    def _close_lifeline(self) -> None:
        """Close the lifeline if it is open; from then on the guardian leaves the orphans of the program running."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._lifeline = -1

    def _close_after_end(self) -> None:
        """Close its descriptors, with the lifeline if ``begin_close`` has not closed that."""
        super()._close_after_end()
        self._close_lifeline()


class PythonWorker(WorkerProcess):
    """A new interpreter that serves a Python provider, on descriptors of its own."""

    def __init__(
        self, directories: Sequence[str], log: Callable[[int, str], None], mask: Mask, trust: Sequence[str] = ()
    ) -> None:
        """Start an interpreter that serves the provider found in ``directories``, its module path.

        It has pipes of its own, as the provider may print. Code beneath the directories of ``trust`` is not checked.
        """
        requests, replies, lifeline, interrupts = (os.pipe2(os.O_CLOEXEC) for _ in range(4))
        #: The worker's ends of the pipes: requests, replies, one whose closing shows that this process is gone, and one
        #: on which a byte means that the run is interrupted; then ours, without that of ``requests``.
        self._worker_ends = (requests[0], replies[1], lifeline[0], interrupts[0])
        self._interrupts = interrupts[1]
        self._runtime_ends = (replies[0], lifeline[1], self._interrupts)
        #: Held while an interrupt is written or the descriptors are closed, which different threads do.
        self._interrupt_lock = threading.Lock()
        paths = {"path": sys.path, "directories": list(directories), "trust": list(trust)}
        options = json.dumps({**paths, "core": core_dumps.callers_limit()})
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # noqa: SLF001 - as multiprocessing does
        arguments = (*flags, "-P", "-c", _BOOT, *map(str, self._worker_ends), options)
        try:
            super().__init__(Invocation(sys.executable, arguments, os.environ, os.curdir), requests[1], log, mask)
        except BaseException:
            if not self._closed:  # as after an interrupt
                _close((*self._runtime_ends, requests[1]))
            raise
        finally:
            _close(self._worker_ends)
        self._watch_streams(replies[0], {self._out: STDOUT, self._err: STDERR})

    def interrupt(self) -> None:
        """Have ``cancel`` of the worker's provider called beside the running call. Any thread may call this.

        A pipe of its own is used, because the worker reads no frames while a call runs.
        """
        with self._interrupt_lock, suppress(BrokenPipeError):
            if not self._closed:
                os.write(self._interrupts, b"!")

    def _starter(self, _invocation: Invocation) -> Callable[[Invocation, int, int, int], object]:
        return self._start

    def _start(self, invocation: Invocation, out: int, err: int, _report: int) -> object:
        """Start the interpreter in a session of its own, so that Ctrl-C at the terminal does not reach it."""
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            [invocation.path, *invocation.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=self._worker_ends,
            start_new_session=True,
        )

    def _close_after_end(self) -> None:
        """Close its descriptors; the lock keeps an interrupt in another thread from writing to a closed one."""
        with self._interrupt_lock:
            super()._close_after_end()
            _close(self._runtime_ends)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
