"""From the URL after ``--state`` to a store; the only place that decides the default location of state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.model.values.errors import UsageError
from resource_api.state.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.encryption.keys import Key
    from resource_api.state.store import StateStore


def open_store(url: str | None = None, key: Key | None = None) -> StateStore:
    """Return the store at ``url``: ``memory:``, ``sqlite:PATH``, or None for the default. No file is opened yet.

    What is written is encrypted under ``key``. Raises ``UsageError`` for any other URL.
    """
    scheme, colon, path = ("sqlite:" + default_path(os.environ) if url is None else url).partition(":")
    if scheme == "memory" and colon and not path:
        return MemoryStore()
    if scheme == "sqlite" and path:
        from resource_api.state.sqlite.store import SqliteStore  # noqa: PLC0415 - only where state is kept

        return SqliteStore(os.path.abspath(path), key)
    hint = "" if colon or not url else f"; did you mean 'sqlite:{url}'?"
    msg = f"--state {url or repr(url)}: write sqlite:PATH, or memory: to keep nothing{hint}"
    raise UsageError(msg)


def default_path(environment: Mapping[str, str]) -> str:
    """Return the default path: for root that of the machine, for any other user their own. Raise ``UsageError``."""
    from resource_api.system.state_directory import state_directory  # noqa: PLC0415 - only for the default

    return f"{state_directory(environment)}/state.db"
