"""Keep code that must only declare or judge, such as components and policies, from changing the system.

An attempt to write, remove, run or connect raises ``PermissionError`` at the line that makes it. Reading is allowed.
This catches mistakes and is no protection against malicious code: Python has none.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events (Python reference, "Audit events table") that change something outside this process.
_CHANGES: Final = frozenset(
    {
        *(f"os.{verb}" for verb in ("chmod", "chown", "exec", "fork", "forkpty", "kill", "killpg", "link", "lockf")),
        *(f"os.{verb}" for verb in ("mkdir", "posix_spawn", "putenv", "remove", "removexattr", "rename", "rmdir")),
        *(f"os.{verb}" for verb in ("setxattr", "spawn", "symlink", "system", "truncate", "unsetenv", "utime")),
        *(f"shutil.{verb}" for verb in ("copyfile", "move", "rmtree", "make_archive", "unpack_archive")),
        *(f"socket.{verb}" for verb in ("bind", "connect", "sendmsg", "sendto")),
        *("subprocess.Popen", "pty.spawn", "sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp", "urllib.Request"),
    }
)


class _Sandbox(threading.local):
    """The code that must not change the system in this thread, for messages; empty: no sandbox."""

    what = ""


_sandbox: Final = _Sandbox()
#: Whether the audit hook is installed. A hook cannot be removed, so one is added when first needed and shared.
_hook_installed: Final[list[bool]] = []


@contextmanager
def read_only(what: str) -> Iterator[None]:
    """Refuse changes to the system inside the ``with`` block; ``what`` is named in the ``PermissionError``."""
    if not _hook_installed:
        _hook_installed.append(True)
        sys.addaudithook(_audit)
    before, _sandbox.what = _sandbox.what, what
    try:
        yield
    finally:
        _sandbox.what = before


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _sandbox.what:
        return
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS
    if writes or event in _CHANGES:
        first = f" {arguments[0]!r}" if writes else ""
        msg = f"{_sandbox.what} must not change the system; refused: {event}{first}{' for writing' if writes else ''}"
        raise PermissionError(msg)
