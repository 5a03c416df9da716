"""What runs have recorded of themselves: one file for each run, in a directory beside the database.

The newest are kept, up to a number and a size. They are written after the commit and no decision depends on them: a
missing or damaged file is a run of which only the line in the history is left. What a file contains must not enter
here.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.state.sqlite import private_files

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many runs are kept, and how many bytes of them together.
RUNS: Final = 100
BYTES: Final = 64 * 1024 * 1024
#: The time in UTC, so that names sort by it, and the id of the run.
_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-([0-9a-z]+)\.json")


def write(path: str, run: str, content: bytes) -> None:
    """Write the file of a run of the database at ``path``, and remove the oldest ones beyond the limits.

    What is larger than all files together may be is not written. Raises ``OSError``; nothing is left of the file then.
    """
    directory = f"{path}.runs"
    if len(content) > BYTES:
        return
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)
    if not private_files.is_private_directory(directory):
        raise PermissionError(errno.EPERM, f"{directory} is no directory of this user alone")
    private_files.replace(f"{directory}/{_stamp()}-{run}.json", content)
    _remove_oldest(directory)


def read(path: str, run: str) -> bytes | None:
    """Return what was written for a run; None where nothing is kept of it. Raises ``OSError``."""
    directory = f"{path}.runs"
    name = next((name for name in _names(directory) if _id(name) == run), None)
    return None if name is None else private_files.read(f"{directory}/{name}")


def runs(path: str) -> list[str]:
    """Return the ids of the runs of which a file is kept, the oldest first. Raises ``OSError``."""
    return [_id(name) for name in _names(f"{path}.runs")]


def _names(directory: str) -> Sequence[str]:
    with suppress(FileNotFoundError):
        if private_files.is_private_directory(directory):
            return sorted(filter(_NAME.fullmatch, os.listdir(directory)))
    return ()


def _id(name: str) -> str:
    return name.partition("-")[2].removesuffix(".json")


def _stamp() -> str:
    now = time.time_ns()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9)) + f".{now // 1000 % 10**6:06d}Z"


def _remove_oldest(directory: str) -> None:
    """Remove the files beyond the limits, and what a killed run has left; the lock is held, so it is nobody else's."""
    left, size = RUNS, BYTES
    for name in sorted(os.listdir(directory), reverse=True):
        if _NAME.fullmatch(name):
            left, size = left - 1, size - os.lstat(f"{directory}/{name}").st_size
        if name.endswith(".new") or (_NAME.fullmatch(name) and (left < 0 or size < 0)):
            os.unlink(f"{directory}/{name}")
