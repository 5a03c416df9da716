"""Where file systems, directories and files are mounted, as the calling thread sees it. Linux only."""

from __future__ import annotations

import os
from typing import Final

#: Of the calling thread: its mount namespace may be its own.
_MOUNTS: Final = "/proc/thread-self/mountinfo"


def mount_points() -> frozenset[str]:
    """Return the paths of all mount points (proc_pid_mountinfo(5): fifth field, octal escapes). Raise ``OSError``."""
    with open(_MOUNTS, "rb") as file:  # noqa: PTH123 - faster to import
        return frozenset(os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in file)


def _unescaped(path: bytes) -> bytes:
    return path.decode("unicode_escape").encode("latin-1") if b"\\" in path else path
