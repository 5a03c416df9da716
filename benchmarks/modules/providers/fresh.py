"""Keep created resources in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider, Context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Resource


class Provider(BaseProvider):
    """Resources that exist after they were set."""

    def __init__(self) -> None:
        """Start without resources."""
        self._created: set[str] = set()

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the created resources."""
        return [{"name": name, "ensure": "present"} for name in names or () if name in self._created]

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Create all of them."""
        self._created.update(changes)
