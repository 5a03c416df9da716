"""Keeps marks in memory, as long as the registry that has loaded this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from resource_api import BaseProvider, CannotList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The marks that were left."""

    marks: ClassVar[list[str]] = []

    def get(self, _context: Context) -> list[Resource]:
        """Say that there is nothing to read."""
        reason = "what has been run cannot be read back"
        raise CannotList(reason)

    def due(self, _context: Context, _name: str, should: Mapping[str, Any]) -> tuple[bool, str]:
        """Look for the mark."""
        return should.get("creates") not in self.marks, "its mark is missing"

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Leave the mark."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Running"):
                self.marks.append(should.get("creates") or name)
