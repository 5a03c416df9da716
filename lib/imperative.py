"""A base class for providers of actions, which a run does and no later ``get`` can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from resource_api import BaseProvider, CannotList

if TYPE_CHECKING:
    from collections.abc import Collection

    from resource_api import Context, Resource


class ImperativeProvider(BaseProvider):
    """Return no resource, so that only ``due`` counts; ``unlisted``: the reason of a subclass for no listing."""

    unlisted: ClassVar[str]

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return no resource, as nothing of an action can be read later. Raise ``CannotList`` without ``names``."""
        if names is None:
            raise CannotList(self.unlisted)
        return []
