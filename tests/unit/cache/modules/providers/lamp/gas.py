"""Lamps for which there is nothing here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """Gas lamps."""

    def suitable(self, _context: Context) -> bool | str:
        """Return that there is no gas."""
        return "there is no gas"

    def get(self, _context: Context) -> Iterable[Resource]:
        """Return the only lamp."""
        return [{"name": "desk", "on": True}]

    def set(self, _context: Context, _changes: Mapping[str, Change]) -> None:
        """Change nothing."""
