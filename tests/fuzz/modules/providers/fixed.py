"""Read and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """Everything exists and has the size 1."""

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return each name."""
        return [{"name": name, "ensure": "present", "size": 1} for name in names or ()]

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Change nothing."""
