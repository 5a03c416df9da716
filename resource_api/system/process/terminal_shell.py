"""Run the user's shell on a terminal of its own, and pass everything on between that and the terminal of the user.

So it has job control also where its session is not that of the user's terminal.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK: Final = 1 << 16
#: Seconds after which the size of the terminal is looked at again, and whether the shell is to end.
_PATIENCE: Final = 0.5


def run(terminal: int, greeting: str, stopped: Callable[[], bool]) -> None:
    """Run the shell on the terminal of a descriptor until it ends; it is killed when ``stopped`` returns True.

    ``greeting`` is written before it.
    """
    child, inner = pty.fork()
    if not child:
        _become_shell()
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        os.write(terminal, f"{greeting}\r\n".encode())
        _pass_on(terminal, inner, stopped)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(inner)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if stopped() else signal.SIGHUP)
        os.waitpid(child, 0)


def _become_shell() -> None:
    for shell in (os.environ.get("SHELL") or "/bin/sh", "/bin/sh"):
        with suppress(OSError):
            os.execv(shell, [shell])  # noqa: S606 - the user's own shell
    os._exit(127)


def _pass_on(terminal: int, inner: int, stopped: Callable[[], bool]) -> None:
    """Copy in both directions until the shell has closed its terminal, or the user's has gone."""
    size = os.terminal_size((0, 0))
    while not stopped():
        if size != (now := os.get_terminal_size(terminal)):
            size = now
            termios.tcsetwinsize(inner, (now.lines, now.columns))
        ready, _, _ = select.select([terminal, inner], [], [], _PATIENCE)
        for source, target in ((inner, terminal), (terminal, inner)):
            if source in ready and not _copy(source, target):
                return


def _copy(source: int, target: int) -> bool:
    """Copy what can be read; return whether there may be more."""
    try:
        data = os.read(source, _CHUNK)
    except OSError:  # the last process on the inner terminal has ended
        return False
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return bool(data)
