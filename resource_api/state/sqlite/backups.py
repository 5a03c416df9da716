"""Generations, which are copies of the database from the last runs, and the recovery of a damaged database from them.

The last three intact copies are kept beside the database. Recovery deletes nothing: damaged files are renamed, and
every loss is reported. The caller of a function that writes must hold the lock.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateDamaged, StateError, UsageError
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite import marker as markers
from resource_api.state.sqlite import private_files, stack_rows
from resource_api.state.sqlite.database import Database
from resource_api.state.sqlite.marker import Marker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.state.sqlite.stack_rows import FindDataKey
    from resource_api.state.store import StackName


class _Intact(NamedTuple):
    """A database of which every row was verified."""

    path: str
    states: Mapping[StackName, StackState]

    @property
    def age(self) -> int:
        """The sum of all serials, which grows with every commit."""
        return sum(state.serial for state in self.states.values())

    def __str__(self) -> str:
        """Return the serial of each stack, for messages."""
        serials = [f"{n.project}/{n.stack} at serial {state.serial}" for n, state in sorted(self.states.items())]
        return ", ".join(serials) or "nothing recorded"


def create_generation(database: Database) -> None:
    """Copy what is committed to a new generation. A copy that is not intact replaces none: raises ``StateError``."""
    path = database.path
    new = f"{path}.0"
    database.copy(new)
    with closing(Database(new, immutable=True)) as copy:
        stack_rows.verify_checksums(copy)
    with databases.state_errors(path):
        for number in range(databases.GENERATIONS, 1, -1):
            with suppress(FileNotFoundError):
                os.rename(f"{path}.{number - 1}", f"{path}.{number}")
        private_files.rename(new, f"{path}.1")


def existing_generations(path: str) -> list[str]:
    """Return the paths of the generations that exist, damaged or not, the newest first."""
    return list(filter(os.path.lexists, databases.generations_of(path)))


def remove_generations(path: str) -> None:
    """Remove every generation; the end of the run creates the next one. Raises ``StateError``."""
    for generation in databases.generations_of(path):
        databases.remove(generation)


def describe(path: str, states: Mapping[StackName, StackState], holder: str) -> Iterator[str]:
    """Yield lines about the content of a verified database; ``holder``: who holds its lock now, empty: nobody."""
    yield f"{path}: every row is intact"
    for name, state in sorted(states.items()):
        owed = f", {len(state.owed)} refreshes owed" if state.owed else ""
        how = f"under way: {holder}" if holder else "in doubt"
        changes = f", {len(state.intents)} changes {how}" if state.intents else ""
        yield f"{name}: serial {state.serial}, {len(state.records)} resources{owed}{changes}"


def describe_generations(path: str, find_data_key: FindDataKey) -> Iterator[str]:
    """Yield for each generation whether it is intact, with its serials."""
    for generation in existing_generations(path):
        found = _verify(generation, find_data_key, immutable=True)
        yield f"{generation}: {f'intact, {found}' if found else 'damaged'}"


def recover(path: str, damage: str, find_data_key: FindDataKey) -> Sequence[str]:
    """Replace the database by the newest intact generation, unless it is intact itself and newer.

    ``find_data_key`` returns the keys that prove encrypted stacks. Returns lines about the ``damage``, what was done
    and what is lost. Raises ``StateError`` when nothing is intact; nothing has been changed then.
    """
    found = list(_intact(path, find_data_key))
    if not found:
        from shlex import quote

        aside = _unused_name(path)
        kept = (*databases.files_of(path), f"{path}.marker", *databases.generations_of(path))
        left = [name for name in kept if os.path.lexists(name)]
        moves = "; ".join(f"mv {quote(name)} {quote(aside + name.removeprefix(path))}" for name in left)
        msg = f"{damage}; no intact generation is left. To start again with an empty state, run: {moves}"
        raise StateError(msg)
    best = max(found, key=lambda each: each.age)
    before = None
    with suppress(StateError):
        before = markers.read(path)
    after = Marker({name: (state.lineage, state.serial) for name, state in best.states.items() if state.serial})
    lines = [damage]
    if best.path == path:
        lines.append(f"the database itself is intact and stays: {best}")
        markers.write(path, after)
    else:
        lines += _exchange(path, best, after)
    return [*lines, *_losses(before, best), "'resource-api refresh' reads the present state of every resource again"]


def with_recovery(error: StateDamaged, path: str, find_data_key: FindDataKey) -> StateDamaged:
    """Return what is wrong with the database at ``path`` with what ``recover`` will do about it."""
    if error.effect != StateDamaged.RESTORES or any(_intact(path, find_data_key)):
        return error
    return StateDamaged(error.message, databases.NONE_LEFT)


def _intact(path: str, find_data_key: FindDataKey) -> Iterator[_Intact]:
    """Yield the database, if it is intact, and each intact generation, the newest first."""
    for name in (path, *databases.generations_of(path)):
        if (found := _verify(name, find_data_key, immutable=name != path)) is not None:
            yield found


def _exchange(path: str, best: _Intact, marker: Marker) -> Iterator[str]:
    """Rename the damaged database, its log first, and copy the generation into its place."""
    aside = _unused_name(path)
    with databases.state_errors(path):
        for name in databases.files_of(path):
            with suppress(FileNotFoundError):
                os.rename(name, aside + name.removeprefix(path))
                yield f"moved aside: {aside}{name.removeprefix(path)}"
    markers.write(path, marker)
    with closing(Database(best.path, immutable=True)) as source:
        source.copy(f"{path}.new")
    with databases.state_errors(path):
        private_files.rename(f"{path}.new", path)
    yield f"restored: {best.path}: {best}"


def _losses(before: Marker | None, best: _Intact) -> Iterator[str]:
    if before is None:
        yield "the marker cannot be read: it is unknown how much is lost"
        return
    for name, (lineage, serial) in sorted(before.versions.items()):
        state = best.states.get(name)
        if state is None or state.lineage != lineage:
            yield f"lost: {name}, everything up to serial {serial}"
        elif state.serial < serial:
            yield f"lost: {name}: what was recorded after serial {state.serial}, at least up to serial {serial}"


def _verify(path: str, find_data_key: FindDataKey, *, immutable: bool) -> _Intact | None:
    try:
        with closing(Database(path, immutable=True) if immutable else databases.open_for_reading(path)) as database:
            return _Intact(path, stack_rows.verify(database, find_data_key))
    except (StateError, UsageError):
        return None


def _unused_name(path: str) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number, name = 0, f"{path}.damaged-{stamp}"
    while os.path.lexists(name):
        number += 1
        name = f"{path}.damaged-{stamp}-{number}"
    return name
