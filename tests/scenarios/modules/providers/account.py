"""Keeps accounts in a JSON file and notes the class of each value that it receives."""

from collections.abc import Iterable, Mapping
from typing import Any

from lib.json_file import JsonFile

from resource_api import Context, Resource, Sensitive, SimpleProvider

FILE = JsonFile("account")


class Provider(SimpleProvider):
    """Creates, updates and deletes accounts, and logs their secrets."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every account with its password in plain text."""
        return [{"name": name, "ensure": "present", **row} for name, row in FILE.rows().items()]

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a resource."""
        self._keep(context, name, should)

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Update a resource."""
        self._keep(context, name, {**FILE.rows()[name], **should})

    def delete(self, context: Context, name: str) -> None:  # noqa: ARG002
        """Delete a resource."""
        FILE.put(name, None)

    def _keep(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        plain = {k: v.reveal() if isinstance(v, Sensitive) else v for k, v in should.items()}
        context.notice(f"should is {dict(should)}; plainly {plain}")
        FILE.note("set", {key: type(value).__name__ for key, value in should.items()})
        FILE.put(name, {key: value for key, value in plain.items() if key in {"password", "note"}})
