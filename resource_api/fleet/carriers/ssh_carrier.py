"""A carrier whose hosts are reached by SSH: one connection, one channel and one process for each.

All connections are in one thread with an event loop of its own; ``Host.transport`` says what makes each of them. The
caller's thread takes the events; a host whose events it does not take is not read any more, so no host costs more than
its share of memory.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.fleet.become_and_interpreter import Launch
from resource_api.fleet.carriers import carrier, transport
from resource_api.fleet.carriers.read_become_password import BecomePasswords
from resource_api.fleet.carriers.transport import Lost
from resource_api.fleet.channel import Channel
from resource_api.model.values.errors import ResourceAPIError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.fleet.become_and_interpreter import Machine
    from resource_api.fleet.carriers.carrier import Host, HostEvent
    from resource_api.fleet.carriers.transport import Process, Transport
    from resource_api.fleet.job import Job
    from resource_api.fleet.payload import Payloads

#: Bytes that are written at once.
_WRITE: Final = transport.WINDOW
#: Hosts after which memory is freed: a connection that has ended refers to itself, and has 30 KiB.
_COLLECT: Final = 64


class SshCarrier:
    """Takes jobs to hosts by SSH; used by one thread."""

    def __init__(
        self,
        payloads: Payloads,
        *,
        environment: Mapping[str, str] | None = None,
        connections: int = 1000,
        runtime: Callable[[Machine], tuple[str, bytes] | None] = lambda _machine: None,
        transports: Collection[str] = (carrier.LIBRARY,),
    ) -> None:
        """Send archives of ``payloads``, to at most so many hosts at once as descriptors allow.

        ``environment``: the variables that say where keys are; None: those of this process. ``runtime`` finds an
        archive for a machine without Python. ``transports``: what reaches the hosts, as ``Host.transport`` names it.
        Raise ``ResourceError`` where the library for a transport is not installed.
        """
        self._payloads = payloads
        self._transports = _transports(transports, environment)
        self._passwords = BecomePasswords()
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(connection_limit(connections, transports))
        #: Host → its task, until its end has come. Only the thread of the loop changes it.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._channels: dict[str, _Connected] = {}
        self._served = 0
        #: Hosts whose end has not been taken.
        self._open: set[str] = set()
        self._events: deque[tuple[HostEvent, int]] = deque()
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def start(self, host: Host, job: Job) -> None:
        """Begin to take ``job`` to a host; whatever is wrong with it comes as its end."""
        self._open.add(host.name)
        self._loop.call_soon_threadsafe(self._begin, host, job)

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host; None if none came in so many seconds (None: wait for ever)."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._arrived:
            while not self._events:
                left = None if deadline is None else deadline - time.monotonic()
                if not self._open or (left is not None and left <= 0):
                    return None
                self._arrived.wait(left)
            event, size = self._events.popleft()
        if event.document["type"] == "end":
            self._open.discard(event.host)
        elif size:
            self._loop.call_soon_threadsafe(self._taken, event.host, size)
        return event

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its segment; once more: to end its programs."""
        self._loop.call_soon_threadsafe(self._interrupt, host)

    def abandon(self, host: str) -> None:
        """Close a host's connection: its end comes at once; the run there ends by itself."""
        self._loop.call_soon_threadsafe(self._cancel, host)

    def close(self) -> None:
        """Abandon whatever has not ended, and end the thread; no event comes afterwards."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._events.clear()
        self._open.clear()

    # In the thread of the loop

    def _begin(self, host: Host, job: Job) -> None:
        connected = self._channels[host.name] = _Connected(Channel(host.name, job, self._payloads.bytes_of))
        self._tasks[host.name] = self._loop.create_task(self._carry(host, connected))

    def _interrupt(self, host: str) -> None:
        if (connected := self._channels.get(host)) is not None:
            connected.channel.interrupt()
            connected.send(connected.channel.take())

    def _cancel(self, host: str) -> None:
        if (task := self._tasks.get(host)) is not None:
            task.cancel()

    def _taken(self, host: str, size: int) -> None:
        if (connected := self._channels.get(host)) is not None:
            connected.buffered -= size
            if connected.buffered < carrier.MAX_BUFFERED:
                connected.drained.set()

    def _put(self, events: Sequence[HostEvent], size: int = 0) -> None:
        """Hand over events; the last of them counts for the bytes of all."""
        if events:
            with self._arrived:
                self._events.extend((event, 0) for event in events[:-1])
                self._events.append((events[-1], size))
                self._arrived.notify()

    async def _close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._transports.values():
            await each.close()

    async def _carry(self, host: Host, connected: _Connected) -> None:
        """Take the job to its host, and end with the host's end, whatever happens."""
        error = "the connection was closed from here"
        try:
            async with self._slots:
                error = await self._exchange(host, connected)
        except asyncio.CancelledError:
            pass
        except ResourceAPIError as failed:
            error = str(failed)
        except Exception as failed:  # noqa: BLE001 - a host must not end the others
            error = reason(failed)
        finally:
            self._tasks.pop(host.name, None)
            self._channels.pop(host.name, None)
            self._put(connected.channel.close(error))
            self._served += 1
            if self._served % _COLLECT == 0:
                gc.collect()

    async def _exchange(self, host: Host, connected: _Connected) -> str:
        """Connect to a host and move bytes until its end; return why there is none, if there is none."""
        password = None
        if host.become != "none" and host.become_password is not None:
            password = await self._loop.run_in_executor(None, self._passwords.read, host.become_password)
        launch = Launch(host.become, password, self._runtime)
        command = launch.command(connected.channel.arguments(), host.python)
        reach = self._transports[host.transport]
        async with await reach.start(host, command, terminal=launch.terminal) as process:
            connected.process = process
            errors = self._loop.create_task(_read_errors(process, connected, launch))
            try:
                return await self._move(process, connected, launch)
            except Lost as error:
                return launch.problem or str(error)
            finally:
                errors.cancel()
                connected.process = None

    async def _move(self, process: Process, connected: _Connected, launch: Launch) -> str:
        """Pass on what comes, and answer it, until the end; return why it did not come. Raise ``Lost``."""
        channel = connected.channel
        while not launch.problem:
            data = await process.read()
            if not data:
                return launch.reason(await process.exit_code())
            launch.receive(data)
            events = channel.receive(data)
            connected.unread += len(data)
            if events:
                connected.buffered += connected.unread
                self._put(events, connected.unread)
                connected.unread = 0
            if channel.ended:
                return ""
            connected.send([*launch.take(), *channel.take()])
            await connected.wait()
        return launch.problem


class _Connected:
    """One host that is being served."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.process: Process | None = None
        #: Bytes of events that nobody has taken; bytes that have completed no event yet.
        self.buffered = self.unread = 0
        self.drained = asyncio.Event()
        self._outgoing: deque[bytes] = deque()
        self._writer: asyncio.Task[None] | None = None

    def send(self, parts: Sequence[bytes]) -> None:
        """Send bytes in their order, without waiting for the host to read them."""
        self._outgoing.extend(parts)
        if self._outgoing and self.process is not None and (self._writer is None or self._writer.done()):
            self._writer = asyncio.get_running_loop().create_task(self._write(self.process))

    async def wait(self) -> None:
        """Wait until what has come is taken, as far as it is too much."""
        while self.buffered >= carrier.MAX_BUFFERED:
            self.drained.clear()
            await self.drained.wait()

    async def _write(self, process: Process) -> None:
        try:
            while self._outgoing:
                part = self._outgoing.popleft()
                for at in range(0, len(part), _WRITE):
                    await process.write(part[at : at + _WRITE])
        except Lost:  # the next read raises the reason
            self._outgoing.clear()


def connection_limit(wanted: int, transports: Collection[str]) -> int:
    """Return how many of ``wanted`` hosts can be served side by side, as far as descriptors allow."""
    if carrier.PROGRAM not in transports:
        return transport.descriptor_limit(wanted)
    from resource_api.fleet.carriers import openssh_transport

    return transport.descriptor_limit(wanted, each=openssh_transport.DESCRIPTORS)


def _transports(names: Collection[str], environment: Mapping[str, str] | None = None) -> Mapping[str, Transport]:
    variables = os.environ if environment is None else environment
    return {name: _transport(name, variables) for name in names}


def _transport(name: str, environment: Mapping[str, str]) -> Transport:
    """Return what reaches hosts. Raise ``ResourceError`` where its library is not installed."""
    if name == carrier.PROGRAM:
        from resource_api.fleet.carriers.openssh_transport import SshProgram

        return SshProgram(environment)
    from resource_api.fleet.carriers.asyncssh_transport import Connections

    return Connections(environment)


async def _read_errors(process: Process, connected: _Connected, launch: Launch) -> None:
    """Read what a host writes to its standard error, for as long as it is served."""
    with suppress(Lost):
        while not launch.problem:
            data = await process.read_error()
            if not data:
                return
            launch.receive_error(data)
            connected.send(launch.take())
        process.close()
