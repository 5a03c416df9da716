"""The history of finished runs in a database. It is shown to people; no decision depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import StateDamaged
from resource_api.state.sqlite.database import make_row
from resource_api.state.sqlite.stack_rows import decode_rows, to_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.sqlite.database import Database
    from resource_api.state.store import StackName

#: How many runs are kept, of all stacks together.
RUNS: Final = 500


def add(database: Database, name: StackName, run: Mapping[str, Any]) -> None:
    """Write a finished run and delete the oldest one beyond ``RUNS``. Call it within a transaction."""
    number = database.last_id("run") + 1
    database.delete_range("run", 0, number - RUNS + 1)
    database.write("run", [make_row(number, to_bytes({**run, "project": name.project, "stack": name.stack}))])


def rename(database: Database, name: StackName, new: StackName | None) -> None:
    """Give the runs of a stack to another one, or delete them. Call it within a transaction."""
    rows = database.read("run")
    runs = zip(rows, decode_rows(rows), strict=True)
    found = {row_id: run for (row_id, _, _), run in runs if (run["project"], run["stack"]) == name}
    if new is None:
        database.delete("run", found)
    else:
        database.write("run", [make_row(each, to_bytes({**run, **new._asdict()})) for each, run in found.items()])


def read(database: Database, name: StackName | None = None) -> list[Mapping[str, Any]]:
    """Return the finished runs of a stack, or of all stacks, the oldest first. Raises ``StateError``."""
    try:
        runs: list[Mapping[str, Any]] = list(decode_rows(database.read("run")))
        return [run for run in runs if name is None or (run["project"], run["stack"]) == name]
    except (StateDamaged, ValueError, TypeError, LookupError) as error:
        msg = f"{database.path}: state is damaged: a finished run cannot be read"
        raise StateDamaged(msg, "removes such runs from the history") from error


def remove_unreadable(database: Database) -> int:
    """Delete the finished runs that cannot be read; return how many there were. Call it within a transaction."""
    found = [row_id for row_id in database.ids("run") if not _is_readable(database, row_id)]
    database.delete("run", found)
    return len(found)


def _is_readable(database: Database, row_id: int) -> bool:
    try:
        return all(run["project"] and run["stack"] for run in decode_rows(database.read("run", row_id, row_id + 1)))
    except (StateDamaged, ValueError, TypeError, LookupError):
        return False
