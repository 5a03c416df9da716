"""The one connection to the database: opened, checked, written durably; every row carries a checksum.

WAL with ``synchronous=FULL``: of the journal modes that survive a power cut it is the one that readers do not disturb.
What the rows mean does not enter here. sqlite3 is imported with the first connection.
"""

from __future__ import annotations

import os
import stat
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values.errors import StateError
from resource_api.state.sqlite import marker
from resource_api.state.store import RECOVER

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

#: The version of what is inside, in SQLite's ``user_version``; one that is newer is refused.
VERSION: Final = 1
#: SQLite's ``application_id``: what tells a database of ours from any other, or from an empty file.
APPLICATION: Final = 0x72617069
TABLES: Final = ("stack", "resource", "owed", "intent", "run")

_SETTINGS: Final = ("busy_timeout=5000", "synchronous=FULL", "temp_store=MEMORY", "trusted_schema=OFF")
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_ERROR", "SQLITE_TOOBIG")
#: What is asked of SQLite, by whether to write and whether nobody does.
_MODES: Final = {(True, False): "mode=rw", (False, False): "mode=ro", (False, True): "mode=ro&immutable=1"}
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class NewerState(StateError):  # noqa: N818 - reads as what it says
    """The database is of a version that only a newer program knows."""


#: So many rows are written by one statement: a third of the time of as many statements, and more make no difference.
_AT_ONCE: Final = 50

#: Id, content, checksum.
Row = tuple[int, bytes, int]


class Database:
    """One open database; unless it is opened to ``write``, nothing can change it, and it is seen as of one moment."""

    def __init__(self, path: str, *, write: bool = False, still: bool = False) -> None:
        """Open what is there; who opens it to ``write`` holds the lock. ``still``: nobody does, so no log is needed.

        Raises ``StateError`` when it cannot be opened, is damaged, no database of ours, or of a newer version.
        """
        self.path = path
        with guarded(path):
            self._connection = _connect(path, _MODES[write, still])
        try:
            with guarded(path):
                self._connection.execute("PRAGMA journal_mode=WAL" if write else "BEGIN")
            self._check_version()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; what cannot be tidied up now is tidied up by the next one."""
        with suppress(Exception):
            self._connection.close()

    def read(self, table: str, low: int = 0, high: int = 2**62) -> list[Row]:
        """Give the rows of a table with ids from ``low`` up to ``high``, in their order, each one verified."""
        with guarded(self.path):
            query = f"SELECT id, body, checksum FROM {table} WHERE id >= ? AND id < ? ORDER BY id"  # noqa: S608 - a name of ours
            rows: list[Row] = self._connection.execute(query, (low, high)).fetchall()
        digest, number = blake2b, int.from_bytes
        try:
            for row_id, body, stored in rows:
                if number(digest(body, digest_size=7).digest(), "big") ^ row_id != stored:
                    raise damage(self.path, f"a row of table {table} is not what was written")
        except TypeError:
            raise damage(self.path, f"a row of table {table} is not what was written") from None
        return rows

    def top(self, table: str) -> int:
        """Give the highest id in a table; 0 when it is empty."""
        with guarded(self.path):
            (found,) = self._connection.execute(f"SELECT max(id) FROM {table}").fetchone()  # noqa: S608 - a name of ours
        return found or 0

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows, in place of those with the same ids."""
        with guarded(self.path):
            for start in range(0, len(rows), _AT_ONCE):
                some = rows[start : start + _AT_ONCE]
                places = ", ".join(["(?, ?, ?)"] * len(some))
                # For bytes an adapter would be looked for.
                values = [value for row_id, body, sum_ in some for value in (row_id, bytearray(body), sum_)]
                self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES {places}", values)  # noqa: S608 - a name of ours

    def drop(self, table: str, ids: Iterable[int]) -> None:
        """Remove rows."""
        with guarded(self.path):
            self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", ((row_id,) for row_id in ids))  # noqa: S608 - the same

    def drop_range(self, table: str, low: int, high: int) -> None:
        """Remove the rows with ids from ``low`` up to ``high``."""
        with guarded(self.path):
            self._connection.execute(f"DELETE FROM {table} WHERE id >= ? AND id < ?", (low, high))  # noqa: S608 - the same

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all or nothing; durable when left. Raises ``StateError`` when the disk does not take it."""
        with guarded(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with guarded(self.path):
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                with suppress(Exception):
                    self._connection.execute("ROLLBACK")
            raise

    def checkpoint(self) -> None:
        """Move what was written into the main file; readers may keep some of it for later."""
        with guarded(self.path):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def compact(self) -> None:
        """Write everything anew, so that nothing of what was there before is left in free pages."""
        with guarded(self.path):
            self._connection.execute("VACUUM")

    def check(self) -> None:
        """Verify the structure: pages, trees, free pages. Raises ``StateError``."""
        with guarded(self.path):
            found = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise damage(self.path, str(found[0]).splitlines()[-1])

    def copy(self, target: str) -> None:
        """Copy what is committed into a new private file at ``target``, durably."""
        clear(target)
        with guarded(target):
            os.close(marker.private(target))
            with closing(_connect(target, "mode=rw")) as copy:
                self._connection.backup(copy)

    def _check_version(self) -> None:
        with guarded(self.path):
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise damage(self.path, "it is empty, or no database of resource-api")
        if version > VERSION:
            msg = f"{self.path}: written by a newer resource-api: format {version}, this one knows up to {VERSION}"
            raise NewerState(msg)
        if version < 1:
            raise damage(self.path, f"there is no format {version}")


def open_for_reading(path: str) -> Database:
    """Open a database that is there, as of this moment, also where nothing can be written. Raises ``StateError``."""
    try:
        return Database(path)
    except StateError:
        # Without its log the main file does not say all.
        with suppress(OSError):
            if os.stat(f"{path}-wal").st_size:  # noqa: PTH116 - the path is text
                raise
    return Database(path, still=True)


def create(path: str) -> None:
    """Make an empty database at ``path``, under another name first, so that it is there whole or not at all."""
    new = f"{path}.new"
    clear(new)
    with guarded(path):
        os.close(marker.private(new))
        connection = _connect(new, "mode=rw")
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                columns = "id INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum INTEGER NOT NULL"
                connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("COMMIT")
            # Closing would do the same, but says nothing of a disk that refuses.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
        Database(new, still=True).close()
        marker.rename(new, path)


def row(row_id: int, body: bytes) -> Row:
    """Give a row with its checksum, over its id too."""
    return row_id, body, int.from_bytes(blake2b(body, digest_size=7).digest(), "big") ^ row_id


def refuse_newer(path: str) -> None:
    """Raise ``StateError`` for a database of a newer version; nothing is written, whatever else may be wrong."""
    try:
        Database(path, still=True).close()
    except NewerState:
        raise
    except StateError:
        return


def prepare(path: str) -> None:
    """Make the directory of the database at ``path`` if need be, for us alone, and check it. Raises ``StateError``."""
    directory = os.path.dirname(path)  # noqa: PTH120 - the path is text
    with guarded(directory):
        os.makedirs(directory, 0o700, exist_ok=True)  # noqa: PTH103 - the same
    verify_place(path)


def verify_place(path: str) -> None:
    """Refuse a directory or file that somebody else owns or can write to. Raises ``StateError``."""
    for each in (os.path.dirname(path), path):  # noqa: PTH120 - the path is text
        try:
            seen = os.stat(each, follow_symlinks=each != path)  # noqa: PTH116 - the same
        except FileNotFoundError:
            return
        except OSError as error:
            msg = f"{each}: cannot be used for state: {error.strerror}"
            raise StateError(msg) from error
        if each == path and not stat.S_ISREG(seen.st_mode):
            msg = f"{each}: is no file; state is not kept there"
            raise StateError(msg)
        if seen.st_uid != os.geteuid():
            msg = f"{each}: belongs to another user (uid {seen.st_uid}); state is not kept there"
            raise StateError(msg)
        if seen.st_mode & _OTHERS_WRITE:
            msg = f"{each}: others can write to it; state is not kept there: chmod go-w {each}"
            raise StateError(msg)


def damage(path: str, what: str) -> StateError:
    """Give the error for damage, naming the command that mends it."""
    return StateError(f"{path}: state is damaged: {what}; {RECOVER}")


@contextmanager
def guarded(path: str) -> Iterator[None]:
    """Turn what the system and SQLite refuse into ``StateError``, damage told apart from a full or unwritable disk."""
    import sqlite3  # noqa: PLC0415 - costs milliseconds, and most commands keep no state

    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_DAMAGE) or type(error) is sqlite3.DatabaseError:
            raise damage(path, str(error)) from error
        msg = f"{path}: state cannot be used: {error}"
        raise StateError(msg) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema
        raise damage(path, "its schema cannot be read") from error
    except OSError as error:
        msg = f"{error.filename or path}: state cannot be used: {error.strerror or error}"
        raise StateError(msg) from error
    except MemoryError as error:
        msg = f"{path}: state cannot be used: not enough memory"
        raise StateError(msg) from error


def _connect(path: str, query: str) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 - as above

    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{quoted}?{query}", uri=True, timeout=5, isolation_level=None, check_same_thread=False
    )
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def clear(path: str) -> None:
    """Remove what a crash may have left of a database that was being made. Raises ``StateError``."""
    for name in companions(path):
        with guarded(path), suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 - the path is text


def companions(path: str) -> Sequence[str]:
    """Give the files of a database, those first without which the main file must not be seen."""
    return f"{path}-journal", f"{path}-wal", f"{path}-shm", path
