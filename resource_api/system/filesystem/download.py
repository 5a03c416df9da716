"""What a URL leads to, fetched into a nameless file and handed out only when it is what was asked for.

Over HTTP and HTTPS, with the standard library; nothing is kept beyond the process. When to fetch is not known here.
"""

from __future__ import annotations

import os
import tempfile
import time
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, Final

from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

#: Seconds that a server may say nothing, and that a whole transfer may take.
SILENCE: Final = 30.0
PATIENCE: Final = 900.0
#: Bytes that are fetched at most.
LARGEST: Final = 4 << 30
_PART: Final = 1 << 18


def check(url: str) -> None:
    """Raise ``ValueError`` for a URL that is not fetched, or that says a password to everybody who sees a plan."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - few manifests have URLs

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"'{url}' is not the URL of something to fetch; it begins with https:// or http://"
        raise ValueError(msg)
    if parts.username is not None or parts.password is not None:
        msg = f"a user or password cannot stand in a URL: everybody sees it in plans and in state ({parts.hostname})"
        raise ValueError(msg)


def fetch(url: str, digest: str, largest: int = LARGEST) -> BinaryIO:
    """Give what a URL leads to as an open file without a name, at its beginning.

    Raises ``ResourceError`` when it cannot be fetched, is larger than ``largest`` bytes, or has another SHA-256.
    """
    from http.client import HTTPException  # noqa: PLC0415 - the network is needed by few runs

    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    try:
        found = _transfer(url, file, largest)
    except (OSError, HTTPException) as error:
        file.close()
        msg = f"{url} cannot be fetched: {getattr(error, 'reason', None) or str(error) or type(error).__name__}"
        raise ResourceError(msg) from error
    except BaseException:
        file.close()
        raise
    if found != digest:
        file.close()
        msg = f"{url} has the SHA-256 {found}, not {digest}"
        raise ResourceError(msg)
    file.seek(0)
    return file


def again(file: BinaryIO) -> BinaryIO:
    """Open a file without a name once more, at its beginning, for a reader of its own."""
    return open(f"/proc/self/fd/{file.fileno()}", "rb", buffering=0)  # noqa: PTH123 - a descriptor


def _transfer(url: str, file: BinaryIO, largest: int) -> str:
    """Write what a URL leads to into ``file``; give its digest."""
    digest, size, end = sha256(), 0, time.monotonic() + PATIENCE
    with _opener().open(url, timeout=SILENCE) as answer:
        while part := answer.read(_PART):
            size += len(part)
            if size > largest:
                msg = f"{url} is larger than {largest} bytes"
                raise ResourceError(msg)
            if time.monotonic() > end:
                msg = f"{url} was not fetched within {PATIENCE:.0f} seconds"
                raise ResourceError(msg)
            digest.update(part)
            while part:
                part = part[os.write(file.fileno(), part) :]
        length = answer.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) != size:
        msg = f"{url} broke off after {size} of {length} bytes"
        raise ResourceError(msg)
    return digest.hexdigest()


def _opener() -> OpenerDirector:
    """Give an opener that follows to HTTP and HTTPS alone: what leads to a local file is no download."""
    from urllib import request  # noqa: PLC0415 - the network is needed by few runs

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    opener.addheaders = [("User-Agent", "resource-api")]
    return opener
