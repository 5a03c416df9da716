"""The finished runs that a database remembers: the last ones, for people to look at.

Nothing is decided by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.database import damage, row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.sqlite.database import Database
    from resource_api.state.store import StackName

#: So many runs are remembered, of all stacks together.
RUNS: Final = 500


def add(database: Database, name: StackName, run: Mapping[str, Any]) -> None:
    """Write a finished run and forget the oldest; within a transaction."""
    number = database.top("run") + 1
    database.drop_range("run", 0, number - RUNS + 1)
    database.put("run", [row(number, rows.to_bytes({**run, "project": name.project, "stack": name.stack}))])


def read(database: Database, name: StackName | None = None) -> list[Mapping[str, Any]]:
    """Give the finished runs of a stack, or of all, the oldest first. Raises ``StateError``."""
    try:
        found: list[Mapping[str, Any]] = list(rows.to_values(database.read("run")))
        return [run for run in found if name is None or (run["project"], run["stack"]) == name]
    except (ValueError, TypeError, LookupError) as error:
        raise damage(database.path, "a finished run cannot be read") from error
