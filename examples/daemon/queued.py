"""A small daemon that keeps queues of messages, to try a type of a daemon with a configuration file and a socket.

    python examples/daemon/queued.py --config /etc/queued.conf --socket /run/queued.sock

The file has a section for each queue. It is read at the start and by the request ``reload``, which takes all of it or
nothing. Requests and answers are lines of JSON; messages are kept in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

DISCIPLINES = ("fifo", "lifo")


class Refused(Exception):  # noqa: N818 - an answer, not a failure
    """A request that is answered with an error."""


class Queue:
    """One queue: its settings and its messages."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Start without messages."""
        self.settings = settings
        self.messages: list[str] = []

    def put(self, message: str) -> None:
        """Add a message."""
        if len(self.messages) >= self.settings["limit"]:
            raise Refused(f"the queue is full: {self.settings['limit']} messages")
        self.messages.append(message)

    def take(self) -> str | None:
        """Remove and return the next message; None: there is none."""
        if not self.messages:
            return None
        return self.messages.pop(0 if self.settings["discipline"] == "fifo" else -1)


class Daemon:
    """The queues of a configuration file."""

    def __init__(self, config: Path) -> None:
        """Read the file."""
        self._config = config
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        self.reloads = -1
        self.reload()

    def reload(self) -> None:
        """Read the file again. A queue that has messages neither goes nor changes its discipline."""
        sections = read(self._config)
        with self._lock:
            for name, queue in self._queues.items():
                if queue.messages and (
                    name not in sections or sections[name]["discipline"] != queue.settings["discipline"]
                ):
                    raise Refused(f"queue {name} has {len(queue.messages)} messages")
            former, self._queues = self._queues, {}
            for name, settings in sections.items():
                self._queues[name] = former.get(name, Queue(settings))
                self._queues[name].settings = settings
            self.reloads += 1

    def answer(self, request: dict[str, Any]) -> Any:
        """Carry out one request."""
        match request:
            case {"do": "status"}:
                with self._lock:
                    return {
                        name: {**queue.settings, "depth": len(queue.messages)} for name, queue in self._queues.items()
                    }
            case {"do": "reload"}:
                self.reload()
                return {"queues": len(self._queues), "reloads": self.reloads}
            case {"do": "put", "queue": name, "message": str(message)}:
                with self._lock:
                    self._queue(name).put(message)
                return None
            case {"do": "take", "queue": name}:
                with self._lock:
                    return self._queue(name).take()
            case {"do": "purge", "queue": name}:
                with self._lock:
                    self._queue(name).messages.clear()
                return None
        raise Refused(f"unknown request: {request}")

    def _queue(self, name: str) -> Queue:
        if name not in self._queues:
            raise Refused(f"there is no queue {name}")
        return self._queues[name]


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the queues of a configuration file, checked."""
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
        return {section.removeprefix("queue "): settings(parser[section]) for section in parser.sections()}
    except (OSError, ValueError, ConfigError) as error:
        raise Refused(str(error)) from error


def settings(section: Any) -> dict[str, Any]:
    """Return the settings of one section with their defaults."""
    values = {
        "discipline": section.get("discipline", "fifo"),
        "limit": section.getint("limit", 1000),
        "pause": section.getint("pause", 60),
        "consumers": section.get("consumers", "").split(),
    }
    if unknown := section.keys() - values.keys():
        raise ValueError(f"[{section.name}]: unknown settings {', '.join(sorted(unknown))}")
    if values["discipline"] not in DISCIPLINES or values["limit"] < 1 or values["pause"] < 0:
        raise ValueError(f"[{section.name}]: a wrong value in {values}")
    return values


class Server(ThreadingUnixStreamServer):
    """The control socket of a daemon; only its owner may use it."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, daemon: Daemon, path: str) -> None:
        """Listen; a socket that a former process has left is replaced."""
        Path(path).unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            super().__init__(path, Handler)
        finally:
            os.umask(mask)
        self.daemon = daemon


class Handler(StreamRequestHandler):
    """Answer the requests of one connection."""

    server: Server

    def handle(self) -> None:
        """Answer one line for each line."""
        for line in self.rfile:
            try:
                answer = {"ok": self.server.daemon.answer(json.loads(line))}
            except (Refused, ValueError) as refused:
                answer = {"error": str(refused)}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reads the file again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="the file with the queues")
    parser.add_argument("--socket", required=True, help="the control socket")
    options = parser.parse_args()
    daemon = Daemon(options.config)
    server = Server(daemon, options.socket)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    signal.signal(signal.SIGHUP, lambda *_: daemon.reload())
    try:
        server.serve_forever(0.05)
    finally:
        Path(options.socket).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
