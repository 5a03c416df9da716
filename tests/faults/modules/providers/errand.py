"""Runs errands: appends a line for each run, then creates a file that marks the errand as done."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Runs the errands that are not done yet."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:  # noqa: ARG002
        """Return nothing: errands cannot be read back."""
        return []

    def due(self, context: Context, name: str, should: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether the errand is still to be done."""
        return not Path(f"{name}.done").exists()

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run an errand."""
        del context
        for name, change in changes.items():
            for path, text in ((name, change.should["text"] + "\n"), (f"{name}.done", "")):
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
