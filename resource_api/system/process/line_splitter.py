"""What a program writes, as it comes: bytes → lines of text."""

from __future__ import annotations


class LineSplitter:
    """Takes bytes as they come and gives whole lines; ``size`` is what waits for its line end."""

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self.size = 0
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes, limit: int | None = None) -> list[str]:
        """Give the lines that ``chunk`` completes; what waits is given too once it exceeds ``limit`` bytes."""
        head, newline, tail = chunk.rpartition(b"\n")
        lines = []
        if newline:
            lines = decode(b"".join((*self._pending, head))).split("\n")
            self._pending, self.size = [], 0
        self._pending.append(tail)
        self.size += len(tail)
        return lines + self.rest() if limit is not None and self.size > limit else lines

    def rest(self) -> list[str]:
        """Give the last line, when it has no line end."""
        last, self._pending, self.size = b"".join(self._pending), [], 0
        return [decode(last)] if last else []


def decode(data: bytes) -> str:
    """Give bytes as text; what is no UTF-8 stays recognizable."""
    return data.decode("utf-8", "surrogateescape")
