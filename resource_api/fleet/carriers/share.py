"""A share of the hosts, carried by a process of its own: jobs and interrupts come by a socket, events go back.

The other end is in ``split_carrier``. What comes are frames of the protocol; an event goes back as a length and the
bytes of ``marshal``, which keeps every value as it is.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.fleet.carriers.carrier import Host
from resource_api.fleet.job import Job
from resource_api.fleet.value_sources import ValueSource
from resource_api.model.values.errors import reason
from resource_api.plugins.worker import protocol
from resource_api.runtime.signals import SIGNALS
from resource_api.system.process import process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.fleet.carriers.carrier import Carrier, HostEvent

_READ: Final = 64 * 1024
_LENGTH: Final = struct.Struct("!I")
#: Seconds after which a process that has hosts looks for what is asked of it, if no event comes.
_TICK: Final = 0.02


def carry(make: Callable[[], Carrier], connection: socket.socket, parent: int) -> NoReturn:
    """Carry hosts until the other end of a socket is closed, then end; the kernel ends it with its ``parent``.

    ``SIGNALS`` are blocked before, and are ignored by handlers of its own from now on.
    """
    code = 1
    try:
        process_tree.end_with(parent)
        for number in SIGNALS:  # sent to all processes by a terminal: only the first one decides what comes of it
            if signal.getsignal(number) is not signal.SIG_IGN:  # which programs inherit
                signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        _Share(make(), connection).run()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
        connection.sendall(_frame("", reason(error)))
    finally:
        os._exit(code)


class _Share:
    """The hosts of one process."""

    def __init__(self, made: Carrier, connection: socket.socket) -> None:
        self._carrier = made
        self._connection = connection
        self._decoder = protocol.Decoder()
        self._common: Mapping[str, Any] = {}
        #: How many hosts have not ended.
        self._running = 0
        gc.freeze()

    def run(self) -> None:
        """Do what is asked, and send events, until the socket is closed; while it takes none, hosts wait."""
        with suppress(ConnectionError):
            self._connection.sendall(_frame("", ""))  # it is ready
            while self._listen():
                if self._running and (event := self._carrier.next_event(_TICK)) is not None:
                    self._running -= event.document["type"] == "end"
                    self._pass_on(event)
        self._carrier.close()

    def _listen(self) -> bool:
        """Do what is asked now, without hosts wait for it; return whether there can be more. Raise ``OSError``."""
        try:
            data = self._connection.recv(_READ, socket.MSG_DONTWAIT if self._running else 0)
        except BlockingIOError:
            return True
        for frame in self._decoder.feed(data):
            self._obey(frame.kind, frame.body)
        return bool(data)

    def _obey(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == "common":
            self._common = body
        elif kind == "start":
            # The same values for all: a carrier then encodes them once.
            self._running += 1
            self._carrier.start(_host(body["host"]), Job(*body["job"])._replace(**self._common))
        elif kind == "interrupt":
            self._carrier.interrupt(body["host"])
        else:
            self._carrier.abandon(body["host"])

    def _pass_on(self, event: HostEvent) -> None:
        try:
            data = _frame(event.host, event.document)
        except ValueError:  # it is nested too deeply
            self._carrier.abandon(event.host)
            return
        self._connection.sendall(data)


def fields(host: Host) -> tuple[Any, ...]:
    """Return a host as a frame has it."""
    return tuple(tuple(each) if isinstance(each, ValueSource) else each for each in host)


def _host(found: Sequence[Any]) -> Host:
    host = Host(*found)
    return host if host.become_password is None else host._replace(become_password=ValueSource(*host.become_password))


def messages(received: bytearray) -> Iterator[tuple[str, Any]]:
    """Yield what a process has sent, and remove it from ``received``; what is not complete stays.

    A host and its document; without a host why the process has ended, or an empty text: it takes jobs from now on.
    """
    start = 0
    while start + _LENGTH.size <= len(received):
        end = start + _LENGTH.size + _LENGTH.unpack_from(received, start)[0]
        if end > len(received):
            break
        yield marshal.loads(received[start + _LENGTH.size : end])  # noqa: S302 - of our own code
        start = end
    del received[:start]


def _frame(host: str, document: Any) -> bytes:
    """Return the bytes of a host's document. Raise ``ValueError`` for one that is nested too deeply."""
    body = marshal.dumps((host, document))
    return _LENGTH.pack(len(body)) + body
