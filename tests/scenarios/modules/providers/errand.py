"""Runs errands and notes every call."""

from collections.abc import Mapping, Sequence
from typing import Any

from lib.json_file import JsonFile

from resource_api import BaseProvider, Change, Context

FILE = JsonFile("errand")


class Provider(BaseProvider):
    """Runs due errands; one whose name begins with ``bad`` fails."""

    def get(self, context: Context, names: Any = None) -> list[dict[str, Any]]:  # noqa: ARG002 - there is nothing
        """Return nothing: errands cannot be read back."""
        return []

    def due(self, context: Context, name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:  # noqa: ARG002
        """Return whether the widget of ``awaits`` exists."""
        FILE.note("due", name)
        expected = should.get("awaits")
        if expected is None:
            return True
        return (True, f"{expected} is there") if expected in JsonFile("widget").rows() else False

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run an errand."""
        for name, change in changes.items():
            FILE.note("set", [name, len(changes), change.should.get("says")])
            if name.startswith("bad"):
                context.fail("nobody was at home")

    def refresh(self, context: Context, names: Sequence[str]) -> None:  # noqa: ARG002
        """Note the refresh."""
        FILE.note("refresh", list(names))
