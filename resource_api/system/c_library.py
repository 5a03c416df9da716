"""Call functions of the C library that Python does not offer."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: An operation of prctl(2).
SET_DUMPABLE: Final = 4


@cache
def load() -> tuple[object, Callable[[], int]]:
    """Return the C library, and a function that returns ``errno``, for calls that Python does not offer.

    A program that forks calls this before the fork, because loading in the child is not safe.
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    # Its arguments are of the type long: ctypes would pass an int.
    library.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    return library, ctypes.get_errno


def call(function: str, *arguments: object, path: str | None = None) -> int:
    """Return the result of a function of the C library. Raise ``OSError``, with ``path``, for a negative result."""
    library, get_errno = load()
    result: int = getattr(library, function)(*arguments)
    if result < 0:
        number = get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def prctl(operation: int, value: int = 0) -> int:
    """Set or read an attribute of this process. Raise ``OSError``."""
    return call("prctl", operation, value, 0, 0, 0, path="prctl")
