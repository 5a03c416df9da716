"""Requests to a JSON API over HTTP: retries, limits, and a token that goes nowhere else."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Context

#: Answers after which a request may be repeated; 429 even if it must not be sent twice, as it was not accepted.
AGAIN = frozenset({429, 502, 503, 504})
#: Longest answer in bytes.
LARGEST = 64 << 20
#: Seconds before the first repetition, and the most that a service may ask for.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
#: Characters of an answer in a message.
SHOWN = 300


class Answer(NamedTuple):
    """The status, the value, and the URL of the next page in the header ``Link``, empty if there is none."""

    status: int
    value: Any
    following: str


class Service:
    """An API at one address."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Keep the address, the headers and the limits."""
        self.url = config["url"].rstrip("/")
        self._headers = {"Accept": "application/json", **config["headers"]}
        if config.get("token") is not None:
            header, _, before = config["token_header"].partition(":")
            token = config["token"].reveal()
            if not token.isascii() or not token.isprintable():
                msg = "the token has characters that cannot be in a header"
                raise ResourceError(msg)
            self._headers[header] = before.lstrip(" ") + token
        self._timeout, self._retries = config["timeout"], config["retries"]
        self._opener: Any = None
        self._ca_file = config.get("ca_file")

    def send(self, context: Context, method: str, path: str, body: Any = None, *, missing: bool = False) -> Answer:
        """Send a request and return the answer; with ``missing`` also one that says that there is nothing.

        Raise ``ResourceError`` with what the service says.
        """
        if not path.startswith("/"):
            msg = f"the service names a page at another address, which does not get the token: {path}"
            raise ResourceError(msg)
        pause = FIRST_PAUSE
        for left in reversed(range(self._retries + 1)):
            status, text, headers = self._once(method, path, body)
            if 0 < status < 300:  # noqa: PLR2004 - the successes of HTTP
                return Answer(status, _value(text, f"{method} {path}"), _following(headers.get("Link", "")))
            if missing and status in {404, 410}:
                return Answer(status, None, "")
            if not left or status not in (AGAIN | {0} if method != "POST" else {429}):
                break
            pause = self._wait(context, headers.get("Retry-After", ""), pause)
        why = " ".join(text.split())[:SHOWN]
        msg = f"{method} {self.url}{path}: {why if not status else f'{status} {why}'}"
        raise ResourceError(msg)

    def relative(self, url: str) -> str:
        """Return the path of a URL of this service; any other URL unchanged."""
        from urllib.parse import urljoin, urlsplit  # noqa: PLC0415 - only with pages

        base = urlsplit(self.url)
        parts = urlsplit(urljoin(f"{self.url}/", url))
        if (parts.scheme, parts.netloc) != (base.scheme, base.netloc) or not parts.path.startswith(f"{base.path}/"):
            return f"{parts.scheme}://{parts.netloc}{parts.path}"
        return parts.path[len(base.path) :] + (f"?{parts.query}" if parts.query else "")

    def _once(self, method: str, path: str, body: Any) -> tuple[int, str, Any]:
        """Return status, text and headers of one answer; status 0 and the reason if there was none."""
        from http.client import HTTPException  # noqa: PLC0415 - few manifests use the network
        from urllib.error import HTTPError  # noqa: PLC0415 - the same
        from urllib.request import Request  # noqa: PLC0415 - the same

        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {"Content-Type": "application/json", **self._headers}
        request = Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - http or https by its type
        try:
            with self._open(request) as response:
                content = response.read(LARGEST + 1)
                status, answered = response.status, response.headers
        except HTTPError as error:
            with error:
                content, status, answered = error.read(LARGEST), error.code, error.headers
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", "") or error
            text = files.describe_error(why, "") if isinstance(why, Exception) else str(why)
            return 0, text or type(error).__name__, {}
        if len(content) > LARGEST:
            msg = f"{method} {self.url}{path}: the answer is larger than {LARGEST >> 20} MiB"
            raise ResourceError(msg)
        return status, content.decode("utf-8", "replace"), answered

    def _open(self, request: Any) -> Any:
        if self._opener is None:
            import ssl  # noqa: PLC0415 - few manifests use the network
            from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener  # noqa: PLC0415 - the same

            class Refusing(HTTPRedirectHandler):
                def redirect_request(self, *_: object, **__: object) -> None:
                    return None

            self._opener = build_opener(
                Refusing, HTTPSHandler(context=ssl.create_default_context(cafile=self._ca_file))
            )
        return self._opener.open(request, timeout=self._timeout)

    def _wait(self, context: Context, asked: str, pause: float) -> float:
        """Wait before a repetition, as long as the service asks for; return the next pause."""
        seconds = min(float(asked), LONGEST_PAUSE) if re.fullmatch(r"\d{1,6}", asked) else pause
        if context.deadline is not None and time.monotonic() + seconds > context.deadline:
            msg = f"{self.url} is busy, and the time is over"
            raise ResourceError(msg)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if context.cancelled:
                msg = f"{self.url} is busy (interrupted)"
                raise ResourceError(msg)
            time.sleep(min(0.2, max(0.0, end - time.monotonic())))
        return pause * 2


def _value(text: str, request: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse) if text.strip() else None
    except (ValueError, RecursionError) as error:
        msg = f"{request}: the answer is not JSON: {error}"
        raise ResourceError(msg) from None


def _refuse(name: str) -> Any:
    msg = f"{name} is no number"
    raise ValueError(msg)


def _following(link: str) -> str:
    """Return the URL of the next page in a header ``Link`` (RFC 8288); empty without one."""
    found = re.search(r'<([^>]*)>[^,<]*;\s*rel="?next"?', link)
    return found[1] if found else ""
