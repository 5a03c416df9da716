"""Keeps pairs in a JSON file and notes every call in a second file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from resource_api import Context, Resource, SimpleProvider


class Provider(SimpleProvider):
    """Creates, updates and deletes pairs; their names are tuples."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every pair."""
        return [{"ensure": "present", **row} for row in self._rows().values()]

    def create(self, context: Context, name: tuple[str, str], should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Create a resource."""
        self._keep("create", name, dict(should))

    def update(self, context: Context, name: tuple[str, str], should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Update a resource."""
        self._keep("update", name, {**self._rows()["/".join(name)], **should})

    def delete(self, context: Context, name: tuple[str, str]) -> None:  # noqa: ARG002
        """Delete a resource."""
        self._keep("delete", name, None)

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "pair.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _keep(self, method: str, name: tuple[str, str], row: Resource | None) -> None:
        with Path(os.environ["BENCH"], "pair.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, [type(name).__name__, *name]]) + "\n")
        rows = {key: value for key, value in {**self._rows(), "/".join(name): row}.items() if value is not None}
        self._path().write_text(json.dumps(rows), encoding="utf-8")
