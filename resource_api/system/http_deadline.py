"""Answers over HTTP that must come before a deadline: the time limit of a socket is for each part of an answer."""

from __future__ import annotations

import math
import time
from functools import partial
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, cast
from urllib.request import HTTPHandler, HTTPSHandler, Request

if TYPE_CHECKING:
    from socket import socket


class _DeadlineStream(RawIOBase):
    """The bytes from a socket until ``end``: a slow answer must not take longer than one that does not come."""

    def __init__(self, stream: RawIOBase, sock: socket, end: float, pause: float) -> None:
        """Read ``stream``, that of ``sock``, until ``end``, and wait at most ``pause`` seconds for more data."""
        self._stream, self._socket, self._end, self._pause = stream, sock, end, pause

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read within the time that remains: the socket's limit begins anew with each part. Raise ``TimeoutError``."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the answer did not end in time")
        self._socket.settimeout(min(remaining, self._pause))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class DeadlineResponse(HTTPResponse):
    """An answer whose head and content come before ``end``, by the clock of ``time.monotonic``.

    It fails earlier after ``pause`` seconds without data.
    """

    def __init__(self, sock: socket, *arguments: Any, end: float, pause: float = math.inf, **options: Any) -> None:
        """Read an answer as ``HTTPResponse`` does, but until ``end`` and with pauses of at most ``pause`` seconds.

        Otherwise a server that sends a byte now and then could delay a run without end.
        """
        super().__init__(sock, *arguments, **options)
        # ``HTTPResponse`` reads all from ``fp``.
        self.fp = BufferedReader(_DeadlineStream(self.fp.detach(), sock, end, pause))


class DeadlineHandler(HTTPSHandler, HTTPHandler):
    """Opens URLs of HTTP and HTTPS for ``urllib``, with answers of this kind, those of redirects included."""

    def __init__(self, end: float, pause: float = math.inf) -> None:
        """Limit answers to the time ``end`` of ``time.monotonic``, and to pauses of ``pause`` seconds."""
        super().__init__()
        self._response_class = cast("type[HTTPResponse]", partial(DeadlineResponse, end=end, pause=pause))

    def do_open(self, http_class: Any, req: Request, **options: Any) -> HTTPResponse:
        """Open a URL with connections of ``http_class`` whose answers obey the deadline.

        ``urllib`` calls this for each request, also after a redirect, so that one deadline is for all of them. Raise
        ``OSError``, ``HTTPException``.
        """

        def connection(*arguments: Any, **keywords: Any) -> Any:
            """Return a connection whose answers are of the class with the deadline."""
            made = http_class(*arguments, **keywords)
            made.response_class = self._response_class
            return made

        return super().do_open(connection, req, **options)
