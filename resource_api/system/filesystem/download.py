"""Download a URL over HTTP or HTTPS into a temporary file without a name, and check its SHA-256.

Loaded with the first download: the libraries take longer to import than most runs take.
"""

from __future__ import annotations

import tempfile
import time
from hashlib import sha256
from http.client import HTTPException
from typing import Any, BinaryIO, Final
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import show_size
from resource_api.system.filesystem.directories import write_all
from resource_api.system.filesystem.files import describe_error
from resource_api.system.http_deadline import DeadlineHandler

#: Seconds without data after which a transfer fails, and seconds for a whole transfer.
IDLE_TIMEOUT: Final = 30.0
TOTAL_TIMEOUT: Final = 900.0
#: Largest download in bytes.
LARGEST: Final = 4 << 30
_PART: Final = 1 << 18
_NOT_FOUND: Final = 404


class Missing(ResourceError):  # noqa: N818 - a status of the URL
    """A URL that does not exist on its server (HTTP 404)."""


def check(url: str) -> None:
    """Raise ``ValueError`` for a URL that is not HTTP or HTTPS, or that discloses a user name or password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"'{url}' is not the URL of something to fetch; it begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        msg = f"a user or password cannot stand in a URL: everybody sees it in plans and in state ({parts.hostname})"
        raise ValueError(msg)


def fetch(url: str, digest: str = "", *, largest: int = LARGEST, timeout: float = TOTAL_TIMEOUT) -> BinaryIO:
    """Return the content of ``url`` as an open file without a name, at its beginning.

    Raise ``Missing`` if it does not exist, ``ResourceError`` if it cannot be fetched within ``timeout`` seconds, is
    larger than ``largest`` bytes, or has another SHA-256 than ``digest``, unless that is empty.
    """
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    end = time.monotonic() + timeout
    try:
        _transfer(url, file, digest, largest, end)
        file.seek(0)
    except (OSError, HTTPException) as error:
        file.close()
        if time.monotonic() >= end:
            raise ResourceError(f"{url} was not fetched within {timeout:.0f} seconds") from error
        # An ``HTTPError`` says more than its reason; an ``URLError`` has a text or the error of the system.
        reason = None if isinstance(error, HTTPError) else getattr(error, "reason", None)
        words = reason if isinstance(reason, str) else describe_error(reason or error, "")
        msg = f"{url} cannot be fetched: {words or type(error).__name__}"
        missing = isinstance(error, HTTPError) and error.code == _NOT_FOUND
        raise (Missing if missing else ResourceError)(msg) from error
    except BaseException:
        file.close()
        raise
    return file


def reopen(file: BinaryIO) -> BinaryIO:
    """Open a file without a name again, at its beginning, with an offset of its own."""
    return open(f"/proc/self/fd/{file.fileno()}", "rb", buffering=0)


def _transfer(url: str, file: BinaryIO, expected: str, largest: int, end: float) -> None:
    """Write the content of ``url`` to ``file``, until the time ``end`` of ``time.monotonic``.

    ``expected``: the SHA-256, "" if unknown: then a redirect from HTTPS to HTTP is refused, as only the encryption
    protects the content. More than ``largest`` bytes are refused by the length in the answer, and, as that may be wrong
    or missing, while reading. Raise as ``fetch`` does, and the errors of the libraries.
    """
    digest, size = sha256(), 0
    redirects = request.HTTPRedirectHandler() if expected else _EncryptedRedirects()
    with _opener(end, redirects).open(url, timeout=IDLE_TIMEOUT) as response:
        length = response.headers.get("Content-Length", "")
        too_large = f"{url} is larger than {show_size(largest)}"
        if length.isdecimal() and _exceeds(length.lstrip("0"), largest):
            raise ResourceError(too_large)
        while part := response.read1(_PART):  # read() would wait for a whole part, however slowly it comes
            size += len(part)
            if size > largest:
                raise ResourceError(too_large)
            digest.update(part)
            write_all(file.fileno(), part)
    if length.isdecimal() and (length.lstrip("0") or "0") != str(size):
        raise ResourceError(f"{url} broke off after {size} of {length} bytes")
    if expected and digest.hexdigest() != expected:
        raise ResourceError(f"{url} has the SHA-256 {digest.hexdigest()}, not {expected}")


def _exceeds(digits: str, largest: int) -> bool:
    """Return whether a decimal number without leading zeros is greater than a limit; ``int`` limits its digits."""
    return len(digits) > len(str(largest)) or (digits != "" and int(digits) > largest)


class _EncryptedRedirects(request.HTTPRedirectHandler):
    """Follows redirects, but none from HTTPS to HTTP: a content without a known digest is trusted by its connection."""

    def redirect_request(self, req: request.Request, fp: Any, *answer: Any) -> request.Request | None:
        """Return the request for a redirect to ``answer[-1]``. Raise ``URLError`` for one from HTTPS to HTTP."""
        if req.type == "https" and urlsplit(answer[-1]).scheme != "https":
            fp.close()
            raise URLError("it redirects to a URL without encryption")
        return super().redirect_request(req, fp, *answer)


def _opener(end: float, redirects: request.HTTPRedirectHandler) -> request.OpenerDirector:
    """Return an opener for HTTP and HTTPS alone: a redirect must never lead to a local file.

    The usual opener of the library would read ``file:`` too. An answer must be complete at ``end``, of
    ``time.monotonic``; ``redirects`` follows redirects.
    """
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        DeadlineHandler(end, IDLE_TIMEOUT),
        request.HTTPDefaultErrorHandler(),
        redirects,
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "resource-api")]
    return opener
