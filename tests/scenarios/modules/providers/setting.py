"""Keeps settings in a JSON file and notes every call in a second file."""

from collections.abc import Collection, Iterable, Mapping

from lib.json_file import JsonFile

from resource_api import BaseProvider, Change, Context, Resource

FILE = JsonFile("setting")


class Provider(BaseProvider):
    """Reads the requested settings and changes them."""

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:  # noqa: ARG002
        """Return the requested settings."""
        FILE.note("get", None if names is None else list(names))
        return (dict(row, key=key) for key, row in FILE.rows().items() if names is None or key in names)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change settings without a report."""
        del context
        FILE.note("set", {name: [c.is_ and dict(c.is_), dict(c.should)] for name, c in changes.items()})
        for name, change in changes.items():
            FILE.put(name, {**FILE.rows()[name], **change.should})
