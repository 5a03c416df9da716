"""The durable store: one SQLite database for each machine or user, one run at a time.

Under the lock there is one connection, and each stack in use is kept in memory beside it: the cost of a commit depends
only on its size. Without the lock, every read opens its own read-only connection.

Beside the database are the files of the no-change cache: conclusions of runs from the state of a stack. An entry is
bound to the header of its stack, which holds the tallies of all rows, and to the database file as the last session left
it: after any other change it is ignored, as is a file that another user could have written. Entries of encrypted stacks
are not kept. No failure is an error: a run then makes a whole plan.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model import codec
from resource_api.model.values.errors import StateDamaged, StateError
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.model.values.text import counted
from resource_api.state.lock import Lock
from resource_api.state.row_store import RowStore
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import recovery, run_archive
from resource_api.state.sqlite.session import OpenState, WriteSession, open_state
from resource_api.state.stack_rows import Header, StackRows, decode_rows, describe_stacks, unpack, unpack_owed, verify
from resource_api.state.store import CachedConclusion, StackName, check_recorded
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import RecordKey, StackState
    from resource_api.state.encryption.keys import Key

#: The file with the identity of the database file at the end of the last session.
_IDENTITY: Final = "left"
#: The number of entries that are kept, the newest ones: each run may use another label.
_ENTRIES: Final = 16


class SqliteStore(RowStore[WriteSession]):
    """Keeps state in the SQLite database at ``path`` and a few files beside it, created with the first write."""

    def __init__(self, path: str, key: Key | None = None) -> None:
        """Open nothing yet. With a ``key`` every stack must be encrypted: one in clear may be an attacker's."""
        super().__init__(key)
        self.path = path
        self._lock = Lock(path)

    def load(self, name: StackName) -> StackState:
        """Return the state of a stack: in a run that of the session, which has the run's writes, else as read now."""
        with self._guard:
            if self._session is not None:
                return self._stack(self._session, name).state
            with self._reading() as opened:
                if opened is None or name not in opened.headers:
                    return self._new_state(name)
                return self._read(opened, name).state

    def stacks(self) -> Sequence[StackName]:
        """Return every stack with a commit, sorted."""
        with self._guard, self._reading() as opened:
            return sorted(name for name, header in opened.headers.items() if header.serial) if opened else []

    def history(self, name: StackName | None = None) -> Sequence[Mapping[str, object]]:
        """Return the last finished runs of a stack, or of all, in the order in which they ended."""
        with self._guard, self._reading() as opened:
            return run_archive.read_history(opened.database, name) if opened else []

    def load_conclusion(self, label: str) -> CachedConclusion | None:
        """Return the conclusion saved under ``label`` if its stack is unchanged, or None.

        It lists the resources that a run need not plan, and loads only the records of the other ones, for speed. An
        encrypted stack has none: its values would be in clear in the cache.
        """
        if self._data_keys.key is not None:
            return None
        with self._guard, self._reading() as opened:
            entry = _load_conclusion(opened, label) if opened else None
        if entry is None:
            return None

        def load_records(positions: Iterable[int]) -> StackState | None:
            """Return the state with a part of the records, or None if it has changed since ``entry`` was read."""
            with self._guard, self._reading() as opened:
                return _load_records(opened, entry, positions) if opened else None

        return CachedConclusion(entry.content, load_records)

    def check(self) -> Sequence[str]:
        """Verify everything that is stored, for ``state check``; return lines about the intact parts.

        Raises ``StateError`` for damage, with the effect that ``state recover`` would have.
        """
        find_data_key = self._data_keys.for_check
        try:
            with self._guard, self._reading() as opened:
                if opened is None:
                    return [f"{self.path}: nothing is recorded yet"]
                states = verify(opened.database, find_data_key)
                run_archive.read_history(opened.database)
                generations = recovery.describe_generations(self.path, find_data_key)
                return [*describe_stacks(self.path, states, self.holder), *generations]
        except StateDamaged as error:
            raise recovery.with_recovery(error, self.path, find_data_key) from error

    @contextmanager
    def _reading(self) -> Iterator[OpenState | None]:
        """Yield the session's database, or one opened for this read; None if there is none yet.

        The session's own writes may have changed headers since it was opened, so these are read again.
        """
        if self._session is not None:
            opened = self._session.opened
            yield None if opened is None else opened.refreshed()
            return
        opened = open_state(self.path)
        with closing(opened.database) if opened else nullcontext():
            yield opened

    def _read(self, opened: OpenState, name: StackName) -> StackRows:
        """Return a recorded stack. Raises ``StateError``, and ``UsageError`` for a missing or superfluous key."""
        header = opened.headers[name]
        return StackRows.read(opened.database, header, self._data_keys.for_use(header))

    def holder(self, name: StackName | None = None) -> str:  # noqa: ARG002 - one lock for all stacks
        """Return the other process that holds the lock, its command and since when, or an empty text."""
        return self._lock.other_holder()

    @contextmanager
    def lock(self, command: str, timeout: float) -> Iterator[None]:
        """Hold the lock for one run of ``command``, waiting up to ``timeout`` seconds."""
        databases.prepare_directory(self.path)
        with self._lock.held(timeout):
            databases.check_not_newer(self.path)
            self._lock.write_holder(command)
            with self._guard:
                self._session = WriteSession(self.path)
            # After an error of the run, that of closing is not shown instead.
            try:
                yield
            except BaseException:
                with suppress(StateError):
                    self._close_session()
                raise
            self._close_session()

    def claim(self, name: StackName, timeout: float) -> None:
        """Do nothing: the lock is that of all stacks."""

    def overwrite(self, name: StackName, state: StackState) -> None:
        """Replace the whole state of a stack; if that changes its lineage, remove the stack from the marker before."""
        with self._writing() as session:
            # First: after a kill between the two, a marker with the former lineage would look like a lost stack.
            session.stop_expecting(name, unless_lineage=state.lineage)
            super().overwrite(name, state)

    def rekey(self, name: StackName, key: Key | None, *, drop_generations: bool = False) -> StackState:
        """Encrypt a stack under ``key`` with a new data key; with None keep only digests of its secrets.

        The former key could still open copies: free pages of the database are cleared, and ``drop_generations`` removes
        the older states.
        """
        with self._writing() as session:
            opened = session.open_for_writing().refreshed()
            check_recorded(name, opened.headers)
            header = opened.headers[name]
            stack = StackRows.read(opened.database, header, self._data_keys.for_rekey(header))
            state = self._encrypt(session, name, stack, key)
            opened.database.compact()  # nothing under the former key remains in free pages
            for generation in databases.generations_of(self.path) if drop_generations else ():
                databases.remove(generation)  # the end of the run creates the next one
            return state

    def _recorded(self, session: WriteSession, *names: StackName) -> Container[StackName]:  # noqa: ARG002 - one lock
        """Return every stack with a header."""
        return session.open_for_writing().refreshed().headers

    def finish_run(self, name: StackName, run: Mapping[str, object]) -> None:
        """Record a finished run, and write the versions of all stacks to the marker, by which a loss is noticed."""
        with self._writing() as session:
            with session.transaction() as database:
                run_archive.add_finished(database, name, run)
            session.write_marker()

    def save_run(self, run: str, content: bytes) -> None:
        """Save the document of a run in a file beside the database."""
        with self._writing():
            run_archive.write_file(self.path, run, content)

    def load_run(self, run: str) -> bytes | None:
        """Return the document of a run, or None."""
        return run_archive.read_file(self.path, run)

    def saved_runs(self) -> Sequence[str]:
        """Return the ids of the runs with a document, the oldest first."""
        return run_archive.saved_runs(self.path)

    def save_conclusion(self, label: str, name: StackName, content: object, keys: Sequence[RecordKey]) -> None:
        """Save in the cache, under ``label``, the resources that the next run need not plan if the stack is unchanged.

        The cache stores ``content``, the list of these resources, and the row ids of the records with ``keys``, which
        must be those of all records: the next run loads single records by their positions in ``keys``.
        """
        with self._writing() as session:
            # Of encrypted state nothing is kept outside the database; without a database nothing was recorded.
            if session.opened is not None and self._data_keys.key is None:
                _save_conclusion(session.opened, label, self._stack(session, name), keys, content)

    def recover(self, timeout: float) -> Sequence[str]:
        """Replace a damaged database by its newest intact generation, for ``state recover``; return actions and losses.

        A history that cannot be read is repaired, too, also in an intact database.
        """
        databases.prepare_directory(self.path)
        with self._guard, self._lock.held(timeout):
            databases.check_not_newer(self.path)
            self._lock.write_holder("state recover")
            damage = self._damage()
            actions = recovery.recover(self.path, damage, self._data_keys.for_check) if damage else ()
            return [*actions, *self._recover_history()] or [f"nothing to recover: {self.check()[0]}"]

    def _damage(self) -> str:
        """Return the reason why the database cannot be used, or "" for an intact one, which ``recover`` leaves alone.

        Every row is read for that, because a damaged one may not be noticed before its use.
        """
        try:
            with self._reading() as opened:
                if opened is not None:
                    verify(opened.database, self._data_keys.for_check)
        except StateError as error:
            return error.message if isinstance(error, StateDamaged) else str(error)
        return ""

    def _recover_history(self) -> list[str]:
        """Remove the finished runs that cannot be read; return a line about them, for ``state recover``, or none."""
        with self._reading() as opened:
            if opened is None:
                return []
            with suppress(StateDamaged):
                run_archive.read_history(opened.database)
                return []
        with closing(databases.Database(self.path, write=True)) as database, database.transaction():
            count = run_archive.remove_unreadable(database)
        return [f"removed from the history: {counted(count, 'run')} that cannot be read"] if count else []

    def _close_session(self) -> None:
        """Close the session of a run; if its writes succeeded, the cache entries that it saved become valid."""
        with self._guard:
            session, self._session = self._session, None
            if session is not None and session.close():
                _validate_conclusions(self.path)

    def _open_stack(self, session: WriteSession, name: StackName) -> StackRows:
        """Return a stack for its first use in a session: read from the database, or a new one if it has none.

        A new stack gets the next free number, which determines the ids of its rows.
        """
        headers = session.opened.headers if session.opened else {}
        if session.opened and name in headers:
            return self._read(session.opened, name)
        # A stack that was opened in this session and not written yet has no header.
        numbers = {header.number for header in headers.values()} | {stack.number for stack in session.stacks.values()}
        return StackRows(max(numbers, default=0) + 1, self._new_state(name), self._data_keys.for_new_stack(name))


class _SavedConclusion(NamedTuple):
    """A cache entry: its stack, the digest of the stack's header, the row ids of the saved keys, and the content."""

    name: StackName
    digest: str
    ids: Sequence[int]
    content: object


def _save_conclusion(
    opened: OpenState, label: str, stack: StackRows, keys: Sequence[RecordKey], content: object
) -> None:
    """Save ``content``, plain data about resources without changes, in the cache under ``label``.

    The entry becomes valid when the session ends. Nothing is saved while an intent is open, or if ``keys``, those of
    the plan's resources, are not the keys of all records: a run that uses the entry would not see the other records.
    """
    header = opened.refreshed().headers.get(stack.name)
    ids = stack.ids(keys)
    path = opened.database.path
    if header is None or ids is None or not header.cacheable:
        return
    with suppress(OSError):
        make_directory(_cache_directory(path))
        if private_files.is_private_directory(_cache_directory(path)):
            entry = _SavedConclusion(stack.name, _digest_header(header), ids, content)
            _write_file(path, _digest(label.encode("utf-8", "surrogatepass")), entry)
            _remove_oldest(path)


def _load_conclusion(opened: OpenState, label: str) -> _SavedConclusion | None:
    """Return the cache entry of ``label``, or None if its stack or the database file has changed since."""
    path = opened.database.path
    if _read_file(path, _IDENTITY) != _identity(path):
        return None
    try:
        name, *columns = _read_file(path, _digest(label.encode("utf-8", "surrogatepass")))
        entry = _SavedConclusion(StackName(*name), *columns)
        header = opened.headers.get(entry.name)
    except (TypeError, ValueError):  # no entry, or not of this form
        return None
    return entry if header is not None and header.cacheable and _digest_header(header) == entry.digest else None


def _load_records(opened: OpenState, entry: _SavedConclusion, positions: Iterable[int]) -> StackState | None:
    """Return the state with only the records at these positions among the saved keys, which takes less time than all.

    None if the stack has changed since the entry was saved.
    """
    header = opened.headers.get(entry.name)
    if header is None or _digest_header(header) != entry.digest:
        return None
    ids = [entry.ids[position] for position in positions]
    rows = [row for row_id in ids for row in opened.database.read("resource", row_id, row_id + 1)]
    records = {record.key: record for record in map(unpack, decode_rows(rows))}
    if len(records) != len(ids):
        return None
    return header.state()._replace(records=records, owed=unpack_owed(decode_rows(header.read(opened.database, "owed"))))


def _validate_conclusions(path: str) -> None:
    """Make the saved entries valid, by noting the size and times of the database file: another write changes them.

    The last connection must be closed before, because its end writes to the file too.
    """
    with suppress(OSError):
        if private_files.is_private_directory(_cache_directory(path)):
            _write_file(path, _IDENTITY, _identity(path))


def _digest_header(header: Header) -> str:
    """Return a digest of a stack's header: it differs after every commit, because the header has the serial."""
    return _digest(codec.to_bytes(dict(header.content)))


def _identity(path: str) -> list[int]:
    """Return attributes of the database file that differ after any write to it."""
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _cache_directory(path: str) -> str:
    """Return the directory of the entries of the database at ``path``."""
    return f"{path}.converged"


def _remove_oldest(path: str) -> None:
    """Remove all but the newest entries of the cache of the database at ``path``.

    Otherwise the entries of manifests that are no longer applied would stay forever.
    """
    with os.scandir(_cache_directory(path)) as files:
        entries = [file for file in files if file.name != _IDENTITY]
        entries.sort(key=lambda file: file.stat(follow_symlinks=False).st_mtime_ns)
    for file in entries[:-_ENTRIES]:
        os.unlink(file.path)


def _read_file(path: str, name: str) -> Any:
    """Return the content of a file of the cache, or None if it is missing, damaged, or could be another user's."""
    with suppress(OSError, ValueError, RecursionError):
        if not private_files.is_private_directory(_cache_directory(path)):
            return None
        digest, _, body = (private_files.read(f"{_cache_directory(path)}/{name}") or b"").partition(b"\n")
        if digest == _digest(body).encode():
            return json.loads(body.decode("utf-8", "surrogatepass"))
    return None


def _write_file(path: str, name: str, content: object) -> None:
    """Write JSON data to a file of the cache, after a digest by which a damaged file is noticed. Raise ``OSError``."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    new = f"{_cache_directory(path)}/{name}.new"
    with os.fdopen(private_files.create(new), "wb") as file:
        file.write(_digest(body).encode() + b"\n" + body)
    os.rename(new, new.removesuffix(".new"))


def _digest(content: bytes) -> str:
    """Return a digest as text: it shows damage of a file, and names the file of a label, which may have any text."""
    return blake2b(content, digest_size=16).hexdigest()
