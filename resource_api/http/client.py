"""Requests to one service: repetition, pauses, refused addresses; lists in pages, and jobs of the service.

Lists are paged by the header ``Link``, by a URL or a cursor in the answer, by the number of the page, or by the number
of objects. The connections to one origin are kept open between requests, verified by TLS, and go through the proxy of
the environment. The standard library is enough: docs/decisions/0081-http-client.md.
"""

from __future__ import annotations

import base64
import json
import re
import select
import ssl
import time
import weakref
from collections import deque
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from resource_api.http.messages import Response, field_at
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.masking import Mask
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show_size
from resource_api.model.values.values import Sensitive, reveal
from resource_api.model.values.version import __version__
from resource_api.provider.context import current
from resource_api.system.filesystem.files import describe_error
from resource_api.system.http_deadline import DeadlineResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from urllib.parse import SplitResult


#: Longest answer in bytes.
_MAX_ANSWER: Final = 64 << 20
#: Bytes that are read at once.
_CHUNK: Final = 1 << 16


class ServiceUnreachable(Exception):  # noqa: N818 - internal, never shown as an error class
    """No whole answer to a request; ``sent``: the service may have got the request."""

    def __init__(self, cause: Exception, *, sent: bool) -> None:
        """Keep the reason in words; and ``sent``, by which the client decides whether it may repeat the request."""
        text = describe_error(cause, "") if isinstance(cause, OSError) else str(cause)
        super().__init__(text or type(cause).__name__)
        self.sent = sent


class ConnectionPool:
    """Connections to the origin of one URL, safe in threads; ``timeout`` is in seconds for one exchange."""

    def __init__(self, url: str, timeout: float, ca_file: str | None = None) -> None:
        """Read the environment's proxy settings; connections are opened by the first requests.

        ``ca_file``: the authorities that may sign the service's certificate, or None for those of the machine.
        """
        self._origin = urlsplit(url)
        self._timeout = timeout  # seconds
        self._ca_file = ca_file
        #: The idle connections; one in use is in no list, and belongs to its thread.
        self._open: deque[HTTPConnection] = deque()
        #: Closes the idle connections; called at the latest when nothing refers to this object any more.
        self.close = weakref.finalize(self, _close_all, self._open)
        self._proxy: SplitResult | None = None
        if not proxy_bypass(self._origin.hostname or ""):
            proxy = getproxies().get(self._origin.scheme, "")
            self._proxy = urlsplit(proxy if "//" in proxy else f"//{proxy}") if proxy else None

    def exchange(self, method: str, target: str, headers: Mapping[str, str], data: bytes | None) -> Response:
        """Send one request for a path with its query, and return the answer; keep the connection for the next request.

        The names of headers are in lower case; the caller adds the answer's ``request``. Raise ``ServiceUnreachable``,
        with whether the request may have arrived, and ``ResourceError`` for an answer that is too large.
        """
        end = time.monotonic() + self._timeout
        try:
            connection = self._connection()
        except (OSError, HTTPException, ValueError) as error:  # a ValueError: the proxy's address is none
            raise ServiceUnreachable(error, sent=False) from error
        if self._proxy is not None and self._origin.scheme == "http":
            target, headers = f"http://{self._origin.netloc}{target}", {**headers, **self._proxy_headers()}
        try:
            connection.sock.settimeout(self._timeout)
            connection.request(method, target, data, dict(headers))
            connection.response_class = cast("type[HTTPResponse]", partial(DeadlineResponse, end=end))
            response = connection.getresponse()
            content = _read_content(response)
            fields = {name.lower(): ", ".join(response.headers.get_all(name, ())) for name in response.headers}
        # Also after a signal: the rest of an answer would be read as the beginning of the next one.
        except BaseException as error:
            connection.close()
            if isinstance(error, (OSError, HTTPException)):
                raise ServiceUnreachable(error, sent=True) from error
            raise
        if response.will_close:
            connection.close()
        else:
            self._open.append(connection)
        return Response(response.status, fields, content.decode("utf-8", "replace"))

    def _connection(self) -> HTTPConnection:
        """Return an open connection to the service: an idle one if it is still open, or a new one."""
        while self._open:
            try:
                connection = self._open.pop()
            except IndexError:  # another thread was faster
                break
            if _is_quiet(connection):
                return connection
            connection.close()
        connection = self._unopened()
        connection.connect()
        return connection

    def _unopened(self) -> HTTPConnection:
        """Return a new connection to the service, or to the environment's proxy if there is one.

        It is not open yet, so that the caller opens direct connections and tunnels in the same way.
        """
        address = self._proxy or self._origin
        host, timeout = address.hostname or "", self._timeout
        if self._origin.scheme == "http":  # its proxy gets the whole URL in each request instead of a tunnel
            return HTTPConnection(host, address.port, timeout=timeout)
        context = ssl.create_default_context(cafile=self._ca_file)
        connection = HTTPSConnection(host, address.port, timeout=timeout, context=context)
        if self._proxy is not None:
            connection.set_tunnel(self._origin.hostname or "", self._origin.port, self._proxy_headers())
        return connection

    def _proxy_headers(self) -> dict[str, str]:
        """Return the header with which the proxy admits the user and password in its URL; {} without a user."""
        if self._proxy is None or self._proxy.username is None:
            return {}
        user, password = unquote(self._proxy.username), unquote(self._proxy.password or "")
        return {"Proxy-Authorization": basic_authorization(user, password).reveal()}


def _close_all(connections: deque[HTTPConnection]) -> None:
    """Close connections and remove them from the queue, from which another thread may take one meanwhile."""
    while connections:
        connections.pop().close()


def _is_quiet(connection: HTTPConnection) -> bool:
    """Return whether an idle connection can be used again: its socket has nothing to read.

    Between two requests something to read is the end of the stream, since the service has closed the connection, or
    data without a request, which would be taken for the next answer.
    """
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _read_content(response: HTTPResponse) -> bytes:
    """Return the content of an answer, read in parts, so that a service cannot fill the memory.

    Raise ``ResourceError`` if it is too large, ``HTTPException`` if it ends early.
    """
    parts, size = [], 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _MAX_ANSWER:
            raise ResourceError(f"the answer is larger than {show_size(_MAX_ANSWER)}")
    if response.length:
        raise HTTPException(f"the answer broke off, {response.length} bytes before its end")
    response.close()  # the connection stays open
    return b"".join(parts)


#: Methods that may be repeated after any outcome of the first request (RFC 9110, 9.2.2).
_IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
#: Methods that change nothing.
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Answers after which a request may be repeated that does no harm a second time; 0: there was no answer.
_REPEATABLE_STATUSES: Final = frozenset({0, 502, 503, 504})
#: Answers about an object that does not exist.
_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
#: Seconds before the first repetition and between two questions about a job, and the longest pauses.
_FIRST_PAUSE, _LONGEST_JOB_PAUSE = 0.2, 5.0
#: The most seconds that a service may ask to wait for.
_LONGEST_PAUSE: Final = 300.0
#: The characters that stand in URLs as they are, beside letters and digits (RFC 3986), and the sign of quoting.
_URL_CHARACTERS: Final = "%/:?#[]@!$&'()*+,;=~"
#: Characters of an answer in a message.
_LONGEST_MESSAGE: Final = 300


class RequestError(ResourceError):
    """A request that failed; ``status`` is the answer's, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Keep the message, which shows no secret."""
        super().__init__(message)
        self.status = status


def expand(template: str, /, **values: object) -> str:
    """Return a path with a value for each ``{name}``, as one part of the path (RFC 6570, level 1).

    Special characters of a value are quoted, ``/`` too, so that no name can lead to another object. Raise
    ``ValueError`` for a ``{name}`` without a value.
    """

    def text(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ValueError(f"the path {template} has no value for {match[0]}")
        return quote(str(values[match[1]]), safe="")

    return re.sub(r"\{(\w+)\}", text, template)


def basic_authorization(user: str, password: str | Sensitive[str]) -> Sensitive[str]:
    """Return the header ``Authorization`` of a user with a password (RFC 7617)."""
    return Sensitive(f"Basic {base64.b64encode(f'{user}:{reveal(password)}'.encode()).decode()}")


_DONE: Final = ("succeeded", "success", "successful", "completed", "complete", "done", "finished", "ok", "ready")
_FAILED: Final = ("failed", "failure", "error", "errored", "canceled", "cancelled", "aborted", "rejected", "timedout")


class Job(NamedTuple):
    """How a service reports on a job; words are compared without regard to case.

    ``url`` is the field of the answer that names the job's URL; empty: it is in a header, ``Location`` or Azure's.
    ``status`` is the field of the job that has one of the words, or a Boolean: whether it is over.
    """

    url: str = ""
    status: str = "status"
    done: Collection[str] = _DONE
    failed: Collection[str] = _FAILED
    #: Seconds that it may take; the time limit of the provider's call ends it too.
    timeout: float = 600.0

    def place(self, response: Response) -> str:
        """Return the URL at which to ask for the status of the job that a request has started, or "" without a job.

        The answer to that request has the URL in the field ``url``, or in a header if that setting is empty.
        """
        if self.url:
            url = field_at(response.body, self.url)
            return url if isinstance(url, str) else ""
        return response.job

    def outcome(self, response: Response) -> bool | None:
        """Return whether a job has succeeded according to an answer about it, or None while it is not over.

        An answer without a status is the finished object, which some services send instead. A Boolean status is true
        when the job is over; it has then failed if the answer has an ``error``.
        """
        # 202: the service is still at work, whatever the content says.
        if response.status == HTTPStatus.ACCEPTED:
            return None
        body = response.body
        word = field_at(body, self.status)
        if isinstance(word, bool):
            return None if not word else not (isinstance(body, dict) and body.get("error"))
        if not isinstance(word, str):
            return True
        if word.lower() in map(str.lower, self.done):
            return True
        return False if word.lower() in map(str.lower, self.failed) else None


#: Most pages of a list.
_MAX_PAGES: Final = 10_000


class Paging(NamedTuple):
    """The form of a list; fields are paths such as ``result.items``.

    Without ``next``, ``cursor``, ``page`` and ``offset`` the header ``Link`` (RFC 8288) leads to the next page.
    """

    #: The field with the list; empty: the answer is the list.
    items: str = ""
    #: The field with the path or URL of the next page, or with the value of ``cursor``.
    next: str = ""
    #: The parameter of the query for a cursor: the value of ``next``, or else the ``key`` of the last object.
    cursor: str = ""
    #: The parameter of the query for the number of the page, of which the first is ``first``.
    page: str = ""
    #: The parameter of the query for the number of objects before the page.
    offset: str = ""
    first: int = 1
    key: str = "id"


def _entries(response: Response, paging: Paging) -> list[dict[str, object]]:
    """Return the objects of one page. Raise ``ResourceError`` for an answer that is no list of objects."""
    entries = field_at(response.body, paging.items)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        subject = f"the field {paging.items!r}" if paging.items else "the answer"
        raise ResourceError(f"{response.request}: {subject} is not a list of objects")
    return entries


def _following(response: Response, entries: list[dict[str, object]], paging: Paging, path: str, position: int) -> str:
    """Return the URL of the page that follows the page in ``response``, or "" after the last page.

    With a cursor, a page number or an offset in ``paging`` that URL is ``path``, the address of the list, with this
    parameter; otherwise the answer contains a link to the next page. ``entries`` are the objects of the page.
    ``position`` is the number of the next page, or with ``paging.offset`` the number of objects so far.
    """
    value = field_at(response.body, paging.next) if paging.next else None
    if paging.cursor:  # without a field for it the cursor is the key of the last object
        if not paging.next and entries:
            value = field_at(entries[-1], paging.key)
        return "" if value in (None, "", False) else _with_parameter(path, paging.cursor, value)
    if counted := paging.page or paging.offset:
        return _with_parameter(path, counted, position) if entries else ""
    url = value if paging.next else response.next_page
    return _follow(response.url, str(url)) if url else ""


def _follow(url: str, link: str) -> str:
    """Return the URL of a link to a page or a job, which may be relative to ``url``, from which the answer came.

    Raise ``RequestError`` for an invalid link, which is the service's fault.
    """
    try:
        return urljoin(url, link)
    except ValueError as error:
        raise RequestError(f"{url}: the service names an address that is no URL") from error


def _is_service(url: str) -> bool:
    """Return whether a URL can be the address of a service, so that a wrong one fails before the first request.

    A user in it is refused, whose password messages would show, and a query, because paths are appended to the address.
    """
    try:
        parts = urlsplit(url)
        is_complete = bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        return False
    return is_complete and parts.scheme in {"http", "https"} and "@" not in parts.netloc and not parts.query


def _with_parameter(path: str, name: str, value: object) -> str:
    """Return the address of a list's page: ``path`` with the parameter of its cursor or number set to ``value``."""
    parts = urlsplit(path)
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    return parts._replace(query=urlencode([*pairs, (name, value)])).geturl()


class Client:
    """A JSON API at one URL; paths begin with a slash and are beneath it. Safe in several threads.

    Every method raises ``RequestError`` with the service's answer if it refuses or fails. In a call of a
    provider an interrupt and the time limit end a wait, and under noop only reading requests are sent.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str | Sensitive[str]] | None = None,
        token: str | Sensitive[str] | None = None,
        ca_file: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        """Prepare requests; nothing is sent yet. ``token`` is sent as the secret header ``Authorization: Bearer``.

        Values of ``headers`` are secret if they are wrapped in ``Sensitive``. ``timeout`` is in seconds for a request,
        ``retries`` the number of its repetitions, ``ca_file`` the authorities that may sign the service's certificate.
        Raise ``ResourceError`` for a URL with a user, a query or another scheme than http and https, and for a header
        that cannot be sent.
        """
        if not _is_service(url):
            raise ResourceError("the address of a service is a URL of http or https without user, password and query")
        #: The URL that paths are beneath, without a slash at its end.
        self.url = url.rstrip("/")
        self._origin = urlsplit(url)[:2]  # scheme, host and port
        #: Masks the secrets of headers and bodies in messages.
        self._mask = Mask()
        all_headers = dict(headers or {})
        if token is not None:
            all_headers["Authorization"] = Sensitive(f"Bearer {reveal(token)}")
        #: The secret headers; each provider's call masks them in its log, too.
        self._secrets = [value for value in all_headers.values() if isinstance(value, Sensitive)]
        self._mask.add(self._secrets)
        self._headers = {
            "Accept": "application/json",
            "User-Agent": f"resource-api/{__version__}",
            **{name: _header(name, value) for name, value in all_headers.items()},
        }
        self._retries = retries
        self._timeout, self._ca_file = timeout, ca_file
        #: None before the first request and after ``close``.
        self._connections: ConnectionPool | None = None

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Response:
        """Read; ``query`` are parameters."""
        return self.request("GET", path, query=query)

    def find(self, path: str, query: Mapping[str, object] | None = None) -> Response | None:
        """Read an object that may not exist: return None after 404 and 410."""
        response = self.request("GET", path, query=query, allow=_GONE)
        return None if response.status in _GONE else response

    def post(self, path: str, body: object = None) -> Response:
        """Send a POST, which is never repeated where the service may have got it."""
        return self.request("POST", path, body)

    def put(self, path: str, body: object, *, etag: str = "") -> Response:
        """Replace an object; with ``etag`` only if it is still the one that had it (412 otherwise)."""
        return self.request("PUT", path, body, headers=_if_match(etag))

    def patch(
        self, path: str, body: object, *, content_type: str = "application/json", etag: str = "", repeat: bool = False
    ) -> Response:
        """Change an object; with ``etag`` only if it is still the one that had it (412 otherwise).

        ``repeat``: the same change may be sent again after a failure, because a second time does no harm.
        """
        headers = {"Content-Type": content_type, **_if_match(etag)}
        return self.request("PATCH", path, body, headers=headers, repeat=repeat)

    def delete(self, path: str, *, etag: str = "") -> Response:
        """Delete an object, with ``etag`` only if this is still its ETag; an absent object is no error."""
        return self.request("DELETE", path, headers=_if_match(etag), allow=_GONE)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        allow: Collection[int] = (),
        repeat: bool = False,
    ) -> Response:
        """Send a request and return its answer: 2xx, or a status in ``allow``.

        ``path`` may also be a URL of this service, as answers contain them. ``body`` is sent as JSON, with the secrets
        in it; bytes are sent as they are. ``repeat``: sending it twice does no harm, in spite of its method. Under noop
        a request that would change something is only logged, and its answer is an empty 204.
        """
        context = current.get()
        url = self._absolute(path, query)
        if context is not None:
            context.mask.add(self._secrets)
            would_change = method not in _SAFE_METHODS and not context.reading
            if context.noop and would_change:
                context.note("notice", f"Skipping '{method} {url}' (noop)")
                return Response(204, {}, "", f"{method} {url}")
        self._mask.add(body)
        content_type = {} if body is None else {"Content-Type": "application/json"}
        all_headers = {**self._headers, **content_type, **(headers or {})}
        data = body if body is None or isinstance(body, bytes) else json.dumps(reveal(body)).encode()
        send = partial(self._send, method, url, all_headers, data)
        return self._repeated(url, send, allow, harmless=repeat or method in _IDEMPOTENT_METHODS)

    def _repeated(
        self, url: str, send: Callable[[], tuple[Response, bool]], allow: Collection[int], *, harmless: bool
    ) -> Response:
        """Return the answer to a request, which ``send`` sends once; send it again after a pause where that may help.

        A request that may have been accepted is only sent again if it is ``harmless``, changing nothing a second time.
        Raise ``RequestError`` for a last status that is neither 2xx nor in ``allow``.
        """
        pause = _FIRST_PAUSE
        for remaining in reversed(range(self._retries + 1)):
            response, arrived = send()
            status = response.status
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES or status in allow:
                return response
            # A request that the service has not accepted is repeated whatever it would change.
            is_accepted = arrived and status != HTTPStatus.TOO_MANY_REQUESTS
            may_be_repeated = not is_accepted or (harmless and status in _REPEATABLE_STATUSES)
            if not remaining or not may_be_repeated:
                break
            self._wait(_pause(response, pause), url, response)
            pause *= 2
        raise self._error(response)

    def items(self, path: str, paging: Paging | None = None) -> Iterator[dict[str, object]]:
        """Yield the objects of a list, page by page, as they are needed; ``paging``: how the service divides it.

        None: the list is the answer, and the header ``Link`` leads on. Raise ``ResourceError`` for an answer that is no
        list of objects, and for pages that never end.
        """
        paging = paging or Paging()
        count, before, urls = 0, None, set[str]()
        url = _with_parameter(path, paging.page, paging.first) if paging.page else path
        for number in range(1, _MAX_PAGES + 1):
            # Some services answer 404 (not found) to a request for a page number beyond the last page.
            may_be_missing = bool(paging.page) and number > 1
            response = self.request("GET", url, allow=(HTTPStatus.NOT_FOUND,) if may_be_missing else ())
            if response.status == HTTPStatus.NOT_FOUND:
                return
            entries = _entries(response, paging)
            if entries and entries == before:
                return  # the service does not know the parameter, and sends the first page again
            yield from entries
            urls.add(url)
            count, before = count + len(entries), entries
            url = _following(response, entries, paging, path, paging.first + number if paging.page else count)
            if not url:
                return
            if url in urls:
                raise ResourceError(f"{response.request}: the page after it is one that was read before")
        raise ResourceError(f"the list at {path} has more than {_MAX_PAGES} pages")

    def finish(self, response: Response, job: Job | None = None) -> Response:
        """Wait until the job that a request has started is over, and return the last answer about it.

        ``response`` is the answer to that request, and is returned if there is no job. ``job`` describes the service's
        jobs; None: their URL is in a header and their statuses are the usual words. Raise ``RequestError`` with the
        service's answer if the job fails, and if it takes too long.
        """
        job = job or Job()
        location = job.place(response)
        if not location:
            return response
        end, pause = time.monotonic() + job.timeout, _FIRST_PAUSE
        # The status of a deletion may disappear together with the object.
        gone = _GONE if response.request.startswith("DELETE ") else ()
        answer, url = response, _follow(response.url, location)
        while time.monotonic() < end:
            # The pause before the first question, too: a job is hardly over at once.
            self._wait(_pause(answer, pause), url, answer)
            pause = min(pause * 2, _LONGEST_JOB_PAUSE)
            answer = self.request("GET", url, allow=(HTTPStatus.SEE_OTHER, *gone))
            if answer.status == HTTPStatus.SEE_OTHER:  # the job is over, and its result is there
                return self.request("GET", _follow(url, answer.header("Location")), allow=gone)
            has_succeeded = answer.status in gone or job.outcome(answer)
            if has_succeeded:
                return answer
            if has_succeeded is False:  # None: it is not over
                raise self._error(answer)
        raise RequestError(f"{url}: the job was not over after {job.timeout:g} s")

    def close(self) -> None:
        """Close the connections now, not when nothing refers to the client any more; a later request opens new ones."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def _absolute(self, path: str, query: Mapping[str, object] | None) -> str:
        """Return the URL of a path or link. Raise ``RequestError`` for another origin, which must not get the token."""
        beneath = path.startswith("/") and not path.startswith("//")
        url = f"{self.url}{path}" if beneath else _follow(f"{self.url}/", path)
        parts = urlsplit(url)
        if parts[:2] != self._origin:
            address = f"{parts.scheme}://{parts.hostname}{parts.path}"
            raise RequestError(f"the service names another address, which does not get the token: {address}")
        if not query:
            return url
        return f"{url}{'&' if parts.query else '?'}{urlencode(query, doseq=True)}"

    def _send(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> tuple[Response, bool]:
        """Send a request once; return the answer, and whether the request may have arrived.

        A request that has not arrived may always be sent again, any other only if a second one does no harm. Without
        an answer the status is 0 and the text is the reason, so that the caller treats answers and failures alike.
        Raise ``RequestError`` for an answer that is too large.
        """
        if self._connections is None:
            self._connections = ConnectionPool(self.url, self._timeout, self._ca_file)
        parts, context, began = urlsplit(url), current.get(), time.monotonic()
        path = parts.path or "/"
        target = quote(f"{path}?{parts.query}" if parts.query else path, safe=_URL_CHARACTERS)
        request = f"{method} {self._mask(url)}"
        try:
            response, arrived = self._connections.exchange(method, target, headers, data), True
        except ServiceUnreachable as error:
            response, arrived = Response(0, {}, str(error)), error.sent
        except ResourceError as error:
            raise RequestError(f"{request}: {error}") from error
        response = response._replace(request=request)
        if context is not None and context.enabled("debug"):
            end = response.status or response.text
            context.note("debug", f"{request}: {end} ({time.monotonic() - began:.3f} s)")
        return response, arrived

    def _error(self, response: Response) -> RequestError:
        """Return the error of a request, with the status of its answer (0: none) and the service's message, masked."""
        message = " ".join(self._mask(response.words).split())[:_LONGEST_MESSAGE]
        if response.status:
            message = f"{response.status} {message}".strip()
        return RequestError(f"{response.request}: {message}", response.status)

    def _wait(self, seconds: float, url: str, response: Response) -> None:
        """Wait before the next request to ``url``, because the service is busy or a job is not over.

        ``response``: the last answer, for the message. Raise ``RequestError`` for an interrupt, and at once if the wait
        would pass the time limit of the provider's call, or is longer than a run should stand still.
        """
        context = current.get()
        late = context is not None and context.deadline is not None and time.monotonic() + seconds > context.deadline
        if late or seconds > _LONGEST_PAUSE:
            reason = "the time is over" if late else f"asks to wait {seconds:.0f} s"
            msg = f"{self._mask(url)} is busy ({response.status or response.text}): {reason}"
            raise RequestError(msg, response.status)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if context is not None and context.cancelled:
                raise RequestError(f"{self._mask(url)} is busy (interrupted)", response.status)
            time.sleep(min(0.2, max(0.0, end - time.monotonic())))


def _pause(response: Response, otherwise: float) -> float:
    """Return the seconds until the next request: ``Retry-After``, a number or a date (RFC 9110), or ``otherwise``."""
    retry_after = response.header("Retry-After")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", retry_after):
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise


def _header(name: str, value: str | Sensitive[str]) -> str:
    """Return a header's value as text. Raise ``ResourceError`` for characters that cannot be sent in a header.

    The message is without the value, which may be a secret.
    """
    text: str = reveal(value)
    if not re.fullmatch(r"[\w-]+", name) or not text.isascii() or not text.isprintable():
        raise ResourceError(f"the header {name} has characters that cannot be in a header")
    return text


def _if_match(etag: str) -> dict[str, str]:
    """Return the header with which a request fails (412) if the object is another one; none without ``etag``."""
    return {"If-Match": etag} if etag else {}
