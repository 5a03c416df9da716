"""Runs errands: writes down that it did."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context


class Provider(BaseProvider):
    """Runs what is due; an errand whose name begins with ``bad`` fails."""

    def get(self, context: Context, names: Any = None) -> list[dict[str, Any]]:  # noqa: ARG002 - there is nothing
        """Give nothing: errands cannot be read back."""
        return []

    def due(self, context: Context, name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:  # noqa: ARG002
        """Tell whether the widget is there that it waits for."""
        self._note("due", name)
        wanted = should.get("when")
        if wanted is None:
            return True
        path = Path(os.environ["BENCH"], "widget.json")
        there = path.exists() and wanted in json.loads(path.read_text(encoding="utf-8"))
        return (True, f"{wanted} is there") if there else False

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run one."""
        for name, change in changes.items():
            self._note("set", [name, len(changes), change.should.get("says")])
            if name.startswith("bad"):
                context.fail("nobody was at home")

    def refresh(self, context: Context, names: Sequence[str]) -> None:  # noqa: ARG002
        """Note that something has changed."""
        self._note("refresh", list(names))

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "errand.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
