"""Keep resources in memory for the life of the registry that has loaded this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from resource_api import BaseProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The resources by name."""

    stored: ClassVar[dict[str, Resource]] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write names in lower case; sort labels, whose order means nothing."""
        for resource in resources:
            resource["name"] = resource["name"].lower()
            if resource.get("labels") is not None:
                resource["labels"] = sorted(set(resource["labels"]))
        return resources

    def insync(self, _context: Context, _name: str, _attribute: str, _is: Resource, _should: Resource) -> None:
        """Leave the comparison of every attribute to the runtime."""

    def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return copies of the resources, without the write-only attribute."""
        rows = [row for name, row in list(self.stored.items()) if names is None or name in names]
        return [{key: value for key, value in row.items() if key != "pin"} for row in rows]

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        """Create, update or delete each resource; only log it with ``noop``."""
        for name, change in changes.items():
            if change.should["ensure"] == "absent":
                with context.deleting(name):
                    if not noop:
                        del self.stored[name]
            else:
                with context.processing(name, change.is_, change.should):
                    row = self._row(name, change)
                    if not noop:
                        self.stored[name] = row

    def preflight(self, _context: Context, _changes: Mapping[str, Any]) -> list[Any]:
        """Return nothing: memory needs nothing of a machine."""
        return []

    def side_effects(self, _context: Context, _changes: Mapping[str, Change]) -> list[Any]:
        """Return nothing: what is in memory needs nothing else there."""
        return []

    def refresh(self, _context: Context, _names: Collection[str]) -> None:
        """Do nothing: what is in memory is effective at once."""

    def _row(self, name: str, change: Change) -> dict[str, Any]:
        stored = {key: value for key, value in change.should.items() if key != "force"}
        if "sizes" in stored:  # only the declared members are in it; None is one that must not exist
            sizes = {**(self.stored.get(name, {}).get("sizes") or {}), **stored["sizes"]}
            stored["sizes"] = {key: size for key, size in sizes.items() if size is not None}
        return {"serial": len(self.stored), **self.stored.get(name, {}), **stored}
