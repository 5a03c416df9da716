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

    ``soft`` is the limit of the caller, which programs get back (``restore_limit``); None: the present one. A worker
    is given it, because its run has already forbidden core dumps. The memory becomes unreadable for other users, too. A
    program that this process executes inherits only the limit.
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
    """Limit core dumps of this process and the programs that it starts to ``size`` bytes, also after ``forbid``."""
    resource.setrlimit(resource.RLIMIT_CORE, (size, size))
    if _callers:
        # Programs get this limit back, see ``restore_limit``; while core dumps are not forbidden, they inherit the
        # new one.
        _callers[0] = (size, size)


def restore_limit() -> None:
    """Restore the caller's limit in a forked child, right before it executes a program."""
    if _callers:
        resource.setrlimit(resource.RLIMIT_CORE, _callers[0])
