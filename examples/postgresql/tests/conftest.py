"""A real PostgreSQL server: a cluster of its own in a temporary directory, under the user postgres."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = os.geteuid() == 0
ACCOUNT = "postgres" if ROOT else pwd.getpwuid(os.geteuid()).pw_name
#: Speed instead of durability: the cluster lives as long as the tests.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": "30"}


def programs() -> Path:
    """Return the directory with the programs of the newest installed server."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


class Cluster:
    """A running server: its socket is in ``directory``; connections over TCP need a password."""

    def __init__(self) -> None:
        """Create and start it; it accepts connections when this returns."""
        self.directory = tempfile.mkdtemp(prefix="ra-test-postgresql-")
        self.identity = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if ROOT else {}
        if ROOT:
            shutil.chown(self.directory, ACCOUNT, ACCOUNT)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        data = f"{self.directory}/data"
        methods = ["--auth-local=peer", "--auth-host=scram-sha-256"]
        self._run("initdb", "-D", data, "-U", ACCOUNT, "-E", "UTF8", "--no-locale", "--no-sync", *methods)
        addresses = {"unix_socket_directories": self.directory, "listen_addresses": "127.0.0.1", "port": str(self.port)}
        settings = [part for item in (SETTINGS | addresses).items() for part in ("-c", "=".join(item))]
        with Path(self.directory, "log").open("wb") as log:
            program = [programs() / "postgres", "-D", data, *settings]
            self.process = subprocess.Popen(program, stderr=log, cwd="/", start_new_session=True, **self.identity)
        deadline = time.monotonic() + 30
        while self._run("pg_isready", "-h", self.directory, "-p", str(self.port), check=False).returncode:
            assert self.process.poll() is None, Path(self.directory, "log").read_text()
            assert time.monotonic() < deadline, "the server does not accept connections"
            time.sleep(0.05)

    def _run(self, program, *arguments, check=True):
        return subprocess.run(
            [programs() / program, *arguments], capture_output=True, check=check, cwd="/", timeout=60, **self.identity
        )

    @property
    def config(self) -> dict:
        """The configuration of the provider."""
        return {"host": self.directory, "port": self.port, "user": ACCOUNT, "account": ACCOUNT}

    def sql(self, statement: str) -> str:
        """Return the output of a statement of the administrator."""
        result = self._run(
            "psql", "-XqAt", "-h", self.directory, "-p", str(self.port), "-d", "postgres", "-c", statement
        )
        return result.stdout.decode().strip()

    def can_log_in(self, role: str, password: str) -> bool:
        """Return whether a role can log in with a password."""
        connection = ["-h", "127.0.0.1", "-p", str(self.port), "-U", role, "-d", "postgres"]
        result = subprocess.run(
            [programs() / "psql", "-Xw", *connection, "-c", "select"],
            env={"PGPASSWORD": password},
            capture_output=True,
            check=False,
            timeout=60,
        )
        return result.returncode == 0

    def stop(self) -> None:
        """End the server at once, and remove everything."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="session")
def cluster():
    """Start a server for all tests."""
    server = Cluster()
    yield server
    server.stop()
