"""Keeps pairs in a JSON file and notes every call in a second file."""

from collections.abc import Iterable, Mapping
from typing import Any

from lib.json_file import JsonFile

from resource_api import Context, Resource, SimpleProvider

FILE = JsonFile("pair")


class Provider(SimpleProvider):
    """Creates, updates and deletes pairs; their names are tuples."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every pair."""
        return [{"ensure": "present", **row} for row in FILE.rows().values()]

    def create(self, context: Context, name: tuple[str, str], should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Create a resource."""
        self._keep("create", name, dict(should))

    def update(self, context: Context, name: tuple[str, str], should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Update a resource."""
        self._keep("update", name, {**FILE.rows()["/".join(name)], **should})

    def delete(self, context: Context, name: tuple[str, str]) -> None:  # noqa: ARG002
        """Delete a resource."""
        self._keep("delete", name, None)

    def _keep(self, method: str, name: tuple[str, str], row: Resource | None) -> None:
        FILE.note(method, [type(name).__name__, *name])
        FILE.put("/".join(name), row)
