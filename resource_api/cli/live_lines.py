"""Lines at the bottom of a terminal that are replaced while a run goes on; other output is written above them.

Three control sequences of ECMA-48 are used: to the line's start, up, and erase to the end of the screen. Which lines
are shown is decided in ``progress``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Seconds that output waits for the lines: a signal handler may write in the middle of their change.
_PATIENCE: Final = 0.2
#: The size of a terminal that does not know its own.
_SIZE: Final = (80, 24)


class LiveLines:
    """The lines of one terminal; they are without control characters and shorter than it is wide."""

    def __init__(self, descriptor: int) -> None:
        """Use the terminal at ``descriptor``; nothing is written yet."""
        self._descriptor = descriptor
        self._shown: Sequence[str] = ()
        self._lock = RLock()
        self._closed = False

    @property
    def size(self) -> tuple[int, int]:
        """The present width and height, in characters."""
        try:
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            return _SIZE
        return columns or _SIZE[0], rows or _SIZE[1]

    def show(self, lines: Sequence[str]) -> None:
        """Replace what is shown, unless it is the same or this process is in the background of its terminal."""
        with self._locked():
            if self._closed or not self._in_foreground():
                return
            if list(lines) != list(self._shown):
                # Before they are written: a signal handler that comes meanwhile erases them.
                before, self._shown = self._shown, lines
                self._write(self._erasure(before) + "\r\n".join(lines))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the lines, for output of whole lines in the block, and write them again below it."""
        with self._locked():
            shown, self._shown = self._shown, ()
            if shown:
                self._write(self._erasure(shown))
            try:
                yield
            finally:
                if shown and not self._closed:
                    self._shown = shown
                    self._write("\r\n".join(shown))

    def close(self) -> None:
        """Erase the lines and show none any more. Safe in a signal handler."""
        with self._locked():
            self.show(())
            self._closed = True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        acquired = self._lock.acquire(timeout=_PATIENCE)
        try:
            yield
        finally:
            if acquired:
                self._lock.release()

    def _erasure(self, lines: Sequence[str]) -> str:
        """Return what erases lines; a narrower window than before has wrapped them."""
        if not lines:
            return ""
        columns, _ = self.size
        rows = sum(max(1, -(-width(line) // columns)) for line in lines)
        return (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\r\x1b[J"

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._closed = True

    def _in_foreground(self) -> bool:
        with suppress(OSError):  # it is not the terminal that controls this process
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        return True


def width(text: str) -> int:
    """Return the columns that a text without control characters takes, or a few more (Unicode Annex 11)."""
    if text.isascii():
        return len(text)
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def cut(text: str, columns: int) -> str:
    """Return a text that takes at most ``columns``; where something is missing it ends in ``…``."""
    if width(text) <= columns:
        return text
    return f"{_beginning(text, columns - 1)}…" if columns > 0 else ""


def cut_inside(text: str, columns: int) -> str:
    """Return a text that takes at most ``columns``; what is missing is in its middle, where ``…`` stands."""
    if width(text) <= columns:
        return text
    end = _beginning(text[::-1], (columns - 1) // 2)[::-1]
    return cut(text, columns - width(end)) + end


def _beginning(text: str, columns: int) -> str:
    """Return as much of a text as fits."""
    for index, character in enumerate(text):
        columns -= width(character)
        if columns < 0:
            return text[:index]
    return text
