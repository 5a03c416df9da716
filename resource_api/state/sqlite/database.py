"""The connection to the SQLite database: opening, verifying and durable writing of rows with checksums.

Write-ahead log (WAL) with ``synchronous=FULL``: of the journal modes that survive a power cut, it is the one in which
readers and the writer do not block each other. sqlite3 is imported with the first connection.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import StateDamaged, StateError
from resource_api.model.values.text import shell_word
from resource_api.state.stack_rows import are_intact
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.filesystem.directories import OTHERS_WRITE, make_directory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from resource_api.state.store import Row

#: The version of the format, in SQLite's ``user_version``; a newer one is refused.
VERSION: Final = 1
#: SQLite's ``application_id``, which marks a database of resource-api.
APPLICATION: Final = 0x72617069
#: The number of generations that are kept, which are copies of the database from the last runs.
GENERATIONS: Final = 3
#: The effect of ``state recover`` where no intact generation is left.
NONE_LEFT: Final = "says how to start again, because no intact generation is left"
TABLES: Final = ("stack", "resource", "owed", "intent", "run")

#: The settings of every connection; with ``trusted_schema=OFF`` an altered schema cannot call functions that do harm.
_SETTINGS: Final = ("busy_timeout=5000", "synchronous=FULL", "temp_store=MEMORY", "trusted_schema=OFF")
#: The beginnings of the names of errors that mean damage: ``SQLITE_ERROR`` is that of a schema without our tables.
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_ERROR", "SQLITE_TOOBIG")
#: The advice where state cannot be stored.
_ELSEWHERE: Final = "name another place with --state sqlite:PATH"
#: The errors of a location that cannot be used, which are no passing trouble of the system.
_UNUSABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class NewerFormatError(StateError):
    """The database has a format that only a newer resource-api can read."""


class Database:
    """One open database. Without ``write`` it is read-only and shows the content of one moment."""

    def __init__(self, path: str, *, write: bool = False, immutable: bool = False, remove_log: bool = False) -> None:
        """Open an existing database. To ``write``, the caller must hold the lock.

        ``immutable``: no other process writes, so SQLite needs no log beside the file. ``remove_log``: a reader removes
        the log that SQLite creates for it, unless other processes use it. Raises ``StateError`` for a database that
        cannot be opened, is damaged, of another application, or of a newer format.
        """
        self.path = path
        with state_errors(path):
            mode = "mode=ro&immutable=1" if immutable else "mode=ro"
            if write or remove_log:  # only a connection that may write can remove the log
                mode = "mode=rw"
            self._connection = _connect(path, mode)
        try:
            if remove_log:
                self._execute("PRAGMA query_only=ON")
            self._execute("PRAGMA journal_mode=WAL" if write else "BEGIN")
            self._check_format()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next one cleans up if this one cannot."""
        with suppress(Exception):
            self._connection.close()

    def read(self, table: str, low: int = 0, high: int = 2**62) -> list[Row]:
        """Return the verified rows of a table with ``low`` <= id < ``high``, ordered by id.

        The rows of one stack have the ids of such a range.
        """
        query = f"SELECT id, body, checksum FROM {table} WHERE id >= ? AND id < ? ORDER BY id"
        rows: list[Row] = self._execute(query, (low, high))
        if not are_intact(rows):
            raise self.damage(f"a row of table {table} was altered")
        return rows

    def ids(self, table: str) -> list[int]:
        """Return the ids of all rows of a table, verified or not."""
        return [row_id for (row_id,) in self._execute(f"SELECT id FROM {table} ORDER BY id")]

    def write(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows; rows with the same ids are replaced."""
        with state_errors(self.path):
            self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", rows)

    def delete(self, table: str, ids: Iterable[int]) -> None:
        """Delete the rows with these ids."""
        with state_errors(self.path):
            self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", ((row_id,) for row_id in ids))

    def delete_range(self, table: str, low: int, high: int) -> None:
        """Delete the rows with ``low`` <= id < ``high``."""
        self._execute(f"DELETE FROM {table} WHERE id >= ? AND id < ?", (low, high))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all rows of the block or none; durable on exit. Raises ``StateError`` when the disk refuses."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                with suppress(Exception):
                    self._connection.execute("ROLLBACK")
            raise

    def damage(self, message: str) -> StateDamaged:
        """Return the error for damage, which names the command that repairs it."""
        return damage(self.path, message)

    def checkpoint(self) -> None:
        """Move the log's content into the main file; open readers may delay a part of it."""
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def compact(self) -> None:
        """Rewrite the file, so that free pages keep nothing of deleted rows."""
        self._execute("VACUUM")

    def check(self) -> None:
        """Verify the structure of the file, which the checksums of rows do not cover. Raises ``StateError``."""
        [(result, *_)] = self._execute("PRAGMA quick_check(1)")
        if result != "ok":
            raise damage(self.path, str(result).splitlines()[-1])

    def copy(self, target: str) -> None:
        """Copy the committed content durably to a new private file at ``target``.

        A generation is such a copy of the database, and a recovery copies a generation back.
        """
        remove(target)
        with state_errors(target):
            os.close(private_files.create(target))
            with closing(_connect(target, "mode=rw")) as copy:
                self._connection.backup(copy)

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows that a statement yields. Raises ``StateError``."""
        with state_errors(self.path):
            return self._connection.execute(statement, values).fetchall()

    def _check_format(self) -> None:
        """Raise ``StateError`` for a database of another application or of a newer format."""
        [(application,)] = self._execute("PRAGMA application_id")
        [(version,)] = self._execute("PRAGMA user_version")
        if application != APPLICATION:
            raise damage(self.path, "it is empty, or no database of resource-api")
        if version > VERSION:
            msg = f"{self.path}: written by a newer resource-api: format {version}, this one reads up to {VERSION}"
            raise NewerFormatError(msg)
        if version < 1:
            raise damage(self.path, f"there is no format {version}")


def open_for_reading(path: str) -> Database:
    """Open an existing database read-only, also on a read-only filesystem. Raises ``StateError``.

    A write-ahead log that a killed writer has left stays, as it may have commits; one of SQLite's own for this reader
    is removed.
    """
    try:
        return Database(path, remove_log=not _has_log(path))
    except StateError:
        # With a log beside it, the main file alone is incomplete.
        if _has_log(path):
            raise
    return Database(path, immutable=True)  # SQLite cannot create a log there, and needs none


def _has_log(path: str) -> bool:
    """Return whether there is a write-ahead log, without which the main file may lack the last commits."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def create(path: str) -> None:
    """Create an empty database at ``path``: under another name first, then renamed.

    A run that is killed meanwhile thus leaves no incomplete database at ``path``.
    """
    new = f"{path}.new"
    remove(new)
    with state_errors(path):
        os.close(private_files.create(new))
        with closing(_connect(new, "mode=rw")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                columns = "id INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum INTEGER NOT NULL"
                connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("COMMIT")
            # close() would checkpoint too, but without an error when the disk refuses.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        Database(new, immutable=True).close()  # raises if it cannot be opened
        private_files.rename(new, path)


def check_not_newer(path: str) -> None:
    """Raise ``StateError`` for a database of a newer format, before anything is written.

    Any other fault is ignored: opening the database reports it, or ``recover`` repairs it.
    """
    try:
        Database(path, immutable=True).close()
    except NewerFormatError:
        raise
    except StateError:
        return


def prepare_directory(path: str) -> None:
    """Create the directory of the database at ``path`` if needed (mode 0700) and check it. Raises ``StateError``."""
    directory = os.path.dirname(path)
    with state_errors(directory):
        make_directory(directory)
        reason = CodeTrust().check_file(directory, holds_code=False)
    check_permissions(path)
    if reason:
        msg = f"{directory}: state is not stored there, because others could put another directory there: {reason}"
        raise StateError(msg)


def check_permissions(path: str) -> None:
    """Raise ``StateError`` for a directory or file that another user owns or can write to; a missing one passes.

    Another user could change the state there, and by it the resources that a run as root deletes. The database itself
    must not be a symbolic link.
    """
    for location in (os.path.dirname(path), path):
        try:
            status = os.stat(location, follow_symlinks=location != path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StateError(f"{location}: cannot be used for state: {error.strerror}; {_ELSEWHERE}") from error
        if problem := _permission_problem(location, path, status):
            raise StateError(f"{location}: {problem}")


def _permission_problem(location: str, path: str, status: os.stat_result) -> str:
    """Return the problem that forbids a database at ``path``, with its remedy, or "".

    ``location`` is that path or its directory, of which ``status`` has the permissions.
    """
    is_directory, others_write = location != path, status.st_mode & OTHERS_WRITE
    if not is_directory and not stat.S_ISREG(status.st_mode):
        return f"is not a regular file; state cannot be stored there; {_ELSEWHERE}"
    if is_directory and others_write and status.st_mode & stat.S_ISVTX:  # such as /tmp
        suggestion = shell_word(f"sqlite:{location.rstrip('/')}/resource-api/{os.path.basename(path)}")
        return f"others can write to it; name a directory of your own in it: --state {suggestion}"
    if status.st_uid != os.geteuid():
        return f"belongs to another user (uid {status.st_uid}); state cannot be stored there; {_ELSEWHERE}"
    if others_write:
        return f"others can write to it; state is not stored there until you run: chmod go-w {shell_word(location)}"
    return ""


def damage(path: str, message: str, without_generations: str = NONE_LEFT) -> StateDamaged:
    """Return the error for damage, with the effect that ``state recover`` would have.

    With a generation (a copy of an older state) it restores the newest one that is intact; ``without_generations`` is
    the text for its effect without any.
    """
    effect = StateDamaged.RESTORES if any(map(os.path.lexists, generations_of(path))) else without_generations
    return StateDamaged(f"{path}: state is damaged: {message}", effect)


@contextmanager
def state_errors(path: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into ``StateError``, with different advice for damage and for other errors.

    Damage needs a recovery; a full or read-only disk, or a lack of memory, does not.
    """
    library = _library()
    try:
        yield
    except library.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_DAMAGE) or type(error) is library.DatabaseError:
            raise damage(path, str(error)) from error
        msg = f"{path}: state cannot be used: {'the disk is full' if _is_disk_full(error, path) else error}"
        raise StateError(msg) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema
        raise damage(path, "its schema cannot be read") from error
    except OSError as error:
        advice = f"; {_ELSEWHERE}" if error.errno in _UNUSABLE else ""
        msg = f"{error.filename or path}: state cannot be used: {error.strerror or error}{advice}"
        raise StateError(msg) from error
    except MemoryError as error:
        raise StateError(f"{path}: state cannot be used: not enough memory") from error


def _is_disk_full(error: sqlite3.Error, path: str) -> bool:
    """Return whether an error of SQLite means a full disk, for a message with the cause.

    If the disk is full for its log files, SQLite reports only an I/O error: then the free space decides.
    """
    name = getattr(error, "sqlite_errorname", "")
    if not name.startswith("SQLITE_IOERR"):
        return str(name) == "SQLITE_FULL"
    with suppress(OSError):
        return os.statvfs(os.path.dirname(path) or ".").f_bavail == 0
    return False


def _library() -> Any:
    """Return sqlite3, imported with the first connection: many commands need none."""
    import sqlite3

    return sqlite3


def _connect(path: str, query: str) -> sqlite3.Connection:
    """Open a connection with the settings that all connections need; ``query`` is the end of its URI.

    SQLite reads the path as a part of the URI, so its special characters are encoded.
    """
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    quoted = f"//{quoted}" if path.startswith("//") else quoted  # else its first name would be a host
    connection: sqlite3.Connection = _library().connect(
        f"file:{quoted}?{query}", uri=True, timeout=5, isolation_level=None, check_same_thread=False
    )
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def remove(path: str) -> None:
    """Remove the files of a database, such as one that a crash left half made. Raises ``StateError``."""
    for name in files_of(path):
        with state_errors(path), suppress(FileNotFoundError):
            os.unlink(name)


def generations_of(path: str) -> Sequence[str]:
    """Return the paths of the generations of a database, the newest first, whether they exist or not."""
    return [f"{path}.{number}" for number in range(1, GENERATIONS + 1)]


def files_of(path: str) -> Sequence[str]:
    """Return the paths of a database's files; the main file, which is invalid without the others, comes last."""
    return f"{path}-journal", f"{path}-wal", f"{path}-shm", path
