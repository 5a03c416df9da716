"""A correct provider on a JSON file; each bad provider differs from it in one fault."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Sensitive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api import Change, Context, Resource


class JsonStore(BaseProvider):
    """Resources in files: ``$STORE/<kind>.json`` maps name → attributes; ``$STORE/<kind>.calls``: a line per call."""

    kind = "bad"

    def get(self, context: Context, names: Collection[Any] | None = None) -> Iterable[Resource]:
        """Return the stored resources."""
        self._called("get", sorted(self._load()))
        return [{"name": name, "ensure": "present", **values} for name, values in self._load().items()]

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Create, update and delete things."""
        self._called("set", list(changes))
        for name, (_, should) in changes.items():
            self._put(name, should)

    def _put(self, name: Any, should: Mapping[str, Any]) -> None:
        objects = self._load()
        if should.get("ensure") == "absent":
            objects.pop(name, None)
        else:
            stored = {key: _plain(value) for key, value in should.items() if key not in {"name", "ensure", "secret"}}
            objects[name] = {**objects.get(name, {}), **stored}
        self._path("json").write_text(json.dumps(objects), encoding="utf-8")

    def _load(self) -> dict[Any, Any]:
        path = self._path("json")
        document: dict[Any, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return document

    def _called(self, method: str, names: list[Any]) -> None:
        with self._path("calls").open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, names]) + "\n")

    def _path(self, suffix: str) -> Path:
        return Path(os.environ["STORE"], f"{self.kind}.{suffix}")


def _plain(value: Any) -> Any:
    """Return a value with its secrets revealed, as it is stored."""
    return value.reveal() if isinstance(value, Sensitive) else value
