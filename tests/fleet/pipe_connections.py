"""Connections to child processes that act as hosts and run the same first program, for tests without a server.

One thread moves all bytes.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.fleet.channel import UNSENT, HostChannel
from resource_api.fleet.connections import MAX_BUFFERED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.archives import Archives
    from resource_api.fleet.connections import Host, HostEvent
    from resource_api.fleet.job import HostJob

_READ: Final = 16 * 1024
#: Size of the end of a child's standard error in bytes, which has the error message.
_ERROR: Final = 4096


class PipeConnections:
    """Runs each job in a child process; used by one thread."""

    def __init__(
        self,
        payloads: Archives,
        *,
        python: str = sys.executable,
        cache: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Send archives to interpreters ``python``, which unpack them in the directory ``cache``.

        ``environment``: the variables of the children, None for this process's.
        """
        self._payloads = payloads
        self._python = python
        self._cache = cache
        self._environment = dict(os.environ if environment is None else environment)
        self._selector = selectors.DefaultSelector()
        #: Host → its running process.
        self._children: dict[str, _Child] = {}
        #: Unreaped processes.
        self._pids: set[int] = set()
        #: Events in the order of arrival, each with its size in bytes.
        self._events: deque[tuple[HostEvent, int]] = deque()

    def start(self, host: Host, job: HostJob) -> None:
        """Start to run ``job`` in a new process for ``host``, with the interpreter ``host.python`` if set."""
        channel, python = HostChannel(host.name, job, self._payloads.bytes_of), host.python or self._python
        try:
            child = _start(channel, python, self._cache, self._environment)
        except OSError as error:
            self._events.extend((event, 0) for event in channel.close(f"{error.filename or python}: {error.strerror}"))
            return
        self._pids.add(child.pid)
        self._children[host.name] = child
        self._watch(child)

    def pid(self, host: str) -> int:
        """Return the process of a running host. Raise ``KeyError``."""
        return self._children[host].pid

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host, or None after a timeout in seconds (None: no timeout)."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._events:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            if timeout is None and not self._selector.get_map():
                return None  # no event can follow
            for key, _ in self._selector.select(timeout):
                if key.fileobj in self._selector.get_map():
                    self._move(*key.data)
            self._reap()
            if timeout == 0 and not self._events:
                return None
        event, size = self._events.popleft()
        if (child := self._children.get(event.host)) is not None:
            child.buffered -= size
            self._watch(child)
        return event

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its segment; the second time, to end its programs.

        A host whose job was not sent yet ends at once.
        """
        if (child := self._children.get(host)) is None:
            return
        if child.channel.sent:
            child.channel.interrupt()
            self._watch(child)
        else:
            self._end(child, UNSENT)

    def abandon(self, host: str) -> None:
        """Close a host's channel: its end arrives at once as ``lost``; the run there ends by itself."""
        if (child := self._children.get(host)) is not None:
            self._end(child, "the connection was closed from here")

    def close(self) -> None:
        """Abandon the unfinished hosts. No events follow."""
        for host in list(self._children):
            self.abandon(host)
        self._events.clear()
        self._reap()
        self._selector.close()

    def _move(self, child: _Child, operation: str) -> None:
        """Read from or write to a descriptor that is ready."""
        try:
            if operation == "write":
                child.write()
            elif operation == "error":
                if child.read_error():
                    self._unwatch(child.stderr)
            elif data := child.read():
                self._receive(child, data)
            else:
                self._end(child, child.reason())
        except BlockingIOError:
            pass
        except OSError as error:
            if operation == "write":
                # The child may have printed an error before.
                child.pending.clear()
                self._unwatch(child.stdin)
            else:
                self._end(child, error.strerror or str(error))
            return
        if child.channel.host in self._children:
            self._watch(child)

    def _receive(self, child: _Child, data: bytes) -> None:
        """Queue the events that have become complete, with their sizes."""
        events = child.channel.receive(data)
        child.incomplete += len(data)
        for number, event in enumerate(events, 1):
            size = child.incomplete if number == len(events) else 0
            self._events.append((event, size))
            child.buffered += size
        if events:
            child.incomplete = 0
        if child.channel.ended:
            self._forget(child)

    def _end(self, child: _Child, error: str) -> None:
        """Queue the end of a host with ``error``, and close its descriptors."""
        self._events.extend((event, 0) for event in child.channel.close(error))
        self._forget(child)

    def _forget(self, child: _Child) -> None:
        """Close the descriptors of a finished host; its process may go on."""
        self._children.pop(child.channel.host, None)
        for descriptor in (child.stdin, child.stdout, child.stderr):
            self._unwatch(descriptor)
            os.close(descriptor)

    def _watch(self, child: _Child) -> None:
        """Wait for the possible operations of a child: it is not read while its buffer is full."""
        child.pending.extend(map(memoryview, child.channel.take()))
        operations = {
            child.stdout: ("read", selectors.EVENT_READ, child.buffered < MAX_BUFFERED),
            child.stderr: ("error", selectors.EVENT_READ, not child.silent),
            child.stdin: ("write", selectors.EVENT_WRITE, bool(child.pending)),
        }
        for descriptor, (operation, event, possible) in operations.items():
            registered = descriptor in self._selector.get_map()
            if possible and not registered:
                self._selector.register(descriptor, event, (child, operation))
            elif registered and not possible:
                self._selector.unregister(descriptor)

    def _unwatch(self, descriptor: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(descriptor)

    def _reap(self) -> None:
        """Reap children that ended."""
        for pid in list(self._pids):
            with suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            self._pids.discard(pid)


class _Child:
    """A process that acts as a host: its channel, this end of its pipes, and its buffers."""

    def __init__(self, channel: HostChannel, pid: int, descriptors: tuple[int, int, int]) -> None:
        """Begin with the pipes of a started host process; ``descriptors``: this side of its three standard streams."""
        self.channel = channel
        self.pid = pid
        self.stdin, self.stdout, self.stderr = descriptors
        #: Bytes to write to it.
        self.pending: deque[memoryview] = deque()
        #: Bytes of complete events that the caller has not taken yet: above a limit nothing is read from the host.
        self.buffered = 0
        #: Bytes received of an event that is not complete.
        self.incomplete = 0
        #: Whether its standard error ended, and its last bytes.
        self.silent = False
        self._last_error = b""

    def read(self) -> bytes:
        return os.read(self.stdout, _READ)

    def read_error(self) -> bool:
        """Record the end of the standard error; return whether it ended."""
        data = os.read(self.stderr, _READ)
        self.silent = not data
        self._last_error = (self._last_error + data)[-_ERROR:]
        return self.silent

    def write(self) -> None:
        """Write until the pipe is full. Raise ``OSError``."""
        while self.pending:
            part = self.pending.popleft()
            written = 0
            try:
                written = os.write(self.stdin, part)
            finally:
                if written < len(part):
                    self.pending.appendleft(part[written:])

    def reason(self) -> str:
        """Return the last line of the child's standard error."""
        with suppress(BlockingIOError):
            while not self.read_error():
                pass
        lines = self._last_error.decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "the process has ended")


def _start(channel: HostChannel, python: str, cache: str, environment: Mapping[str, str]) -> _Child:
    """Start the first program with pipes. Raise ``OSError``."""
    (their_in, our_in), (our_out, their_out), (our_error, their_error) = pipes = [os.pipe() for _ in range(3)]
    theirs = (their_in, their_out, their_error)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(theirs)]
        argv = [python, *channel.arguments(cache)]
        # In a process group of its own: Ctrl-C reaches this process alone, which interrupts the host.
        pid = os.posix_spawn(
            python, argv, environment, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGINT, signal.SIGPIPE]
        )
    except BaseException:
        for pair in pipes:
            for descriptor in pair:
                os.close(descriptor)
        raise
    for descriptor in theirs:
        os.close(descriptor)
    for descriptor in (our_in, our_out, our_error):
        os.set_blocking(descriptor, False)
    return _Child(channel, pid, (our_in, our_out, our_error))
