"""The lease of a stack: the lock of a run that may lose its connection, be frozen, or be killed without a word.

A run takes the row of its stack for some seconds and renews it while it lives. Every lease has a higher number than the
one before, its *fence*, and each write names the number: of two runs that both believe to hold the lock, the one that
was overtaken writes nothing. Times are those of the server. An advisory lock of the server would be none: it ends with
a session, which a pooler or a restart ends, and its former holder would go on writing.
"""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import StateLocked, StateLost
from resource_api.model.values.start_up import NamedTuple
from resource_api.state.lock import boot_id, start_time
from resource_api.state.postgresql.database import SCHEMA
from resource_api.system.filesystem.permissions import user_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.postgresql.database import Connection
    from resource_api.state.store import StackName

#: Seconds for which a lease is valid unless it is renewed.
SECONDS: Final = 30.0
#: The channel on which the end of a lease is announced.
CHANNEL: Final = "resource_api"

_NOW: Final = "clock_timestamp()"
_UNTIL: Final = f"{_NOW} + make_interval(secs => %(seconds)s)"
_SINCE: Final = f"""to_char({_NOW} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')"""

_INSERT: Final = f"INSERT INTO {SCHEMA}.stack (project, stack) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_TAKE: Final = f"""
UPDATE {SCHEMA}.stack SET fence = fence + 1, write = 0, expires = {_UNTIL},
    holder = %(holder)s::jsonb || jsonb_build_object('since', {_SINCE})
WHERE project = %(project)s AND stack = %(stack)s
    AND (holder IS NULL OR expires < {_NOW} OR fence = %(ended)s)
RETURNING number, fence"""
_RENEW: Final = f"UPDATE {SCHEMA}.stack SET expires = {_UNTIL} WHERE number = %(number)s AND fence = %(fence)s"
_RELEASE: Final = f"""
WITH free AS (
    UPDATE {SCHEMA}.stack SET holder = NULL, expires = NULL
    WHERE number = %(number)s AND fence = %(fence)s RETURNING project, stack, body)
SELECT body IS NULL, pg_notify('{CHANNEL}', project || '/' || stack) FROM free"""
#: The row of a stack of which nothing was recorded.
_REMOVE: Final = f"DELETE FROM {SCHEMA}.stack WHERE number = %s AND body IS NULL AND holder IS NULL"
_HOLDER: Final = f"""
SELECT holder, fence, extract(epoch FROM expires - {_NOW})::float FROM {SCHEMA}.stack
WHERE project = %s AND stack = %s AND holder IS NOT NULL AND expires >= {_NOW}"""
_HOLDERS: Final = f"""
SELECT project, stack, holder FROM {SCHEMA}.stack WHERE holder IS NOT NULL AND expires >= {_NOW} ORDER BY 1, 2"""


class Lease(NamedTuple):
    """A lease of this process: the number of its stack, and its own."""

    number: int
    fence: int


class LeaseHolder(NamedTuple):
    """The holder of a lease. ``boot`` and ``started`` distinguish its process from a later one of that machine."""

    pid: int
    user: str
    host: str
    command: str
    boot: str
    started: str
    #: A random text for each run.
    run: str = ""
    since: str = ""

    @classmethod
    def of_this_process(cls, command: str) -> LeaseHolder:
        """Return the holder that this process is during one run of ``command``."""
        pid, run = os.getpid(), os.urandom(8).hex()
        return cls(pid, user_name(os.getuid()), socket.gethostname(), command, _machine(), start_time(pid), run)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> LeaseHolder:
        """Return the holder in a row's column ``holder``, field → value; a field that it lacks is empty."""
        fields: Any = {field: values.get(field) or "" for field in cls._fields}
        return cls(**fields)

    def __str__(self) -> str:
        """Return the process, its user and machine, its command, and since when it holds the lease."""
        return f"pid {self.pid} ({self.user} on {self.host}) has been running '{self.command}' since {self.since}"

    @property
    def is_this_process(self) -> bool:
        """Whether it is this process."""
        return (self.pid, self.boot, self.started) == (os.getpid(), _machine(), start_time(os.getpid()))

    @property
    def has_ended(self) -> bool:
        """Whether it was a process of this machine that runs no longer."""
        return bool(self.boot) and self.boot == _machine() and self.started != start_time(self.pid)


def _machine() -> str:
    """Return the boot id and the namespace of process ids, in which a holder's process number is valid; or "".

    Only there a run can check whether the holder of a lease still exists: another machine or container has other
    processes with the same numbers.
    """
    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def take(connection: Connection, name: StackName, run: LeaseHolder, seconds: float) -> Lease | StateLocked:
    """Take the lease of a stack for a run; return it, or the error that names its present holder.

    A holder that was killed on this machine loses the lease at once, one on another machine when the lease expires. A
    run whose connection was cut before the answer arrived may hold the lease already, and takes it again.
    """
    values = {**name._asdict(), "seconds": seconds, "holder": json.dumps(run._asdict())}
    ended_fence: int | None = None
    # An attempt fails without a row, which is then inserted, or because of a holder that has ended. The next attempt
    # names the fence of that holder: it takes the lease unless another run has taken it since.
    for _ in range(3):
        if (row := connection.execute(_TAKE, {**values, "ended": ended_fence}).fetchone()) is not None:
            return Lease(*row)
        if (locked := connection.execute(_HOLDER, name).fetchone()) is None:
            connection.execute(_INSERT, name)  # does nothing where the row exists and its lease has ended since
            continue
        row, ended_fence, remaining = locked
        holder = LeaseHolder.read(row)
        if holder.run != run.run and not holder.has_ended:
            return _locked(name, holder, remaining)
    return _locked(name, None, seconds)


def _locked(name: StackName, holder: LeaseHolder | None, seconds: float) -> StateLocked:
    """Return the error about a held lease: its ``holder``, and the ``seconds`` until it ends without a renewal."""
    who = str(holder) if holder is not None else "another process holds the lock"
    error = StateLocked(
        f"state is locked: {name}: {who}; --lock-timeout waits for it; a run that was killed or cut off holds it for"
        f" {max(1, round(seconds))} s more"
    )
    error.holder = who
    return error


def renew(connection: Connection, lease: Lease, seconds: float) -> bool:
    """Renew a lease; return whether it was still held."""
    return connection.execute(_RENEW, {**lease._asdict(), "seconds": seconds}).rowcount > 0


def release(connection: Connection, lease: Lease) -> None:
    """End a lease, unless it was lost, and wake those who wait for it; remove the stack if nothing was recorded."""
    row = connection.execute(_RELEASE, lease._asdict()).fetchone()
    if row is not None and row[0]:  # no body
        connection.execute(_REMOVE, (lease.number,))


def lost(connection: Connection, name: StackName) -> StateLost:
    """Return the error for a lease that was lost, which names the run that has taken it."""
    row = connection.execute(_HOLDER, name).fetchone()
    holder = str(LeaseHolder.read(row[0])) if row is not None else "a run that has ended"
    error = StateLost(
        f"lost the lock to {holder}: this run had not renewed it; it writes nothing more, and the next one reads again"
        " what it was changing"
    )
    error.holder = holder
    return error


def foreign_holders(connection: Connection) -> dict[tuple[str, str], str]:
    """Return (project, stack) → the holder in words, of each stack that another process has locked, for messages."""
    rows = connection.execute(_HOLDERS).fetchall()
    holders = {(project, stack): LeaseHolder.read(holder) for project, stack, holder in rows}
    return {name: str(holder) for name, holder in holders.items() if not (holder.is_this_process or holder.has_ended)}
