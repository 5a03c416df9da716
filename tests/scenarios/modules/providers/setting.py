"""Keeps settings in a JSON file and notes every call in a second file."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Reads the requested settings and changes them."""

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:  # noqa: ARG002
        """Return the requested settings."""
        self._note("get", None if names is None else list(names))
        return (dict(row, key=key) for key, row in self._rows().items() if names is None or key in names)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change settings without a report."""
        del context
        self._note("set", {name: [c.is_ and dict(c.is_), dict(c.should)] for name, c in changes.items()})
        rows = self._rows()
        for name, change in changes.items():
            rows[name] = {**rows[name], **change.should}
        self._path().write_text(json.dumps(rows), encoding="utf-8")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "setting.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "setting.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
