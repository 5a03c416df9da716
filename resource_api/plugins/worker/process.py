"""A worker process as the runtime sees it: started, spoken to, heard, ended with all that it has started.

It is executed anew, not forked: a fork would take along every secret, lock and connection of this process. What is
said is the callers' business; of the words for people only how a worker ended is known here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ProviderError
from resource_api.plugins.worker.assets import Lender
from resource_api.plugins.worker.channel import DISCONNECTED
from resource_api.plugins.worker.messages import Splitter, pack
from resource_api.system.process import process_tree
from resource_api.system.process.line_splitter import LineSplitter
from resource_api.system.process.process import STDERR, STDOUT, Process, describe_exit
from resource_api.system.process.spawn import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from resource_api.plugins.worker.messages import Frame

_CHUNK: Final = 1 << 16
_LINE: Final = 1 << 16  # bytes of a line that are waited for
_TICK: Final = 0.2  # seconds between two looks at what may have changed on our side
_OWED: Final = 8  # chunks that two pipes can hold, and some more
_BOOT: Final = (
    "import json, sys; given = json.loads(sys.argv[4]); sys.path[:] = given['path'];"
    " from resource_api.plugins.worker.server import main; main(*map(int, sys.argv[1:4]), given['places'])"
)


class Lost(ProviderError):  # noqa: N818 - reads as what it says
    """A worker has ended, or had to be ended, before it answered; ``how``, and what more is to be said of that."""

    def __init__(self, how: str, more: str = "") -> None:
        """Say both."""
        super().__init__(how + more)
        self.how = how
        self.more = more


class Worker(Process):
    """A process that serves one provider; ``places`` is its module path. Raises ``OSError`` if it cannot be started.

    ``say`` takes each line that is written to its standard output (1) or error (2). One thread at a time may use it.
    """

    def __init__(self, places: Sequence[str], say: Callable[[int, str], None]) -> None:
        """Start it; nothing is said yet."""
        requests, replies, lifeline = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        #: What the worker gets: requests, replies, and what tells it, whatever it does, that we are gone.
        self._theirs = (requests[0], replies[1], lifeline[0])
        self._ours = (requests[1], replies[0], lifeline[1])
        self._say = say
        self._lines = {STDOUT: LineSplitter(), STDERR: LineSplitter()}
        self._frames: deque[Frame] = deque()
        self._splitter = Splitter()
        self.lender = self.lending()
        self._programs: dict[int, process_tree.Row] = {}
        self._left = False
        given = json.dumps({"path": sys.path, "places": list(places)})
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # noqa: SLF001 - as multiprocessing does
        arguments = (*flags, "-P", "-c", _BOOT, *map(str, self._theirs), given)
        try:
            super().__init__(Invocation(sys.executable, arguments, os.environ, os.curdir))
        except BaseException:
            _close(self._ours)
            raise
        finally:
            _close(self._theirs)
        self._poller = select.poll()
        for fd in (self._out, self._err, self._ours[1], self._watch):
            self._poller.register(fd, select.POLLIN)

    def lending(self) -> Lender:
        """Begin a call: give what lends the contents in it."""
        self.lender = Lender()
        self._splitter.content = self.lender.content
        return self.lender

    def send(self, kind: str, **body: Any) -> None:
        """Send a frame; that nobody hears it any more is told by ``receive``. Raises ``ProviderError``: too large."""
        data = memoryview(pack(kind, body, self.lender.lend))
        with suppress(BrokenPipeError):
            while data and not self._left:
                data = data[os.write(self._ours[0], data) :]

    def receive(self, tick: Callable[[], None] = lambda: None) -> Frame:
        """Wait for the next frame; ``tick`` is called now and then and ends the waiting by raising.

        Raises ``Lost`` when the worker has ended, or has said what is no frame.
        """
        owed = _OWED
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if frame.kind != "program":
                    return frame
                self._note(**frame.body)
            tick()
            came = self._read(_TICK)
            # What it has forked may write on for ever.
            owed -= self.has_ended()
            if self.has_ended() and (owed < 0 or not came):
                raise self.lost()

    def drain(self) -> None:
        """Hear what has been written until now, the end of a line or not."""
        for _ in range(_OWED):
            if not self._read(0):
                break
        for stream, lines in self._lines.items():
            for line in lines.rest():
                self._say(stream, line)

    def end(self, grace: float) -> Iterable[Frame]:
        """Let it end by itself, as told before; what it has started in peace is left. Then it is killed alone.

        Gives what it has said until then.
        """
        if self._left:
            return ()
        until = time.monotonic() + grace
        with suppress(Lost):
            while not self.has_ended() and (left := until - time.monotonic()) > 0:
                self._read(left)
            self.drain()
        if not self.has_ended():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, signal.SIGKILL)
        self._reap()
        self._leave()
        return self._frames

    def kill(self) -> None:
        """End it at once, with everything that it has started, also when it has ended by itself."""
        if self._left:
            return
        self.stop(0)
        if not self.stopped and self._row is not None:
            programs = self._programs.values()
            known = [each for each in programs if (now := process_tree.row(each.pid)) and now.start == each.start]
            with process_tree.adopting():
                # Descent is lost with it; its own children are in its session, and each program leads another.
                process_tree.Tree(self._row, lambda: (process_tree.table(), None), known).kill()
        # Only now may its number, and that of its session, become somebody else's.
        self._reap()
        self._leave()

    def _read(self, seconds: float) -> bool:
        """Read what comes within some seconds; gives whether anything did. Raises ``Lost`` for what is no frame."""
        ready = [fd for fd, _ in self._poller.poll(1000 * seconds) if fd != self._watch]
        for fd in ready:
            if not (data := os.read(fd, _CHUNK)):
                self._poller.unregister(fd)
            elif fd != self._ours[1]:
                self._hear(STDOUT if fd == self._out else STDERR, data)
            else:
                try:
                    self._frames.extend(self._splitter.feed(data))
                except (ValueError, LookupError, TypeError) as error:
                    lost = Lost("said what is no frame", f": {error}")
                    raise lost from error
        return bool(ready)

    def _hear(self, stream: int, data: bytes) -> None:
        for line in self._lines[stream].feed(data, _LINE):
            self._say(stream, line)

    def lost(self) -> Lost:
        """End what it has left, and give how it ended."""
        self.drain()
        self.kill()
        if self.exit_code == DISCONNECTED:
            return Lost("lost the descriptors that it answers on")
        if (self.exit_code or 0) >= 0:
            return Lost(f"ended with exit code {self.exit_code}")
        memory = self.exit_code == -signal.SIGKILL and not self.stopped
        return Lost(describe_exit(self.exit_code or 0), ", perhaps for want of memory" if memory else "")

    def _note(self, pid: int, *, running: bool) -> None:
        """Remember which programs run, to end them should the worker no longer be able to."""
        row = process_tree.row(pid) if running else None
        if row is not None:
            self._programs[pid] = row
        else:
            self._programs.pop(pid, None)

    def _starter(self) -> Callable[[Invocation, int, int], Any]:
        return self._start

    def _start(self, invocation: Invocation, out: int, err: int) -> Any:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            [invocation.path, *invocation.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=self._theirs,
            start_new_session=True,
        )

    def _leave(self) -> None:
        self._left = True
        super()._leave()
        _close(self._ours)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
