"""Lamps that are always on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """Electric lamps."""

    def suitable(self, _context: Context) -> bool | str:
        """Return whether there is electricity."""
        return True

    def get(self, _context: Context) -> Iterable[Resource]:
        """Return the only lamp."""
        return [{"name": "desk", "on": True}]

    def set(self, _context: Context, _changes: Mapping[str, Change]) -> None:
        """Change nothing."""
