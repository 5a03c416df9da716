"""Keeps two files per daemon: one that exists while it runs, and one with the configuration that it has read."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Starts, stops and refreshes daemons; the file of a running one lists what it reads."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the running daemons."""
        del context
        return [{"path": name, "ensure": "present"} for name in names or () if Path(name).exists()]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Start or stop."""
        del context
        for name, change in changes.items():
            path = Path(name)
            if change.should["ensure"] == "absent":
                _loaded(path).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
            else:
                _put(path, "\n".join(change.should["reads"]))

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Read the current configuration."""
        del context
        for name in names:
            path = Path(name)
            reads = path.read_text(encoding="utf-8").splitlines()
            _put(_loaded(path), "".join(Path(read).read_text(encoding="utf-8") for read in reads))


def _loaded(path: Path) -> Path:
    return path.with_suffix(".loaded")


def _put(path: Path, text: str) -> None:
    """Write a file atomically and durably; a partial file that a crash leaves is overwritten."""
    new = path.parent.parent / f"{path.name}.part"
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
