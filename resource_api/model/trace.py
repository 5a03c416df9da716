"""Traces: the identity of a span in the form of W3C Trace Context, and spans as values."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
#: The bit of the flags of a sampled trace.
_SAMPLED: Final = 1
#: Hexadecimal digits of the id of a span.
_SPAN_DIGITS: Final = 16


class TraceContext(NamedTuple):
    """The identity of a span: lower-case hexadecimal digits, 32 of its trace and 16 of its own."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        """Return the text for a variable ``TRACEPARENT``."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self, name: str) -> TraceContext:
        """Return the identity of the child span that a name distinguishes, always the same for the same name."""
        digest = sha256(f"{self.trace_id}{self.span_id}{name}".encode(errors="surrogatepass")).hexdigest()
        return self._replace(span_id=digest[:_SPAN_DIGITS])


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the identity of the caller's span in a ``traceparent``, or None for an invalid text (W3C Trace Context).

    The spans of a run become its children, so that a trace shows the run within the program that has started it.
    """
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    trace_id, span_id, flags, rest = match.groups()
    if not (trace_id.strip("0") and span_id.strip("0")):  # all zeros are no identity
        return None
    if text.startswith("00") and rest:  # only later versions have more fields
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


class Span(NamedTuple):
    """One timed part of a run; times in seconds since 1970."""

    name: str
    started: float
    ended: float
    attributes: Mapping[str, str | int | float | bool] = {}
    #: The reason of a failure, or None.
    error: str | None = None
    #: The identity, where another process knows it, or None.
    context: TraceContext | None = None
    children: Sequence[Span] = ()
