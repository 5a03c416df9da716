"""What the machine that asks knows of its runs: which hosts were asked, and which have answered.

A database beside the state, which survives the end of its process at any moment; `--rerun` asks it. Secrets are in it
as keyed digests alone.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.merge import SUCCEEDED
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError, UsageError
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.fleet.merge import HostReport

#: The name of the file in the directory of the state.
FILE: Final = "fleet.db"
_VERSION: Final = 1
#: How many runs are kept.
KEPT: Final = 100
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS own (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS generation (project TEXT PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS run (
  id TEXT PRIMARY KEY, started REAL NOT NULL, ended REAL, about TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS host (
  run TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, inputs BLOB NOT NULL, asked REAL, answered REAL,
  status TEXT, error TEXT, PRIMARY KEY (run, name)) WITHOUT ROWID;
"""


class Recorded(NamedTuple):
    """A run of the past, as far as doing the rest of it needs it."""

    id: str
    #: What the command line said about hosts.
    about: Mapping[str, Any]
    #: The digest of the manifest, the inputs of the command line and the module path.
    digest: str
    #: The hosts that are left → the digest of the inputs of each, in the order of the run.
    left: Mapping[str, bytes]


class Ledger:
    """The runs of one machine."""

    def __init__(self, directory: str) -> None:
        """Open the database, made if it is missing. Raise ``StateError`` where it cannot be used."""
        self.path = f"{directory}/{FILE}"
        with self._errors():
            make_directory(directory)
            if not os.path.lexists(self.path):
                os.close(private_files.create(self.path))
            if os.lstat(self.path).st_uid != os.geteuid():
                msg = f"{self.path} belongs to another user"
                raise StateError(msg)
            with ExitStack() as failed:
                self._connection = sqlite3.connect(self.path, timeout=10, isolation_level=None)
                failed.callback(self.close)
                self._prepare()
                failed.pop_all()

    def _prepare(self) -> None:
        """Make the tables. Raise ``StateError`` for those of a later version."""
        # The end of this process loses nothing; a power cut may lose the last second, and the hosts know.
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "trusted_schema=OFF"):
            self._connection.execute(f"PRAGMA {setting}")
        [(version,)] = self._connection.execute("PRAGMA user_version")
        if version > _VERSION:
            msg = f"{self.path} was written by a newer resource-api"
            raise StateError(msg)
        self._connection.executescript(f"{_TABLES}PRAGMA user_version={_VERSION};")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @property
    def key(self) -> bytes:
        """The key with which digests of secrets are made, so that nobody can guess a secret from its digest."""
        with self._transaction():
            if (found := self._connection.execute("SELECT key FROM own").fetchone()) is None:
                found = (secrets.token_bytes(32),)
                self._connection.execute("INSERT INTO own VALUES (?)", found)
            key: bytes = found[0]
            return key

    def next_generation(self, project: str) -> int:
        """Return a number that is higher than any before for a project, here and on machines with the same time."""
        with self._transaction():
            found = self._connection.execute("SELECT number FROM generation WHERE project = ?", (project,)).fetchone()
            number = max((found or (0,))[0] + 1, int(time.time() * 1000))
            self._connection.execute("INSERT OR REPLACE INTO generation VALUES (?, ?)", (project, number))
        return number

    def begin(self, about: Mapping[str, Any], digest: str, hosts: Iterable[tuple[str, bytes]]) -> str:
        """Return the id of a new run of these hosts, each with the digest of its inputs."""
        run = secrets.token_hex(8)
        with self._transaction():
            self._forget_old()
            values = (run, time.time(), json.dumps(dict(about)), digest)
            self._connection.execute("INSERT INTO run (id, started, about, digest) VALUES (?, ?, ?, ?)", values)
            rows = ((run, position, name, inputs) for position, (name, inputs) in enumerate(hosts))
            self._connection.executemany("INSERT INTO host (run, position, name, inputs) VALUES (?, ?, ?, ?)", rows)
        return run

    def note(self, run: str, asked: Iterable[str], answered: Iterable[HostReport]) -> None:
        """Record which hosts were asked, and what has become of those that have answered."""
        now = time.time()
        with self._transaction():
            query = "UPDATE host SET asked = ? WHERE run = ? AND name = ?"
            self._connection.executemany(query, ((now, run, name) for name in asked))
            query = "UPDATE host SET answered = ?, status = ?, error = ? WHERE run = ? AND name = ?"
            rows = ((now, each.status, each.error, run, each.name) for each in answered)
            self._connection.executemany(query, rows)

    def finish(self, run: str) -> None:
        """Record that a run has ended."""
        with self._transaction():
            self._connection.execute("UPDATE run SET ended = ? WHERE id = ?", (time.time(), run))

    def find(self, wanted: str) -> Recorded:
        """Return the run whose id begins with ``wanted``; ``last`` is the newest. Raise ``UsageError``."""
        with self._errors():
            rows = self._connection.execute("SELECT id, about, digest FROM run ORDER BY started").fetchall()
            found = rows[-1:] if wanted == "last" else [row for row in rows if row[0].startswith(wanted)]
            if len(found) != 1:
                which = f"{len(found)} runs begin with '{wanted}'" if found else f"there is no run '{wanted}'"
                msg = f"--rerun: {which} among the last {KEPT} over several hosts"
                raise UsageError(msg)
            run, about, digest = found[0]
            query = "SELECT name, inputs, status FROM host WHERE run = ? ORDER BY position"
            hosts = self._connection.execute(query, (run,))
            left = {name: inputs for name, inputs, status in hosts if status not in SUCCEEDED}
        return Recorded(run, json.loads(about), digest, left)

    def _forget_old(self) -> None:
        old = self._connection.execute(
            "SELECT id FROM run ORDER BY started DESC LIMIT -1 OFFSET ?", (KEPT - 1,)
        ).fetchall()
        for table, column in (("host", "run"), ("run", "id")):
            self._connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", old)  # noqa: S608 - constants

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors(), closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the database and its file into ``StateError``."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            msg = f"{self.path}: {getattr(error, 'strerror', None) or error}"
            raise StateError(msg) from error


def digest_of(values: Mapping[str, Any] | Sequence[Any], key: bytes) -> bytes:
    """Return the keyed digest of values, in which nothing of them can be guessed without the key."""
    return blake2b(repr(_revealed(values)).encode(errors="surrogatepass"), key=key, digest_size=16).digest()


def _revealed(value: Any) -> Any:
    if isinstance(value, dict):
        return [(str(name), _revealed(value[name])) for name in sorted(value, key=str)]
    if isinstance(value, (list, tuple)):
        return [_revealed(each) for each in value]
    reveal = getattr(value, "reveal", None)
    return ("secret", _revealed(reveal())) if reveal is not None else value
