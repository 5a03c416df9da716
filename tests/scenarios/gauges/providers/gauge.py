"""Reads gauges from a JSON file, and says or raises what stands there for it."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Does what should not be done: learns, warns and raises."""

    def __init__(self) -> None:
        """Nobody has asked for the latest of anything yet."""
        self._wanted: set[str] = set()

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Learn what has to be looked up; warn of what is loud."""
        for each in resources:
            if each.get("ensure") == "latest":
                self._wanted.add(each["name"])
            if each.get("about") == "loud":
                context.warning(each["name"], message="is loud")
        return resources

    def get(self, context: Context, names: Any = None) -> Iterator[Resource]:  # noqa: ARG002 - not filtered
        """Give every gauge."""
        things = self._things()
        if said := things.pop("says", None):
            context.warning("gauges", message=said)
        if raised := things.pop("raises", None):
            raise ValueError(raised)
        for name, row in things.items():
            yield {"name": name, "ensure": "present", **row, **({"newest": "1"} if name in self._wanted else {})}

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare the latest with what was looked up."""
        latest = attribute == "ensure" and should["ensure"] == "latest"
        return is_.get("newest") == "1" if latest else None

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Write what should be."""
        new = {name: {"about": change.should.get("about")} for name, change in changes.items()}
        self._path().write_text(json.dumps(self._things() | new), encoding="utf-8")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "gauge.json")

    def _things(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path().read_text(encoding="utf-8"))
        return found
