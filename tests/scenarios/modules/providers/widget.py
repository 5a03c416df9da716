"""Keeps widgets in a JSON file and notes every call in a second file."""

from collections.abc import Iterable, Mapping
from typing import Any

from lib.json_file import JsonFile

from resource_api import Change, Context, Resource, SimpleProvider

FILE = JsonFile("widget")


class Provider(SimpleProvider):
    """Creates, updates and deletes widgets; one called ``bad`` cannot be created, updated or deleted."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every widget."""
        FILE.note("get", None)
        return [{"name": name, "ensure": "present", **row} for name, row in FILE.rows().items()]

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Note the call, then make the changes."""
        FILE.note("set", {name: [c.is_ and dict(c.is_), dict(c.should)] for name, c in changes.items()})
        super().set(context, changes)

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a resource."""
        self._refuse(context, name)
        stored = {key: value for key, value in should.items() if key not in {"name", "ensure", "force"}}
        FILE.put(name, {**stored, "serial": f"S-{name}"})

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Update a resource."""
        self._refuse(context, name)
        stored = {key: value for key, value in should.items() if key not in {"name", "ensure", "force"}}
        FILE.put(name, {**FILE.rows()[name], **stored})

    def delete(self, context: Context, name: str) -> None:
        """Delete a resource."""
        self._refuse(context, name)
        FILE.put(name, None)

    def _refuse(self, context: Context, name: str) -> None:
        if name.startswith("bad"):
            context.fail("the press is broken")
