"""Forbid core dumps of a process that holds secrets, as they would write its memory to the disk.

Programs that it starts get the caller's limit back.
"""

from __future__ import annotations

import resource
from typing import Final

from resource_api.system import c_library

#: The caller's soft and hard limit; empty while core dumps are not forbidden.
_callers: Final[list[tuple[int, int]]] = []


def forbid(soft: int | None = None) -> None:
    """Forbid core dumps of this process, which would write secrets to the disk; only the first call counts.

    The memory becomes unreadable for other processes of the user, too; a program that this process executes does not
    inherit that. ``soft``: the caller's limit, which programs get back (``restore_limit``); None: the present limit. A
    worker gets it from its run, as the run has lowered the present one already.
    """
    if not _callers:
        before, hard = resource.getrlimit(resource.RLIMIT_CORE)
        _callers.append((before if soft is None else soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        c_library.prctl(c_library.SET_DUMPABLE)


def callers_limit() -> int | None:
    """Return the soft limit that the caller has set, in bytes, -1 for none; None while core dumps are not forbidden."""
    return _callers[0][0] if _callers else None


def limit(size: int) -> None:
    """Limit core dumps of this process and the programs that it starts to ``size`` bytes, for an isolated run.

    It also replaces the caller's limit that ``forbid`` has stored, which programs would otherwise get back.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (size, size))
    if _callers:
        # Programs get this limit back, see ``restore_limit``; while core dumps are not forbidden, they inherit the
        # new one.
        _callers[0] = (size, size)


def restore_limit() -> None:
    """Restore the caller's limit in a forked child, right before it executes a program."""
    if _callers:
        resource.setrlimit(resource.RLIMIT_CORE, _callers[0])
