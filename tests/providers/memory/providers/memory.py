"""Keeps resources in memory, as long as the registry that has loaded this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """What exists, by name."""

    shelf: ClassVar[dict[str, Resource]] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Names are lower case; labels are a set."""
        for resource in resources:
            resource["name"] = resource["name"].lower()
            if resource.get("labels") is not None:
                resource["labels"] = sorted(set(resource["labels"]))
        return resources

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Give copies, so that nobody changes what exists, without what nobody can read."""
        rows = [row for name, row in self.shelf.items() if names is None or name in names]
        return [{key: value for key, value in row.items() if key != "pin"} for row in rows]

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        """Create, update or delete each, unless it is only to be told."""
        for name, change in changes.items():
            if change.should["ensure"] == "absent":
                with context.deleting(name):
                    if not noop:
                        del self.shelf[name]
            else:
                with context.processing(name, change.is_, change.should):
                    row = self._row(name, change)
                    if not noop:
                        self.shelf[name] = row

    def _row(self, name: str, change: Change) -> dict[str, Any]:
        kept = {key: value for key, value in change.should.items() if key != "force"}
        return {"serial": len(self.shelf), **self.shelf.get(name, {}), **kept}
