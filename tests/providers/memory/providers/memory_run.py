"""Keep marks in memory for the life of the registry that has loaded this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from resource_api import BaseProvider, CannotList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The marks that runs have set."""

    marks: ClassVar[list[str]] = []

    def get(self, _context: Context) -> list[Resource]:
        """Raise ``CannotList``: a run cannot be read."""
        raise CannotList("runs cannot be read")

    def due(self, _context: Context, _name: str, should: Mapping[str, Any]) -> tuple[bool, str]:
        """Return whether the mark is missing, and why the run is due."""
        return should.get("creates") not in self.marks, "its mark is missing"

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Set the marks."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Running"):
                self.marks.append(should.get("creates") or name)
