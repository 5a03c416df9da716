"""Records the files, connections and programs that a block of code opens or starts, or lets them fail.

Based on Python's audit events (PEP 578), so code in C and mere status calls (``stat``) are not seen.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Events that read something outside this process.
_READS: Final = {"open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo", "sqlite3.connect"}
#: Events that start a program; with its arguments, and with its environment where Python reports it.
_STARTS: Final = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork"}
#: Files of the interpreter, and code: they are read when something is imported.
_CODE: Final = (".py", ".pyc", ".so", ".pth")


class _Recording(threading.local):
    """The events of the block in this thread; None: no block. ``refuse``: whether reads fail."""

    events: list[tuple[str, str]] | None = None
    refuse = False


_recording: Final = _Recording()
#: Whether the audit hook is installed. A hook cannot be removed, so one is added when first needed and shared.
_hook_installed: Final[list[bool]] = []


@contextmanager
def recorded(*, refuse: bool = False) -> Iterator[list[tuple[str, str]]]:
    """Yield a list that gets each event of this thread, with its arguments as text.

    ``refuse``: everything that reads or starts a program raises ``OSError`` (``EIO``) instead.
    """
    if not _hook_installed:
        _hook_installed.append(True)
        sys.addaudithook(_audit)
    before = _recording.events, _recording.refuse
    events: list[tuple[str, str]] = []
    _recording.events, _recording.refuse = events, refuse
    try:
        yield events
    finally:
        _recording.events, _recording.refuse = before


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    """Record an access to the system, and refuse it where a test says so; a hook of Python's audit events."""
    events = _recording.events
    if events is None or (event not in _READS and event not in _STARTS) or _is_uninteresting(event, arguments):
        return
    _recording.events = None  # forming the text opens nothing of interest
    try:
        events.append((event, " ".join(filter(None, map(_text, arguments)))))
    finally:
        _recording.events = events
    if _recording.refuse:
        raise OSError(errno.EIO, os.strerror(errno.EIO), f"{event} {_text(arguments[0]) if arguments else ''}".strip())


def _is_uninteresting(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether an event belongs to the interpreter: code that is imported, or a descriptor that is open already."""
    first = arguments[0] if arguments else ""
    path = os.fsdecode(first) if isinstance(first, (str, bytes, os.PathLike)) else ""
    return (
        (event == "open" and isinstance(first, int))
        or path.endswith(_CODE)
        or path.startswith((sys.prefix, sys.base_prefix))
    )


def _text(value: object) -> str:
    """Return an argument of an audit event as text."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(_text, value))
    if isinstance(value, socket.socket):
        return ""  # its address is another argument
    if hasattr(value, "items"):
        return " ".join(f"{_text(key)}={_text(item)}" for key, item in value.items())
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
