"""A database that agrees with its marker: what is missing, empty or older than it must be is damage.

Who may write is the store's business.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import marker as markers
from resource_api.state.sqlite import stack_rows as rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from resource_api.state.sqlite.database import Database
    from resource_api.state.sqlite.marker import Marker
    from resource_api.state.sqlite.stack_rows import Header
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


def open_checked(path: str, *, write: bool = False) -> Opened | None:
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
