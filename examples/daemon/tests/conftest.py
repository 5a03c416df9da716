"""The real daemon, as a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]


class Queued:
    """A running daemon, its configuration file and its socket."""

    def __init__(self, directory: Path) -> None:
        """Start it; it listens when this returns."""
        self.file, self.socket = directory / "queued.conf", directory / "queued.sock"
        self.file.write_text("# written by hand\n[queue manual]\nlimit = 5\n")
        program = [sys.executable, str(HOME / "queued.py"), "--config", str(self.file), "--socket", str(self.socket)]
        self.process = subprocess.Popen(program)
        deadline = time.monotonic() + 20
        while not self.socket.exists():
            assert self.process.poll() is None, "the daemon has ended"
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.02)

    @property
    def config(self) -> dict:
        """The configuration of the provider."""
        return {"file": str(self.file), "socket": str(self.socket)}

    def request(self, do: str, **fields):
        """Return the daemon's answer to a request."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(json.dumps({"do": do, **fields}).encode() + b"\n")
            with connection.makefile() as lines:
                return json.loads(lines.readline())["ok"]

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module")
def queued(tmp_path_factory):
    """Start a daemon for the tests of a module."""
    daemon = Queued(tmp_path_factory.mktemp("queued"))
    yield daemon
    daemon.stop()
