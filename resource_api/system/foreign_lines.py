"""Split the output of foreign code into lines, outside of secrets; a stream that logs what a provider prints."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, TextIO

from resource_api.model.values.masking import Mask

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longest line in bytes that ``line_stream`` collects before it is logged without its line end.
_LONGEST: Final = 64 * 1024


class LineSplitter:
    """Collects chunks and returns whole lines; ``size`` is the number of pending bytes without a line end.

    A line that is too long is cut outside the secrets of ``mask``, because its pieces are masked separately. With
    ``keep_ends`` the lines have their line ends.
    """

    def __init__(self, mask: Mask | None = None, *, keep_ends: bool = False) -> None:
        """Start at the beginning of a line."""
        self._end = "\n" if keep_ends else ""
        self.size = 0
        self._mask = mask or Mask()
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes, limit: int | None = None) -> list[str]:
        """Return the lines that ``chunk`` completes, and the incomplete line once it is longer than ``limit`` bytes."""
        head, newline, tail = chunk.rpartition(b"\n")
        lines = []
        if newline:
            lines = decode(b"".join((*self._pending, head))).split("\n")
            lines = [line + self._end for line in lines] if self._end else lines
            self._pending, self.size = [], 0
        self._pending.append(tail)
        self.size += len(tail)
        return lines + self._cut() if limit is not None and self.size > limit + self._mask.longest else lines

    def _cut(self) -> list[str]:
        """Cut off and return the beginning of the line; the rest is longer than any secret that may have begun."""
        text = decode(b"".join(self._pending))
        end = self._mask.boundary(text, max(0, len(text) - self._mask.longest))
        self._pending = [text[end:].encode("utf-8", "surrogateescape")]
        self.size = len(self._pending[0])
        return [text[:end]] if end else []

    def rest(self) -> list[str]:
        """Return and forget the incomplete line at the end; an empty list when there is none."""
        last, self._pending, self.size = b"".join(self._pending), [], 0
        return [decode(last)] if last else []


def decode(data: bytes) -> str:
    """Return UTF-8 as text, with surrogate escapes for other bytes."""
    return data.decode("utf-8", "surrogateescape")


def line_stream(write: Callable[[str], None], descriptor: int, mask: Mask) -> TextIO:
    """Return a replacement for a standard stream that calls ``write`` with each line that foreign code prints.

    The lines can then be masked, escaped, and written in the log's format. ``descriptor`` is the result of ``fileno``:
    programs that the code starts write there. A very long line is cut outside the secrets of ``mask``.
    """
    return _UnclosableStream(_LineStream(write, descriptor, mask), "utf-8", "backslashreplace", write_through=True)


class _UnclosableStream(io.TextIOWrapper):
    """A stream whose ``close`` only flushes, so that later code can still print."""

    def close(self) -> None:
        self.buffer.flush()


class _LineStream(io.RawIOBase):
    """The stream below the text of ``line_stream``: it takes bytes and passes whole lines on."""

    def __init__(self, write: Callable[[str], None], descriptor: int, mask: Mask) -> None:
        self._write_line = write
        self._descriptor = descriptor
        self._lines = LineSplitter(mask)

    @property
    def name(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        for line in self._lines.feed(bytes(data), _LONGEST):
            self._emit(line)
        return len(data)

    def flush(self) -> None:
        for line in self._lines.rest():
            self._emit(line)

    def _emit(self, line: str) -> None:
        """Pass a line on, with backslash escapes for bytes that are not UTF-8."""
        self._write_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
