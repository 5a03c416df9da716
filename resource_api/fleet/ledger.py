"""The controller's ledger of runs: started and finished hosts, for `--rerun`.

A database beside the state that survives the end of its process at any moment. It has only keyed digests of secrets.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.merge import SUCCEEDED
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape
from resource_api.state.lock import Lock
from resource_api.state.sqlite.database import prepare_directory
from resource_api.system.filesystem import private_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.fleet.merge import HostReport

#: The name of the file in the directory of the state.
FILE: Final = "fleet.db"
_VERSION: Final = 1
#: Seconds to wait for another process that opens the ledger, or writes to it.
_PATIENCE: Final = 10.0
#: Number of recorded runs.
MAX_RUNS: Final = 100
#: ``about``: the request; ``asked`` and ``answered``: the times when a job was sent, and its report arrived.
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS own (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS run (
  id TEXT PRIMARY KEY, started REAL NOT NULL, ended REAL, about TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS host (
  run TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, inputs BLOB NOT NULL, asked REAL, answered REAL,
  status TEXT, error TEXT, PRIMARY KEY (run, name)) WITHOUT ROWID;
"""


class RecordedRun(NamedTuple):
    """A recorded run with its unfinished hosts."""

    id: str
    #: The command and its options for hosts: ``command``, ``on``, ``hosts_file``, ``batches``, ``stop_after``.
    request: Mapping[str, Any]
    #: The digest of the manifest, the inputs of the command line and the module path.
    digest: str
    #: Unfinished host → the digest of its inputs, in the order of the run.
    remaining: Mapping[str, bytes]


class Ledger:
    """The runs of one machine."""

    def __init__(self, directory: str) -> None:
        """Open the database in ``directory``, created if missing. Raise ``StateError``, also if others can write it.

        A lock is held meanwhile, so that two processes do not create it at once.
        """
        self.path = f"{directory}/{FILE}"
        with self._errors():
            prepare_directory(self.path)
            # One after the other: SQLite does not wait for another process that sets the journal mode.
            with ExitStack() as failed, Lock(self.path).held(_PATIENCE):
                if not os.path.lexists(self.path):
                    os.close(private_files.create(self.path))
                self._connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
                failed.callback(self.close)
                self._prepare()
                failed.pop_all()  # without an error it stays open

    def _prepare(self) -> None:
        """Create the tables. Raise ``StateError`` for those of a later version, which could have another meaning."""
        # The end of this process loses nothing; a power cut may lose the last second, which the hosts recorded.
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "trusted_schema=OFF"):
            self._connection.execute(f"PRAGMA {setting}")
        [(version,)] = self._connection.execute("PRAGMA user_version")
        if version > _VERSION:
            raise StateError(f"{self.path} was written by a newer resource-api")
        self._connection.executescript(f"{_TABLES}PRAGMA user_version={_VERSION};")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @property
    def key(self) -> bytes:
        """The key for the digests of secret inputs, created at its first use.

        Without it, nobody can guess a secret and compare the guess with a recorded digest.
        """
        with self._transaction():
            if (row := self._connection.execute("SELECT key FROM own").fetchone()) is None:
                row = (secrets.token_bytes(32),)
                self._connection.execute("INSERT INTO own VALUES (?)", row)
            key: bytes = row[0]
            return key

    def begin(self, request: Mapping[str, object], digest: str, hosts: Iterable[tuple[str, bytes]]) -> str:
        """Record a new run with its hosts, and remove the oldest runs beyond the limit; return its id.

        ``request`` and ``digest``: as in ``RecordedRun``. ``hosts``: each with the digest of its inputs, by which
        ``--rerun`` refuses a host whose inputs have changed.
        """
        run = secrets.token_hex(8)
        with self._transaction():
            # Room for one run among the last ones.
            query = "SELECT id FROM run ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            old = self._connection.execute(query, (MAX_RUNS - 1,)).fetchall()
            self._connection.executemany("DELETE FROM host WHERE run = ?", old)
            self._connection.executemany("DELETE FROM run WHERE id = ?", old)
            values = (run, time.time(), json.dumps(dict(request)), digest)
            self._connection.execute("INSERT INTO run (id, started, about, digest) VALUES (?, ?, ?, ?)", values)
            rows = ((run, position, name, inputs) for position, (name, inputs) in enumerate(hosts))
            self._connection.executemany("INSERT INTO host (run, position, name, inputs) VALUES (?, ?, ?, ?)", rows)
        return run

    def note(self, run: str, started: Iterable[str], reports: Iterable[HostReport]) -> None:
        """Record the started hosts of a ``run`` and the reports of finished ones; ``--rerun`` skips successful ones."""
        moment = time.time()
        with self._transaction():
            query = "UPDATE host SET asked = ? WHERE run = ? AND name = ?"
            self._connection.executemany(query, ((moment, run, name) for name in started))
            query = "UPDATE host SET answered = ?, status = ?, error = ? WHERE run = ? AND name = ?"
            # Escaped: a host may send text that no database takes.
            rows = ((moment, report.status, escape(report.error), run, report.name) for report in reports)
            self._connection.executemany(query, rows)

    def finish(self, run: str) -> None:
        """Record the end of a run."""
        with self._transaction():
            self._connection.execute("UPDATE run SET ended = ? WHERE id = ?", (time.time(), run))

    def find(self, prefix: str) -> RecordedRun:
        """Return the run whose id begins with ``prefix``, or for ``last`` the newest.

        Its remaining hosts are those without success, which ``--rerun`` selects. Raise ``UsageError`` if no run or
        several match.
        """
        with self._errors():
            rows = self._connection.execute("SELECT id, about, digest FROM run ORDER BY rowid").fetchall()
            matches = rows[-1:] if prefix == "last" else [row for row in rows if row[0].startswith(prefix)]
            if len(matches) != 1:
                which = f"{len(matches)} runs begin with '{prefix}'" if matches else f"there is no run '{prefix}'"
                raise UsageError(f"--rerun: {which} among the last {MAX_RUNS} over several hosts")
            run, request, digest = matches[0]
            query = "SELECT name, inputs, status FROM host WHERE run = ? ORDER BY position"
            hosts = self._connection.execute(query, (run,))
            remaining = {name: inputs for name, inputs, status in hosts if status not in SUCCEEDED}
        return RecordedRun(run, json.loads(request), digest, remaining)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit the statements of the block together, or none after an error; other processes wait meanwhile."""
        with self._errors(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def _errors(self) -> AbstractContextManager[None]:
        """Turn errors of the database and its file into ``StateError``."""
        return errors_as(StateError, (OSError, sqlite3.Error), f"{self.path}: ")


def digest_of(values: Mapping[str, object] | Sequence[object], key: bytes) -> bytes:
    """Return the keyed digest of values, by which ``--rerun`` sees a change; without the key they cannot be guessed."""
    return blake2b(repr(_revealed(values)).encode(errors="surrogatepass"), key=key, digest_size=16).digest()


def _revealed(value: object) -> object:
    """Return a value in a form whose ``repr`` is the same for equal values, so that ``digest_of`` can compare them.

    Mappings are sorted by key. A secret is in clear with a mark, so that a text that becomes secret counts as changed.
    """
    if isinstance(value, dict):
        return [(str(name), _revealed(value[name])) for name in sorted(value, key=str)]
    if isinstance(value, (list, tuple)):
        return [_revealed(item) for item in value]
    reveal = getattr(value, "reveal", None)
    return ("secret", _revealed(reveal())) if reveal is not None else value
