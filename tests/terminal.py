"""A terminal for tests: a pseudo-terminal with the command in it, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from typing import TYPE_CHECKING, Any, Final, Self
from unicodedata import east_asian_width

from tests import command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.scenarios.conftest import Bench

#: What is understood: colours, erasing to the end of the screen, and up.
_SEQUENCE: Final = re.compile(r"\x1b\[(\d*)([mJA])")
_PATIENCE: Final = 30.0


class Screen:
    """The lines of a terminal of unlimited height; a control sequence that it does not know is an error."""

    def __init__(self, columns: int) -> None:
        """Begin empty."""
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        """The lines, wrapped as they are shown, without empty ones at the end."""
        return "\n".join("".join(row).rstrip() for row in self._rows).rstrip("\n").split("\n")

    def feed(self, text: str) -> None:
        """Show text."""
        while text:
            if match := _SEQUENCE.match(text):
                self._control(int(match[1] or 1), match[2])
                text = text[match.end() :]
                continue
            character, text = text[0], text[1:]
            if character == "\r":
                self._column = 0
            elif character == "\n":
                self._down()
            else:
                assert character.isprintable(), repr(character + text[:10])
                self._put(character)

    def _control(self, number: int, sequence: str) -> None:
        if sequence == "A":
            self._row = max(0, self._row - number)
        elif sequence == "J":
            del self._rows[self._row + 1 :], self._rows[self._row][self._column :]

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])

    def _put(self, character: str) -> None:
        cells = 2 if east_asian_width(character) in "WF" else 1
        if self._column + cells > self._columns:
            self._down()
            self._column = 0
        row = self._rows[self._row]
        row.extend(" " * (self._column - len(row)))
        row[self._column : self._column + cells] = [character, *[""] * (cells - 1)]
        self._column += cells


class Terminal:
    """A pseudo-terminal, in which a bench runs one command; leaving its ``with`` block ends that."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        """Open it."""
        self._ours, self.theirs = pty.openpty()
        self.resize(columns, rows)
        self.screen = Screen(columns)
        #: Everything that was written to it.
        self.raw = ""
        self._running: command.Running | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the command."""
        if self._running is not None:
            self._running.__exit__(*error)
        for descriptor in (self._ours, self.theirs):
            os.close(descriptor)

    def resize(self, columns: int, rows: int = 24) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def run(self, bench: Bench, *arguments: Any, stderr: int | None = None, **environment: str) -> None:
        """Start ``resource-api ARGUMENTS``, with its log in the terminal unless ``stderr`` is another descriptor."""
        env = bench.environment | {"TERM": "xterm"} | environment
        streams = [self.theirs, self.theirs, self.theirs if stderr is None else stderr]
        self._running = command.start(
            [str(argument) for argument in arguments], cwd=bench.home, env=env, streams=streams
        )

    def type(self, text: str) -> None:
        """Type a text; a line ends with a newline."""
        os.write(self._ours, text.encode())

    @property
    def pid(self) -> int:
        """The process of the command."""
        assert self._running is not None
        return self._running.pid

    def read(self, seconds: float) -> bool:
        """Show what arrives within some seconds; return whether anything did."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        text = os.read(self._ours, 65536).decode()
        self.raw += text
        self.screen.feed(text)
        return True

    def until(self, observed: Callable[[Sequence[str]], Any]) -> list[str]:
        """Wait until the lines of the screen are as ``observed`` wants them; return them."""
        end = time.monotonic() + _PATIENCE
        while not observed(self.screen.lines):
            assert time.monotonic() < end, self.screen.lines
            self.read(1.0)
        return self.screen.lines

    def end(self) -> tuple[int, list[str]]:
        """Wait for the command to end; return its exit code and the lines of the screen."""
        assert self._running is not None
        code = self._running.wait()
        while self.read(0.0):
            pass
        return code, self.screen.lines
