"""Connections to hosts: jobs go out, events come back, and each host's events have exactly one end.

The laws are in ``tests.fleet.carrier_compliance``; the exchange with a host is in ``fleet/channel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from resource_api.fleet.host_names import Address
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.job import HostJob
    from resource_api.manifest.input_files import ValueSource

#: The remote run ended; ``code`` is its exit code.
ENDED: Final = "ended"
#: The host was not changed: code 64, 65, 70, 74 or 75, after a ``refused`` document with the problems.
REFUSED: Final = "refused"
#: The job was never sent.
UNREACHABLE: Final = "unreachable"
#: The job was sent and its end did not arrive: the result is in doubt until the next run.
LOST: Final = "lost"

#: The transports: the library, or the program of OpenSSH.
LIBRARY: Final = "asyncssh"
PROGRAM: Final = "ssh"

#: Largest number of events of one host in one run.
MAX_EVENTS: Final = 1_000_000
#: Size of a host's buffered events in bytes; the host waits until they are read.
MAX_BUFFERED: Final = 64 * 1024


class Host(NamedTuple):
    """The connection settings of one host."""

    #: The name in messages and reports.
    name: str
    #: The network address; empty for the name.
    address: str = ""
    #: None for the port of ssh's configuration, or 22.
    port: int | None = None
    user: str | None = None
    #: The text of ``ProxyJump``.
    via: str | None = None
    #: The file of a private key.
    identity: str | None = None
    #: ``none``, ``sudo`` or ``doas``.
    become: str = "none"
    #: The path of the interpreter on the host, or None to search it.
    python: str | None = None
    #: Seconds.
    connect_timeout: float = 10.0
    groups: tuple[str, ...] = ()
    #: The source of the password for sudo or doas, or None.
    become_password: ValueSource | None = None
    #: ``asyncssh`` or ``ssh``.
    transport: str = LIBRARY
    #: The hosts of the inventory that ``via`` names, and those that they are behind.
    jump_hosts: tuple[Host, ...] = ()


def jump_host(text: str) -> Address:
    """Return user, name and port of one jump host in ``Host.via``, such as ``ops@gate:2222`` or ``[fe80::1]:22``.

    By the name its settings are found in the inventory; user and port take precedence over these.
    """
    user, _, rest = text.rpartition("@")
    name, colon, port = rest.rpartition(":")
    # The end of an IPv6 address without brackets, ``fe80::1``, is no port.
    number = int(port) if colon and port.isdecimal() and not name.endswith(":") else None
    name = rest if number is None else name
    return Address(name.removeprefix("[").removesuffix("]"), user or None, number)


def jump_chain(host: Host) -> list[Host]:
    """Return all jump hosts on the way to a host, the nearest to this machine first, with their inventory settings.

    The first jump host in ``Host.via`` may itself have jump hosts in the inventory: these come before it. A jump host
    without a key of its own uses that of the host.
    """
    jumps = {jump.name: jump for jump in host.jump_hosts}
    hops = list[Host]()
    via = "" if host.via is None or host.via == "none" else host.via
    for text in filter(None, via.split(",")):
        name, user, port = jump_host(text)
        jump = jumps.get(name, Host(name))._replace(jump_hosts=host.jump_hosts)
        if not hops:  # the first one may be behind jump hosts of its own
            hops += jump_chain(jump)
        jump = jump._replace(user=user or jump.user, port=port or jump.port, identity=jump.identity or host.identity)
        hops.append(jump._replace(connect_timeout=host.connect_timeout))
    return hops


class HostEvent(NamedTuple):
    """One document from one host."""

    #: The name of the host whose channel received it, never set by the host itself.
    host: str
    #: Its ``type`` is ``hello``, that of a line of ``--json``, ``result``, ``refused``, or last of all ``end``.
    document: Mapping[str, object]


def end_event(host: str, status: str, code: int | None = None, error: str | None = None) -> HostEvent:
    """Return the last event of a host: ``ended`` with its job's exit ``code``, another status with an ``error``."""
    return HostEvent(host, {"type": "end", "status": status, "code": code, "error": error})


class HostConnections(Protocol):
    """Run jobs on hosts and receive their events; used by one thread.

    Each started host has exactly one ``end``, after all its other events, which keep the host's order. No host delays
    another one.
    """

    def start(self, host: Host, job: HostJob) -> None:
        """Start to run ``job`` on ``host``; return at once, and never raise: errors arrive as the host's end."""

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host, or None after a timeout in seconds (None: no timeout)."""

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its present operations; at the second call, to end also its programs.

        The host's events still arrive until its end. A host to which no job was sent yet ends without one.
        """

    def abandon(self, host: str) -> None:
        """Close a host's channel: its end arrives at once, as ``lost`` if the job was sent; the run ends by itself."""

    def close(self) -> None:
        """Abandon the unfinished hosts and free all resources. No events follow."""
