"""Keeps what it makes in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider, Context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Resource


class Provider(BaseProvider):
    """What has been set is there."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._made: set[str] = set()

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Give what has been made."""
        return [{"name": name, "ensure": "present"} for name in names or () if name in self._made]

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Make them."""
        self._made.update(changes)
