"""Keeps each thing in a separate file, written in place and synced before the next one is begun."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from resource_api import BaseProvider, Change, Context, Resource


class Provider(BaseProvider):
    """Creates, writes and deletes things one by one, in several system calls each."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the existing things."""
        del context
        paths = [Path(name) for name in names or ()]
        return [
            {
                "path": str(path),
                "ensure": "present",
                "text": path.read_text(encoding="utf-8"),
                "make": f"{path.stat().st_mode & 0o777:04o}",
            }
            for path in paths
            if path.exists()
        ]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change the things one by one."""
        del context
        for name, change in changes.items():
            path = Path(name)
            if change.should["ensure"] == "absent":
                path.unlink(missing_ok=True)
            else:
                _write(path, change.should.get("text") or "", int(change.should["make"], 8))
            _flush(path.parent)


def _write(path: Path, text: str, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.write(fd, text[:3].encode())
        os.write(fd, text[3:].encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
