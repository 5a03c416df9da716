"""Open the store at a URL, or at the default location of state, which only this module decides."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UsageError
from resource_api.state.store import MEMORY, MemoryStore
from resource_api.system.filesystem.directories import state_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.encryption.keys import Key
    from resource_api.state.store import Store

#: Names that SQLite itself does not take for a file.
_NO_PATHS: Final = (":", "file:")


def open_store(url: str | None = None, key: Key | None = None) -> Store:
    """Return the store at ``url``: ``memory:``, ``sqlite:PATH``, or None for the default. No file is opened yet.

    ``~`` is the home of a user. State is encrypted under ``key``. Raises ``UsageError`` for any other URL.
    """
    scheme, colon, path = ("sqlite:" + default_path(os.environ) if url is None else url).partition(":")
    if url in MEMORY:
        return MemoryStore()
    if scheme == "sqlite" and path and not path.startswith(_NO_PATHS):
        from resource_api.state.sqlite.store import SqliteStore

        path = os.path.expanduser(path)
        if path.startswith("~"):
            msg = f"--state {url}: there is no user '{path[1:].partition('/')[0]}'; write ./~ for a file of this name"
            raise UsageError(msg)
        return SqliteStore(os.path.abspath(path), key)
    suggestion = "memory:" if url and url.strip(":") == "memory" else "" if colon or not url else f"sqlite:{url}"
    hint = f"; did you mean '{suggestion}'?" if suggestion else ""
    msg = f"--state {url or repr(url)}: write sqlite:PATH, or memory: to keep nothing{hint}"
    raise UsageError(msg)


def default_path(environment: Mapping[str, str]) -> str:
    """Return the default path: for root that of the machine, for any other user their own. Raise ``UsageError``."""
    return f"{state_directory(environment)}/state.db"
