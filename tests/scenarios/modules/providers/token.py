"""Keeps tokens in a JSON file under their canonical numbers, and notes every call in a second file."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from resource_api import Context, Resource, SimpleProvider


class Provider(SimpleProvider):
    """Creates, updates and deletes tokens."""

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:  # noqa: ARG002
        """Write numbers and colours in capitals, numbers without a prefix."""
        for row in resources:
            if row.get("tint") == "boom":
                msg = "there is no such colour"
                raise ValueError(msg)
            row["id"] = row["id"].removeprefix("0x").upper()
            if isinstance(row.get("tint"), str):
                row["tint"] = row["tint"].upper()
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:  # noqa: ARG002
        """Return every token, also those that are not requested."""
        self._note("get", None if names is None else list(names))
        return [{"id": name, "ensure": "present", **row} for name, row in self._rows().items()]

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Create a resource."""
        self._keep(name, dict(should))

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Update a resource."""
        self._keep(name, {**self._rows()[name], **should})

    def delete(self, context: Context, name: str) -> None:  # noqa: ARG002
        """Delete a resource."""
        self._keep(name, None)

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "token.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _keep(self, name: str, row: Resource | None) -> None:
        self._note("set", [name, row])
        rows = {key: value for key, value in {**self._rows(), name: row}.items() if value is not None}
        self._path().write_text(json.dumps(rows), encoding="utf-8")

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "token.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
