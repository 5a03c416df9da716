"""Generations of the database, and how damage is mended with them.

The last three whole ones are kept beside the database. Nothing is thrown away: what is damaged is moved aside, and what
is lost is said. Whoever calls what writes here holds the lock.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError, UsageError
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import marker as markers
from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.database import Database
from resource_api.state.sqlite.marker import Marker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.state.sqlite.stack_rows import Finder
    from resource_api.state.store import StackName

#: So many generations are kept, the newest as ``PATH.1``.
GENERATIONS: Final = 3


class Whole(NamedTuple):
    """A database of which every row could be verified."""

    path: str
    states: Mapping[StackName, StackState]

    @property
    def age(self) -> int:
        """Grows with every commit to any of its stacks."""
        return sum(state.serial for state in self.states.values())


def keep(database: Database) -> None:
    """Make a generation of what is committed; one that does not verify replaces none. Raises ``StateError``."""
    path = database.path
    new = f"{path}.0"
    database.copy(new)
    copy = Database(new, still=True)
    try:
        rows.verify_sums(copy)
    finally:
        copy.close()
    with databases.guarded(path):
        for number in range(GENERATIONS, 1, -1):
            with suppress(FileNotFoundError):
                os.rename(f"{path}.{number - 1}", f"{path}.{number}")  # noqa: PTH104 - the paths are text
        markers.rename(new, f"{path}.1")


def drop(path: str) -> None:
    """Remove every generation; the next one is made when the run is over. Raises ``StateError``."""
    for number in range(1, GENERATIONS + 1):
        databases.clear(f"{path}.{number}")


def describe(path: str, states: Mapping[StackName, StackState]) -> Iterator[str]:
    """Say what a database that has been verified holds."""
    yield f"{path}: every row is as it was written"
    for name, state in sorted(states.items()):
        owed = f", {len(state.owed)} refreshes owed" if state.owed else ""
        doubt = f", {len(state.intents)} changes in doubt" if state.intents else ""
        count = f"{len(state.records)} resources{owed}{doubt}"
        yield f"project {name.project}, stack {name.stack}: serial {state.serial}, {count}"


def generations(path: str, vault: Finder = rows.keyless) -> Iterator[str]:
    """Say what each generation is good for."""
    for number in range(1, GENERATIONS + 1):
        name = f"{path}.{number}"
        if os.path.lexists(name):
            found = _whole(name, vault, still=True)
            yield f"{name}: {'whole, ' + _serials(found) if found else 'damaged'}"


def recover(path: str, why: str, vault: Finder = rows.keyless) -> Sequence[str]:
    """Put the newest whole generation in place; gives what was wrong, what was done, what is lost.

    What is encrypted is whole if ``vault`` opens it, as far as there is one for it.

    Raises ``StateError`` when there is none; then nothing has been touched.
    """
    candidates = [path, *(f"{path}.{number}" for number in range(1, GENERATIONS + 1))]
    found = [whole for name in candidates if (whole := _whole(name, vault, still=name != path))]
    if not found:
        aside = _aside(path)
        msg = (
            f"{why}; no whole generation is left. To begin anew with what is on this machine: "
            f"mv {path} {aside}; mv {path}.marker {aside}.marker"
        )
        raise StateError(msg)
    best = max(found, key=lambda whole: whole.age)
    before = _readable_marker(path)
    after = Marker({tuple(name): (state.lineage, state.serial) for name, state in best.states.items() if state.serial})  # type: ignore[misc] # two texts
    lines = [why]
    if best.path == path:
        lines.append(f"the database itself is whole and stays: {_serials(best)}")
        markers.write(path, after)
    else:
        lines += _exchange(path, best, after)
    lines += _losses(before, best)
    return [*lines, "'resource-api refresh' reads again what is there"]


def _exchange(path: str, best: Whole, marker: Marker) -> Iterator[str]:
    """Move the damaged database aside, its log first, and put the generation in its place."""
    aside = _aside(path)
    with databases.guarded(path):
        for name in databases.companions(path):
            with suppress(FileNotFoundError):
                os.rename(name, aside + name.removeprefix(path))  # noqa: PTH104 - the paths are text
                yield f"moved aside: {aside}{name.removeprefix(path)}"
    markers.write(path, marker)
    source = Database(best.path, still=True)
    try:
        source.copy(f"{path}.new")
    finally:
        source.close()
    with databases.guarded(path):
        markers.rename(f"{path}.new", path)
    yield f"put back: {best.path}: {_serials(best)}"


def _losses(before: Marker | None, best: Whole) -> Iterator[str]:
    if before is None:
        yield "how much is lost is not known: the marker cannot be read"
        return
    kept = {tuple(name): state for name, state in best.states.items()}
    for name, (lineage, serial) in sorted(before.known.items()):
        what = f"project {name[0]}, stack {name[1]}"
        state = kept.get(name)
        if state is None or state.lineage != lineage:
            yield f"lost: {what}, all of it up to serial {serial}"
        elif state.serial < serial:
            yield f"lost: {what}: what was recorded after serial {state.serial}, at least up to serial {serial}"


def _whole(path: str, vault: Finder, *, still: bool) -> Whole | None:
    try:
        database = Database(path, still=True) if still else databases.open_for_reading(path)
        try:
            return Whole(path, rows.verify(database, vault))
        finally:
            database.close()
    except (StateError, UsageError):
        return None


def _readable_marker(path: str) -> Marker | None:
    try:
        return markers.read(path)
    except StateError:
        return None


def _serials(whole: Whole) -> str:
    named = [f"{name.project}/{name.stack} at serial {state.serial}" for name, state in sorted(whole.states.items())]
    return ", ".join(named) or "nothing recorded"


def _aside(path: str) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number, name = 0, f"{path}.damaged-{stamp}"
    while os.path.lexists(name):
        number += 1
        name = f"{path}.damaged-{stamp}-{number}"
    return name
