"""Log lines and run a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider, Command, Context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Resource


class Provider(BaseProvider):
    """Resources that exist after they were set."""

    program = Command("/bin/true")

    def __init__(self) -> None:
        """Start without resources."""
        self._created: set[str] = set()

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the created resources."""
        return [{"name": name, "ensure": "present"} for name in names or () if name in self._created]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Log the lines and run the program, one time after the other."""
        for name, change in changes.items():
            for number in range(change.should["lines"]):
                context.notice(f"{number}: starting the service nginx on host web-{number % 90}")
            for _ in range(change.should["programs"]):
                self.program()
            self._created.add(name)
