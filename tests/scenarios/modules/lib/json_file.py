"""Resources in a JSON file, and a note of every call in a second one."""

import json
import os
from pathlib import Path
from typing import Any

from resource_api import Resource


class JsonFile:
    """The resources of one type by name: ``$BENCH/<kind>.json``; ``$BENCH/<kind>.calls`` has a line for each call."""

    def __init__(self, kind: str) -> None:
        """Touch nothing yet."""
        self._kind = kind

    def rows(self) -> dict[str, Resource]:
        """Return all resources."""
        path = self._path("json")
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def put(self, name: str, row: Resource | None) -> None:
        """Write one resource; None: remove it."""
        rows = {key: value for key, value in {**self.rows(), name: row}.items() if value is not None}
        self._path("json").write_text(json.dumps(rows), encoding="utf-8")

    def note(self, method: str, subject: Any) -> None:
        """Note a call."""
        with self._path("calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, subject]) + "\n")

    def _path(self, suffix: str) -> Path:
        return Path(os.environ["BENCH"], f"{self._kind}.{suffix}")
