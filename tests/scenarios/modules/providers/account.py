"""Keeps accounts in a JSON file and notes the class of each value that it receives."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from resource_api import Context, Resource, Sensitive, SimpleProvider


class Provider(SimpleProvider):
    """Creates, updates and deletes accounts, and logs their secrets."""

    def get(self, context: Context, names: Any = None) -> Iterable[Resource]:  # noqa: ARG002 - not filtered
        """Return every account with its password in plain text."""
        return [{"name": name, "ensure": "present", **row} for name, row in self._rows().items()]

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a resource."""
        self._keep(context, name, should)

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Update a resource."""
        self._keep(context, name, {**self._rows()[name], **should})

    def delete(self, context: Context, name: str) -> None:  # noqa: ARG002
        """Delete a resource."""
        rows = self._rows()
        del rows[name]
        self._path().write_text(json.dumps(rows), encoding="utf-8")

    def _keep(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        plain = {k: v.reveal() if isinstance(v, Sensitive) else v for k, v in should.items()}
        context.notice(f"should is {dict(should)}; plainly {plain}")
        with Path(os.environ["BENCH"], "account.calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps(["set", {key: type(value).__name__ for key, value in should.items()}]) + "\n")
        kept = {key: value for key, value in plain.items() if key in {"password", "note"}}
        self._path().write_text(json.dumps({**self._rows(), name: kept}), encoding="utf-8")

    def _path(self) -> Path:
        return Path(os.environ["BENCH"], "account.json")

    def _rows(self) -> dict[str, Resource]:
        path = self._path()
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
