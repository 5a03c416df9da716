"""Lists that come page by page: the objects of all pages, and where the next page is.

By the header ``Link``, by a URL or a cursor in the answer, by the number of the page, or by the number of the objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from resource_api.http.fields import field_at
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.http.response import Response

#: Most pages of a list.
_MOST: Final = 10_000
_NOT_FOUND: Final = 404


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


def items(ask: Callable[[str], Response], path: str, paging: Paging) -> Iterator[dict[str, Any]]:
    """Yield the objects of all pages; ``ask`` returns the answer for the path or URL of a page, also a 404.

    Raise ``ResourceError`` for an answer that is no list of objects, and for pages that never end.
    """
    count, before, urls = 0, None, set[str]()
    url = _with_parameter(path, paging.page, paging.first) if paging.page else path
    for number in range(1, _MOST + 1):
        response = ask(url)
        if number > 1 and response.status == _NOT_FOUND and paging.page:
            return  # there are services that answer so behind the last page
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
            msg = f"{response.request}: the page after it is one that was read before"
            raise ResourceError(msg)
    msg = f"the list at {path} has more than {_MOST} pages"
    raise ResourceError(msg)


def _entries(response: Response, paging: Paging) -> list[dict[str, Any]]:
    entries = field_at(response.body, paging.items)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        subject = f"the field {paging.items!r}" if paging.items else "the answer"
        msg = f"{response.request}: {subject} is not a list of objects"
        raise ResourceError(msg)
    return entries


def _following(response: Response, entries: list[dict[str, Any]], paging: Paging, path: str, position: int) -> str:
    """Return the path or URL of the page after an answer, which is at ``position``; empty: there is none."""
    value = field_at(response.body, paging.next) if paging.next else None
    if paging.cursor:
        if not paging.next and entries:
            value = field_at(entries[-1], paging.key)
        return "" if value in (None, "", False) else _with_parameter(path, paging.cursor, value)
    if counted := paging.page or paging.offset:
        return _with_parameter(path, counted, position) if entries else ""
    url = value if paging.next else response.next_page
    return urljoin(response.url, str(url)) if url else ""


def _with_parameter(path: str, name: str, value: Any) -> str:
    """Return a path whose query has one parameter more, or another value of it."""
    parts = urlsplit(path)
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    return parts._replace(query=urlencode([*pairs, (name, value)])).geturl()
