"""Losses of the database are noticed by its marker, and repaired from its generations.

The marker is a small file beside the database with the last known version of every stack: a database that is missing,
empty or older than its marker is damaged, and never taken for a fresh start. Generations are the last three intact
copies of the database. Recovery deletes nothing: damaged files are renamed, and every loss is reported. Only the holder
of the lock writes.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateDamaged, StateError, UsageError
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.state import stack_rows
from resource_api.state.sqlite import database as databases
from resource_api.state.sqlite.database import Database
from resource_api.state.store import StackName
from resource_api.system.filesystem import private_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.state.stack_rows import FindDataKey, Version

#: The last line of a recovery.
_REFRESH: Final = "'resource-api refresh MANIFEST' reads the present state of every resource again"
#: The verdict about an encrypted generation whose checksums are right.
_NOT_OPENED: Final = "this key does not open it: it was made with another one, or altered"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC  # a marker is a file of ours, never a link


class Marker(NamedTuple):
    """Stack → version that the database must have at least; ``creating``: it is being created and may be missing."""

    versions: Mapping[StackName, Version]
    creating: bool = False

    def losses(self, versions: Mapping[StackName, Version]) -> Iterator[str]:
        """Yield a sentence for each stack that is missing, older or of another lineage in the database's ``versions``.

        A lineage under another name is not missing: a run renamed the stack, and was killed before it wrote the marker.
        """
        serial_of_lineage = dict(versions.values())
        for name, (lineage, serial) in self.versions.items():
            actual_lineage, actual_serial = versions.get(name, ("", -1))
            if name not in versions:
                if serial_of_lineage.get(lineage, -1) < serial:
                    yield f"{name} is missing; its last known serial is {serial}"
            elif actual_lineage != lineage:
                yield f"{name} is of another lineage than the last known one"
            elif actual_serial < serial:
                yield f"{name} is at serial {actual_serial}, older than the last known serial {serial}"


def read_marker(path: str) -> Marker | None:
    """Return the marker of the database at ``path``, None if there is none. Raises ``StateError``.

    The marker is a file beside the database: it has the last known version of each stack, by which a database that was
    lost or replaced by an older copy is noticed.
    """
    try:
        with os.fdopen(os.open(f"{path}.marker", _FLAGS), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}.marker: cannot be read: {error.strerror}") from error
    try:
        digest, body = json.loads(data)
        if digest == _digest(body):
            versions = {
                StackName(project, stack): (lineage, serial) for project, stack, lineage, serial in body["known"]
            }
            return Marker(versions, body["making"])
    except (ValueError, TypeError, KeyError):
        pass
    raise StateDamaged(f"{path}.marker: is damaged", "writes a new one")


def write_marker(path: str, marker: Marker) -> None:
    """Write the marker of the database at ``path``, by which a later run notices that the database is older.

    Raises ``StateError``; the former marker is then unchanged.
    """
    body = {"known": sorted([*name, *version] for name, version in marker.versions.items()), "making": marker.creating}
    with errors_as(StateError, OSError, f"{path}.marker: cannot be written: "):
        private_files.replace(f"{path}.marker", json.dumps([_digest(body), body]).encode() + b"\n")


def _digest(body: object) -> str:
    """Return a digest of JSON data, by which a damaged marker is noticed."""
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()


class _Intact(NamedTuple):
    """A database of which every row was verified."""

    path: str
    states: Mapping[StackName, StackState]

    def __str__(self) -> str:
        """Return the serial of each stack, for messages."""
        serials = [
            f"{name.project}/{name.stack} at serial {state.serial}" for name, state in sorted(self.states.items())
        ]
        return ", ".join(serials) or "nothing recorded"


def create_generation(database: Database) -> None:
    """Make a copy of the committed content the newest generation, and drop the oldest one; a recovery needs them.

    The copy is verified first: a damaged one must not replace an intact generation. Raises ``StateError`` then.
    """
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


def describe_generations(path: str, find_data_key: FindDataKey) -> Iterator[str]:
    """Yield, for ``state check``, a line about each generation: whether it is intact, and its serials."""
    for generation in existing_generations(path):
        if intact := _verify(generation, find_data_key, immutable=True):
            text = f"intact, {intact}"
        else:
            # Without the key of an encrypted stack at least the checksums can be verified.
            text = _NOT_OPENED if _verify(generation, lambda _: None, immutable=True) else "damaged"
        yield f"{generation}: {text}"


def recover(path: str, damage: str, find_data_key: FindDataKey) -> Sequence[str]:
    """Replace the database by the newest intact generation, unless the database is intact itself and newer.

    In both cases the marker gets the versions of the result, so that later runs accept it. Return lines about the
    ``damage``, each action and each loss. Raises ``StateError`` if nothing is intact; then nothing is changed.
    ``find_data_key``: for the verification of encrypted stacks.
    """
    candidates = list(_intact(path, find_data_key))
    if not candidates:
        commands = _commands_to_move_aside(path)
        raise StateError(f"{damage}; no intact generation is left. To start again with an empty state, run: {commands}")
    # Of two copies of one database, the newer one has the greater sum of serials.
    best = max(candidates, key=lambda candidate: sum(state.serial for state in candidate.states.values()))
    before = None
    with suppress(StateError):
        before = read_marker(path)
    after = Marker({name: (state.lineage, state.serial) for name, state in best.states.items() if state.serial})
    if best.path == path:
        actions = [f"the database itself is intact and stays: {best}"]
        write_marker(path, after)
    else:
        actions = list(_exchange(path, best, after))
    return [damage, *actions, *_losses(before, best), _REFRESH]


def _commands_to_move_aside(path: str) -> str:
    """Return the shell commands that move every file of a database aside, so that its state begins empty."""
    from shlex import quote  # which every run with a state would load

    aside = _unused_name(path)
    names = (*databases.files_of(path), f"{path}.marker", *databases.generations_of(path))
    existing = filter(os.path.lexists, names)
    return "; ".join(f"mv {quote(name)} {quote(aside + name.removeprefix(path))}" for name in existing)


def with_recovery(error: StateDamaged, path: str, find_data_key: FindDataKey) -> StateDamaged:
    """Return the error for a damaged database, without the promise of a restoration where no generation is intact."""
    if error.effect != StateDamaged.RESTORES or any(_intact(path, find_data_key)):
        return error
    return StateDamaged(error.message, databases.NONE_LEFT)


def _intact(path: str, find_data_key: FindDataKey) -> Iterator[_Intact]:
    """Yield the database, if it is intact, and each intact generation, the newest first: one can restore the state."""
    for name in (path, *databases.generations_of(path)):
        if (intact := _verify(name, find_data_key, immutable=name != path)) is not None:
            yield intact


def _exchange(path: str, best: _Intact, marker: Marker) -> Iterator[str]:
    """Move the damaged database aside and copy the best generation to its path; yield a line for each action.

    The log is renamed first: SQLite would apply it to another file of the same name.
    """
    aside = _unused_name(path)
    with databases.state_errors(path):
        for name in databases.files_of(path):
            with suppress(FileNotFoundError):
                os.rename(name, aside + name.removeprefix(path))
                yield f"moved aside: {aside}{name.removeprefix(path)}"
    write_marker(path, marker)
    with closing(Database(best.path, immutable=True)) as source:
        source.copy(f"{path}.new")
    with databases.state_errors(path):
        private_files.rename(f"{path}.new", path)
    yield f"restored: {best.path}: {best}"


def _losses(before: Marker | None, best: _Intact) -> Iterator[str]:
    """Yield, for the output of ``state recover``, a line for each stack of which the recovery has lost something.

    Such a stack is missing or older in the restored database than in the former marker.
    """
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
    """Return the states in a database if every row is intact; None if not, or if an encrypted stack cannot be opened.

    ``immutable``: no process writes to the file, as to a generation.
    """
    try:
        with closing(Database(path, immutable=True) if immutable else databases.open_for_reading(path)) as database:
            return _Intact(path, stack_rows.verify(database, find_data_key))
    except (StateError, UsageError):
        return None


def _unused_name(path: str) -> str:
    """Return a name with the present time for a damaged database that is moved aside."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number, name = 0, f"{path}.damaged-{stamp}"
    while os.path.lexists(name):
        number += 1
        name = f"{path}.damaged-{stamp}-{number}"
    return name
