"""The contents of requests and answers, without sending: an answer's status, headers and JSON; fields of JSON objects.

Fields are read, set and removed by their path, ``metadata.name``, and changed by a request's body. A dot separates the
names of nested fields; a field whose own name has a dot is found where it is a field as a whole.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import declared_part, same_value

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The headers with the URL of the status of a job, beside ``Location`` after 202.
_JOB_HEADERS: Final = ("Azure-AsyncOperation", "Operation-Location")
_ACCEPTED: Final = 202
#: The members with the message of an error: of RFC 9457 and 6749, and of most services; the general one first.
_MESSAGES: Final = ("error", "title", "message", "error_description", "detail", "errors")
# No part of these passes a ``<``: the time for a text of many would grow with its square.
_PAGE_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)</title>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^<>]*>")
_NEXT: Final = re.compile(r'<([^<>]*)>[^,<]*;\s*rel="?(?:[^",;]*\s)?next[\s",;]?', re.IGNORECASE)


class Response(NamedTuple):
    """One answer; ``headers`` are found in any case; equal names are joined by commas."""

    status: int
    headers: Mapping[str, str] = {}
    text: str = ""
    #: The method and URL of the request.
    request: str = ""

    @property
    def body(self) -> object:
        """The data of the answer's JSON, None if the answer is empty. Raise ``ResourceError`` for any other text.

        The error does not quote the text, which may hold a secret. A byte order mark is ignored (RFC 8259).
        """
        text = self.text.removeprefix("\ufeff")
        if not text.strip():
            return None
        try:
            return json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise ResourceError(f"{self.request}: the answer is not JSON: {_fault(error)}") from None

    @property
    def words(self) -> str:
        """The readable text of the answer, for the message of an error that users see.

        It is made of the messages in its JSON, of the title of an HTML page, or else of the text without tags.

        >>> Response(422, text='{"message": "not valid", "errors": [{"field": "name", "code": "taken"}]}').words
        'not valid: field: name, code: taken'
        """
        try:
            return _message_text(self.body)
        except (ResourceError, RecursionError):
            title = _PAGE_TITLE.search(self.text)
            return unescape(title[1] if title else _TAG.sub(" ", self.text)).strip().removeprefix(f"{self.status} ")

    @property
    def url(self) -> str:
        """The URL of the request."""
        return self.request.partition(" ")[2]

    def header(self, name: str) -> str:
        """Return a header, empty where there is none."""
        return self.headers.get(name.lower(), "")

    @property
    def etag(self) -> str:
        """The validator of the object for ``If-Match``, which must be a strong one (RFC 9110); empty without one."""
        tag = self.header("ETag")
        return "" if tag.startswith("W/") else tag

    @property
    def next_page(self) -> str:
        """The URL of the next page in the header ``Link`` (RFC 8288); empty without one."""
        match = _NEXT.search(self.header("Link"))
        return match[1] if match else ""

    @property
    def job(self) -> str:
        """The URL of the job in an answer's headers, or "".

        ``Location`` is only a job's with the status 202 (accepted); otherwise it is that of a created object.
        """
        for name in _JOB_HEADERS:
            if url := self.header(name):
                return url
        return self.header("Location") if self.status == _ACCEPTED else ""


class _NotFiniteError(ValueError):
    """A text has NaN or Infinity, which Python's parser accepts and JSON has not."""


def _fault(error: Exception) -> str:
    """Return the reason why a text is no JSON; the parser's message would show parts of it, maybe a secret."""
    if isinstance(error, json.JSONDecodeError):
        return f"a fault in line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return str(error) if isinstance(error, _NotFiniteError) else "a number in it has too many digits"


def _message_text(value: object) -> str:
    """Return the readable text of an answer's JSON, for an error message: the members known to hold messages.

    These are ``_MESSAGES``, joined by colons; an object that has none of them gives all its members as ``key: text``.
    """
    if isinstance(value, dict):
        # Each member's text is computed once: the time for nested objects would double with each level.
        texts = {key: _message_text(member) for key, member in value.items()}
        # ``"error": true`` only says that there is one.
        messages = [texts[key] for key in _MESSAGES if value.get(key) not in (None, True) and texts[key]]
        return ": ".join(dict.fromkeys(messages)) or ", ".join(f"{key}: {text}" for key, text in texts.items() if text)
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message_text, value)))
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _refuse(name: str) -> object:
    """Raise ``_NotFiniteError`` for NaN or Infinity, where ``json.loads`` would take a number."""
    raise _NotFiniteError(f"{name} is no number")


def field_at(value: object, path: str) -> object:
    """Return the field at ``path``, names with dots between them as in ``meta.next``, or None.

    An empty path is the value itself. If a key equals the whole path, as in ``{"meta.next": 1}``, it is the field.
    """
    if not path:
        return value
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    first, _, rest = path.partition(".")
    return field_at(value.get(first), rest) if rest else None


def with_field(value: dict[str, object], path: str, field: object) -> dict[str, object]:
    """Return a copy of an object with ``field`` at ``path``, as in ``meta.name``: a provider builds a request with it.

    Missing objects on the path are created. A key that equals the whole ``path``, dots included, is set instead of a
    nested field, as ``field_at`` reads it.
    """
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {**value, path: field}
    inner = value.get(first)
    return {**value, first: with_field(inner if isinstance(inner, dict) else {}, rest, field)}


def without_field(value: dict[str, object], path: str) -> dict[str, object]:
    """Return a copy of an object without the field at ``path``, as in ``meta.name``; a missing field is no error.

    A provider removes fields that are not compared with the manifest, such as an identifier that the service has set.
    A key that equals the whole ``path``, dots included, is removed instead of a nested field, as ``field_at`` reads it.
    """
    first, _, rest = path.partition(".")
    if not rest or path in value:
        return {name: field for name, field in value.items() if name != path}
    inner = value.get(first)
    return {**value, first: without_field(inner, rest)} if isinstance(inner, dict) else value


def merged(is_: object, should: object) -> Any:
    """Return the present value ``is_``, in which the declared fields have their values of ``should``, at any depth.

    It is the body of a PUT, which replaces the whole object: fields that are not declared must be sent unchanged.
    """
    if same_value(declared_part(is_, should), should):  # all declared fields have their value already
        return is_
    if isinstance(is_, dict) and isinstance(should, dict):
        return {**is_, **{name: merged(is_.get(name), value) for name, value in should.items()}}
    return should


def changed_fields(is_: Mapping[str, object], should: Mapping[str, object]) -> dict[str, object]:
    """Return the outermost fields that differ, each with its whole new value: the body of a PATCH.

    Some services replace a field that is an object, other services merge it: a whole value is right for all.
    """
    return {
        name: merged(is_.get(name), value)
        for name, value in should.items()
        if not same_value(declared_part(is_.get(name), value), value)
    }


def merge_patch(is_: Mapping[str, object], should: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON Merge Patch (RFC 7396): the fields that differ, and of a nested object again only such fields.

    The service merges the patch into its object, so that a nested object need not be whole; null removes a field.
    """
    patch = changed_fields(is_, should)
    for name in patch:
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            patch[name] = merge_patch(before, declared)
    return patch


def json_patch(is_: Mapping[str, object], should: Mapping[str, object], path: str = "") -> list[dict[str, object]]:
    """Return the operations of a JSON Patch (RFC 6902) that bring the declared fields from ``is_`` to ``should``.

    ``path`` is that of the object within the whole; fields of nested objects have operations of their own.
    """
    operations: list[dict[str, object]] = []
    for name, value in changed_fields(is_, should).items():
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        before, declared = is_.get(name), should[name]
        if isinstance(before, dict) and isinstance(declared, dict):
            operations += json_patch(before, declared, pointer)
        elif declared is None:
            operations.append({"op": "remove", "path": pointer})
        else:
            operations.append({"op": "replace" if name in is_ else "add", "path": pointer, "value": value})
    return operations
