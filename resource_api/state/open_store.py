"""Open the store at a URL, or at the default location of state, which only this module decides.

A password in the URL of a PostgreSQL store is refused, and never shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import regex
from resource_api.model.values.text import shell_word
from resource_api.state.store import MEMORY, MemoryStore, Store
from resource_api.system.filesystem.directories import state_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.state.encryption.keys import Key

#: Names that SQLite itself does not take for a file.
_NO_PATHS: Final = (":", "file:")
#: The keys of a URL's query that hold a password.
_PASSWORDS: Final = frozenset({"password", "sslpassword"})
#: A host, or an address in brackets, with a port or without.
_PORT: Final = regex(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_FORM: Final = "postgresql://USER@HOST:PORT/DATABASE, or postgresql://?service=NAME"


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
    """Return the error for a URL of no store, with a suggestion; a URL that may hold a password is not quoted.

    ``scheme`` and ``colon`` are its beginning; ``colon`` is "" for a URL without one, such as a bare path.
    """
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
    """Return the store in a PostgreSQL database; its library is imported only here, because few runs need it.

    Raises ``UsageError`` without that library, and for an invalid URL.
    """
    _check_postgresql_url(url)
    try:
        from resource_api.state.postgresql.store import PostgresqlStore
    except ImportError as error:
        msg = "state on PostgreSQL needs the library psycopg: pip install 'resource-api[postgres]'"
        raise UsageError(msg) from error
    try:
        return PostgresqlStore(url, key)
    except ValueError:
        raise _invalid_postgresql_url() from None  # its cause quotes the URL


def _check_postgresql_url(url: str) -> None:
    """Raise ``UsageError`` for a URL that libpq cannot read or that has a password; no part of it is quoted."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise _invalid_postgresql_url() from error
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user or any(key in _PASSWORDS for key, _ in query):
        msg = (
            "--state postgresql:...: a password has no place in a URL, where other users can read it; write it into the"
            " file of PGPASSFILE (default ~/.pgpass): HOST:PORT:DATABASE:USER:PASSWORD"
        )
        raise UsageError(msg)
    ports = (_PORT.fullmatch(host) for host in hosts.split(","))
    # Of ``postgresql://me:a/b@host`` with a password ``a/b``, the part ``/b@host`` is read as a path.
    if parts.fragment or "@" in parts.path + parts.query or not all(ports):
        raise _invalid_postgresql_url()


def _invalid_postgresql_url() -> UsageError:
    """Return the error for a URL that libpq cannot read. It quotes no part of it, as a password may stand anywhere."""
    msg = (
        f"--state postgresql:...: this is no valid URL; write {_FORM}, with %40 for '@' and %2F for '/' in a part of it"
    )
    return UsageError(msg)


def default_path(environment: Mapping[str, str]) -> str:
    """Return the default path: for root that of the machine, for any other user their own. Raise ``UsageError``."""
    return f"{state_directory(environment)}/state.db"


def command_options(values: Iterable[tuple[str, object]]) -> str:
    """Return options with their values, for the command in a message; those without a value are left out."""
    return "".join(f" {option} {shell_word(value)}" for option, value in values if value)
