"""Keeps daemons in a JSON file and notes every call in a second file."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lib.json_file import JsonFile

from resource_api import BaseProvider, Change, Context, Resource

FILE = JsonFile("daemon")


class Provider(BaseProvider):
    """Starts, stops and refreshes daemons; one whose name begins with ``bad`` cannot be refreshed."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every daemon."""
        return [{"name": name, **row} for name, row in FILE.rows().items()]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Start or stop."""
        del context
        for name, change in changes.items():
            FILE.note("set", name)
            FILE.put(name, {"ensure": change.should["ensure"]})

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Note the refresh of each daemon."""
        FILE.note("refresh", list(names))
        for name in names:
            if name.startswith("bad"):
                context.failed(name, message="it does not listen")
