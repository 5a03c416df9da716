"""Sessions with the database: opened and checked against its marker, and written by the holder of the lock.

A database that is missing, empty or older than its marker is damaged. A new database is created atomically, an existing
one is verified before the first write, and after a write that the disk refused nothing more is written. For completion,
names of recorded resources are read without their values: nothing is decrypted, locked or written.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import StateError
from resource_api.model.values.reference import Reference, child_reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.state import stack_rows
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import recovery, run_archive
from resource_api.state.sqlite.recovery import Marker, read_marker, write_marker
from resource_api.state.stack_rows import Header, RecordRow, StackRows, decode_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.record import StackState
    from resource_api.state.sqlite.database import Database
    from resource_api.state.store import StackName


class OpenState(NamedTuple):
    """An open database and the header of each stack in it."""

    database: Database
    headers: dict[StackName, Header]

    def refreshed(self) -> OpenState:
        """Return it with the present headers."""
        return self._replace(headers=stack_rows.headers(self.database))


#: The effect of ``state recover`` on an intact database that is older than its marker and has no generations.
_ACCEPTED: Final = "takes it as it is, because no newer copy of it is left"


def open_state(path: str, *, write: bool = False) -> OpenState | None:
    """Open the database at ``path`` and compare it with its marker; return None if nothing was recorded yet.

    That is so if there is no database, no copy and no marker, or a marker of a run that was killed while it created
    the first database. Any other missing or outdated database was lost. Raises ``StateError`` for that and for damage.
    """
    databases.check_permissions(path)
    marker = read_marker(path)
    if not os.path.lexists(path):
        copies = recovery.existing_generations(path)
        if os.path.lexists(path):  # a writer has made it since
            return open_state(path, write=write)
        if marker is None and copies:
            raise databases.damage(path, f"it and its marker are missing, and {copies[0]} is a copy of it")
        if marker is None or (marker.creating and not marker.versions):
            return None
        raise databases.damage(path, "it is missing")
    database = databases.Database(path, write=True) if write else databases.open_for_reading(path)
    try:
        headers = stack_rows.headers(database)
        _check_losses(path, marker, headers)
    except BaseException:
        database.close()
        raise
    return OpenState(database, headers)


def _check_losses(path: str, marker: Marker | None, headers: Mapping[StackName, Header]) -> None:
    """Raise ``StateError`` for a stack that is missing or older in the database than in its ``marker``.

    A run with an outdated state, such as that of a restored backup, would create resources a second time.
    """
    versions = {name: header.version for name, header in headers.items()}
    if marker is not None and any(marker.losses(versions)):
        marker = read_marker(path)  # a writer may have changed both since it was read
    for first_loss in marker.losses(versions) if marker is not None else ():
        raise databases.damage(path, first_loss, _ACCEPTED)


class WriteSession:
    """The database at ``path`` while its lock is held, for all writes of one run.

    ``stacks``: those that were read or written in this session. ``failure``: the error after which nothing more is
    written, or None. ``opened``: the database, or None until the first write creates it.
    """

    def __init__(self, path: str) -> None:
        """Open the database if it exists, and remove unfinished copies of a killed run. Raises ``StateError``."""
        self.path = path
        self.stacks: dict[StackName, StackRows] = {}
        self.failure: StateError | None = None
        self.opened = open_state(path, write=True)
        # The process that created these held the lock and was killed.
        for leftover in (f"{path}.0", f"{path}.new"):
            databases.remove(leftover)
        headers = self.opened.headers if self.opened is not None else {}
        #: The lineage and serial of each stack with a commit: the next content of the marker.
        self._versions = {name: header.version for name, header in headers.items() if header.serial}
        #: The marker as it is written now.
        self._marker = read_marker(path)
        #: A forked child must not use the connection.
        self._pid = os.getpid()
        #: Whether the structure was checked, as before the first write.
        self._verified = False
        #: Whether the end of the session makes a new generation: a serial has risen, or a stack was removed.
        self._changed = False

    def open_for_writing(self) -> OpenState:
        """Return the database. Create it if there is none, or else verify its structure before the first write.

        A marker with ``creating`` comes before the new database: after a kill in between nothing counts as lost.
        """
        if self.opened is None:
            self._marker = Marker({}, creating=True)
            write_marker(self.path, self._marker)
            databases.create(self.path)
            self.opened = OpenState(databases.Database(self.path, write=True), {})
        elif not self._verified:
            self.opened.database.check()
        self._verified = True
        return self.opened

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Write all or nothing. A write that the disk refused is the last one: a failed flush cannot be retried."""
        database = self.open_for_writing().database
        try:
            with database.transaction():
                yield database
        except StateError as error:
            self.failure = StateError(str(error))
            raise

    def change(self, name: StackName, stack: StackRows, change: Callable[[Database], object]) -> StackState:
        """Apply ``change`` to ``stack`` in one transaction; return its state afterwards.

        A new stack is written to the marker at once, so that its loss is noticed. New serials are written at the end of
        the run only: a marker with an older serial accepts a newer one.
        """
        self.open_for_writing()
        serial = stack.state.serial
        try:
            with self.transaction() as database:
                change(database)
        except BaseException:
            self._forget(name)  # it has the change, and the database does not
            raise
        state = stack.state
        self._changed |= state.serial != serial
        if state.serial != serial or state.lineage:
            is_new = name not in self._versions
            self._versions[name] = state.lineage, state.serial
            if is_new:
                self.write_marker()
        return state

    def rename(self, name: StackName, new: StackName, stack: StackRows, change: Callable[[Database], object]) -> None:
        """Apply ``change``, which moves ``stack`` to the name ``new``, and move its runs, in one transaction."""

        def move(database: Database) -> None:
            """Move the stack and its runs in one transaction."""
            change(database)
            run_archive.rename_stack(database, name, new)

        former = self._versions.pop(name, None)  # ``change`` writes the marker, which must not expect the old name
        self.stacks.pop(name, None)
        self.stacks[new] = stack
        try:
            self.change(new, stack, move)
        except BaseException:
            if former is not None:
                self._versions[name] = former
            raise

    def stop_expecting(self, name: StackName, *, unless_lineage: str = "") -> None:
        """Remove a stack from the marker before its rows are deleted, or replaced by those of another lineage.

        If the run is killed after the deletion, a marker that still has the stack would report its loss. With
        ``unless_lineage``, the lineage of the new rows, the stack stays in the marker if it already has that lineage.
        """
        # A stack that is not in the marker counts as one that stays.
        former, _ = self._versions.get(name, (unless_lineage, 0))
        if former != unless_lineage:
            del self._versions[name]
            self.write_marker()

    def remove(self, name: StackName) -> None:
        """Delete the rows and the runs of a stack in one transaction, after it was removed from the marker."""
        header = self.open_for_writing().refreshed().headers[name]
        self.stop_expecting(name)  # first: a kill between the two must not look like a lost stack
        with self.transaction() as database:
            stack_rows.remove_rows(database, header)
            run_archive.remove_stack(database, name)
        self._changed = True
        self._forget(name)

    def write_marker(self) -> None:
        """Write the present versions to the marker, by which their loss would be noticed, unless they are in it."""
        marker = Marker(dict(self._versions))
        if marker != self._marker:
            write_marker(self.path, marker)
            self._marker = marker

    def close(self) -> bool:
        """Close the database; all commits are then in its main file, in the marker and in a generation.

        Returns whether it was closed, and every write had succeeded. After a failure the marker and the generations
        stay as they are, for a recovery.
        """
        if self.opened is None or self._pid != os.getpid():  # after a fork it remains that of the parent
            return False
        with closing(self.opened.database):
            if self._changed and not self.failure:
                self.opened.database.checkpoint()
                recovery.create_generation(self.opened.database)
            if not self.failure:
                self.write_marker()
        return self.failure is None

    def _forget(self, name: StackName) -> None:
        """Forget the object of a stack, which may differ from the database after a failed write, or was removed.

        The headers are read again now, the rows before the next use of the stack.
        """
        self.stacks.pop(name, None)
        if self.opened is not None and not self.failure:
            self.opened = self.opened.refreshed()


class RecordedName(NamedTuple):
    """A recorded resource: its type, its name as the provider knows it, and its reference as it is written."""

    type: str
    name: object
    reference: str


def recorded(path: str) -> Iterator[tuple[StackName, list[RecordedName]]]:
    """Yield each stack of the database at ``path`` and its resources, which shells complete. Raise ``StateError``."""
    opened = open_state(path)
    if opened is None:
        return
    with closing(opened.database) as database:
        for name, header in opened.headers.items():
            rows = (RecordRow(*columns) for columns in decode_rows(header.read(database, "resource")))
            yield name, [RecordedName(row.type, row.name, _reference(row)) for row in rows]


def _reference(row: RecordRow) -> str:
    """Return the reference of a recorded resource as a user writes it, after its component's."""
    inner = Reference(row.type, row.title)
    return str(child_reference(row.parent, *inner) if row.parent else inner)
