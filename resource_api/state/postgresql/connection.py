"""The connection to a PostgreSQL server, opened late and again after a restart of the server; its errors.

Nothing depends on the session of the server: no settings, no prepared statements, no temporary tables, and no locks
beyond a transaction. So a pooler may give each transaction to another session (pgbouncer in transaction mode). No other
module imports psycopg.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import conninfo, errors, pq

from resource_api.model.values.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

#: Parameters of libpq unless the user sets them: a host that does not answer is an error within this time, and a cut
#: connection is noticed while it is idle and while it waits for an answer.
_DEFAULTS: Final[Mapping[str, tuple[str, str | int]]] = {
    "connect_timeout": ("PGCONNECT_TIMEOUT", 10),
    "fallback_application_name": ("", "resource-api"),
    "keepalives_idle": ("", 10),
    "keepalives_interval": ("", 5),
    "keepalives_count": ("", 3),
    "tcp_user_timeout": ("", 30_000),
}
#: Seconds between two attempts to reach a server that is being restarted.
_PAUSE: Final = 0.2
#: The errors of a session that the server ends, before the connection is closed.
_ENDED: Final = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.IdleSessionTimeout)


class ServerConnection:
    """One connection to the server at a URL, opened with its first use, for one thread at a time."""

    def __init__(self, url: str) -> None:
        """Open nothing yet. Raise ``ValueError`` for a URL that libpq cannot read."""
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # every error is raised
        self.url = url
        try:
            parameters: dict[str, Any] = conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            msg = "libpq cannot read the URL"
            raise ValueError(msg) from None  # its message quotes the URL
        for name, (variable, value) in _DEFAULTS.items():
            if "service" not in parameters and variable not in os.environ:
                parameters.setdefault(name, value)
        self._parameters = conninfo.make_conninfo(**parameters)
        self._connection: Connection | None = None
        #: Closes the connection, also when this object is no longer used.
        self._closing: weakref.finalize[Any, Any] | None = None
        #: The process that opened the connection; a forked child opens its own.
        self._pid = 0
        #: Whether tables were seen on the present connection.
        self._has_tables = False

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._closing is not None:
            self._closing()
        self._connection = self._closing = None

    def abort(self) -> None:
        """End the connection while another thread waits for an answer, which gets an error."""
        with suppress(psycopg.Error, OSError):
            if self._connection is not None:
                with socket.socket(fileno=os.dup(self._connection.fileno())) as connected:
                    connected.shutdown(socket.SHUT_RDWR)

    def run(self, work: Callable[[Connection], T], patience: float = 0.0) -> T:
        """Return the result of ``work``, which is called again on a new connection where the server ended the last.

        For ``patience`` seconds the server may be away; a connection that ends after it was opened is opened again once
        in any case. ``work`` must have no further effect if it is called again. Raise ``StateError``.
        """
        until = time.monotonic() + patience
        reopened = False
        while True:
            try:
                return self._attempt(work)
            except _ConnectionLostError as error:
                if error.was_open and not reopened:
                    reopened = True
                elif time.monotonic() < until:
                    time.sleep(_PAUSE)
                else:
                    raise StateError(str(error)) from error

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        """Do work on the connection, which is closed if it fails in the middle of a statement."""
        try:
            with self._errors():
                return work(self._opened())
        except BaseException:
            connection = self._connection
            # After an interrupt the end of the statement may be unread.
            if connection is not None and connection.info.transaction_status is not pq.TransactionStatus.IDLE:
                self.close()
            raise

    def _opened(self) -> Connection:
        """Return the connection, opened if there is none."""
        if self._connection is None or self._connection.closed or self._pid != os.getpid():
            self.close()
            connection = psycopg.connect(self._parameters, autocommit=True, prepare_threshold=None)
            self._connection, self._pid, self._has_tables = connection, os.getpid(), False
            self._closing = weakref.finalize(self, _close, connection, self._pid)
        return self._connection

    def has_tables(self, exist: Callable[[Connection, str], bool]) -> bool:
        """Return whether ``exist`` finds tables; a positive answer holds for as long as the connection is open."""
        if not self._has_tables:
            self._has_tables = exist(self._opened(), self.url)
        return self._has_tables

    def wait_for(self, channel: str, payload: str, seconds: float) -> None:
        """Return when ``payload`` was notified on a channel, or after some seconds; behind a pooler only then."""

        def wait(connection: Connection) -> bool:
            """Wait for a notification; return False at once behind a pooler, which shares sessions."""
            # A pooler has a process number of its own; to listen would concern the sessions of others.
            backend = connection.execute("SELECT pg_backend_pid()").fetchone()
            if backend != (connection.info.backend_pid,):
                return False
            connection.execute(f"LISTEN {channel}")
            for notify in connection.notifies(timeout=seconds):
                if notify.payload == payload:
                    break
            connection.execute(f"UNLISTEN {channel}")
            return True

        if not self.run(wait):
            time.sleep(seconds)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as this process knows."""
        return self._connection is not None and not self._connection.closed

    @property
    def role(self) -> str:
        """The role of the connection, for messages, or an empty text."""
        connection = self._connection
        return "" if connection is None or connection.closed else connection.info.user

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors into ``StateError``; a lost connection is closed, and its error is one that ``run`` retries."""
        try:
            yield
        except errors.InsufficientPrivilege as error:
            msg = f"{self.url}: the role '{self.role}' may not do that: {_message(error)}; docs/teams.md lists rights"
            raise StateError(msg) from error
        except errors.ReadOnlySqlTransaction as error:
            msg = f"{self.url}: the server takes no writes, as a standby: {_message(error)}; name the one that does"
            raise StateError(msg) from error
        except psycopg.Error as error:
            failure = f"{self.url}: state cannot be used: {_message(error)}"
            was_open = self._connection is not None
            if self._connection is not None and not self._connection.closed and not isinstance(error, _ENDED):
                raise StateError(failure) from error
            self.close()
            raise _ConnectionLostError(failure, was_open=was_open) from error
        except UnicodeEncodeError as error:
            msg = f"{self.url}: state cannot be used: the encoding of the connection is not UTF-8"
            raise StateError(msg) from error


class _ConnectionLostError(StateError):
    """The connection could not be opened, or the server or the network ended it after it ``was_open``."""

    def __init__(self, message: str, *, was_open: bool = False) -> None:
        super().__init__(message)  # a copy is made of the message alone, then gets the fields
        self.was_open = was_open


@contextmanager
def snapshot(connection: Connection) -> Iterator[Connection]:
    """Show the content of one moment, in a transaction that cannot write."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield connection
    finally:
        with suppress(psycopg.Error):  # of a connection that was lost
            connection.execute("ROLLBACK")


def _message(error: psycopg.Error) -> str:
    """Return the message of an error on one line, without details, which may quote values."""
    lines = (error.diag.message_primary or str(error) or type(error).__name__).splitlines()
    return "; ".join(line.strip() for line in lines if line.strip()).removesuffix(":")


def _close(connection: Connection, pid: int) -> None:
    """Close a connection, unless this is a forked child, whose message would end the session of its parent."""
    if os.getpid() == pid:
        with suppress(psycopg.Error):
            connection.close()
