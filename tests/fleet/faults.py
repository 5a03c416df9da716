"""What can be wrong with a host of the test server, and the end that each of these faults must have (law F4)."""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

from resource_api.fleet.connections import Host
from resource_api.manifest.input_files import ValueSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from tests.fleet.sshd import Server

#: Seconds within which every end comes, also on a machine with other work.
PATIENCE: Final = 50.0
#: What a host does instead of running its job: lines for its login shell.
HAVE: Final = 'printf \'RApi {"kind":"have"}\\n\'; '
EVENT: Final = 'RApi {"kind":"event","document":{"type":"log","host":"good1","message":"%s"}}'
_NOISE: Final = "head -c 1073741824 /dev/zero"
PROFILES: Final[Mapping[str, str]] = {
    "floods with bytes": f"{_NOISE}; exit",
    "floods with errors": f"{_NOISE} >&2; exit",
    "floods with lines": "yes Welcome | head -c 1073741824; exit",
    "lies": f"{HAVE} printf '%s\\n' '{EVENT % 'mine'}'; echo 'RApi {{\"kind\":\"end\",\"code\":999}}'; sleep 50",
    "is silent": f"{HAVE} read -r job; exit 7",
    "kills its run": f"{HAVE} read -r job; kill -9 $$",
    "has terminal sequences": r"printf '\033]0;owned\007\033[2J broken\n' >&2; exit 9",
    "does not let root be become": "",
    "has no interpreter": "PATH=/nonexistent",
}
ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "floods with bytes": ("unreachable", "it sent what is no event: more than 1 MiB of lines that are no frames"),
    "floods with errors": ("unreachable", "it wrote more than 1 MiB to its standard error"),
    "floods with lines": ("unreachable", "it sent what is no event: more than 1 MiB of lines that are no frames"),
    "lies": ("lost", "it sent what is no event: no exit code"),
    "is silent": ("lost", "the program there has ended with exit code 7"),
    "kills its run": ("lost", "the program there was ended by a signal"),
    "has terminal sequences": ("unreachable", r"\x1b]0;owned\x07\x1b[2J broken"),
    "does not let root be become": ("unreachable", "sudo has refused the password"),
    "has no interpreter": ("unreachable", "not found"),
    "is unknown": ("unreachable", "its address is not known"),
    "has an unknown key": ("unreachable", "is not known; if it is right: resource-api hosts trust has an unknown key"),
    "refuses": ("unreachable", "connection refused (127.4.9.1:1)"),
    "refuses our key": ("unreachable", "permission denied: it accepts no key of ours"),
    "has a full disk": ("unreachable", "No space left on device"),
    "is reset at once": ("unreachable", "the connection was"),
    "is reset in its greeting": ("unreachable", "the connection was"),
    "is reset in its job": ("lost", "the connection was lost"),
    "stalls before the job": ("unreachable", "no answer within 2 s"),
    "stalls in its job": ("lost", "the connection was lost"),
}
#: The ends of those that differ where the program ``ssh`` leads to the host; the others are the channel's.
PROGRAM_ENDS: Final[Mapping[str, tuple[str, str]]] = {
    **{name: ENDS[name] for name in ("floods with errors", "kills its run", "has terminal sequences")},
    **{name: ENDS[name] for name in ("is reset in its job", "stalls before the job")},
    "is unknown": ("unreachable", "Could not resolve hostname nosuch.invalid"),
    "has an unknown key": ("unreachable", "strict checking.; if it is right: resource-api hosts trust has an "),
    "refuses": ("unreachable", "connect to host 127.4.9.1 port 1: Connection refused"),
    "refuses our key": ("unreachable", "Permission denied"),
    "is reset at once": ("unreachable", "Connection "),
    "is reset in its greeting": ("unreachable", "Connection "),
    "stalls in its job": ("lost", "the connection was lost: Timeout, server 127.4.9.9 not responding."),
}
#: Bytes from a host after which its connection is reset, or stalls; None: when its job is being done.
CUTS: Final = {
    "is reset at once": (0, True),
    "is reset in its greeting": (900, True),
    "is reset in its job": (None, True),
    "stalls before the job": (900, False),
    "stalls in its job": (None, False),
}


class Faults:
    """Hosts of a server that have faults."""

    def __init__(self, server: Server, stack: ExitStack, transport: str = "asyncssh") -> None:
        """Use a server; ``stack`` ends what the faults need, and ``transport`` leads to the hosts."""
        self._server = server
        self._transport = transport
        self._stack = stack
        #: The connections of hosts that are cut, by name; who sees that a host does its job cuts its own.
        self.proxies: dict[str, Proxy] = {}

    def host(self, fault: str, number: int, name: str = "") -> Host:
        """Return a host with a fault, which is its name unless one is given; each has a number of its own."""
        server = self._server
        host = ssh_host(server, name or fault, number)._replace(transport=self._transport)
        if fault in PROFILES:
            server.profile(host.address, PROFILES[fault])
        if fault in CUTS:
            after, reset = CUTS[fault]
            proxy = self.proxies[host.name] = self._stack.enter_context(closing(Proxy(server.port, after, reset=reset)))
            seconds = 2.0 if fault.startswith("stalls") else PATIENCE
            return host._replace(port=proxy.port, address="127.4.9.9", connect_timeout=seconds)
        if fault == "has a full disk":
            _fill(server, host.address)
        if fault == "does not let root be become":
            password = ValueSource("command", "echo wrong", "/")
            return host._replace(user="deploy", become="sudo", become_password=password)
        if fault == "refuses our key":
            return host._replace(identity=str(server.keys / "stranger"))
        elsewhere = {
            "is unknown": host._replace(address="nosuch.invalid"),
            "has an unknown key": host._replace(address="127.4.9.2"),
            "refuses": host._replace(address="127.4.9.1", port=1),
        }
        return elsewhere.get(fault, host)


def know(server: Server, file: Path) -> None:
    """Write a file of known hosts in which one address has no key."""
    text = f"[127.*]:{server.port},![127.4.9.2]:{server.port},127.4.9.9 {server.host_key}\n"
    file.write_text(text, encoding="ascii")


def ssh_host(server: Server, name: str, number: int) -> Host:
    """Return a host of the server, with a number of its own."""
    return Host(name, f"127.4.{number // 250}.{number % 250 + 1}", server.port, "root", identity=str(server.identity))


def _fill(server: Server, address: str) -> None:
    """Give a host a cache on a full disk."""
    server.run("mkdir", "-p", "-m", "700", f"/hosts/{address}/cache")
    server.run("mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", f"/hosts/{address}/cache")


class Proxy:
    """Passes a connection on to a port; resets or stalls it after so many bytes from there, or when it is told to."""

    def __init__(self, port: int, after: int | None, *, reset: bool) -> None:
        """Listen; ``after`` None: until it is told to."""
        self._port, self._after, self._reset = port, after, reset
        self._listener = socket.create_server(("127.4.9.9", 0))
        self.port = self._listener.getsockname()[1]
        self._control, self._controlled = socket.socketpair()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._counts: dict[socket.socket, int] = {}
        self._cut: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def cut(self) -> None:
        """Cut every connection now."""
        self._control.send(b"c")

    def close(self) -> None:
        """End it."""
        self._control.send(b"e")
        self._thread.join()
        for item in (*self._pairs, self._listener, self._control, self._controlled):
            item.close()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._controlled, *self._pairs], [], [])
            if self._controlled in ready:
                if self._controlled.recv(1) == b"e":
                    return
                for there in list(self._counts):
                    self._end(there)
            elif self._listener in ready:
                client, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._port))
                self._pairs |= {client: there, there: client}
                self._counts[there] = 0
            else:
                self._pass_on(ready[0])

    def _pass_on(self, end: socket.socket) -> None:
        second = self._pairs[end]
        try:
            data = end.recv(65536)
            if data and not self._cut & {end, second}:
                second.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(end)
        elif end in self._counts:
            self._counts[end] += len(data)
            if self._after is not None and self._counts[end] > self._after:
                self._end(end)

    def _end(self, there: socket.socket) -> None:
        self._cut.add(there)
        if self._reset:
            self._close(there)

    def _close(self, end: socket.socket) -> None:
        for item in (end, self._pairs.get(end)):
            if item is not None and self._pairs.pop(item, None) is not None:
                self._counts.pop(item, None)
                item.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(self._reset), 0))
                item.close()
