"""Keeps tokens in a JSON file under their canonical numbers, and notes every call in a second file."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lib.json_file import JsonFile

from resource_api import Context, Resource, SimpleProvider

FILE = JsonFile("token")


class Provider(SimpleProvider):
    """Creates, updates and deletes tokens."""

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:  # noqa: ARG002
        """Write numbers and colours in capitals, numbers without a prefix."""
        for row in resources:
            if row.get("tint") == "boom":
                raise ValueError("there is no such colour")
            row["id"] = row["id"].removeprefix("0x").upper()
            if isinstance(row.get("tint"), str):
                row["tint"] = row["tint"].upper()
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:  # noqa: ARG002
        """Return every token, also those that are not requested."""
        FILE.note("get", None if names is None else list(names))
        return [{"id": name, "ensure": "present", **row} for name, row in FILE.rows().items()]

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Create a resource."""
        self._keep(name, dict(should))

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Update a resource."""
        self._keep(name, {**FILE.rows()[name], **should})

    def delete(self, context: Context, name: str) -> None:  # noqa: ARG002
        """Delete a resource."""
        self._keep(name, None)

    def _keep(self, name: str, row: Resource | None) -> None:
        FILE.note("set", [name, row])
        FILE.put(name, row)
