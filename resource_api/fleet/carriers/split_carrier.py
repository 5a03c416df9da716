"""A carrier that splits hosts over processes: each carries its share as it would carry all, this one has the events.

A process is a fork of this one, made before any host is touched. What it does is in ``share``.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.carriers import carrier, share
from resource_api.fleet.carriers.carrier import HostEvent
from resource_api.model.values.errors import ProviderError, ResourceError
from resource_api.plugins.worker import protocol
from resource_api.runtime.signals import SIGNALS
from resource_api.system.process import process_tree
from resource_api.system.process.process import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    from resource_api.fleet.carriers.carrier import Carrier, Host
    from resource_api.fleet.carriers.read_become_password import BecomePasswords
    from resource_api.fleet.job import Job

_READ: Final = 64 * 1024
#: Seconds between two looks at whether a process has ended.
_TICK: Final = 0.02
#: Seconds that a process has to close its connections before it is killed.
_CLOSE: Final = 5.0
_NOTHING: Final[Mapping[str, bytes]] = {}


class SplitCarrier:
    """Takes jobs to hosts by processes; used by the thread that has made it, with which they end."""

    def __init__(
        self, make: Callable[[], Carrier], processes: int, passwords: BecomePasswords, via: Callable[[Host], str]
    ) -> None:
        """Start so many processes, each with a carrier of its own, which ``make`` returns there.

        ``passwords`` are those that these carriers use. ``via`` returns the jump hosts of a host: those that have the
        same share a process, so that the pace of their connections holds. Raise ``ResourceError``.
        """
        self._via = via
        self._selector = selectors.DefaultSelector()
        self._processes: list[_Process] = []
        #: Host → its process, until its end has come.
        self._carried: dict[str, _Process] = {}
        self._behind: dict[str, _Process] = {}
        self._events: deque[HostEvent] = deque()
        #: What the last job had in common with others, and how it is sent.
        self._common: tuple[Any, Any, bytes] = ((), _NOTHING, b"")
        gc.freeze()  # a page of what is there is copied only when it is written to
        try:
            for _ in range(processes):
                self._processes.append(_fork(make, passwords, self._processes))
        except OSError as error:
            self.close()
            msg = f"{processes} processes that connect to hosts cannot be started: {error.strerror}"
            raise ResourceError(msg) from error
        for process in self._processes:
            passwords.answer(process.questions)  # by a thread: none may run during a fork
            self._selector.register(process.connection, selectors.EVENT_READ, process)

    def start(self, host: Host, job: Job) -> None:
        """Begin to take ``job`` to a host, by the process that has the fewest."""
        try:
            common, request = self._encoded(host, job)
        except ProviderError as error:
            self._events.append(carrier.end(host.name, carrier.UNREACHABLE, error=str(error)))
            return
        if (process := self._process_for(host)) is None:
            why = "every process that connects to hosts has ended"
            self._events.append(carrier.end(host.name, carrier.UNREACHABLE, error=why))
            return
        self._carried[host.name] = process
        process.hosts.add(host.name)
        if process.common is not common:
            process.common = common
            self._send(process, common)
        self._send(process, request, host.name)

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host; None if none came in so many seconds (None: wait for ever).

        Processes are read when all that has come is taken: until then they wait, and so do their hosts.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._events:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if left is None and not self._carried:
                return None
            for key, events in self._selector.select(left):
                if events & selectors.EVENT_WRITE:
                    self._write(key.data)
                if events & selectors.EVENT_READ:
                    self._read(key.data)
            if left == 0 and not self._events:
                return None
        return self._events.popleft()

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its segment; once more: to end its programs."""
        self._ask(host, "interrupt")

    def abandon(self, host: str) -> None:
        """Close a host's channel: its end comes at once; the run there ends by itself."""
        self._ask(host, "abandon")

    def close(self) -> None:
        """Abandon whatever has not ended, and end the processes; no event comes afterwards."""
        for process in self._processes:
            process.connection.close()
        deadline = time.monotonic() + _CLOSE
        for process in self._processes:
            process.end(max(0.0, deadline - time.monotonic()))
        self._selector.close()
        self._processes.clear()
        self._carried.clear()
        self._events.clear()

    def pid(self, host: str) -> int:
        """Return the process that carries a host whose end has not come. Raise ``KeyError``."""
        return self._carried[host].pid

    def _process_for(self, host: Host) -> _Process | None:
        via = self._via(host)
        if (process := self._behind.get(via)) in self._processes:
            return process
        process = min(self._processes, key=lambda each: len(each.hosts), default=None)
        if via and process is not None:
            self._behind[via] = process
        return process

    def _encoded(self, host: Host, job: Job) -> tuple[bytes, bytes]:
        """Return the frames of what a job shares with others, and of itself. Raise ``ProviderError``."""
        documents, files, common = self._common
        if documents is not job.documents or files is not job.files:
            common = protocol.encode("common", {"documents": job.documents, "files": job.files})
            self._common = (job.documents, job.files, common)
        own = job._replace(documents=(), files=_NOTHING)
        return common, protocol.encode("start", {"host": share.fields(host), "job": tuple(own)})

    def _ask(self, host: str, kind: str) -> None:
        if (process := self._carried.get(host)) is not None:
            self._send(process, protocol.encode(kind, {"host": host}))

    def _send(self, process: _Process, data: bytes, host: str = "") -> None:
        process.pending.append((host, memoryview(data)))
        self._write(process)

    def _write(self, process: _Process) -> None:
        """Write what a process takes; whether it has ended is found where it is read."""
        with suppress(OSError):
            process.write()
        more = selectors.EVENT_WRITE if process.pending else 0
        self._selector.modify(process.connection, selectors.EVENT_READ | more, process)

    def _read(self, process: _Process) -> None:
        try:
            data = process.connection.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(process)
            return
        for event in process.receive(data):
            self._events.append(event)
            if event.document["type"] == "end":
                process.hosts.discard(event.host)
                self._carried.pop(event.host, None)

    def _lose(self, process: _Process) -> None:
        """End the hosts of a process that has ended; further hosts go to the others."""
        self._selector.unregister(process.connection)
        self._processes.remove(process)
        process.connection.close()
        why = f"the process that connected to it {process.end(0)}"
        unsent = {host for host, _ in process.pending} if process.ready else process.hosts
        for host in process.hosts:
            del self._carried[host]
            status = carrier.UNREACHABLE if host in unsent else carrier.LOST
            self._events.append(carrier.end(host, status, error=process.error or why))


class _Process:
    """A process, this end of its socket, and what has not been sent or taken yet."""

    def __init__(self, pid: int, connection: socket.socket, questions: Connection) -> None:
        self.pid = pid
        self.connection = connection
        #: Where it asks for passwords.
        self.questions = questions
        #: Its hosts whose end has not come.
        self.hosts: set[str] = set()
        #: Bytes, and the host whose job they are.
        self.pending: deque[tuple[str, memoryview]] = deque()
        #: What it knows of the jobs that come.
        self.common = b""
        #: Whether it takes jobs; and why it has ended, in its own words.
        self.ready = False
        self.error = ""
        self._received = bytearray()

    def write(self) -> None:
        """Write what the socket takes. Raise ``OSError``, also where it takes no more."""
        while self.pending:
            host, data = self.pending[0]
            rest = data[self.connection.send(data) :]
            if rest:
                self.pending[0] = (host, rest)
            else:
                self.pending.popleft()

    def receive(self, data: bytes) -> Iterator[HostEvent]:
        """Yield the events that bytes complete."""
        self._received += data
        for host, document in share.messages(self._received):
            if host:
                yield HostEvent(host, document)
            elif document:
                self.error = document
            else:
                self.ready = True

    def end(self, seconds: float) -> str:
        """Wait so long until it has ended by itself, kill it, and return how it has ended."""
        deadline = time.monotonic() + seconds
        while not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            if time.monotonic() >= deadline:
                os.kill(self.pid, signal.SIGKILL)
                found = os.waitpid(self.pid, 0)
                break
            time.sleep(_TICK)
        return describe_exit(os.waitstatus_to_exitcode(found[1]))


def _fork(make: Callable[[], Carrier], passwords: BecomePasswords, others: Sequence[_Process]) -> _Process:
    """Start a process that carries hosts. Raise ``OSError``."""
    ours, theirs = socket.socketpair()
    questions, their_questions = Pipe()
    parent = os.getpid()

    def made() -> Carrier:
        for each in (ours, questions, *(end for other in others for end in (other.connection, other.questions))):
            each.close()
        passwords.ask(their_questions)
        return make()

    process_tree.prepare()
    # No handler of this process may run in the other one.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        if (pid := os.fork()) == 0:
            share.carry(made, theirs, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        their_questions.close()
    os.set_blocking(ours.fileno(), False)
    return _Process(pid, ours, questions)
