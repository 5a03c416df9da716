"""Reads gauges from a JSON file, and logs or raises what the file contains for each."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Does what a provider should not do: keeps state between calls, warns and raises."""

    def __init__(self) -> None:
        """Start with no gauge to look up."""
        self._wanted: set[str] = set()

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Record which gauges to look up, and warn of loud ones."""
        for resource in resources:
            if resource.get("ensure") == "latest":
                self._wanted.add(resource["name"])
            if resource.get("about") == "loud":
                context.warning(resource["name"], message="is loud")
        return resources

    def get(self, context: Context, names: Any = None) -> Iterator[Resource]:  # noqa: ARG002 - not filtered
        """Return every gauge."""
        objects = self._things()
        if message := objects.pop("says", None):
            context.warning("gauges", message=message)
        if raised := objects.pop("raises", None):
            raise ValueError(raised)
        for name, row in objects.items():
            yield {"name": name, "ensure": "present", **row, **({"newest": "1"} if name in self._wanted else {})}

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare ``latest`` with the looked-up value."""
        latest = attribute == "ensure" and should["ensure"] == "latest"
        return is_.get("newest") == "1" if latest else None

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Write the declared values."""
        new = {name: {"about": change.should.get("about")} for name, change in changes.items()}
        self._path().write_text(json.dumps(self._things() | new), encoding="utf-8")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "gauge.json")

    def _things(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._path().read_text(encoding="utf-8"))
        return document
