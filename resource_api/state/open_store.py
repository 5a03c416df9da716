"""Open the store at a URL, or at the default location of state, which only this module decides."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UsageError
from resource_api.state.store import MEMORY, MemoryStore, Store
from resource_api.system.filesystem.directories import state_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.state.encryption.keys import Key

#: Names that SQLite itself does not take for a file.
_NO_PATHS: Final = (":", "file:")


def open_store(url: str | None = None, key: Key | None = None) -> Store:
    """Return the store at ``url``: ``memory:``, ``sqlite:PATH``, ``postgresql://...``, or None for the default.

    Nothing is opened yet. ``~`` is the home of a user. State is encrypted under ``key``. Raises ``UsageError`` for any
    other URL, and where the library for it is not installed.
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
    if scheme == "postgresql" and path.startswith("//"):
        return _postgresql(str(url), key)
    raise _invalid_url(url, scheme, colon)


def _invalid_url(url: str | None, scheme: str, colon: str) -> UsageError:
    """Return the error for a URL of no store; what may be a password is not quoted."""
    label = f"{scheme}:..." if url and "@" in url else url or repr(url)
    if url and url.strip(":") == "memory":
        suggestion = "memory:"
    elif scheme.lower().startswith("postgres"):
        suggestion = "postgresql://USER@HOST:PORT/DATABASE"
    else:
        suggestion = "" if colon or not url else f"sqlite:{url}"
    hint = f"; did you mean '{suggestion}'?" if suggestion else ""
    return UsageError(
        f"--state {label}: write sqlite:PATH, postgresql://HOST/DATABASE, or memory: to keep nothing{hint}"
    )


def _postgresql(url: str, key: Key | None) -> Store:
    """Return the store in a PostgreSQL database. Raises ``UsageError``."""
    try:
        from resource_api.state.postgresql.url import checked_url

        url = checked_url(url)
        from resource_api.state.postgresql.store import PostgresqlStore
    except ImportError as error:
        msg = "state on PostgreSQL needs the library psycopg: pip install 'resource-api[postgres]'"
        raise UsageError(msg) from error
    return PostgresqlStore(url, key)


def default_path(environment: Mapping[str, str]) -> str:
    """Return the default path: for root that of the machine, for any other user their own. Raise ``UsageError``."""
    return f"{state_directory(environment)}/state.db"


def command_options(values: Iterable[tuple[str, object]]) -> str:
    """Return options as they are written after a command, each with a space before it; those without a value are not.

    ``values``: each option, such as ``--state``, and its value.
    """
    return "".join(f" {option} {quote(str(value))}" for option, value in values if value)
