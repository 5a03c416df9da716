"""Copies of the files that a call of ``set`` overwrites or removes, for the attribute ``backup``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from resource_api import BackupStore, backup_directory, files


class Backups(ExitStack):
    """The stores of the copies of one call of ``set``; a context manager, whose end removes the oldest copies."""

    def __init__(self) -> None:
        """Start without a store."""
        super().__init__()
        self._stores: dict[str, BackupStore] = {}

    def keep(self, path: str, backup: Any, *, at_once: bool) -> None:
        """Copy a file, or all files of a directory, to the directory ``backup``, or to the default one for True.

        With ``at_once`` the copies are durable on return, for a change that follows immediately, such as a removal.
        Otherwise ``flush`` makes all of them durable together, before the new files replace the old ones. Raise
        ``OSError``, ``ResourceError``.
        """
        directory = backup_directory() if backup is True else files.canonical_path(backup)
        if directory not in self._stores:
            self._stores[directory] = self.enter_context(BackupStore(directory))
        self._stores[directory].keep(path)
        if at_once:
            self._stores[directory].flush()

    def discard(self, path: str) -> None:
        """Forget the copies of ``path`` since the last ``flush``: the file was not changed."""
        for store in self._stores.values():
            store.discard(path)

    def flush(self) -> None:
        """Make all copies durable; only now may their files be changed. Raise ``OSError``."""
        for store in self._stores.values():
            store.flush()
