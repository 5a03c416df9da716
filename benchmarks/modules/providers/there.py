"""Report that every resource exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider, Context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Resource


class Provider(BaseProvider):
    """Resources that always exist."""

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return every name as present."""
        return [{"name": name, "ensure": "present"} for name in names or ()]

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Do nothing; it is never called."""
