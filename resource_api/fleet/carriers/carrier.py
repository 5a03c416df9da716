"""What every carrier promises: jobs go to hosts, events come back, and each host's events have exactly one end.

The laws are in ``resource_api.testing.carrier_compliance``; how a host answers is in ``fleet/channel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.fleet.job import Job
    from resource_api.fleet.value_sources import ValueSource

#: The remote run ended; ``code`` is its exit code.
ENDED: Final = "ended"
#: Nothing was done there: 64, 65, 70, 74 or 75, and a ``refused`` document with the problems came before.
REFUSED: Final = "refused"
#: The job was never sent.
UNREACHABLE: Final = "unreachable"
#: The job was sent, and the end did not come: what was done there is in doubt until the host is asked again.
LOST: Final = "lost"

#: What reaches a host: the library, or the program of OpenSSH.
LIBRARY: Final = "asyncssh"
PROGRAM: Final = "ssh"

#: Events of one host in one run.
MAX_EVENTS: Final = 1_000_000
#: Bytes of a host's events that a carrier keeps; the host waits until they are read.
MAX_BUFFERED: Final = 64 * 1024


class Host(NamedTuple):
    """One host as the inventory gives it; inputs are in its job."""

    #: What messages and reports call it.
    name: str
    #: Where it is reached; empty: the name.
    address: str = ""
    #: None: that of ssh's configuration, else 22.
    port: int | None = None
    user: str | None = None
    #: The text of ``ProxyJump``.
    via: str | None = None
    #: The file of a private key.
    identity: str | None = None
    #: ``none``, ``sudo`` or ``doas``.
    become: str = "none"
    #: The path of the interpreter there; None: it is looked for.
    python: str | None = None
    #: Seconds.
    connect_timeout: float = 10.0
    groups: tuple[str, ...] = ()
    #: Where the password is that sudo or doas may ask for; None: nowhere.
    become_password: ValueSource | None = None
    #: ``asyncssh`` or ``ssh``: what connects to it.
    transport: str = LIBRARY


class HostEvent(NamedTuple):
    """One document from one host."""

    #: The name of the host on whose channel it came: set by the carrier, never by the host.
    host: str
    #: Its ``type`` is ``hello``, that of a line of ``--json``, ``result``, ``refused``, or last of all ``end``.
    document: Mapping[str, Any]


def end(host: str, status: str, code: int | None = None, error: str | None = None) -> HostEvent:
    """Return the last event of a host; ``error`` says why for every status but ``ended``."""
    return HostEvent(host, {"type": "end", "status": status, "code": code, "error": error})


class Carrier(Protocol):
    """Takes jobs to hosts and brings their events back; used by one thread.

    For each started host exactly one ``end`` comes, after all its other events, whose order is that of the host.
    No host delays another one, whatever it sends or does not send.
    """

    def start(self, host: Host, job: Job) -> None:
        """Begin to take ``job`` to ``host``; return at once, and never raise for what is wrong with a host."""

    def next_event(self, seconds: float | None) -> HostEvent | None:
        """Return the next event of any host; None if none came in so many seconds (None: wait for ever)."""

    def interrupt(self, host: str) -> None:
        """Ask the run on a host to end after its segment; once more: to end its programs. Its events go on."""

    def abandon(self, host: str) -> None:
        """Close a host's channel: its end comes at once as ``lost``; the run there ends by itself."""

    def close(self) -> None:
        """Abandon whatever has not ended and free what the carrier holds. No event comes afterwards."""
