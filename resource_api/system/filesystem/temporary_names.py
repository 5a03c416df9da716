"""Names of files that are not complete yet, and the end of those that a crash has left.

What a temporary file becomes is not known here.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.system.filesystem.directories import LISTING

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directory

#: What no daemon reads that loads all of a directory, and run-parts(8) and dpkg(1) do not either; hidden too.
SUFFIX: Final = ".resource-api~"
_NAME: Final = regex(rf"\..*\.([1-9][0-9]*)\.[0-9a-f]+{re.escape(SUFFIX)}", re.DOTALL)
#: With four bytes each and the rest of the name, less than the 255 bytes that a name can have.
_KEPT: Final = 40


class Temporaries:
    """Names for one batch; what earlier ones have left in a directory goes when its first name is asked for."""

    def __init__(self) -> None:
        """Begin a batch."""
        self._token = f"{os.getpid()}.{os.urandom(4).hex()}"
        self._count = 0
        self._swept: set[str] = set()

    def name(self, directory: Directory, name: str) -> str:
        """Give a name that nothing in ``directory`` has, for what will be ``name``."""
        if directory.path not in self._swept:
            self._swept.add(directory.path)
            sweep(directory)
        self._count += 1
        return f".{name[:_KEPT]}.{self._token}{self._count:x}{SUFFIX}"


def discard(fd: int, name: str) -> None:
    """Remove a temporary file from the open directory ``fd``; what cannot be removed is left to the next batch."""
    with suppress(OSError):
        os.unlink(name, dir_fd=fd)


def sweep(directory: Directory) -> None:
    """Remove from a directory what runs that are dead have left in it."""
    fd = os.open(".", LISTING, dir_fd=directory.fd)
    try:
        left = [name for name in os.listdir(fd) if name.endswith(SUFFIX)]  # noqa: PTH208 - no path leads to a descriptor
        for name in left:
            found = _NAME.fullmatch(name)
            with suppress(FileNotFoundError):
                if found and not _alive(int(found[1])) and _ours(os.lstat(name, dir_fd=fd)):
                    discard(fd, name)
    finally:
        os.close(fd)


def _ours(seen: os.stat_result) -> bool:
    return seen.st_uid == os.geteuid() and (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
