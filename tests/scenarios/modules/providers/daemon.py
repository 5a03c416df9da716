"""Keeps daemons in a JSON file and notes every call in a second file."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Starts, stops and refreshes daemons; one whose name begins with ``bad`` cannot be refreshed."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every daemon."""
        return [{"name": name, **row} for name, row in self._rows().items()]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Start or stop."""
        del context
        rows = self._rows()
        for name, change in changes.items():
            self._note("set", name)
            rows[name] = {"ensure": change.should["ensure"]}
        self._path().write_text(json.dumps(rows), encoding="utf-8")

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Note the refresh of each daemon."""
        self._note("refresh", list(names))
        for name in names:
            if name.startswith("bad"):
                context.failed(name, message="it does not listen")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "daemon.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "daemon.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
