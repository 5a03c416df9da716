"""A real MariaDB server of its own in a temporary directory, with a socket, a port and TLS."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pymysql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Who starts the server is its administrator, by the plugin ``unix_socket``.
ACCOUNT: Final = pwd.getpwuid(os.geteuid()).pw_name
PROGRAM: Final = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") or "mariadbd"
#: Statements that make the tables of a new server, one file after the other; later versions have other names.
TABLES: Final = ("m[ay]*/m*_system_tables.sql", "m[ay]*/m*_system_tables_data.sql")


class Server:
    """A server: its socket is in ``directory``; connections through the port need a password."""

    def __init__(self, directory: Path) -> None:
        """Make its data in an empty directory, and its certificate; it does not run yet."""
        self.directory = directory
        self.socket = str(directory / "socket")
        self.certificate, self.key = str(directory / "certificate.pem"), str(directory / "key.pem")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        for name in ("data", "temporary"):
            (directory / name).mkdir()
        first = f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = '{ACCOUNT}';\n"
        script = "".join([first, *(next(Path("/usr/share").glob(name)).read_text() for name in TABLES)])
        subprocess.run([*self.program, "--bootstrap"], input=script, text=True, check=True, capture_output=True)
        words = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-newkey", "ec"]
        curve = ["-pkeyopt", "ec_paramgen_curve:P-256"]
        paths = ["-addext", "subjectAltName=DNS:localhost", "-keyout", self.key, "-out", self.certificate]
        subprocess.run([*words, *curve, *paths], check=True, capture_output=True)

    @property
    def program(self) -> Sequence[str]:
        """The command of the server, for its data.

        Without InnoDB it starts in a tenth of the time; what the tests change is in tables of Aria anyway. A server
        removes what others have in its directory for temporary tables.
        """
        settings = ("--no-defaults", "--skip-innodb", "--default-storage-engine=Aria", "--aria-log-file-size=8M")
        paths = (f"--datadir={self.directory}/data", f"--tmpdir={self.directory}/temporary")
        return (PROGRAM, *settings, *paths, *(("--user=root",) if os.geteuid() == 0 else ()))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it in the block; it accepts connections when that begins."""
        paths = [f"--socket={self.socket}", "--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"]
        encryption = [f"--ssl-cert={self.certificate}", f"--ssl-key={self.key}"]
        with (self.directory / "log").open("wb") as log:
            process = subprocess.Popen([*self.program, *paths, *encryption], stderr=log, start_new_session=True)
        try:
            deadline = time.monotonic() + 30
            while not self._accepts():
                assert process.poll() is None, (self.directory / "log").read_text()
                assert time.monotonic() < deadline, "the server does not accept connections"
                time.sleep(0.02)
            yield
        finally:
            process.kill()
            process.wait(30)

    def _accepts(self) -> bool:
        with closing(socket.socket(socket.AF_UNIX)) as client:
            return client.connect_ex(self.socket) == 0

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the provider, as the administrator."""
        return {"host": self.socket, "user": ACCOUNT}

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Return the rows of the last of some statements of the administrator."""
        with closing(pymysql.connect(unix_socket=self.socket, user=ACCOUNT, ssl_disabled=True)) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def can_log_in(self, user: str, password: str, **options: Any) -> bool:
        """Return whether a user of this machine can log in with a password through the port."""
        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user=user, password=password, **options).close()
        except pymysql.OperationalError:
            return False
        return True


@contextmanager
def running_server() -> Iterator[Server]:
    """Yield a server that runs, and remove it afterwards."""
    with TemporaryDirectory(prefix="ra-test-mariadb-") as directory:
        server = Server(Path(directory))
        with server.running():
            yield server
