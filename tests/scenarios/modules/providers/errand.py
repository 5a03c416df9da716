"""Runs errands and notes every call."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context


class Provider(BaseProvider):
    """Runs due errands; one whose name begins with ``bad`` fails."""

    def get(self, context: Context, names: Any = None) -> list[dict[str, Any]]:  # noqa: ARG002 - there is nothing
        """Return nothing: errands cannot be read back."""
        return []

    def due(self, context: Context, name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:  # noqa: ARG002
        """Return whether the widget of ``when`` exists."""
        self._note("due", name)
        wanted = should.get("when")
        if wanted is None:
            return True
        path = Path(os.environ["BENCH"], "widget.json")
        there = path.exists() and wanted in json.loads(path.read_text(encoding="utf-8"))
        return (True, f"{wanted} is there") if there else False

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run an errand."""
        for name, change in changes.items():
            self._note("set", [name, len(changes), change.should.get("says")])
            if name.startswith("bad"):
                context.fail("nobody was at home")

    def refresh(self, context: Context, names: Sequence[str]) -> None:  # noqa: ARG002
        """Note the refresh."""
        self._note("refresh", list(names))

    def _note(self, method: str, what: Any) -> None:
        with Path(os.environ["BENCH"], "errand.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, what]) + "\n")
