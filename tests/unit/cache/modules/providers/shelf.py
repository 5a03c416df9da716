"""Keep the shelves of each room in a JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api import Context, Resource


class Provider(SimpleProvider):
    """The shelves of one room."""

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Use a room."""
        self._path = Path(os.environ["BENCH"], f"shelf-{config['room']}.json")

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the room, if it is another one: what was made is out of reach."""
        return ["room"] if is_["room"] != should["room"] else []

    def get(self, _context: Context) -> Iterable[Resource]:
        """Return all shelves of the room."""
        return [{"name": name, "ensure": "present", **row} for name, row in self._rows().items()]

    def create(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Put up a shelf."""
        self._put(name, {"boards": should.get("boards") or 0})

    def update(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Change a shelf."""
        self._put(name, {"boards": should["boards"]})

    def delete(self, _context: Context, name: str) -> None:
        """Take a shelf down."""
        self._put(name, None)

    def _rows(self) -> dict[str, Any]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def _put(self, name: str, row: Mapping[str, Any] | None) -> None:
        rows = {**self._rows(), name: row}
        self._path.write_text(json.dumps({name: row for name, row in rows.items() if row is not None}))
