"""The connections to one origin: kept open between requests, verified by TLS, through the proxy of the environment.

One exchange is one request and its whole answer, within a time limit and a size. Whether to send again is for
``client``. The standard library is enough: docs/decisions/0081-http-client.md.
"""

from __future__ import annotations

import base64
import select
import ssl
import time
import weakref
from collections import deque
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import show_size
from resource_api.system.filesystem.files import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse
    from urllib.parse import SplitResult

#: Longest answer in bytes.
_LARGEST: Final = 64 << 20
_PART: Final = 1 << 16


class ServiceUnreachable(Exception):  # noqa: N818 - internal, never shown as an error class
    """No whole answer; ``sent``: the service may have got the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        """Keep the reason as text for users."""
        super().__init__(reason)
        self.sent = sent


class Exchange(NamedTuple):
    """The answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class ConnectionPool:
    """Connections to the origin of one URL, safe in threads; ``timeout`` is in seconds for one exchange."""

    def __init__(self, url: str, timeout: float, ca_file: str | None = None) -> None:
        """Connect to nothing yet; ``ca_file`` has the authorities that may sign, instead of the machine's."""
        self._origin = urlsplit(url)
        self._timeout = timeout
        self._ca_file = ca_file
        self._open: deque[HTTPConnection] = deque()
        #: Closes the idle connections; called at the latest when nothing refers to this object any more.
        self.close = weakref.finalize(self, _close_all, self._open)
        self._proxy: SplitResult | None = None
        if not proxy_bypass(self._origin.hostname or ""):
            proxy = getproxies().get(self._origin.scheme, "")
            self._proxy = urlsplit(proxy if "//" in proxy else f"//{proxy}") if proxy else None

    def exchange(self, method: str, target: str, headers: Mapping[str, str], data: bytes | None) -> Exchange:
        """Send one request for a path with its query, and return the answer.

        Raise ``Unreachable``, and ``ResourceError`` for an answer that is too large.
        """
        end = time.monotonic() + self._timeout
        try:
            connection = self._connection()
        except (OSError, HTTPException) as error:
            raise ServiceUnreachable(_words(error), sent=False) from error
        try:
            if self._proxy is not None and self._origin.scheme == "http":
                target, headers = f"http://{self._origin.netloc}{target}", {**headers, **self._proxy_headers()}
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            content = _content(response, end)
            response_headers = {
                name.lower(): ", ".join(response.headers.get_all(name, ())) for name in response.headers
            }
        except (OSError, HTTPException) as error:
            connection.close()
            raise ServiceUnreachable(_words(error), sent=True) from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._open.append(connection)
        return Exchange(response.status, response_headers, content)

    def _connection(self) -> HTTPConnection:
        """Return a connection that is open, one that was used before where its other end has not closed it."""
        while self._open:
            try:
                connection = self._open.pop()
            except IndexError:  # another thread was faster
                break
            if _is_quiet(connection):
                return connection
            connection.close()
        connection = self._new()
        connection.connect()
        return connection

    def _new(self) -> HTTPConnection:
        address = self._proxy or self._origin
        host, timeout = address.hostname or "", self._timeout
        if self._origin.scheme == "http":
            return HTTPConnection(host, address.port, timeout=timeout)
        context = ssl.create_default_context(cafile=self._ca_file)
        connection = HTTPSConnection(host, address.port, timeout=timeout, context=context)
        if self._proxy is not None:
            connection.set_tunnel(self._origin.hostname or "", self._origin.port, self._proxy_headers())
        return connection

    def _proxy_headers(self) -> dict[str, str]:
        if self._proxy is None or self._proxy.username is None:
            return {}
        words = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
        return {"Proxy-Authorization": f"Basic {base64.b64encode(words.encode()).decode()}"}


def _close_all(connections: deque[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _is_quiet(connection: HTTPConnection) -> bool:
    """Return whether an idle connection is open: one that has something to read was closed by the service."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _content(response: HTTPResponse, end: float) -> bytes:
    """Read an answer; a slow one must not take longer than one that does not come."""
    parts, size = [], 0
    while part := response.read1(_PART):
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            msg = f"the answer is larger than {show_size(_LARGEST)}"
            raise ResourceError(msg)
        if time.monotonic() > end:
            msg = "the answer did not end in time"
            raise TimeoutError(msg)
    if response.length:
        msg = f"the answer broke off, {response.length} bytes before its end"
        raise HTTPException(msg)
    response.close()  # the connection stays open, and can be used again
    return b"".join(parts)


def _words(error: OSError | HTTPException) -> str:
    """Return the reason of a failed exchange in words."""
    text = describe_error(error, "") if isinstance(error, OSError) else str(error)
    return text or type(error).__name__
