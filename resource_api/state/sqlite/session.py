"""What the holder of the lock has: the connection, made when it is first needed, and what is written.

A database that is made is whole or not there, one that is there is verified before the first write, and after a write
that the disk has refused there is no other. What is written is not known here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError
from resource_api.state.sqlite import backups as recovery
from resource_api.state.sqlite import cache
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import marker as markers
from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.marker import Marker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from resource_api.model.record import StackState
    from resource_api.state.sqlite.database import Database
    from resource_api.state.sqlite.stack_rows import Header, Stack
    from resource_api.state.store import StackName


class Opened(NamedTuple):
    """An open database and the stacks in it; a context manager that closes it."""

    database: Database
    headers: dict[StackName, Header]

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close the database."""
        self.database.close()

    def again(self) -> Opened:
        """Give it with the stacks as they are now."""
        return self._replace(headers=rows.headers(self.database))


class Writer:
    """What there is of the database at ``path`` as long as its lock is held."""

    def __init__(self, path: str) -> None:
        """Open what is there. Raises ``StateError``."""
        self.path = path
        self.stacks: dict[StackName, Stack] = {}
        self.changed = False
        self.broken = ""
        self.opened: Opened | None = open_database(path, write=True)
        # Whoever made these held the lock, and was killed.
        for half_made in (f"{path}.0", f"{path}.new"):
            databases.clear(half_made)
        #: Serials and lineages as they are written.
        self.known: dict[tuple[str, str], tuple[str, int]] = {}
        if self.opened is not None:
            self.known = {tuple(n): h.last for n, h in self.opened.headers.items() if h.last[1]}  # type: ignore[misc] # two texts
        self._marker: Marker | None = markers.read(path)
        self._pid = os.getpid()
        self._checked = False

    def writable(self) -> Opened:
        """Give the database, made now if need be, its structure verified before the first write."""
        if self.opened is None:
            self._marker = Marker({}, making=True)
            markers.write(self.path, self._marker)
            databases.create(self.path)
            self.opened = Opened(databases.Database(self.path, write=True), {})
        elif not self._checked:
            self.opened.database.check()
        self._checked = True
        return self.opened

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Write nothing more after the disk has refused something: a flush that failed is never tried again."""
        try:
            yield
        except StateError as error:
            self.broken = str(error)
            raise

    def note(self, name: StackName, state: StackState) -> None:
        """Note what is known of a stack; a new lineage is marked at once, a new serial when the run is over."""
        new = tuple(name) not in self.known
        self.known[name] = state.lineage, state.serial
        if new:
            self.mark()

    def forget(self, name: StackName) -> None:
        """After a write that raised: what is written is no longer known here."""
        self.stacks.pop(name, None)
        if self.opened is not None and not self.broken:
            self.opened = self.opened.again()

    def mark(self) -> None:
        """Write down what must be there from now on."""
        marker = Marker(dict(self.known))
        if marker != self._marker:
            markers.write(self.path, marker)
            self._marker = marker

    def end(self) -> None:
        """Let go of the database: what was written is in its main file, the marker and a generation."""
        if self.opened is None or self._pid != os.getpid():
            return
        with self.opened:
            if self.changed and not self.broken:
                self.opened.database.checkpoint()
                recovery.keep(self.opened.database)
            if not self.broken:
                self.mark()
        if not self.broken:
            cache.leave(self.path)


def open_database(path: str, *, write: bool = False) -> Opened | None:
    """Open what is there; None when nothing is there and nothing must be. Raises ``StateError``."""
    databases.verify_place(path)
    marker = markers.read(path)
    if not os.path.lexists(path):
        if marker is None or (marker.making and not marker.known):
            return None
        raise databases.damage(path, "it is missing")
    database = databases.Database(path, write=True) if write else databases.open_for_reading(path)
    try:
        headers = rows.headers(database)
        what = lost(marker, headers)
        # A writer may have changed both since the marker was read.
        if what and marker != (again := markers.read(path)):
            what = lost(again, headers)
    except BaseException:
        database.close()
        raise
    if what:
        database.close()
        raise databases.damage(path, what[0])
    return Opened(database, headers)


def lost(marker: Marker | None, headers: Mapping[StackName, Header]) -> list[str]:
    """Give, as sentences, what the marker knows of and the database does not."""
    found = []
    last = {tuple(name): header.last for name, header in headers.items()}
    for name, (lineage, serial) in (marker.known if marker else {}).items():
        what = f"project {name[0]}, stack {name[1]}"
        if name not in last:
            found.append(f"{what} is missing, known up to serial {serial}")
        elif last[name][0] != lineage:
            found.append(f"{what} is of another lineage than the one that is known")
        elif last[name][1] < serial:
            found.append(f"{what} is at serial {last[name][1]}, older than serial {serial} that is known")
    return found
