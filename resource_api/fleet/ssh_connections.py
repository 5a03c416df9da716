"""Connections to hosts by SSH: one connection, one channel and one process for each host.

All connections share a thread with an event loop; ``Host.transport`` selects the transport. The caller's thread takes
the events. A host is read only while its events are taken, which bounds its memory.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from resource_api.fleet import openssh_transport, transport
from resource_api.fleet.asyncssh_transport import AsyncsshTransport
from resource_api.fleet.channel import UNSENT, HostChannel
from resource_api.fleet.connections import LIBRARY, MAX_BUFFERED, PROGRAM
from resource_api.fleet.python_launch import Launch
from resource_api.fleet.transport import ConnectionLost
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceAPIError, ResourceError, reason
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.fleet.archives import Archives
    from resource_api.fleet.connections import Host, HostEvent
    from resource_api.fleet.job import HostJob
    from resource_api.fleet.python_launch import HostPlatform
    from resource_api.fleet.transport import RemoteProcess, Transport
    from resource_api.manifest.input_files import ValueSource

#: Largest write in bytes.
_WRITE: Final = transport.WINDOW
#: Number of finished hosts between garbage collections: a closed connection is a cycle of 30 KiB.
_COLLECT: Final = 64
_TRANSPORTS: Final[Mapping[str, Callable[[Mapping[str, str]], Transport]]] = {
    LIBRARY: AsyncsshTransport,
    PROGRAM: openssh_transport.OpensshTransport,
}


class SshConnections:
    """Runs jobs on hosts by SSH; used by one thread."""

    def __init__(
        self,
        archives: Archives,
        *,
        environment: Mapping[str, str] | None = None,
        limit: int = 1000,
        runtime: Callable[[HostPlatform], tuple[str, bytes] | None] = lambda _platform: None,
        transports: Collection[str] = (LIBRARY,),
    ) -> None:
        """Send ``archives`` to at most ``limit`` hosts at once, fewer if descriptors are limited.

        ``environment``: the variables for ssh, None for this process's. ``runtime`` returns digest and bytes of a
        Python for the platform of a host without one, or None. ``transports``: the values of ``Host.transport`` in use.
        Raise ``ResourceError`` if the library of a transport is not installed.
        """
        self._archives = archives
        variables = os.environ if environment is None else environment
        self._transports = {name: _TRANSPORTS[name](variables) for name in transports}
        self._passwords = BecomePasswords()
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(connection_limit(limit, transports))
        #: Host → its task and its stream until its end. Only the thread of the loop changes them, always both.
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self._streams: dict[str, _HostStream] = {}
        self._finished = 0
        #: Hosts whose end was not taken. Only the caller's thread changes it.
        self._open: set[str] = set()
        #: Events in the order of arrival, each with the bytes that are free when it is taken. ``_arrived`` locks it.
        self._events: deque[tuple[HostEvent, int]] = deque()
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def start(self, host: Host, job: HostJob) -> None:
        """Start to run ``job`` on ``host``; all errors arrive as the host's end."""
        self._open.add(host.name)
        self._loop.call_soon_threadsafe(self._begin, host, job)

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host, or None after a timeout in seconds (None: no timeout).

        No more is read from a host whose buffered events exceed a limit. Each returned event is no longer in this
        buffer, so its bytes are subtracted, and the host may be read again.
        """
        with self._arrived:
            if self._open:  # otherwise no event can come
                self._arrived.wait_for(lambda: self._events, seconds)
            if not self._events:
                return None
            event, size = self._events.popleft()
        if event.document["type"] == "end":
            self._open.discard(event.host)
        elif size:
            self._loop.call_soon_threadsafe(self._release, event.host, size)
        return event

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its segment; the second time, to end its programs."""
        self._loop.call_soon_threadsafe(self._interrupt, host)

    def abandon(self, host: str) -> None:
        """Close a host's connection: its end arrives at once; the run there ends by itself."""
        self._loop.call_soon_threadsafe(self._cancel, host)

    def close(self) -> None:
        """Abandon the unfinished hosts and end the thread. No events follow, and a second call does nothing."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._events.clear()
        self._open.clear()

    # In the thread of the loop

    def _begin(self, host: Host, job: HostJob) -> None:
        """Start the task of a host, at whose end ``_end`` passes on the host's last event."""
        stream = self._streams[host.name] = _HostStream(HostChannel(host.name, job, self._archives.bytes_of))
        task = self._tasks[host.name] = self._loop.create_task(self._run(host, stream))
        task.add_done_callback(partial(self._end, host.name, stream))

    def _interrupt(self, host: str) -> None:
        """Ask the run on a host to end. A host to which no job was sent yet ends at once, as nothing runs there."""
        if (stream := self._streams.get(host)) is None:
            return
        if stream.channel.sent:
            stream.channel.interrupt()
            stream.send(stream.channel.take())
        else:
            self._put(stream.channel.close(UNSENT))
            self._cancel(host)

    def _cancel(self, host: str) -> None:
        """Cancel the task of a host, which puts its end; nothing after its end."""
        if (task := self._tasks.get(host)) is not None:
            task.cancel()

    def _release(self, host: str, size: int) -> None:
        """Subtract ``size`` bytes of events that the caller has taken; below the limit the host is read again."""
        if (stream := self._streams.get(host)) is not None:
            stream.buffered -= size
            if stream.buffered < MAX_BUFFERED:
                stream.drained.set()

    def _put(self, events: Sequence[HostEvent], size: int = 0) -> None:
        """Pass events to the caller's thread. ``size``: their bytes in the host's buffer.

        The bytes stay counted until the caller has taken the last of these events, because they arrived together.
        """
        if events:
            with self._arrived:
                self._events.extend((event, 0) for event in events[:-1])
                self._events.append((events[-1], size))
                self._arrived.notify()

    async def _close(self) -> None:
        """End all tasks of hosts, and only then the connections to jump hosts, which the tasks share."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport_ in self._transports.values():
            await transport_.close()

    async def _run(self, host: Host, stream: _HostStream) -> str:
        """Run a host's job when a slot is free; return the reason why its stream ended early, or "".

        Exceptions are returned as such a reason, since an error of one host must not end the others.
        """
        try:
            async with self._slots:
                return await self._connect(host, stream)
        except ResourceAPIError as failure:
            return str(failure)
        except Exception as failure:  # noqa: BLE001 - a host must not end the others
            return reason(failure)

    def _end(self, host: str, stream: _HostStream, task: asyncio.Task[str]) -> None:
        """Pass on the last event of a host whose task is done, and remove its task and stream."""
        del self._tasks[host], self._streams[host]
        error = "the connection was closed from here" if task.cancelled() else task.result()
        self._put(stream.channel.close(error))
        self._finished += 1
        if self._finished % _COLLECT == 0:  # closed connections would use much memory until Python's own collection
            gc.collect()

    async def _connect(self, host: Host, stream: _HostStream) -> str:
        """Connect to a host, start our program there, and relay bytes until the host's end; return the error, or "".

        A second task reads standard error. At a problem, such as a refused password, this task closes the process;
        ``_transfer`` then raises ``ConnectionLost``, and the problem is returned as the error. ``stream.process`` is
        set as long as bytes can be sent.
        """
        password = None
        if host.become != "none" and host.become_password is not None:
            password = await self._loop.run_in_executor(None, self._passwords.read, host.become_password)
        launch = Launch(host.become, password, self._runtime)
        command = launch.command(stream.channel.arguments(), host.python)
        started = self._transports[host.transport].start(host, command, terminal=launch.terminal)
        async with await started as process:
            stream.process = process
            errors = self._loop.create_task(_read_errors(process, stream, launch))
            try:
                # The limit of the connection also holds until a program there answers.
                async with asyncio.timeout(host.connect_timeout) as limit:
                    return await self._transfer(process, stream, launch, limit)
            except TimeoutError:
                seconds = f"{host.connect_timeout:g} s"
                advice = "see what its login waits for, or raise --connect-timeout"
                return f"it was connected, and no program has answered within {seconds}: {advice}{launch.printed()}"
            except ConnectionLost as error:
                return launch.problem or str(error)
            finally:
                errors.cancel()
                stream.process = None

    async def _transfer(
        self, process: RemoteProcess, stream: _HostStream, launch: Launch, limit: asyncio.Timeout
    ) -> str:
        """Relay and answer the host's output until its end; return the error, or "". Raise ``ConnectionLost``.

        ``limit``, the time limit of the connection, is lifted when our program on the host has answered: a job may take
        longer.
        """
        channel = stream.channel
        while not launch.problem:
            data = await process.read()
            if not data:
                return launch.reason(await process.exit_code())
            launch.receive(data)
            if launch.answered:
                limit.reschedule(None)
            events = channel.receive(data)
            # Bytes count against the limit of the buffer with the events that they complete.
            stream.incomplete += len(data)
            if events:
                stream.buffered += stream.incomplete
                self._put(events, stream.incomplete)
                stream.incomplete = 0
            if channel.ended:
                return ""
            stream.send([*launch.take(), *channel.take()])
            await stream.wait()
        return launch.problem


class _HostStream:
    """The channel, the process and the buffers of one host."""

    def __init__(self, channel: HostChannel) -> None:
        """Begin a stream for a host that is not connected yet; ``channel`` has the exchange of its job."""
        self.channel = channel
        self.process: RemoteProcess | None = None
        #: Bytes of complete events that the caller has not taken yet: above a limit nothing is read from the host.
        self.buffered = 0
        #: Bytes received of an event that is not complete.
        self.incomplete = 0
        #: Set when ``buffered`` has come below the limit.
        self.drained = asyncio.Event()
        #: Bytes to send, and the task that sends them, or None.
        self._outgoing: deque[bytes] = deque()
        self._writer: asyncio.Task[None] | None = None

    def send(self, parts: Sequence[bytes]) -> None:
        """Queue bytes for the host, and let a task send them in order, so that the caller need not wait for the host.

        Before the host has a process they stay in the queue.
        """
        self._outgoing.extend(parts)
        if self._outgoing and self.process is not None and (self._writer is None or self._writer.done()):
            self._writer = asyncio.get_running_loop().create_task(self._write(self.process))

    async def wait(self) -> None:
        """Wait until the caller has taken enough events: until then no more is read from the host."""
        while self.buffered >= MAX_BUFFERED:
            self.drained.clear()
            await self.drained.wait()

    async def _write(self, process: RemoteProcess) -> None:
        """Write the queued bytes in small parts, so that other hosts get their turns."""
        try:
            while self._outgoing:
                part = self._outgoing.popleft()
                for start in range(0, len(part), _WRITE):
                    await process.write(part[start : start + _WRITE])
        except ConnectionLost:  # the next read raises the reason
            self._outgoing.clear()


class BecomePasswords:
    """Passwords for sudo and doas by their sources, read once each; safe to share among threads."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._passwords: dict[ValueSource, Sensitive[str]] = {}
        self._lock = threading.Lock()

    def read(self, source: ValueSource) -> Sensitive[str]:
        """Return the password for sudo or doas from its source, read once for all hosts. Raise ``ResourceError``."""
        with self._lock:  # a program may ask the user for something, which should happen once
            if source not in self._passwords:
                self._passwords[source] = Sensitive(_read_password(source))
            return self._passwords[source]


def _read_password(source: ValueSource) -> str:
    """Return the password for sudo or doas. Raise ``ResourceError`` if its source has none, or several lines."""
    with errors_as(ResourceError, begin="become_password: "):
        password = source.read().removesuffix("\r")  # of a file that was written on Windows
    if not password or "\n" in password:  # further lines would be input of the program that sudo starts
        there = "are more" if password else "is none"
        raise ResourceError(f"become_password: {source.name}: a password is one line, and there {there}")
    # Sudo ends a line at a carriage return too, and doas reads from a terminal.
    if any(char < " " or char == "\x7f" for char in password):
        raise ResourceError(f"become_password: {source.name}: a password has no control characters")
    return password


def connection_limit(connections: int, transports: Collection[str]) -> int:
    """Raise the limit of open files, and return the number of ``connections`` that it allows at once.

    A connection by the program ``ssh``, one of the ``transports``, takes more descriptors than one by the library.
    """
    if PROGRAM not in transports:
        return transport.descriptor_limit(connections)
    return transport.descriptor_limit(connections, descriptors=openssh_transport.DESCRIPTORS)


async def _read_errors(process: RemoteProcess, stream: _HostStream, launch: Launch) -> None:
    """Read a host's standard error until its end, in a task beside ``_transfer``, and answer sudo's prompts in it.

    A problem, such as a refused password, ends the connection.
    """
    with suppress(ConnectionLost):
        while not launch.problem:
            data = await process.read_error()
            if not data:
                return
            launch.receive_error(data)
            stream.send(launch.take())
        process.close()  # ends ``_transfer``, which waits for standard output
