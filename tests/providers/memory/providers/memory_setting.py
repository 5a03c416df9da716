"""Keep settings in memory for the life of the registry that has loaded this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The settings by name."""

    stored: ClassVar[dict[str, Resource]] = {
        "volume": {"name": "volume", "value": 5, "muted": False},
        "brightness": {"name": "brightness", "value": 7, "muted": False},
    }

    def get(self, _context: Context) -> list[Resource]:
        """Return all settings."""
        return [dict(row) for row in self.stored.values()]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change the differing settings."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                self.stored[name] |= should
