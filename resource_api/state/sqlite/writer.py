"""What the holder of the lock has: the connection, made when it is first needed, and what is written.

A database that is made is whole or not there, one that is there is verified before the first write, and after a write
that the disk has refused there is no other. What is written is not known here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resource_api.model.values.errors import StateError
from resource_api.state.sqlite import backups as recovery
from resource_api.state.sqlite import cache_files as keepsake
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import marker as markers
from resource_api.state.sqlite.marker import Marker
from resource_api.state.sqlite.open import Opened, open_checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.record import StackState
    from resource_api.state.sqlite.stack_rows import Stack
    from resource_api.state.store import StackName


class Writer:
    """What there is of the database at ``path`` as long as its lock is held."""

    def __init__(self, path: str) -> None:
        """Open what is there. Raises ``StateError``."""
        self.path = path
        self.stacks: dict[StackName, Stack] = {}
        self.changed = False
        self.broken = ""
        self.opened: Opened | None = open_checked(path, write=True)
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
            keepsake.leave(self.path)
