"""A real PostgreSQL server of its own, and pgbouncer before it, for tests of state on one."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT: Final = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
#: Speed instead of durability, except where a test asks for it: the data lives as long as the tests.
SETTINGS: Final = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=60")
#: A file system in memory, where no flush waits.
MEMORY: Final = "/dev/shm"  # noqa: S108 - a new directory is created in it
#: Ends a program with the thread that has started it, also if that is killed.
UNTIL_PARENT_ENDS: Final = ("setpriv", "--pdeathsig", "QUIT", "--")
PGBOUNCER: Final = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin") or "pgbouncer"


def _program(name: str) -> str:
    paths = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return str(max(paths, key=lambda path: int(path.parents[1].name)))


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A server; connections through its port need a password except those of ``postgres``."""

    def __init__(self, *settings: str, directory: str = MEMORY) -> None:
        """Create its data in a new directory in ``directory``, and start it."""
        self.directory = Path(tempfile.mkdtemp(prefix="ra-test-pg-", dir=directory))
        self.identity = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.identity:
            shutil.chown(self.directory, ACCOUNT, ACCOUNT)
        self.port = free_port()
        self._settings = (*SETTINGS, *settings)
        data = ("initdb", "-D", str(self.directory / "data"), "-U", "postgres", "-E", "UTF8", "--no-locale")
        self._run(*data, "--no-sync", "--auth=trust")
        rules = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.directory / "data" / "pg_hba.conf").write_text(rules)
        self.start()

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        words = [_program(program), *arguments]
        return subprocess.run(words, capture_output=True, check=check, cwd="/", timeout=60, **self.identity)

    def start(self) -> None:
        """Start the server; it accepts connections when this returns, and ends with this thread."""
        addresses = (f"unix_socket_directories={self.directory}", "listen_addresses=127.0.0.1", f"port={self.port}")
        settings = [part for item in (*self._settings, *addresses) for part in ("-c", item)]
        with (self.directory / "log").open("ab") as log:
            words = [*UNTIL_PARENT_ENDS, _program("postgres"), "-D", str(self.directory / "data"), *settings]
            self.process = subprocess.Popen(words, stderr=log, cwd="/", start_new_session=True, **self.identity)
        deadline = time.monotonic() + 30
        while self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), check=False).returncode:
            assert self.process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "the server does not accept connections"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server: at once, or with SIGINT after it has ended every session."""
        self.process.send_signal(how)
        self.process.wait(30)

    def remove(self) -> None:
        """End the server, and remove its data."""
        self.stop()
        shutil.rmtree(self.directory)

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Return the rows of a statement of the administrator."""
        url = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of a new database, which is removed afterwards."""
        name = f"d{time.monotonic_ns()}"
        self.sql(f"CREATE DATABASE {name}")
        try:
            yield f"postgresql://postgres@127.0.0.1:{self.port}/{name}"
        finally:
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def pooler(server: Server) -> Iterator[int]:
    """Yield the port of pgbouncer in transaction mode, with few connections to ``server``."""
    port = free_port()
    directory = server.directory / f"pooler-{port}"
    directory.mkdir()
    settings = f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 2
server_lifetime = 1
"""
    settings = settings.replace("* = host=127.0.0.1", "* = user=postgres host=127.0.0.1")
    (directory / "users").write_text('"postgres" ""\n')
    (directory / "pgbouncer.ini").write_text(settings)
    if server.identity:
        for path in (directory, *directory.iterdir()):
            shutil.chown(path, ACCOUNT, ACCOUNT)
    process = subprocess.Popen(
        [*UNTIL_PARENT_ENDS, PGBOUNCER, str(directory / "pgbouncer.ini")],
        stderr=subprocess.DEVNULL,
        cwd="/",
        **server.identity,
    )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "pgbouncer does not accept connections"
                time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait(10)


class Wire:
    """A connection to a server that can be cut at a message: before it is sent, or after it was answered."""

    def __init__(self, port: int) -> None:
        """Listen on a port of this machine; forward everything to the server's."""
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._ended = False
        self.count = 0
        self.restore()
        threading.Thread(target=self._accept, daemon=True).start()

    def restore(self) -> None:
        """Forward everything from now on, and count from 0."""
        with self._lock:
            self.count, self._cut_at, self._answered, self._stays, self._down = 0, 0, False, False, False
            self._frozen = False

    def cut(self, number: int, *, answered: bool, stays: bool = False) -> None:
        """Cut at the message with this number, counted from 1; ``stays``: and refuse connections from then on."""
        self.restore()
        with self._lock:
            self._cut_at, self._answered, self._stays = number, answered, stays

    def freeze(self, number: int) -> None:
        """Forward nothing from the answer to the message with this number on, and leave the connections open."""
        self.cut(number, answered=True)
        self._frozen = True

    def close(self) -> None:
        """Stop listening."""
        self._ended = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._down:
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server, suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 20)
                    if not data or (ready is client and self._is_cut(server, data)):
                        return
                    (server if ready is client else client).sendall(data)

    def _is_cut(self, server: socket.socket, data: bytes) -> bool:
        """Count a message of the client; return whether the connection ends with it."""
        with self._lock:
            self.count += 1
            if self.count != self._cut_at:
                return False
            self._down = self._stays
        if self._answered:
            server.sendall(data)
            server.recv(1 << 20)
        while self._frozen and not self._ended:
            time.sleep(0.05)
        return True
