"""No core dumps of a process that holds secrets: they would be written to the disk with everything in memory.

The programs that it starts get the caller's limit back. Which process holds secrets must not enter here.
"""

from __future__ import annotations

import resource
from typing import Final

from resource_api.system.process import process_tree

#: The limits of the caller; empty while core dumps are not forbidden.
_callers: Final[list[tuple[int, int]]] = []


def forbid(soft: int | None = None) -> None:
    """Allow no core dump of this process any more; ``soft`` is the caller's limit if this process has another one.

    Other users cannot read its memory any more either. A program that it executes is not concerned, but for the limit.
    """
    if not _callers:
        before, hard = resource.getrlimit(resource.RLIMIT_CORE)
        _callers.append((before if soft is None else soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        process_tree.prepare()(process_tree.SET_DUMPABLE, 0, 0, 0, 0)


def callers_limit() -> int | None:
    """Return the soft limit that the caller has set, in bytes, -1 for none; None while core dumps are not forbidden."""
    return _callers[0][0] if _callers else None


def limit(size: int) -> None:
    """Let neither this process nor the programs that it starts dump more than ``size`` bytes any more."""
    resource.setrlimit(resource.RLIMIT_CORE, (size, size))
    _callers[:] = [(size, size)] * len(_callers)


def restore_limit() -> None:
    """Give a forked child, which is about to execute a program, the caller's limit."""
    if _callers:
        resource.setrlimit(resource.RLIMIT_CORE, _callers[0])
