"""Keeps widgets in a JSON file and notes every call in a second file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from resource_api import Change, Context, Resource, SimpleProvider


class Provider(SimpleProvider):
    """Creates, updates and deletes widgets; one called ``bad`` cannot be created, updated or deleted."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every widget."""
        self._note("get", None)
        return [{"name": name, "ensure": "present", **row} for name, row in self._rows().items()]

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Note the call, then make the changes."""
        self._note("set", {name: [c.is_ and dict(c.is_), dict(c.should)] for name, c in changes.items()})
        super().set(context, changes)

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a resource."""
        self._refuse(context, name)
        kept = {key: value for key, value in should.items() if key not in {"name", "ensure", "force"}}
        self._keep(name, {**kept, "serial": f"S-{name}"})

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Update a resource."""
        self._refuse(context, name)
        kept = {key: value for key, value in should.items() if key not in {"name", "ensure", "force"}}
        self._keep(name, {**self._rows()[name], **kept})

    def delete(self, context: Context, name: str) -> None:
        """Delete a resource."""
        self._refuse(context, name)
        self._keep(name, None)

    def _refuse(self, context: Context, name: str) -> None:
        if name.startswith("bad"):
            context.fail("the press is broken")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "widget.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _keep(self, name: str, row: Resource | None) -> None:
        rows = {key: value for key, value in {**self._rows(), name: row}.items() if value is not None}
        self._path().write_text(json.dumps(rows), encoding="utf-8")

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "widget.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
