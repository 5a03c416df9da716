"""The URLs of PostgreSQL stores, as libpq reads them; a password in one is refused and never shown."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import regex

SCHEME: Final = "postgresql"
#: The keys of a URL's query that hold a password.
_PASSWORDS: Final = frozenset({"password", "sslpassword"})
#: A host, or an address in brackets, with a port or without.
_PORT: Final = regex(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_FORM: Final = "postgresql://USER@HOST:PORT/DATABASE, or postgresql://?service=NAME"


def checked_url(url: str) -> str:
    """Return a URL of a PostgreSQL store without a password. Raise ``UsageError``; no part of the URL is quoted."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise invalid_url() from error
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user or any(key in _PASSWORDS for key, _ in query):
        msg = (
            f"--state {SCHEME}:...: a password has no place in a URL, where other users can read it; write it into the"
            " file of PGPASSFILE (default ~/.pgpass): HOST:PORT:DATABASE:USER:PASSWORD"
        )
        raise UsageError(msg)
    ports = (_PORT.fullmatch(host) for host in hosts.split(","))
    if parts.fragment or "@" in parts.path + parts.query or not all(ports):  # parts of a password that is not quoted
        raise invalid_url()
    return url


def invalid_url() -> UsageError:
    """Return the error for a URL that libpq cannot read; a password may stand anywhere in it."""
    msg = f"--state {SCHEME}:...: this is no valid URL; write {_FORM}, with %40 for '@' and %2F for '/' in a part of it"
    return UsageError(msg)
