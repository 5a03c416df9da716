"""Keeps code that only declares or judges from touching the system: components and policies.

What it tries to write, remove, run or connect to is refused, with an error at its line. Reading is allowed: a text
beside the file is data too. This is a net for mistakes, no wall against malice: Python has none.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events (Python reference, "Audit events table") that change something outside this process.
_TOUCHING: Final = frozenset(
    {
        *(f"os.{verb}" for verb in ("chmod", "chown", "exec", "fork", "forkpty", "kill", "killpg", "link", "lockf")),
        *(f"os.{verb}" for verb in ("mkdir", "posix_spawn", "putenv", "remove", "removexattr", "rename", "rmdir")),
        *(f"os.{verb}" for verb in ("setxattr", "spawn", "symlink", "system", "truncate", "unsetenv", "utime")),
        *(f"shutil.{verb}" for verb in ("copyfile", "move", "rmtree", "make_archive", "unpack_archive")),
        *(f"socket.{verb}" for verb in ("bind", "connect", "sendmsg", "sendto")),
        *("subprocess.Popen", "pty.spawn", "sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp", "urllib.Request"),
    }
)


class _Watch(threading.local):
    """Who is to keep still in this thread; empty: nobody."""

    what = ""


_watch: Final = _Watch()
#: Whether this process listens: a hook cannot be taken away again, so that there is one, and only where it is needed.
_hooked: Final[list[bool]] = []


@contextmanager
def still(what: str) -> Iterator[None]:
    """Refuse what would touch the system within; ``what`` is named in the ``PermissionError``."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_heard)
    before, _watch.what = _watch.what, what
    try:
        yield
    finally:
        _watch.what = before


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watch.what:
        return
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    if writes or event in _TOUCHING:
        first = f" {arguments[0]!r}" if writes else ""
        msg = f"{_watch.what} touches nothing; refused: {event}{first}{' for writing' if writes else ''}"
        raise PermissionError(msg)
